//! The certifier gives each write set a version, or refuses it. If two transactions ran at the same time and touched the
//! same thing, then the first to be certified commits (first committer wins).
//!
//! A transaction reads a snapshot: all versions up to its **start**. Its write set is a list of [`Item`]s. It conflicts
//! with a version above its start that has claimed one of these items in a [`Mode`] that does not agree with its own:
//!
//! ```text
//!    versions   ... 812   813   814   815   816 (newest)
//!    start                 ^ 813: its snapshot
//!    looked at                  [814   815   816]  certified while the transaction ran
//!    after       ^ 812: the newest version that claims one of the items; no version in between touches any
//! ```
//!
//! [`Certified::after`] is for replicas that execute several records at once: a record waits for that version and for
//! no later one (Elnikety, Dropsho and Pedone, "Tashkent", section 5.2.1, "artificial conflicts").
//!
//! The certifier remembers a **window**: its newest records, at most so many, with at most so many items. The version
//! before the oldest of them is the **floor**. A start below the floor is refused, since a conflict cannot be excluded.
//!
//! # Invariants
//!
//! - Versions have no gaps: a certified write set has the version that follows the newest.
//! - `floor <= after < version` for each certified write set, and `floor <= newest`.
//! - The floor only rises, and so does the newest version. A refused write set changes nothing.
//! - Each version above the floor is remembered with all its items; nothing at or below the floor is.
//! - The answer is a function of the calls before: the same calls get the same versions in each process.
//!
//! # Cost
//!
//! A certification looks at each of its items once, whatever the window's size: about 2 us for 10 items in a window of
//! 100,000 records. The example `certifications` measures it. An item takes 72 to 136 bytes; the index grows little by
//! little, so that no certification waits for all of it.
//!
//! # Absent knowledge
//!
//! This crate is pure: it opens, waits for and asks the time of nothing. It does not know what a row, a table, a node or
//! a ledger is. An item's number is a hash, made by the caller: two things with the same number conflict as one would,
//! which refuses a transaction without need and loses nothing. The numbers must be well mixed, or the index is slow.

mod claims;
mod item;
mod verdict;
mod window;

use history::Version;

pub use item::{Item, Mode};
pub use verdict::{Certified, Refused};

use claims::Claims;
use window::Window;

/// Items that the window has room for, for each record that it has room for, unless [`Certifier::with_item_limit`] says
/// otherwise.
pub const ITEMS_PER_RECORD: usize = 16;

/// The certifier of one order of versions. Invariants: see the crate.
#[derive(Debug)]
pub struct Certifier {
    newest: Version,
    window: Window,
    claims: Claims,
}

impl Certifier {
    /// A certifier whose newest version is `newest`, and which knows the items of no version. The window has room for
    /// `window` records, at least one, and for [`ITEMS_PER_RECORD`] times as many items.
    #[must_use]
    pub fn new(newest: Version, window: usize) -> Certifier {
        let items = window.saturating_mul(ITEMS_PER_RECORD);
        Certifier { newest, window: Window::new(newest, window.max(1), items), claims: Claims::default() }
    }

    /// The same with room for so many items in its window. A record with more items than that leaves the window at
    /// once: the floor is its version then, and whatever runs is refused. Callers claim a whole table instead.
    #[must_use]
    pub fn with_item_limit(mut self, items: usize) -> Certifier {
        self.window.limit_items(items);
        self
    }

    /// Decides on a write set whose transaction has read the snapshot `start`, and takes the next version for it. The
    /// same item may stand in `items` more than once: a write set never conflicts with itself.
    ///
    /// # Errors
    /// A later version than `start` claims an item, or `start` is below the floor. Nothing has changed then.
    ///
    /// # Panics
    /// The start is above the newest version: no snapshot can be.
    pub fn certify(&mut self, start: Version, items: &[Item]) -> Result<Certified, Refused> {
        let after = self.check(start, items)?;
        let version = self.newest.next();
        self.record(version, items);
        debug_assert!(after < version);
        Ok(Certified { version, after })
    }

    /// Returns the version that would refuse this write set now, and takes no version. If `start` is below the floor then
    /// the answer is the floor. Sessions ask this early, while the transaction still runs.
    ///
    /// Without a conflict the whole write set may be certified with [`Certifier::newest`] as its start from now on: the
    /// verdict is the same, and later calls look at fewer versions.
    ///
    /// # Panics
    /// As [`Certifier::certify`].
    #[must_use]
    pub fn conflict(&self, start: Version, items: &[Item]) -> Option<Version> {
        match self.check(start, items) {
            Ok(_) => None,
            Err(Refused::Conflict { with, .. }) => Some(with),
            Err(Refused::BelowFloor { floor }) => Some(floor),
        }
    }

    /// Takes in a record that was certified before, as the ledger has it.
    ///
    /// # Panics
    /// The version does not follow the newest.
    pub fn restore(&mut self, version: Version, items: &[Item]) {
        assert_eq!(version, self.newest.next(), "restored versions have no gaps");
        self.record(version, items);
    }

    /// The oldest start that is not refused out of hand. Records at or below it are not needed to certify.
    #[must_use]
    pub fn floor(&self) -> Version {
        self.window.floor()
    }

    /// The newest version that has been given or restored.
    #[must_use]
    pub fn newest(&self) -> Version {
        self.newest
    }

    /// Items that the window holds now: what its memory depends on.
    #[must_use]
    pub fn items(&self) -> usize {
        self.window.items()
    }

    /// The newest version that claims one of the items, at least the floor; refused if it is above `start`.
    fn check(&self, start: Version, items: &[Item]) -> Result<Version, Refused> {
        assert!(
            start <= self.newest,
            "a snapshot ({start}) is not ahead of the newest version ({})",
            self.newest
        );
        let floor = self.floor();
        if start < floor {
            return Err(Refused::BelowFloor { floor });
        }
        let (with, item) = self.claims.newest_against(items, floor);
        if with > start { Err(Refused::Conflict { with, item }) } else { Ok(with) }
    }

    /// Remembers a record, and forgets those that the window has no room for.
    fn record(&mut self, version: Version, items: &[Item]) {
        let floor = self.floor();
        for item in items {
            self.claims.claim(*item, version, floor);
        }
        self.newest = version;
        self.window.push(items);
        while self.window.is_over() {
            let (floor, forgotten) = self.window.pop();
            self.claims.forget(forgotten, floor);
        }
        assert!(self.window.floor() <= self.newest);
    }
}
