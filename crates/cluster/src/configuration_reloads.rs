//! Reloads of the primary's configuration. They change settings of sessions that are open, and nothing in the log tells
//! of them: the gauge's own process says when it has read the files, and when that is another time than before, a
//! connection that begins then says from when on a process is one that has heeded the reload.

use history::LoadTime;
use std::cell::Cell;

/// What is known of the primary's configuration.
pub struct Configured {
    /// When the gauge's process had read it last.
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
    /// A process of the primary that says an earlier time has not heeded the last reload: what was asked of its settings
    /// is void.
    pub fn floor(&self) -> LoadTime {
        self.floor.get()
    }

    /// Whether it is known since when the primary is configured as it is.
    pub fn is_known(&self) -> bool {
        self.seen.get().is_some()
    }

    /// How many reloads were found.
    pub fn reloads(&self) -> u64 {
        self.reloads.get()
    }

    /// The gauge's process has read the configuration at this time. Whether it is another than before: then no process is
    /// known to have heeded it until [`Configured::found`].
    pub(crate) fn is_news(&self, loaded: LoadTime) -> bool {
        let news = self.seen.get() != Some(loaded);
        if news {
            self.seen.set(None);
            self.floor.set(LoadTime::MAX);
        }
        news
    }

    /// A connection that began after the gauge's process had read the configuration at `loaded` says `floor`.
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
        // It could not be asked.
        assert!(configured.is_news(after));
        configured.found(after, before);
        assert_eq!((configured.floor(), configured.reloads()), (before, 2));
    }
}
