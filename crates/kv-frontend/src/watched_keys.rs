//! Watched keys: WATCH, until EXEC, DISCARD or UNWATCH.

use crate::problem::Problem;
use crate::shared::Shared;
use crate::transaction::{Fault, Keys, Level, in_words};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Maximum number of watched keys of a connection.
const MAX_WATCHED: usize = 10_000;

/// Watched keys, each with the timestamp since when.
#[derive(Default)]
pub(crate) struct Watched {
    since: BTreeMap<Bytes, u64>,
}

impl Watched {
    pub(crate) fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.since.clear();
    }

    /// Watches these keys from now on; a key that is watched already since before. Returns the timestamp of the state that every
    /// later read must see.
    pub(crate) async fn add(&mut self, shared: &Shared, keys: &[Bytes]) -> Result<u64, Problem> {
        if self.since.len() + keys.len() > MAX_WATCHED {
            return Err(Problem::new(format!("too many watched keys: at most {MAX_WATCHED}")));
        }
        let now = shared.begin(true, Level::Strong, 0).await.map_err(Fault::problem)?.roll_back();
        for key in keys {
            self.since.entry(key.clone()).or_insert(now);
        }
        Ok(now)
    }

    /// True if a key has changed. A key about which nothing is remembered counts as changed.
    pub(crate) fn is_any_changed(&self, shared: &Shared) -> Result<bool, Fault> {
        for (key, since) in &self.since {
            if shared.database.changed_since(key, *since).map_err(|error| in_words(&error))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The commit requires that none of the keys has changed.
    pub(crate) fn guard(&self, keys: &mut Keys) -> Result<(), Fault> {
        self.since.iter().try_for_each(|(key, since)| keys.guard(key, *since))
    }
}
