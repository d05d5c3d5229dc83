//! The order of commits in one life of a node: the gate of the extension (`extension/commit_order.c`), and the numbers of
//! transactions in the chain of locks (`consort.link`, `consort.follow_link`).

use history::Version;

/// The way in which a COMMIT takes its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Sent when its turn has come.
    Sent,
    /// At the gate.
    Gate,
    /// After the transaction of this number.
    After(u64),
}

/// The answer to a COMMIT that asks for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    /// The turn comes.
    Early,
    /// The gate is closed or has passed it, or the transaction before it has failed.
    Refused,
}

/// See the file's first lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct OrderOfLife {
    /// The version that may commit; `None`: the gate is closed.
    pub(crate) next: Option<Version>,
    newest: u64,
}

impl OrderOfLife {
    /// The server has restarted, whose WAL has transactions up to this number.
    pub(crate) fn after_crash(newest: Option<u64>) -> OrderOfLife {
        OrderOfLife { next: None, newest: newest.unwrap_or_default() }
    }

    /// The number of a transaction that begins.
    pub(crate) fn number(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Moves the gate on, never back.
    pub(crate) fn moves_gate(&mut self, next: Version) {
        self.next = self.next.max(Some(next));
    }

    /// The gate's answer to a version.
    pub(crate) fn at_gate(&self, version: Version) -> Admission {
        match self.next {
            Some(next) if next == version => Admission::Admitted,
            Some(next) if next < version => Admission::Early,
            None | Some(_) => Admission::Refused,
        }
    }
}
