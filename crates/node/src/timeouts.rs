//! Enforces the timeouts of clients, statements and transactions: late clients are disconnected. The log
//! names clients that do not take their answers.

use crate::process::Process;
use config::pooling::Pooling;
use conn::registry::{Doing, Leave, Seat};
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wire::Status;

/// Interval of the checks; equal to PgBouncer's.
const LOOK_EVERY: Duration = Duration::from_millis(333);

/// Looks for them until the process ends.
pub(crate) async fn look(process: Weak<Process>) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(process) = process.upgrade() else { return };
        let Some(service) = process.door.service.borrow().clone() else { continue };
        let now = Instant::now();
        name_stalled(&process, now);
        if !service.servers.has_time_limits() {
            continue;
        }
        let overdue = |seat: &Rc<Seat>| {
            let pooling = service.servers.pool(&seat.database, &seat.user).pooling();
            why(seat, &pooling, now)
        };
        let clients = process
            .door
            .registry
            .seats()
            .into_iter()
            .filter(|seat| seat.entered.get() && !seat.goes_behind());
        let all: Vec<_> = clients.filter_map(|seat| overdue(&seat).map(|why| (seat, why))).collect();
        let mut at_primary = Vec::new();
        for (seat, why) in all {
            let Seat { id, user, database, .. } = &*seat;
            // A client that has not left yet is cancelled at the primary once more, without another log line.
            if !seat.is_sent_away() {
                tracing::info!(id, user, database, why = why.key(), "disconnecting client");
            }
            at_primary.extend(process.door.registry.send_away(&[seat], why));
        }
        process.end_at_primary(at_primary).await;
    }
}

/// Names each client once that takes nothing of its answer.
fn name_stalled(process: &Process, now: Instant) {
    let limit = process.config().log_client_stalls;
    if limit.is_zero() {
        return;
    }
    for seat in process.door.registry.seats().iter().filter(|seat| seat.stalls(limit, now)) {
        process.door.registry.note_unruly(
            seat,
            &format!("client has read nothing of its result for {} ms", limit.as_millis()),
        );
    }
}

/// The timeout that this client has exceeded, if any.
fn why(seat: &Seat, pooling: &Pooling, now: Instant) -> Option<Leave> {
    let over = |limit: Duration, since: Instant| !limit.is_zero() && now - since > limit;
    let since = seat.doing_since();
    let by_doing = match seat.doing() {
        Doing::Idle(Status::Idle) => (pooling.client_idle, Leave::ClientIdle),
        Doing::Idle(_) => (pooling.idle_transaction, Leave::IdleTransaction),
        Doing::Active => (pooling.query, Leave::Query),
        Doing::Arriving | Doing::Replicating | Doing::Waiting => return None,
    };
    let transaction = seat.transaction_since().is_some_and(|since| over(pooling.transaction, since));
    match over(by_doing.0, since) {
        true => Some(by_doing.1),
        false => transaction.then_some(Leave::Transaction),
    }
}
