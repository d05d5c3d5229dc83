//! What the supervisor of the process hears of it, by systemd's protocol (sd_notify(3)): that it waits for the primary, that
//! clients can log in, that it reads its configuration again, that it ends. And that it is alive, where whoever says nothing for
//! a while is restarted (`WatchdogSec`). Without a supervisor that wants to hear it, nothing is said.

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

/// It is said to be alive so often within the time after which it would be restarted.
const PARTS: u32 = 3;

/// The primary has not answered yet.
pub(crate) fn waits() {
    tell(&[NotifyState::Status("waiting for the primary to answer")]);
}

/// Clients can log in; or the configuration was read again, or refused.
pub(crate) fn serves() {
    tell(&[NotifyState::Ready, NotifyState::Status("clients can log in")]);
}

/// The configuration is read again.
pub(crate) fn reloads() {
    let now = NotifyState::monotonic_usec_now();
    tell(&now.map_or_else(|_| vec![NotifyState::Reloading], |now| vec![NotifyState::Reloading, now]));
}

/// It lets transactions end; so many clients are there.
pub(crate) fn ends(clients: usize) {
    let status = format!("ending: {clients} clients may end their transactions");
    tell(&[NotifyState::Stopping, NotifyState::Status(&status)]);
}

/// Another process has taken over: it is the one to be supervised from now on. What this one says is not heard any more.
pub(crate) fn hands_over(pid: u32) {
    tell(&[NotifyState::MainPid(pid)]);
}

/// Says again and again that it is alive, if it is asked to. A task of the thread that serves everybody: where that hangs, nothing
/// is said.
pub(crate) async fn lives() {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) else { return };
    let mut rounds = interval(limit / PARTS);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "the supervisor did not hear it");
    }
}
