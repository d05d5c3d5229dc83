//! A pooled session that listens (LISTEN). Notifications reach it over the listening connection of its
//! database, so that it is not pinned. The server alone decides to which channels it listens. While the
//! session is attached, its connection listens too. So LISTEN, UNLISTEN, DISCARD ALL, a rollback or code have
//! the same effect as at one server, and `pg_listening_channels()` is right. After each transaction the
//! session queries the channels.
//!
//! ```text
//!   attaches         LISTEN to the session's channels; the listening connection catches up
//!   a transaction    notifications are kept, and so is its ReadyForQuery
//!   its end          if there are notifications: the listening connection catches up to them. Then the
//!                    client receives them, and then that its transaction is over
//!   offloaded read   before: the listening connection catches up, and the client receives the notifications
//!   detaches         query the channels; UNLISTEN *; for new channels a pass (`listening/mod.rs`)
//! ```

use super::{Ended, Session};
use backend::listening::{Ear, Names, Notification, PASS};
use conn::registry::{Leave, Seat};
use postgres::sql::quoted;
use session_state::Dirt;
use std::rc::Rc;
use wire::{Answers, Complaint, Frame, Problem, Status};

/// SQLSTATE of a cancelled statement.
const CANCELLED: &[u8] = b"57014";

/// Maximum number of channels of a session that is not pinned.
const MOST_CHANNELS: usize = 256;

/// Query for the channels to which the session's backend listens.
const CHANNELS: &str = "SELECT pg_catalog.pg_listening_channels()";

impl Session {
    /// Makes the attached connection listen to the session's channels, before a statement runs there.
    pub(super) async fn listen_there(&mut self) -> Result<(), Ended> {
        let line = &mut self.line;
        let Some(ear) = line.ear.clone() else { return Ok(()) };
        let is_between = line.primary.status == Status::Idle && line.primary.is_settled();
        if line.lent.is_none() || line.primary.notified.listens || !is_between {
            return Ok(());
        }
        line.primary.notified.listens = true;
        for channel in ear.channels() {
            line.primary.ask(&format!("LISTEN {}", quoted(&channel)));
        }
        let seat = self.line.seat.clone();
        // If the listening connection cannot catch up, the session has a signal to end, and ends after this
        // request.
        let both = async { tokio::join!(self.all_asked(), ear.come_up()).0 };
        match unless_sent_away(&seat, both).await? {
            None => Ok(()),
            Some(error) => self.listens_in_part(&error).await,
        }
    }

    /// Handles the error that the connection does not listen to all of the session's channels: no statement
    /// runs there.
    async fn listens_in_part(&mut self, error: &[u8]) -> Result<(), Ended> {
        // No other cancel request may hit this statement.
        let unreached = self.line.seat.running.clone().unreached().await;
        self.line.primary.ask("UNLISTEN *");
        let failed = self.all_asked().await?;
        drop(unreached);
        if failed.is_none() {
            self.line.primary.notified.listens = false;
            let is_cancelled =
                Frame::new(error).is_ok_and(|frame| Complaint::read(&frame).sqlstate() == CANCELLED);
            // A transaction with a deferred BEGIN has not begun there.
            let is_between = self.line.status() == Status::Idle || self.txn.is_owed();
            if is_cancelled && is_between {
                return Err(Ended::Cancelled);
            }
        }
        let problem = Problem::fatal("08006", "cannot listen for the session at the primary");
        self.line.client.out().problem(&problem);
        Err(Ended::NoServer)
    }

    /// Waits for all answers. Returns the last error, if a query failed.
    async fn all_asked(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        self.line.primary.own_error();
        self.line.settled().await?;
        Ok(self.line.primary.own_error())
    }

    /// Pins the session for now: a late cancel request has failed the query for its channels. The query is
    /// repeated after the next transaction.
    fn listens_here_for_now(&mut self) {
        self.state.dirtied(Dirt::Listen);
    }

    /// Records that a probe has found the session's backend listening: for Consort, and a query shows if the
    /// client has other channels.
    pub(super) fn listens_for_us(&mut self) {
        if self.line.primary.notified.listens {
            self.state.hears_elsewhere();
        }
    }

    /// Ends a transaction at a connection that listens: the client receives the notifications up to then, and
    /// then that the transaction is over.
    pub(super) async fn hear_and_be_ready(&mut self) -> Result<(), Ended> {
        if !self.line.primary.notified.take_ready() {
            return Ok(());
        }
        let heard = self.hear_all().await;
        self.line.client.out().ready(Status::Idle);
        self.line.send().await?;
        heard
    }

    /// Delivers notifications before an offloaded read. At one server the client would receive, at the latest
    /// with the end of the read, every notification from before the read.
    pub(super) async fn hear_before_it_reads(&mut self) -> Result<(), Ended> {
        let Some(ear) = self.line.ear.clone() else { return Ok(()) };
        unless_sent_away(&self.line.seat, comes_up(&ear)).await?;
        while self.line.hear() {
            self.line.send().await?;
        }
        self.reads.behind |= std::mem::take(&mut self.line.has_heard);
        Ok(())
    }

    async fn hear_all(&mut self) -> Result<(), Ended> {
        let Some(ear) = self.line.ear.clone() else { return Ok(()) };
        let notified = &mut self.line.primary.notified;
        if notified.is_too_much() {
            return Err(Ended::SentAway(Leave::Notifications));
        }
        if !notified.kept().is_empty() {
            let pid = self.line.primary.key.pid;
            let is_own = |notification: &Rc<Notification>| {
                notification.pid == pid && notification.is_among(&ear.channels())
            };
            let own = notified.kept().iter().filter(|notification| is_own(notification)).count();
            unless_sent_away(&self.line.seat, comes_up(&ear)).await?;
            ear.are_own(own, pid);
        }
        if self.state.listens() || ear.has_heard() || !self.line.primary.notified.kept().is_empty() {
            // Channels that the session has left bring no more notifications.
            self.hear_elsewhere().await?;
        }
        while self.line.hear() {
            self.line.send().await?;
        }
        Ok(())
    }

    /// Moves the session's channels from its connection to the listening one, after a transaction, if that is
    /// possible.
    pub(super) async fn hear_elsewhere(&mut self) -> Result<(), Ended> {
        // Notifications on the listening connection are UTF-8.
        let utf8 = self.state.text_is_plain("\u{e9}".as_bytes());
        let is_known = !self.state.listens() || self.shares.listens_here == Some(utf8);
        if is_known && !self.line.primary.notified.listens {
            return Ok(());
        }
        self.shares.listens_here = None;
        self.line.primary.answers();
        self.line.primary.ask(CHANNELS);
        if self.all_asked().await?.is_some() {
            self.listens_here_for_now();
            return Ok(());
        }
        let mut there: Names = self.line.primary.answers().into_iter().flatten().map(Box::from).collect();
        there.remove(PASS);
        let heard = self.line.ear.as_ref().map(|ear| ear.channels()).unwrap_or_default();
        let leaves = utf8 && there.len() <= MOST_CHANNELS;
        match leaves {
            true if there.is_subset(&heard) => self.hear_the_same(there).await,
            false if heard.is_empty() => {
                self.shares.listens_here = Some(utf8);
                Ok(())
            }
            _ => self.pass(there, &heard, leaves).await,
        }
    }

    /// Ends listening at the attached connection: the listening one has the channels, and notifications here
    /// are not for the client.
    async fn listen_here_no_more(&mut self, unlisten: &str) -> Result<(), Ended> {
        self.line.primary.ask(unlisten);
        let failed = self.all_asked().await?.is_some();
        let _heard_elsewhere = self.line.primary.notified.take_kept();
        self.line.primary.notified.listens = failed;
        self.state.hears_elsewhere();
        if failed {
            self.listens_here_for_now();
        }
        Ok(())
    }

    /// Handles channels that the listening connection has already.
    async fn hear_the_same(&mut self, there: Names) -> Result<(), Ended> {
        self.listen_here_no_more("UNLISTEN *").await?;
        if there.is_empty() {
            self.line.ear = None;
        } else if let Some(ear) = &self.line.ear {
            ear.keeps(there);
        }
        Ok(())
    }

    /// Passes from the attached connection to the listening one, or back: `leaves`.
    async fn pass(&mut self, there: Names, heard: &Names, leaves: bool) -> Result<(), Ended> {
        let new = || self.service.listeners.ear(self.database.name(), &self.line.seat);
        let ear = self.line.ear.clone().unwrap_or_else(new);
        let becomes = if leaves { there.clone() } else { Names::new() };
        let passes = async { Ok(ear.becomes(becomes).await) };
        let pass = match unless_sent_away(&self.line.seat, passes).await? {
            Ok(pass) => pass,
            Err(_) if self.line.ear.is_some() => return Err(Ended::SentAway(Leave::Unheard)),
            Err(error) => {
                let database = self.database.name();
                tracing::warn!(database, %error, "cannot listen on the shared connection; the session stays pinned");
                self.shares.listens_here = Some(leaves);
                return Ok(());
            }
        };
        self.line.primary.notified.listens = true;
        for command in [format!("LISTEN {PASS}"), format!("NOTIFY {PASS}, '{pass}'")] {
            self.line.primary.ask(&command);
            if self.all_asked().await?.is_some() {
                return self.passes_later();
            }
        }
        unless_sent_away(&self.line.seat, comes_up(&ear)).await?;
        let primary = &mut self.line.primary;
        let (around, pid) = (primary.notified.take_around(&pass), primary.key.pid);
        let Some([before, behind]) = around else { return Err(Ended::SentAway(Leave::Unheard)) };
        ear.passed(before, heard, &there, pid);
        self.line.ear = Some(ear.clone());
        if leaves {
            return self.listen_here_no_more("UNLISTEN *").await;
        }
        ear.add(behind, &there, pid);
        self.come_back(&ear, &there).await
    }

    /// Postpones the pass, which a late cancel request has failed, until after the next transaction.
    fn passes_later(&mut self) -> Result<(), Ended> {
        if self.line.ear.is_none() {
            let notified = &mut self.line.primary.notified;
            notified.listens = false;
            let (told, pid) = (notified.told.unwrap_or_default(), self.line.primary.key.pid);
            let kept = self.line.primary.notified.take_kept();
            let out = self.line.client.out();
            // Other sessions pass meanwhile.
            for notification in kept.iter().filter(|notification| &*notification.channel != PASS.as_bytes()) {
                notification.write(out, notification.pid == pid, told);
            }
        }
        self.listens_here_for_now();
        Ok(())
    }

    /// Moves the session back to listening at its own connection.
    async fn come_back(&mut self, ear: &Ear, there: &Names) -> Result<(), Ended> {
        self.line.primary.ask(&format!("UNLISTEN {PASS}"));
        if self.all_asked().await?.is_some() {
            return Err(Ended::SentAway(Leave::Unheard));
        }
        let primary = &mut self.line.primary;
        ear.add(primary.notified.take_kept(), there, primary.key.pid);
        primary.notified.listens = false;
        while self.line.hear() {
            self.line.send().await?;
        }
        self.line.ear = None;
        self.shares.listens_here = Some(self.state.text_is_plain("\u{e9}".as_bytes()));
        self.state.dirtied(Dirt::Listen);
        Ok(())
    }
}

/// Waits until the listening connection has caught up. If it cannot, the session must end.
async fn comes_up(ear: &Ear) -> Result<(), Ended> {
    ear.come_up().await.map_err(|_| Ended::SentAway(Leave::Unheard))
}

/// Waits for a future, until the session must end at the latest.
async fn unless_sent_away<T>(
    seat: &Seat,
    something: impl Future<Output = Result<T, Ended>>,
) -> Result<T, Ended> {
    tokio::select! {
        biased;
        done = something => done,
        why = seat.sent_away() => Err(Ended::SentAway(why)),
    }
}
