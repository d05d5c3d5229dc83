//! A session that shares connections and listens (LISTEN): it hears over the listening connection of its database, and keeps no
//! connection for that. What it listens to, the server alone decides: while the session has a connection, that listens too, so
//! that whatever LISTEN, UNLISTEN, DISCARD ALL, a rollback or code does there is what one server does, and
//! `pg_listening_channels()` is right. Behind each transaction it is asked.
//!
//! ```text
//!   comes            LISTEN what the session hears; the listening connection comes up
//!   a transaction    what is notified is kept, and so is its ReadyForQuery
//!   its end          if something was notified: the listening connection comes up to that. Then the client hears it, and
//!                    that its transaction is over
//!   a read leaves    before: the listening connection comes up, and the client hears what was notified
//!   leaves           what does it listen to? UNLISTEN *; if there is something new, it passes (`listening/mod.rs`)
//! ```

use super::{Ended, Session};
use backend::listening::{Ear, Names, Notification, PASS};
use conn::registry::{Leave, Seat};
use postgres::sql::quoted;
use session_state::Dirt;
use std::rc::Rc;
use wire::{Answers, Complaint, Frame, Problem, Status};

/// What PostgreSQL says of a statement that was cancelled.
const CANCELLED: &[u8] = b"57014";

/// Who listens to more keeps its connection.
const MOST_CHANNELS: usize = 256;

/// What the session's process listens to.
const CHANNELS: &str = "SELECT pg_catalog.pg_listening_channels()";

impl Session {
    /// Its connection listens to what the session hears, before anything runs there.
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
        // If that cannot come up, the session has been told to go, and does so behind this request.
        let both = async { tokio::join!(self.all_asked(), ear.come_up()).0 };
        match unless_sent_away(&seat, both).await? {
            None => Ok(()),
            Some(error) => self.listens_in_part(&error).await,
        }
    }

    /// Its connection does not listen to all that the session hears, because of this error: nothing runs there.
    async fn listens_in_part(&mut self, error: &[u8]) -> Result<(), Ended> {
        // Another cancel request is not to meet this.
        let unreached = self.line.seat.running.clone().unreached().await;
        self.line.primary.ask("UNLISTEN *");
        let failed = self.all_asked().await?;
        drop(unreached);
        if failed.is_none() {
            self.line.primary.notified.listens = false;
            let is_cancelled =
                Frame::new(error).is_ok_and(|frame| Complaint::read(&frame).sqlstate() == CANCELLED);
            // A transaction whose BEGIN is owed has not begun there.
            let is_between = self.line.status() == Status::Idle || self.txn.is_owed();
            if is_cancelled && is_between {
                return Err(Ended::Cancelled);
            }
        }
        let problem = Problem::fatal("08006", "a connection at the primary does not listen for the session");
        self.line.client.out().problem(&problem);
        Err(Ended::NoServer)
    }

    /// All that was asked is answered: the last error, if something failed.
    async fn all_asked(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        self.line.primary.own_error();
        self.line.settled().await?;
        Ok(self.line.primary.own_error())
    }

    /// What was asked behind a transaction has failed, by a late cancel request: the session keeps its connection, and what that
    /// listens to is asked again behind the next one.
    fn listens_here_for_now(&mut self) {
        self.state.dirtied(Dirt::Listen);
    }

    /// A probe has found that the session's process listens: for us, and what else there is shows when it is asked.
    pub(super) fn listens_for_us(&mut self) {
        if self.line.primary.notified.listens {
            self.state.hears_elsewhere();
        }
    }

    /// The end of a transaction at a connection that listens: its client hears what was notified by then, and that it is over.
    pub(super) async fn hear_and_be_ready(&mut self) -> Result<(), Ended> {
        if !self.line.primary.notified.take_ready() {
            return Ok(());
        }
        let heard = self.hear_all().await;
        self.line.client.out().ready(Status::Idle);
        self.line.send().await?;
        heard
    }

    /// Before a read that leaves: at one server its client would hear, no later than of its end, what was notified before it asked.
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
            // It hears nothing of what it has ceased to listen to.
            self.hear_elsewhere().await?;
        }
        while self.line.hear() {
            self.line.send().await?;
        }
        Ok(())
    }

    /// Behind a transaction: what the session's connection listens to is heard elsewhere from now on, if that can be.
    pub(super) async fn hear_elsewhere(&mut self) -> Result<(), Ended> {
        // What is heard elsewhere is UTF-8.
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

    /// What it listens to is heard elsewhere: its connection need not listen, and nothing that it hears is the client's.
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

    /// What it listens to is heard elsewhere already.
    async fn hear_the_same(&mut self, there: Names) -> Result<(), Ended> {
        self.listen_here_no_more("UNLISTEN *").await?;
        if there.is_empty() {
            self.line.ear = None;
        } else if let Some(ear) = &self.line.ear {
            ear.keeps(there);
        }
        Ok(())
    }

    /// Goes over from its connection to the listening one, or back: `leaves`.
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
                tracing::warn!(database, %error, "a session that listens keeps its connection: nothing else can listen for it");
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

    /// It could not go over, by a late cancel request, and tries again behind its next transaction.
    fn passes_later(&mut self) -> Result<(), Ended> {
        if self.line.ear.is_none() {
            let notified = &mut self.line.primary.notified;
            notified.listens = false;
            let (told, pid) = (notified.told.unwrap_or_default(), self.line.primary.key.pid);
            let kept = self.line.primary.notified.take_kept();
            let out = self.line.client.out();
            // Others pass meanwhile.
            for notification in kept.iter().filter(|notification| &*notification.channel != PASS.as_bytes()) {
                notification.write(out, notification.pid == pid, told);
            }
        }
        self.listens_here_for_now();
        Ok(())
    }

    /// It hears over its connection again.
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

/// Waits until it has come up. Else its session must go.
async fn comes_up(ear: &Ear) -> Result<(), Ended> {
    ear.come_up().await.map_err(|_| Ended::SentAway(Leave::Unheard))
}

/// Waits for something, no longer than the session may stay.
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
