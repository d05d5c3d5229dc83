//! Notifications to the supervisor of the process, by systemd's protocol (sd_notify(3)): it waits for the
//! primary, clients can log in, it reloads its configuration, it ends. A watchdog message says that it is
//! alive (`WatchdogSec`): systemd restarts a silent process. Without a supervisor that listens, nothing is
//! sent.

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

/// Watchdog messages within the time after which systemd restarts the process.
const PARTS: u32 = 3;

/// The primary has not answered yet.
pub(crate) fn waits() {
    tell(&[NotifyState::Status("waiting for the primary")]);
}

/// Clients can log in; or the configuration was read again, or refused.
pub(crate) fn serves() {
    tell(&[NotifyState::Ready, NotifyState::Status("accepting clients")]);
}

/// The configuration is read again.
pub(crate) fn reloads() {
    let now = NotifyState::monotonic_usec_now();
    tell(&now.map_or_else(|_| vec![NotifyState::Reloading], |now| vec![NotifyState::Reloading, now]));
}

/// Reports that the process lets transactions end; `clients`: clients that are connected.
pub(crate) fn ends(clients: usize) {
    let status = format!("shutting down: {clients} clients are ending their transactions");
    tell(&[NotifyState::Stopping, NotifyState::Status(&status)]);
}

/// Another process has taken over: the supervisor watches it from now on. Further messages of this process
/// are ignored.
pub(crate) fn hands_over(pid: u32) {
    tell(&[NotifyState::MainPid(pid)]);
}

/// Repeats that the process is alive, if the supervisor asks for it. A task of the thread that serves all
/// clients: if that hangs, no message is sent.
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
        tracing::debug!(%error, "cannot notify the supervisor");
    }
}
