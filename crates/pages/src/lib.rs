//! Versioned pages of an in-memory SQLite database: snapshots at any version, and commits as page diffs.
//!
//! A [`Store`] holds the pages of one node. The master's [`Writer`] turns each commit into a [`WriteSet`]: the changed
//! bytes of the changed pages. Every node's store receives it, in the order of versions. A [`Reader`] is a connection
//! of SQLite that sees one version from [`Reader::begin`] to [`Reader::end`]. Diffs are applied when a reader asks for
//! a page, up to its version and no further (Manassiev and Amza, "DMV", sections II and III).
//!
//! ```text
//!    Writer  -- SQLite -- Session -- COMMIT --> diffs --> WriteSet --> bytes --> other nodes
//!                           | pages                          |                      |
//!                         Store  <-------- receive ----------+                    Store
//!                           | page at a version                                     | page at a version
//!    Reader  -- SQLite -- Session                          Reader  -- SQLite -- Session
//! ```
//!
//! Three versions are ordered: `horizon <= acknowledged <= received`.
//!
//! - **received**: the newest version. Versions have no gaps.
//! - **acknowledged**: no version up to it will be discarded. A reader's tag acknowledges its version, and so do
//!   [`Store::acknowledge`] and [`Store::load`]. [`Store::discard_above`] goes back to it after a fail-over.
//! - **horizon**: the oldest snapshot, or the acknowledged version. [`Store::examine`] folds diffs up to it.
//!
//! # SQLite's part
//!
//! A connection reads and writes through a virtual file system of its own. The journal and temporary tables stay in
//! memory, and no other file can be opened. SQLite writes pages at COMMIT, into an **overlay** of the session, and never
//! waits in it. The writer takes the overlay as the next version. A reader's overlay is its own and is dropped: the first
//! run of an update transaction.
//!
//! SQLite keeps a page cache for each connection. It asks at each transaction whether the change counter in page 1 is
//! still the one it knew. The session answers with a counter of its own, which changes exactly when the connection sees
//! other pages: another version, a dropped overlay, a version that was discarded and made again. In stores and write
//! sets the counter is zero. So a transaction ships page 1 only when the database's size or free list has changed.
//!
//! Callers must not change the settings that [`Reader::connection`] and [`Writer::connection`] come with by `PRAGMA`:
//! `locking_mode`, `journal_mode`, `page_size`, `temp_store`. With an exclusive lock SQLite would not ask for the
//! counter again.
//!
//! # Invariants
//!
//! - A page at a version is the same bytes in every store, whatever was read, folded or joined before.
//! - A diff leaves a queue only when the horizon has passed it. Images are a cache (policy [`Policy::Keep`]).
//! - The tag of a reader and its registration are one step under one lock.
//! - A snapshot ends early only by name: [`Error::Evicted`], [`Error::Conflict`], [`Error::Discarded`].
//! - A write set with a wrong byte is [`Malformed`]; what passes stays inside of its pages.
//!
//! # Limits
//!
//! [`Options::max_bytes`] bounds images and diffs: above it, diffs are folded, then the oldest readers are evicted. A
//! database that is larger, and diffs that were not acknowledged, stay. A connection caches up to 8 MiB of
//! pages. A reader waits at most [`CONFLICT_WAIT`] (policy [`Policy::Single`]).
//!
//! # Cost
//!
//! The example `page_costs` measures it. Processor time in microseconds, medians of five rounds on two busy cores:
//!
//! | | plain `:memory:` | here |
//! |---|---|---|
//! | point select in a transaction | 1.12 | 1.38 |
//! | the same, another version each time | 1.12 | 3.17 |
//! | join of 1,000 lines | 547 | 627 |
//! | commit of one update, with encoding and publishing | 2.00 | 5.98, 30 bytes |
//! | commit of an update and two inserts | 3.06 | 9.38, 106 bytes |
//! | decode and receive, one update | | 0.41 |
//!
//! # Absent knowledge
//!
//! This crate does not know SQL, rows, nodes or networks. Who is master, what was acknowledged, and what a lost answer
//! means is the caller's matter. A test builds whole databases from `Versions`, which has no lock, clock or thread.

mod bugs;
mod database;
mod diff;
mod error;
#[cfg(test)]
mod model;
mod page;
#[expect(unsafe_code, reason = "SQLite tells changed rows through pointers")]
mod row_changes;
mod session;
mod slot;
mod snapshots;
mod store;
mod versions;
#[expect(unsafe_code, reason = "SQLite calls its virtual file system through pointers")]
mod vfs;
mod view;
mod write_set;

pub use bugs::{Bug, Bugs};
pub use database::{Reader, Writer};
pub use error::{Error, Gap};
pub use page::{PAGE_SIZE, Page};
pub use row_changes::{Rows, Tables};
pub use store::{CONFLICT_WAIT, Images, Store};
pub use versions::{Options, PageImage, Policy};
pub use view::View;
pub use write_set::{Malformed, Version, WriteSet};
