//! The clock of the runtime.

use certified_flow::Timer;
use std::time::Duration;
use tokio::time::timeout;

/// The clock of the runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock;

impl Timer for Clock {
    async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        timeout(limit, future).await.ok()
    }
}
