//! A statement that the client has an answer to before the primary gives one.

use super::{Expect, Primary};
use wire::{Asks, Status};

/// Sends a statement that leads to this transaction status. The primary's answer is swallowed.
pub(crate) fn send_answered(primary: &mut Primary, text: &[u8], status: Status) {
    primary.awake.spoken();
    primary.peer.out().query(text);
    primary.peer.send_now();
    primary.expects.push_back(Expect::Question);
    (primary.status, primary.seen.completed) = (status, 1);
}
