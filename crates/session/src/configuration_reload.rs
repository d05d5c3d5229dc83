//! `pg_reload_conf()` of a session of ours. The server answers before it has done anything: its first process reads the
//! files then, and signals the others one by one, so that one session may be under the new settings already and another
//! under the old. So reads are kept in from before its first byte until the gauge has found the reload.

use super::Session;
use super::request_analysis::GAUGE_LIMIT;
use backend::request_text::Words;
use cluster::Cluster;
use cluster::barrier::{Change, Everywhere};
use statement_analysis::{Stay, Template};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use transaction::Cluster as _;

/// The function.
const NAME: &[u8] = b"pg_reload_conf";

/// A reload that is not found within this was none: the files have a mistake, for example.
const FOUND_WITHIN: Duration = Duration::from_secs(1);

/// A reload that a session demands.
pub(super) struct Reload {
    everywhere: Everywhere,
    /// So many were found before.
    before: u64,
}

impl Reload {
    /// The primary has answered.
    pub(super) fn answered(self, cluster: &Cluster, refused: bool) {
        if refused {
            return self.everywhere.end();
        }
        let cluster = cluster.clone();
        tokio::task::spawn_local(async move {
            let limit = Instant::now() + FOUND_WITHIN;
            while cluster.configured().reloads() == self.before {
                let moved = cluster.next_move();
                cluster.scheduler().order_mut().want_gauge();
                cluster.gauge_now();
                if timeout_at(limit, moved).await.is_err() {
                    break;
                }
            }
            self.everywhere.end();
        });
    }
}

/// Whether the text names the function, in whatever place.
fn names_it(text: &str) -> bool {
    text.as_bytes().windows(NAME.len()).any(|part| part.eq_ignore_ascii_case(NAME))
}

impl Session {
    /// The current request may reload the primary's configuration, if it was understood to.
    pub(super) fn begin_reload(&mut self) -> Option<Reload> {
        let cluster = &self.service.cluster;
        std::mem::take(&mut self.first.reload).then(|| Reload {
            everywhere: Everywhere::begin(cluster, Change::Configuration, Some(self.who.backend)),
            before: cluster.configured().reloads(),
        })
    }

    /// Whether the statement demands one: by its template, and as long as nobody knows that, by its words.
    pub(super) fn heed_demand(&mut self, template: Option<&Template>, words: &Words) {
        self.first.reload |= match template {
            Some(template) => template.stays.contains(&Stay::Reload),
            None => words.may_be_a_read() && names_it(&words.text),
        };
    }

    /// Whether one of several statements demands one.
    pub(super) fn heed_demands(&mut self, words: &Words) {
        self.first.reload |= names_it(&words.text);
    }

    /// Waits until it is known since when the primary is configured as it is; while that is looked at, what is known of the
    /// session would be void.
    pub(super) async fn configuration_found(&mut self) {
        let cluster = &self.service.cluster;
        let mut left = Some(GAUGE_LIMIT);
        while let Some(within) = left.filter(|_| !cluster.configured().is_known()) {
            left = cluster.changed(within).await;
        }
        self.heed_reloads();
    }

    /// Heeds what is known of reloads: the session's settings may be others than those that were asked for. What runs at a
    /// standby as a whole goes on as it began.
    pub(super) fn heed_reloads(&mut self) {
        if self.txn.snapshot().is_none() {
            self.state.reloaded(self.service.cluster.configured().floor());
        }
    }
}
