//! Decides which committed transactions may be executed at a replica at the same time, and up to which
//! version it has then come (Georgiou et al., "Hihooi", sections 4.1, 4.2 and 5.1, Tables 1 to 3 and 5,
//! Algorithms 1 to 4).
//!
//! ```text
//!   statements --of, merge--> Sets --offer--> running  --completed--> done --no gap--> prefix
//!                                      \        ^
//!                                       waiting-+   (independent of all that run and of all that wait before it)
//! ```
//!
//! [`Sets`] are the reads and writes of one transaction, with a [`Class`] per table. [`Combined`] has those
//! of several transactions, counted, so that each can be taken out again. The [`Executor`] decides by them
//! which run and which wait. [`ClassIndex`] is the paper's index of the newest writers: for experiments
//! alone, since the freshness index of the [`Scheduler`](crate::Scheduler) answers the same where that is
//! right, and a later version where it is not.
//!
//! The [`Executor`]'s prefix is no licence to read: transactions that ran ahead show before others that the
//! prefix still lacks. The replication feed shows them in order: one visible step there is a group of
//! transactions, several whole boundaries, in one transaction of the server. Groups are executed concurrently
//! and commit one after the other, and the rows that may be executed before their turn are decided one by one
//! ([`Ahead`]). Transactions are no unit there: a server cannot show the work of two connections in one step,
//! a state between two boundaries may never have been shown by the primary, and one hot row that every
//! transaction writes would make all of them wait. The simulator alone runs the `Executor`.
//!
//! # Differences from the published algorithms, and why
//!
//! - *Algorithm 1, line 6* asks of every table that both touch, also of one that both only read: two transactions that
//!   read all of `item` would wait for each other. Its text speaks of "commonly modified tables". [`Compare::Items`]
//!   asks of those that one writes; [`Compare::Classes`] does as line 6 says.
//! - *Algorithm 1, lines 8 to 16* take two transactions of unequal classes for dependent. That is safe, but
//!   `UPDATE r SET a2 = ? WHERE a1 = 100` and `UPDATE r SET a4 = ? WHERE a3 < ?` meet in no column. `Items` compares
//!   columns and rows whichever the class. (With tables and columns alone, as in figure 6, Algorithm 1 lets these two run
//!   together; "all classes" is not always the most.)
//! - *Algorithm 2, lines 16 and 17* look at the head of the queue only: a transaction that waited for B
//!   alone goes on waiting after a head that waits for A. Here the transactions after the head are examined
//!   too ([`Options::look`]), each against all that run and all that still wait before it: the rule of line 6
//!   for a new one.
//! - *Algorithm 2* has no bounds. Here transactions that run, and the distance from the prefix to the newest, have one: a
//!   transaction that hangs lets only so many pass.
//! - *The counters of section 4.2* are kept of tables, columns and rows, but a combined class (rule iii) cannot be taken
//!   back without counting the classes too.
//! - *Algorithm 4, lines 7 to 9*: `SELECT count(*) FROM r` reads no column, finds nothing in the columns' index, and
//!   misses `DELETE FROM r WHERE a2 < 5`, which is listed under columns alone.
//! - *Pruning of the rows' index*: rows that have "been applied to all replicas" were not applied to a
//!   replica that joins from an older state afterwards; an entry that is gone reads as never written. A floor
//!   is needed.
//!
//! # Duties of the caller
//!
//! Independence is as true as the sets are. Read off a statement's text, as in the paper's Table 2, they are too small:
//!
//! - *Rows are named by the primary key alone*, in one canonical form, and an `UPDATE` that changes it touches both rows.
//!   (Table 2 and its text allow a unique key too: then `a1 = 5` and `mail = 'x'` look like two rows and may be one.)
//! - *A table with another unique key or an exclusion constraint is not kept apart by rows*: delete row 1 with mail x, then
//!   insert row 2 with mail x; in the other order the insert fails. Give [`Class::Column`] as its finest class. And a
//!   write of one column of such a key is a write of all of its columns: with `UNIQUE (a, b)`, (1,1) and (1,2), first
//!   `a = 3` in one row and then `b = 1` in the other collide in the other order, and share no column. The same holds for
//!   the columns of one CHECK constraint.
//! - *A foreign key reads*: a child that comes reads the parent's row, a parent that goes reads or writes its children.
//!   By Algorithm 1 the insert of a parent and the insert of its child share no table, and the child may come first.
//! - *An effect that is a whole row writes all columns*, whatever the statement changed: the later whole row would bring
//!   back the older value of the other's column.
//! - *A statement that draws from a sequence* or calls a procedure reads and writes what that reads and
//!   writes; unknown is [`Footprint::Everything`](history::Footprint::Everything), and so is DDL.
//! - *The engine may make independent ones wait*: two that change different columns of the same rows lock
//!   the same rows, perhaps in a circle. The replica's sessions are READ COMMITTED, and a transaction that
//!   was rolled back by a deadlock runs again; until it is done it stays a running one here.
//! - *Statements in place of rows* are another question, which the [`Guard`] answers: only if nothing that
//!   the statement read or wrote was committed between its start and its version.

mod ahead;
mod bugs;
mod class;
mod class_index;
mod combined;
mod counts;
mod executor;
mod guard;
mod prefix;
mod sets;

pub use ahead::{Ahead, Group, When};
pub use bugs::{Bug, Bugs};
pub use class::Class;
pub use class_index::ClassIndex;
pub use combined::{Combined, Compare};
pub use executor::{Completed, Executor, Options, Place, Refused};
pub use guard::Guard;
pub use sets::Sets;
