//! A ticket that is given back exactly once, also when its flow is dropped half-way.

use crate::Cluster;
use scheduler::{End, Ran, Reason, Ticket, Verdict};

/// A ticket in use. Dropping it finishes the ticket: the standby's pending count falls, and the history that its proof
/// needs is released. Unless the flow says otherwise it ends as refused, for the reason given by the last verdict.
#[derive(Debug)]
pub struct Pinned<C: Cluster> {
    cluster: C,
    ticket: Option<Ticket>,
    end: End,
}

impl<C: Cluster> Pinned<C> {
    /// Takes the ticket into care.
    pub(crate) fn new(cluster: &C, ticket: Ticket) -> Pinned<C> {
        Pinned { cluster: cluster.clone(), ticket: Some(ticket), end: End::Refused(Reason::StandbyFailed) }
    }

    /// The ticket.
    pub fn ticket(&self) -> &Ticket {
        self.ticket.as_ref().expect("a ticket is taken out by drop alone")
    }

    /// True if it was not let go by a locking refresh: its reads are still of one state.
    pub fn may_read(&self) -> bool {
        self.ticket().pass().is_none_or(|pass| self.cluster.scheduler().may_read(pass))
    }

    /// Decides if its replica shows, as things stand now, all that must be shown before anything is sent.
    pub(crate) fn ready(&mut self) -> Verdict {
        let ticket = self.ticket.as_mut().expect("a ticket is taken out by drop alone");
        let verdict = self.cluster.scheduler().ready(ticket);
        self.remember(verdict)
    }

    /// The verdict, as things stand now, on what ran under the ticket.
    pub(crate) fn judge(&mut self, ran: &Ran) -> Verdict {
        let ticket = self.ticket.as_mut().expect("a ticket is taken out by drop alone");
        let verdict = self.cluster.scheduler().judge(ticket, ran);
        self.remember(verdict)
    }

    fn remember(&mut self, verdict: Verdict) -> Verdict {
        if let Verdict::Wait(reason) | Verdict::Refused(reason) = verdict {
            self.end = End::Refused(reason);
        }
        verdict
    }

    /// Its answer is to be proven for an instant that lies after this one.
    pub(crate) fn prove_anew(&mut self) {
        let ticket = self.ticket.as_mut().expect("a ticket is taken out by drop alone");
        self.cluster.scheduler().prove_anew(ticket);
    }

    /// The standby did not answer.
    pub(crate) fn failed(&mut self, reason: Reason) {
        self.end = End::Refused(reason);
    }

    /// Its answer has left for the client.
    pub(crate) fn delivered(&mut self) {
        self.end = End::Delivered;
    }
}

impl<C: Cluster> Drop for Pinned<C> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let holds_back = ticket.pass().is_some();
            self.cluster.scheduler().finish(ticket, self.end);
            if holds_back {
                // A refresh may wait for it.
                self.cluster.moved();
            }
        }
    }
}
