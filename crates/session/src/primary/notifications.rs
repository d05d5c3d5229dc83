//! Notifications at a pooled connection. While it listens for a session that uses the listening connection
//! (`session/notifications.rs`), it keeps notifications, and the end of the transaction that they came with.

use super::answers::Standing;
use backend::listening::{Notification, PASS, WAITING_BYTES, pid_for};
use std::rc::Rc;
use wire::{Answers, Frame, Malformed, Status};

/// Treatment of notifications at a connection.
#[derive(Debug, Default)]
pub(crate) struct Notified {
    /// Process number that the client knows as its backend's, which is not this backend's. `None`: the
    /// connection is the session's own.
    pub(crate) told: Option<i32>,
    /// True if the connection listens for a session that uses the listening connection.
    pub(crate) listens: bool,
    kept: Vec<Rc<Notification>>,
    bytes: usize,
    /// True if the end of the transaction is withheld from the client.
    held_ready: bool,
}

impl Notified {
    /// Withholds the end of a transaction until the client has received the notifications before it. `false`:
    /// the client receives it at once.
    pub(crate) fn holds_ready(&mut self, status: Status) -> bool {
        let holds = self.listens && status == Status::Idle;
        self.held_ready |= holds;
        holds
    }

    /// Returns, once, if the end of a transaction is withheld.
    pub(crate) fn take_ready(&mut self) -> bool {
        std::mem::take(&mut self.held_ready)
    }

    /// Kept notifications.
    pub(crate) fn kept(&self) -> &[Rc<Notification>] {
        &self.kept
    }

    /// Takes the kept notifications.
    pub(crate) fn take_kept(&mut self) -> Vec<Rc<Notification>> {
        self.bytes = 0;
        std::mem::take(&mut self.kept)
    }

    /// Takes the kept notifications in two parts: before the notification of this pass, and after it. `None`:
    /// it has not come.
    pub(crate) fn take_around(&mut self, pass: &str) -> Option<[Vec<Rc<Notification>>; 2]> {
        let mut before = self.take_kept();
        let is_pass = |notification: &Rc<Notification>| {
            &*notification.channel == PASS.as_bytes() && &*notification.payload == pass.as_bytes()
        };
        let at = before.iter().position(is_pass)?;
        let behind = before.split_off(at).split_off(1);
        Some([before, behind])
    }

    /// True if more notifications came than are kept: a session that sends itself more, or takes so long,
    /// must end.
    pub(crate) fn is_too_much(&self) -> bool {
        self.bytes > WAITING_BYTES
    }
}

impl Standing<'_> {
    /// Handles a notification; `false`: the client does not receive it as it is.
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
