//! Virtual time for the flows.

use crate::executor::Executor;
use certified_flow::Timer;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// See the file's first lines.
#[derive(Clone)]
pub(crate) struct VirtualTimer(pub(crate) Executor);

impl Timer for VirtualTimer {
    async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        let micros = u64::try_from(limit.as_micros()).expect("a short limit");
        let (mut end, mut future) = (pin!(self.0.sleep(micros)), pin!(future));
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => end.as_mut().poll(context).map(|()| None),
        })
        .await
    }
}
