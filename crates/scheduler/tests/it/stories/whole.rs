//! The commands about whole reads, acknowledgements, refreshes that lock, and turns at the primary.

use super::{Answer, Args, Story, consistency, number, proof, said};
use history::{DatabaseId, Footprint, Lsn};
use scheduler::{Question, SessionMarks, StandbyId, TurnId, Whole};
use std::sync::Arc;

impl Story {
    pub(super) fn wholes(&mut self, name: &str, args: Args) -> Answer {
        let database = DatabaseId::new(5);
        if matches!(name, "refresh" | "refreshed" | "let_go") {
            let id = StandbyId::new(u32::try_from(number(args)?)?);
            if name == "refreshed" {
                self.scheduler.refreshed(id, database);
                return Ok(String::new());
            }
            if name == "let_go" {
                return Ok(format!("{id}: lets {} go\n", self.scheduler.let_go(id, database)));
            }
            let locked = self.scheduler.refresh(id, database);
            return Ok(format!(
                "{id}: {}\n",
                if locked { "may be refreshed" } else { "waits for its readers" }
            ));
        }
        let what = args.next_pos().ok_or("which one?")?.to_string();
        match name {
            "whole" => self.whole_arrives(what, args),
            "place" => self.whole_place(what),
            "leave" => {
                let id = self.wholes.remove(&what).ok_or("it does not wait")?;
                self.scheduler.whole_leaves(id);
                Ok(String::new())
            }
            "arrival" => {
                let arrival = self.scheduler.arrival(database);
                self.arrivals.insert(what, arrival);
                Ok(String::new())
            }
            _ => {
                let replicas = usize::try_from(number(args)?)?;
                let arrival = self.arrivals.get_mut(&what).ok_or("no such instant")?;
                Ok(said(&what, self.scheduler.shown_by(arrival, replicas)))
            }
        }
    }

    fn whole_arrives(&mut self, what: String, args: Args) -> Answer {
        let question = Question {
            database: DatabaseId::new(5),
            footprint: Arc::new(Footprint::Everything),
            consistency: consistency(args.take_key("level").unwrap_or("strong"))?,
            session: SessionMarks {
                own_commit: Lsn::new(args.take_key("own").unwrap_or("0").parse()?),
                ..SessionMarks::default()
            },
            prefer: None,
            now: self.now,
            at_copies: true,
        };
        match self.scheduler.whole_arrives(&question) {
            Ok(id) => {
                self.wholes.insert(what, id);
                Ok(String::new())
            }
            Err(reason) => Ok(format!("{what}: refused, {}\n", reason.name())),
        }
    }

    fn whole_place(&mut self, what: String) -> Answer {
        let id = *self.wholes.get(&what).ok_or("it does not wait")?;
        Ok(match self.scheduler.whole_place(id) {
            Whole::Wait(reason) => format!("{what}: wait ({})\n", reason.name()),
            Whole::Primary(reason) => {
                self.wholes.remove(&what);
                format!("{what}: primary, {}\n", reason.name())
            }
            Whole::At(ticket) => {
                self.wholes.remove(&what);
                let told = format!("{what}: {}, {}\n", ticket.standby(), proof(&ticket));
                self.reads.insert(what, (ticket, None));
                told
            }
        })
    }

    pub(super) fn turns(&mut self, name: &str, args: Args) -> Answer {
        if name == "turns" {
            let named: Vec<(String, TurnId)> =
                self.turns.iter().map(|(name, id)| (name.clone(), *id)).collect();
            let has = named.into_iter().find(|(_, id)| self.scheduler.has_turn(*id));
            let waiting = self.scheduler.turns_waiting();
            return Ok(format!("{} has it, {waiting} wait\n", has.map_or("nobody".into(), |(name, _)| name)));
        }
        let what = args.next_pos().ok_or("whose turn?")?.to_string();
        if name == "turn" {
            return Ok(match self.scheduler.turn_asked(DatabaseId::new(5)) {
                Ok(id) => {
                    self.turns.insert(what, id);
                    String::new()
                }
                Err(reason) => format!("{what}: refused, {}\n", reason.name()),
            });
        }
        let id = self.turns.remove(&what).ok_or("it asked for none")?;
        if name == "turn_lost" {
            self.scheduler.turn_lost(id)
        } else {
            self.scheduler.turn_ended(id)
        }
        Ok(String::new())
    }
}
