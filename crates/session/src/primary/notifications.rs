//! What a connection at the primary that sessions share does with notifications. While it listens to what its session hears
//! elsewhere (`session/notifications.rs`), it keeps them, and the end of the transaction that they came with.

use super::answers::Standing;
use backend::listening::{Notification, PASS, WAITING_BYTES, pid_for};
use std::rc::Rc;
use wire::{Answers, Frame, Malformed, Status};

/// What becomes of notifications at a connection.
#[derive(Debug, Default)]
pub(crate) struct Notified {
    /// The number that the client was told as that of its process, which is not this one. `None`: the connection is its own.
    pub(crate) told: Option<i32>,
    /// The connection listens for a session that hears elsewhere.
    pub(crate) listens: bool,
    kept: Vec<Rc<Notification>>,
    bytes: usize,
    /// The client is to be told that its transaction is over.
    held_ready: bool,
}

impl Notified {
    /// The client is to be told that its transaction is over, behind what it hears before that. `false`: it is told at once.
    pub(crate) fn holds_ready(&mut self, status: Status) -> bool {
        let holds = self.listens && status == Status::Idle;
        self.held_ready |= holds;
        holds
    }

    /// Whether that is so. Once.
    pub(crate) fn take_ready(&mut self) -> bool {
        std::mem::take(&mut self.held_ready)
    }

    /// What was kept.
    pub(crate) fn kept(&self) -> &[Rc<Notification>] {
        &self.kept
    }

    /// The same, to be kept no more.
    pub(crate) fn take_kept(&mut self) -> Vec<Rc<Notification>> {
        self.bytes = 0;
        std::mem::take(&mut self.kept)
    }

    /// The same, in two: what came before the notification of this pass, and what came behind it. `None`: it has not come.
    pub(crate) fn take_around(&mut self, pass: &str) -> Option<[Vec<Rc<Notification>>; 2]> {
        let mut before = self.take_kept();
        let is_pass = |notification: &Rc<Notification>| {
            &*notification.channel == PASS.as_bytes() && &*notification.payload == pass.as_bytes()
        };
        let at = before.iter().position(is_pass)?;
        let behind = before.split_off(at).split_off(1);
        Some([before, behind])
    }

    /// More was notified than is kept: who notifies itself of more, or takes so long, must go.
    pub(crate) fn is_too_much(&self) -> bool {
        self.bytes > WAITING_BYTES
    }
}

impl Standing<'_> {
    /// A notification came; `false`: it is not for the client as it is.
    pub(super) fn notified(&mut self, frame: &Frame<'_>) -> Result<bool, Malformed> {
        let Some(told) = self.notified.told else { return Ok(true) };
        let notification = wire::Notification::read(frame)?;
        if !self.notified.listens && notification.channel == PASS.as_bytes() {
            return Ok(false);
        }
        if self.notified.listens {
            let kept = Notification::from(notification);
            self.notified.bytes += kept.bytes();
            if !self.notified.is_too_much() {
                self.notified.kept.push(Rc::new(kept));
            }
            return Ok(false);
        }
        let pid = pid_for(notification.pid, notification.pid == self.pid, told);
        let mut instead = Vec::new();
        instead.notification(&wire::Notification { pid, ..notification });
        *self.instead = Some(instead.into());
        Ok(false)
    }
}
