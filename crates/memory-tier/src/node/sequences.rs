//! Values of sequences at the master: each is given once, to whatever transaction asks, before any of them commits.

use super::engine::locked;
use dialect::Draw;
use std::collections::HashMap;
use std::sync::Mutex;

/// The last value that was drawn from each sequence, by its OID.
#[derive(Default)]
pub(super) struct Sequences(Mutex<HashMap<u32, i64>>);

impl Sequences {
    /// The next value, or the one that is set.
    ///
    /// # Errors
    /// There is none: a sentence for the client.
    pub(super) fn draw(&self, draw: &Draw<'_>) -> Result<i64, String> {
        let mut last = locked(&self.0);
        let value = match draw.set {
            Some(value) => value,
            None => {
                let further =
                    |one: i64, other: i64| if draw.increment > 0 { one.max(other) } else { one.min(other) };
                let known = match (last.get(&draw.oid).copied(), draw.last) {
                    (Some(here), Some(seen)) => Some(further(here, seen)),
                    (here, seen) => here.or(seen),
                };
                match known {
                    None => draw.start,
                    Some(known) => known.checked_add(draw.increment).ok_or_else(|| {
                        format!("nextval: reached maximum value of sequence \"{}\"", draw.name)
                    })?,
                }
            }
        };
        last.insert(draw.oid, value);
        Ok(value)
    }

    /// These sequences were restarted: they go on behind what has committed.
    pub(super) fn forget(&self, restarted: &[u32]) {
        if !restarted.is_empty() {
            locked(&self.0).retain(|oid, _| !restarted.contains(oid));
        }
    }

    /// All sequences go on behind what has committed: the node has become the master.
    pub(super) fn forget_all(&self) {
        locked(&self.0).clear();
    }
}
