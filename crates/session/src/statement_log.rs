//! What the log says of statements: where each ran and why, and how long it took, with what it waited for. Never a value:
//! literals are left out of the text, and parameters are not said at all.

use super::Session;
use cluster::routes::{Went, without_literals};
use config::statement_log::Wanted;
use std::time::{Duration, Instant};

/// Milliseconds, with three digits behind the point.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// When a request came, and what it has waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// When it came.
    pub(super) came: tokio::time::Instant,
    /// How long its client was held before it began.
    held_before: Duration,
    /// Since when it waits until something is fresh enough for it, or proven to be.
    since: Option<Instant>,
    /// How long it did.
    fresh: Duration,
}

impl Waits {
    /// Of a request that begins, whose client was held so long before.
    pub(super) fn begin(held_before: Duration) -> Waits {
        Waits { came: tokio::time::Instant::now(), held_before, since: None, fresh: Duration::ZERO }
    }

    /// It waits no longer for freshness.
    pub(super) fn is_fresh(&mut self) {
        if let Some(since) = self.since.take() {
            self.fresh += since.elapsed();
        }
    }

    /// It waited so long beside.
    pub(super) fn and_for(&mut self, more: Duration) {
        self.fresh += more;
    }
}

impl Session {
    /// From here on the request waits until something is fresh enough for it. Noted only where a line may say it.
    pub(super) fn waits_for_freshness(&mut self) {
        if self.service.statement_log.get().is_on() {
            self.current.waits.since = Some(Instant::now());
        }
    }

    /// A line of the statement that went there and took so long, `held` of that with what was held before it, if it has one.
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
        let Waits { held_before, fresh, .. } = self.current.waits;
        let connection = held.saturating_sub(held_before);
        let server = took.saturating_sub(fresh + connection);
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
                Wanted::Route => "a statement ran",
                Wanted::Duration => "a statement took long",
            }
        );
    }
}
