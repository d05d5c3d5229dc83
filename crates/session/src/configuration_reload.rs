//! `pg_reload_conf()` of a client's session. The server answers before the reload has happened: its
//! postmaster reads the files afterwards, and signals the backends one by one. So one session may be under
//! the new settings already and another under the old. Reads are therefore not offloaded from before the
//! first byte of the statement until the snapshot probe has found the reload.

use super::Session;
use super::request_analysis::GAUGE_LIMIT;
use backend::request_text::Words;
use cluster::Cluster;
use cluster::barrier::{Change, Everywhere};
use statement_analysis::{Stay, Template};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use transaction::Cluster as _;

/// Name of the function.
const NAME: &[u8] = b"pg_reload_conf";

/// Time after which a reload that was not found counts as none: the files have a mistake, for example.
const FOUND_WITHIN: Duration = Duration::from_secs(1);

/// A reload that a session requests.
pub(super) struct Reload {
    everywhere: Everywhere,
    /// Number of reloads found before.
    before: u64,
}

impl Reload {
    /// Handles the primary's answer.
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

/// True if the text names the function, anywhere.
fn names_it(text: &str) -> bool {
    text.as_bytes().windows(NAME.len()).any(|part| part.eq_ignore_ascii_case(NAME))
}

impl Session {
    /// Announces that the current request may reload the primary's configuration, if its analysis shows that.
    pub(super) fn begin_reload(&mut self) -> Option<Reload> {
        let cluster = &self.service.cluster;
        std::mem::take(&mut self.first.reload).then(|| Reload {
            everywhere: Everywhere::begin(cluster, Change::Configuration, Some(self.who.backend)),
            before: cluster.configured().reloads(),
        })
    }

    /// Records a request for a reload: by the statement's template, or by its words while the template is
    /// unknown.
    pub(super) fn heed_demand(&mut self, template: Option<&Template>, words: &Words) {
        self.first.reload |= match template {
            Some(template) => template.stays.contains(&Stay::Reload),
            None => words.may_be_a_read() && names_it(&words.text),
        };
    }

    /// Records that one of several statements requests a reload.
    pub(super) fn heed_demands(&mut self, words: &Words) {
        self.first.reload |= names_it(&words.text);
    }

    /// Waits until the time of the primary's last reload is known. Until then, a probe of the session's state
    /// would be invalid.
    pub(super) async fn configuration_found(&mut self) {
        let cluster = &self.service.cluster;
        let mut left = Some(GAUGE_LIMIT);
        while let Some(within) = left.filter(|_| !cluster.configured().is_known()) {
            left = cluster.changed(within).await;
        }
        self.heed_reloads();
    }

    /// Applies known reloads: the session's settings may differ from the probed ones. A transaction that runs
    /// at a standby as a whole goes on as it began.
    pub(super) fn heed_reloads(&mut self) {
        if self.txn.snapshot().is_none() {
            self.state.reloaded(self.service.cluster.configured().floor());
        }
    }
}
