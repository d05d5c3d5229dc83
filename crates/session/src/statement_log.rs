//! Log of statements: where each ran and why, its duration, and its waits. A value is never logged: literals
//! are removed from the text, and parameters are not logged at all.

use super::Session;
use cluster::routes::{Went, without_literals};
use config::statement_log::Wanted;
use std::time::{Duration, Instant};

/// Milliseconds, with three decimal places.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Arrival time of a request, and its waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// Time when the request came.
    pub(super) came: tokio::time::Instant,
    /// Time that the client was held before the request began.
    held_before: Duration,
    /// Time since which the request waits for freshness, or for its proof.
    pub(super) since: Option<Instant>,
    /// Total wait for freshness so far.
    fresh: Duration,
}

impl Waits {
    /// Begins the waits of a request whose client was held for so long before.
    pub(super) fn begin(held_before: Duration) -> Waits {
        Waits { came: tokio::time::Instant::now(), held_before, since: None, fresh: Duration::ZERO }
    }

    /// Ends a wait for freshness.
    pub(super) fn is_fresh(&mut self) {
        if let Some(since) = self.since.take() {
            self.fresh += since.elapsed();
        }
    }

    /// Adds another wait for freshness.
    pub(super) fn and_for(&mut self, more: Duration) {
        self.fresh += more;
    }

    /// Returns the wait for a connection, and the time at the server. `took` is the whole duration, `held` the part of it before
    /// the request began, including the time that the client was held.
    pub(super) fn parts(&self, took: Duration, held: Duration) -> (Duration, Duration) {
        let connection = held.saturating_sub(self.held_before);
        (connection, took.saturating_sub(self.fresh + connection))
    }
}

impl Session {
    /// Logs the statement, with the place where it ran and its duration, if the log wants it. `held` is the
    /// part of the duration before the statement began, including the time that the client was held.
    #[cold]
    pub(super) fn log_statement(&mut self, went: Went, took: Duration, held: Duration) {
        let words = &self.words;
        let reads = self.current.is_read || words.may_be_a_read();
        let stayed = reads && matches!(went, Went::Primary(_));
        let Some(wanted) = self.service.statement_log.get().wants(stayed, took) else { return };
        let (name, why);
        let at = match went {
            Went::Primary(reason) => {
                why = reason.name();
                "primary"
            }
            Went::Standby(standby, proof) => {
                why = proof;
                name = self.service.cluster.standby(standby).name.clone();
                &name
            }
        };
        let fresh = self.current.waits.fresh;
        let (connection, server) = self.current.waits.parts(took, held);
        let seat = &self.line.seat;
        let application = self.line.reported().get("application_name").unwrap_or(seat.application.as_bytes());
        let application = String::from_utf8_lossy(application);
        let fingerprint = words.shape.sure().ok().filter(|()| !words.text.is_empty());
        let fingerprint = fingerprint.map(|()| format!("{:016x}", words.shape.hash()));
        tracing::info!(
            at,
            why,
            duration_ms = ms(took),
            connection_ms = ms(connection),
            freshness_ms = ms(fresh),
            server_ms = ms(server),
            failed = self.current.said.failed,
            client = seat.id,
            user = seat.user,
            database = seat.database,
            application = &*application,
            fingerprint,
            statement = without_literals(&words.shape, &words.text),
            "{}",
            match wanted {
                Wanted::Route => "statement executed",
                Wanted::Duration => "slow statement",
            }
        );
    }
}
