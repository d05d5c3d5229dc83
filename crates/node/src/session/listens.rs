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
//!   leaves           what does it listen to? UNLISTEN *; if there is something new, it passes (`listening/mod.rs`)
//! ```

use super::{Ended, Session};
use crate::door::{Leave, Seat};
use crate::listening::{Ear, Names, Notification, PASS};
use postgres::listening::quoted;
use std::rc::Rc;
use wire::{Answers, Problem, Status};

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
        unless_sent_away(&seat, both).await
    }

    /// All that was asked is answered, and nothing has failed.
    async fn all_asked(&mut self) -> Result<(), Ended> {
        self.line.primary.own_error();
        self.line.settled().await?;
        if self.line.primary.own_error().is_none() {
            return Ok(());
        }
        let problem = Problem::fatal("08006", "a connection at the primary does not listen for the session");
        self.line.client.out().problem(&problem);
        Err(Ended::NoServer)
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
        self.shares.listens_here &= self.state.listens();
        if !self.line.primary.notified.listens && (!self.state.listens() || self.shares.listens_here) {
            return Ok(());
        }
        self.line.primary.answers();
        self.line.primary.ask(CHANNELS);
        self.all_asked().await?;
        let there: Names = self.line.primary.answers().into_iter().flatten().map(Box::from).collect();
        let heard = self.line.ear.as_ref().map(|ear| ear.channels()).unwrap_or_default();
        // What is heard elsewhere is UTF-8.
        let leaves = there.len() <= MOST_CHANNELS && self.state.text_is_plain("\u{e9}".as_bytes());
        match leaves {
            true if there.is_subset(&heard) => self.hear_the_same(there).await,
            false if heard.is_empty() => {
                self.shares.listens_here = true;
                Ok(())
            }
            _ => self.pass(there, &heard, leaves).await,
        }
    }

    /// What it listens to is heard elsewhere already.
    async fn hear_the_same(&mut self, there: Names) -> Result<(), Ended> {
        if self.line.primary.notified.listens || !there.is_empty() {
            self.line.primary.ask("UNLISTEN *");
            self.all_asked().await?;
        }
        let _heard_elsewhere = self.line.primary.notified.take_kept();
        self.line.primary.notified.listens = false;
        self.state.hears_elsewhere();
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
                self.shares.listens_here = true;
                return Ok(());
            }
        };
        let primary = &mut self.line.primary;
        primary.notified.listens = true;
        primary.ask(&format!("LISTEN {PASS}"));
        primary.ask(&format!("NOTIFY {PASS}, '{pass}'"));
        primary.ask(if leaves { "UNLISTEN *" } else { "UNLISTEN consort_pass" });
        self.all_asked().await?;
        unless_sent_away(&self.line.seat, comes_up(&ear)).await?;
        let primary = &mut self.line.primary;
        let (around, pid) = (primary.notified.take_around(&pass), primary.key.pid);
        let Some([before, behind]) = around else { return Err(Ended::SentAway(Leave::Unheard)) };
        primary.notified.listens = false;
        ear.passed(before, heard, &there, pid);
        self.state.hears_elsewhere();
        self.line.ear = Some(ear.clone());
        if !leaves {
            ear.add(behind, &there, pid);
            while self.line.hear() {
                self.line.send().await?;
            }
            self.line.ear = None;
            self.shares.listens_here = true;
            self.state.dirtied(analysis::session::Dirt::Listen);
        }
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
