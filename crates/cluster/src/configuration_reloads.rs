//! Reloads of the primary's configuration. A reload changes settings of open sessions, and nothing in the WAL
//! reports it. The probe's backend reports when it last read the files. If that time has changed, a new
//! connection reports from when on a backend has applied the reload.

use history::LoadTime;
use std::cell::Cell;

/// Known state of the primary's configuration.
pub struct Configured {
    /// Last time at which the probe's backend read the configuration.
    seen: Cell<Option<LoadTime>>,
    floor: Cell<LoadTime>,
    reloads: Cell<u64>,
}

impl Default for Configured {
    fn default() -> Configured {
        Configured { seen: Cell::default(), floor: Cell::new(LoadTime::UNKNOWN), reloads: Cell::default() }
    }
}

impl Configured {
    /// Earliest load time of a backend that has applied the last reload. A backend that reports an earlier
    /// time has not applied it: its reported settings are void.
    pub fn floor(&self) -> LoadTime {
        self.floor.get()
    }

    /// Returns true if the last configuration change of the primary is dated.
    pub fn is_known(&self) -> bool {
        self.seen.get().is_some()
    }

    /// Number of reloads that were found.
    pub fn reloads(&self) -> u64 {
        self.reloads.get()
    }

    /// Returns true if the probe's backend has read the configuration at a new time. Then no backend is known
    /// to have applied it until [`Configured::found`].
    pub(crate) fn is_news(&self, loaded: LoadTime) -> bool {
        let news = self.seen.get() != Some(loaded);
        if news {
            self.seen.set(None);
            self.floor.set(LoadTime::MAX);
        }
        news
    }

    /// Notes that a connection that began after the probe's backend had read the configuration at `loaded`
    /// reports `floor`.
    pub(crate) fn found(&self, loaded: LoadTime, floor: LoadTime) {
        self.seen.set(Some(loaded));
        self.floor.set(floor);
        self.reloads.set(self.reloads.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_a_reload_is_looked_at_nobody_counts_as_having_heeded_it() {
        let configured = Configured::default();
        let [first, before, after] = [10, 20, 21].map(LoadTime::new);
        assert!(!configured.is_known() && configured.is_news(first));
        configured.found(first, first);
        assert!(configured.is_known() && !configured.is_news(first));
        assert_eq!((configured.floor(), configured.reloads()), (first, 1));
        assert!(configured.is_news(after));
        assert!(!configured.is_known() && configured.floor() == LoadTime::MAX);
        // The query of the floor failed.
        assert!(configured.is_news(after));
        configured.found(after, before);
        assert_eq!((configured.floor(), configured.reloads()), (before, 2));
    }
}
