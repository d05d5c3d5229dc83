//! One client: it thinks, runs a transaction, tries again what the server rolled back, and logs in again after a lost
//! connection.

use super::tallies::{Ledger, Tallies};
use super::{Ending, Options, Outcome, Workload};
use load_clients::session::{Session, Trouble};
use load_clients::stop::Stop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Pause of a client before it tries to log in again.
const LOGIN_PAUSE: Duration = Duration::from_millis(50);

/// A client that thinks looks so often whether the run is over.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Shared state of all clients of a run.
pub(crate) struct Shared<W> {
    pub(crate) workload: W,
    pub(crate) options: Options,
    pub(crate) stop: Stop,
    pub(crate) began: Instant,
    pub(crate) begun: AtomicU64,
    pub(crate) done: AtomicU64,
    pub(crate) tallies: Mutex<Tallies>,
    pub(crate) ledger: Mutex<Ledger>,
}

impl<W: Workload> Shared<W> {
    /// Waits while the run is ahead of its rate. Each start takes a place of its own, so that no two take the same.
    async fn keep_rate(&self) {
        let rate = self.options.rate;
        if rate == 0 {
            return;
        }
        let place = self.begun.fetch_add(1, Ordering::Relaxed);
        let at = self.began + Duration::from_micros(place.saturating_mul(1_000_000) / rate);
        self.rest_until(at).await;
    }

    /// Waits until then, or until the run is over.
    async fn rest_until(&self, at: Instant) {
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_over() {
                return;
            }
            tokio::time::sleep(left.min(LOOK_EVERY)).await;
        }
    }

    fn is_over(&self) -> bool {
        self.stop.is_due() || self.done.load(Ordering::Relaxed) >= self.options.transactions
    }

    fn is_counted(&self, since: Instant) -> bool {
        since >= self.began + self.options.warm_up
    }

    fn note(&self, what: impl FnOnce(&mut Tallies)) {
        what(&mut self.tallies.lock().expect("no holder of the lock panics"));
    }
}

pub(crate) struct Client<W: Workload> {
    shared: Arc<Shared<W>>,
    chance: fastrand::Rng,
    memory: W::Client,
    session: Option<Session>,
}

impl<W: Workload> Client<W> {
    pub(crate) fn new(shared: Arc<Shared<W>>, number: u64, mut chance: fastrand::Rng) -> Client<W> {
        let memory = shared.workload.client(number, chance.fork());
        Client { shared, chance, memory, session: None }
    }

    pub(crate) async fn live(mut self) {
        let shared = self.shared.clone();
        while !shared.is_over() {
            if shared.workload.is_paced(&self.memory) {
                self.think().await;
                shared.keep_rate().await;
            }
            if shared.is_over() {
                break;
            }
            let work = shared.workload.plan(&mut self.memory);
            let outcome = self.perform(&work).await;
            let kind = shared.workload.kind(&work);
            shared.ledger.lock().expect("no holder of the lock panics").note(kind, outcome);
            shared.workload.ended(&mut self.memory, &work, outcome);
            shared.done.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(session) = self.session {
            session.close().await;
        }
    }

    async fn think(&mut self) {
        let given = self.shared.options.think.map(|time| time.as_secs_f64());
        let mean = given.unwrap_or_else(|| self.shared.workload.think_seconds());
        if mean > 0.0 {
            let seconds = (-mean * (1.0 - self.chance.f64()).ln()).min(10.0 * mean);
            self.shared.rest_until(Instant::now() + Duration::from_secs_f64(seconds)).await;
        }
    }

    /// Runs the transaction, again and again while the server rolls it back and says so.
    async fn perform(&mut self, work: &W::Work) -> Outcome {
        let shared = self.shared.clone();
        let kind = shared.workload.kind(work);
        let began = Instant::now();
        let counted = shared.is_counted(began);
        for attempt in 0..=shared.options.retries {
            match self.attempt(work, counted).await {
                Ok(ending) => {
                    shared.note(|tallies| tallies.timeline.add(shared.began.elapsed(), true));
                    if counted {
                        shared.note(|tallies| {
                            let tally = &mut tallies.kinds[kind];
                            match ending {
                                Ending::Committed => tally.committed += 1,
                                Ending::RolledBack => tally.rolled_back += 1,
                            }
                            tally.latencies.record(began.elapsed());
                            tally.spent += began.elapsed();
                        });
                    }
                    return if ending == Ending::Committed { Outcome::Committed } else { Outcome::Undone };
                }
                Err(trouble) => {
                    let again = trouble.surely_rolled_back() && attempt < shared.options.retries;
                    if counted {
                        shared.note(|tallies| {
                            tallies.error(&trouble);
                            tallies.kinds[kind].retries += u64::from(again);
                            tallies.kinds[kind].failed += u64::from(!again);
                        });
                    }
                    if !again {
                        shared.note(|tallies| tallies.timeline.add(shared.began.elapsed(), false));
                        return outcome(&trouble);
                    }
                }
            }
        }
        Outcome::Undone
    }

    async fn attempt(&mut self, work: &W::Work, counted: bool) -> Result<Ending, Trouble> {
        let shared = self.shared.clone();
        let url = shared.workload.url(&self.memory).unwrap_or(&shared.options.url);
        let session = match &mut self.session {
            Some(session) => session,
            none => match Session::open(url, shared.options.protocol).await {
                Ok(session) => none.insert(session.with_limit(shared.options.statement_limit)),
                Err(trouble) => {
                    tokio::time::sleep(LOGIN_PAUSE).await;
                    return Err(Trouble::Refused {
                        state: tokio_postgres::error::SqlState::CONNECTION_EXCEPTION,
                        message: format!("log-in: {trouble}"),
                    });
                }
            },
        };
        let result = shared.workload.run(&mut self.memory, work, session).await;
        let sent = session.take_sent();
        if counted {
            shared.note(|tallies| {
                tallies.sent.reads += sent.reads;
                tallies.sent.writes += sent.writes;
            });
        }
        if let Err(trouble) = &result {
            let usable = trouble.leaves_session() || matches!(trouble, Trouble::Unexpected(_));
            if !usable || session.execute("ROLLBACK").await.is_err() {
                self.session = None;
            }
        }
        result
    }
}

/// Knowledge of a transaction after an error that ends it. A log-in that failed has sent nothing, but is too
/// rare to be distinguished from a lost answer.
fn outcome(trouble: &Trouble) -> Outcome {
    match trouble {
        Trouble::Refused { state, .. } => {
            let code = state.code();
            if code.starts_with("08") || code.starts_with("57") || code == "40003" {
                Outcome::Unknown
            } else {
                Outcome::Undone
            }
        }
        Trouble::Unexpected(_) | Trouble::Address { .. } => Outcome::Undone,
        Trouble::Lost(_) | Trouble::Silent(_) => Outcome::Unknown,
    }
}
