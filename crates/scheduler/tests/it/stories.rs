//! Runs the stories in `tests/scripts`: each shows a way in which a standby's answer could be wrong, and the
//! result here.
//!
//! `UPDATE_GOLDENFILES=1 cargo test -p scheduler` writes the answers again; review them after a change.
//!
//! A footprint is written `t1/t2.c3.k7`: tables joined by `/`, a column by `.c3`, a row by `.k7`, rows that
//! came or went by `.new`, no column by `.none`; `all` is everything. Positions are bytes. `begin` makes the
//! usual start: a primary of incarnation 1, database 5 with a slot at 100, no orphans, a settled snapshot
//! probe with xmax 10, and standby s1, incarnation 1, at 100.

mod whole;

use goldenscript::{ArgumentConsumer, Command, Context};
use history::{
    Access, ColumnSet, Commit, Consistency, DatabaseId, Epoch, Footprint, Incarnation, Key, Lsn, RelationId,
    Rows, Snapshot, Timeline, Xid,
};
use order::{Boundary, DoubtId, Gauge, GaugeNumber};
use scheduler::{
    Arrival, End, Kind, Options, Proof, Question, Ran, Reason, Route, Scheduler, Serving, SessionMarks,
    StandbyId, Ticket, TurnId, Verdict, WholeId, Writers,
};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

type Answer = Result<String, Box<dyn Error>>;
type Args<'a, 'b> = &'a mut ArgumentConsumer<'b>;

struct Story {
    scheduler: Scheduler,
    reads: BTreeMap<String, (Ticket, Option<Ran>)>,
    /// Statements in transactions at s1, each with the snapshot probe that it waits for.
    statements: BTreeMap<String, Option<GaugeNumber>>,
    /// Boundaries by the numbers of their snapshot probes.
    boundaries: BTreeMap<u64, Boundary>,
    /// Whole reads that wait, instants, and turns, by their names in the story.
    wholes: BTreeMap<String, WholeId>,
    arrivals: BTreeMap<String, Arrival>,
    turns: BTreeMap<String, TurnId>,
    now: Duration,
}

fn proof(ticket: &Ticket) -> String {
    match ticket.proof() {
        Proof::Plain => "plain".into(),
        Proof::Positioned(gauge) => format!("by its position and {gauge}"),
        Proof::Before(Some(gauge)) => format!("when it shows what {gauge} sees"),
        Proof::Before(None) => "when nothing is in doubt".into(),
        Proof::Session if ticket.asks_position() => "its position is remembered".into(),
        Proof::Session => "what it can have shown is remembered".into(),
        Proof::Unproven => "unproven".to_string(),
    }
}

#[test]
fn stories() -> std::io::Result<()> {
    let paths = std::fs::read_dir("tests/scripts")?.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<_> = paths.collect::<std::io::Result<_>>()?;
    paths.sort();
    assert!(paths.len() > 12, "the stories are there");
    for path in paths {
        goldenscript::run(&mut Story::new(Options::default()), path)?;
    }
    Ok(())
}

impl goldenscript::Runner for Story {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Answer {
        let mut args = command.consume_args();
        let name = command.name.as_str();
        let said = match name {
            "options" => self.options(&mut args)?,
            "begin" | "primary" | "send" | "gauge" | "look" | "at" => self.gauges(name, &mut args)?,
            "slot" | "commit" | "ddl" | "decoded_to" | "confirmable" | "kept" | "opened" => {
                self.log(name, &mut args)?
            }
            "standby" | "mark" | "serve" | "unserve" | "mark_lost" | "standbys" | "mark_wanted" => {
                self.standbys(name, &mut args)?
            }
            "read" | "locked" | "ran" | "judge" | "deliver" | "give_up" => self.reads(name, &mut args)?,
            "catalog" => self.catalog(&mut args)?,
            "fed" | "takes" | "holds" | "leaves" | "shows" | "keeps" | "left" | "loses" | "distrusted"
            | "trusted" => self.fed(name, &mut args)?,
            "boundaries" => self.boundaries(),
            "ready" => self.ready(&mut args)?,
            "whole" | "place" | "leave" | "arrival" | "shown_by" | "refresh" | "refreshed" | "let_go" => {
                self.wholes(name, &mut args)?
            }
            "turn" | "turns" | "turn_ended" | "turn_lost" => self.turns(name, &mut args)?,
            "forget" => {
                self.scheduler.forget_slot(DatabaseId::new(5));
                String::new()
            }
            _ => self.doubts(name, &mut args)?,
        };
        args.reject_next()?;
        self.scheduler.order().audit();
        self.scheduler.audit_whole();
        Ok(said)
    }
}

impl Story {
    fn new(options: Options) -> Story {
        Story {
            scheduler: Scheduler::new(options),
            reads: BTreeMap::new(),
            statements: BTreeMap::new(),
            boundaries: BTreeMap::new(),
            wholes: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            turns: BTreeMap::new(),
            now: Duration::ZERO,
        }
    }

    fn options(&mut self, args: Args) -> Answer {
        let mut options = Options::default();
        while let Some((name, value)) = args.next_key() {
            match name {
                "writers" => options.writers = writers(value)?,
                "rows" => options.max_rows = value.parse()?,
                "tables" => options.max_tables = value.parse()?,
                "recent" => options.max_recent = value.parse()?,
                "unseen" => options.max_unseen = value.parse()?,
                "wholes" => options.max_whole_reads = value.parse()?,
                "turns" => options.max_turns = value.parse()?,
                "locks" => options.refresh_locks = value.parse()?,
                _ => return Err(format!("no option {name}").into()),
            }
        }
        while let Some(bug) = args.next_pos() {
            plant(&mut options, bug)?;
        }
        *self = Story::new(options);
        Ok(String::new())
    }

    fn gauges(&mut self, name: &str, args: Args) -> Answer {
        match name {
            "at" => self.now = Duration::from_millis(number(args)?),
            "primary" => self.scheduler.order_mut().incarnate(incarnation(args)?),
            "begin" => {
                self.scheduler.order_mut().incarnate(incarnation(args)?);
                self.scheduler.slot_opened(DatabaseId::new(5), Lsn::new(100));
                self.scheduler.order_mut().orphans_gone();
                let number = self.scheduler.gauge_to_send(self.now).ok_or("a gauge is wanted")?;
                let snapshot = Snapshot::new(Xid::new(10), Vec::new());
                let gauge = Gauge { incarnation: incarnation(args)?, snapshot, insert_lsn: Lsn::new(100) };
                self.scheduler.gauge_answered(number, gauge)?;
                let id = StandbyId::new(1);
                self.scheduler.standby_joined(id, 1);
                self.scheduler.standby_marked(id, incarnation(args)?, Lsn::new(100));
                self.scheduler.standby_serving(id, Serving::Yes);
            }
            "send" => {
                let sent = self.scheduler.gauge_to_send(self.now);
                return Ok(sent.map_or("nothing to send\n".into(), |number| format!("{number} is sent\n")));
            }
            "gauge" => {
                let number = GaugeNumber::new(number(args)?);
                return self.answer(number, args);
            }
            _ => {
                self.scheduler.order_mut().want_gauge();
                let number = self.scheduler.gauge_to_send(self.now).ok_or("one is in flight")?;
                return self.answer(number, args);
            }
        }
        Ok(String::new())
    }

    fn answer(&mut self, number: GaugeNumber, args: Args) -> Answer {
        let xmax = Xid::new(args.take_key("xmax").ok_or("xmax")?.parse()?);
        let running = args.take_key("running").unwrap_or("");
        let running = running.split('/').filter(|xid| !xid.is_empty());
        let running = running.map(|xid| Ok(Xid::new(xid.parse()?))).collect::<Result<_, Box<dyn Error>>>()?;
        let gauge = Gauge {
            incarnation: incarnation(args)?,
            snapshot: Snapshot::new(xmax, running),
            insert_lsn: position(args, "lsn")?,
        };
        let void = self.scheduler.gauge_answered(number, gauge).err();
        Ok(void.map_or_else(String::new, |void| format!("void: {void}\n")))
    }

    fn log(&mut self, name: &str, args: Args) -> Answer {
        let database = DatabaseId::new(args.take_key("db").unwrap_or("5").parse()?);
        match name {
            "slot" => self.scheduler.slot_opened(database, position(args, "from")?),
            "decoded_to" => self.scheduler.decoded_to(database, Lsn::new(number(args)?)),
            "confirmable" => {
                let at = self.scheduler.confirmable(database);
                return Ok(at.map_or("nothing yet\n".into(), |at| format!("{}\n", at.get())));
            }
            "opened" => {
                let wanted = self.scheduler.catalog_at(database, Lsn::new(number(args)?));
                return Ok(match wanted {
                    Lsn::MAX => "none goes on\n".into(),
                    Lsn::ZERO => "all go on\n".into(),
                    wanted => format!("those go on that were opened at {} or later\n", wanted.get()),
                });
            }
            "kept" => {
                let (rows, tables, recent, unseen) = self.scheduler.kept();
                return Ok(format!(
                    "{rows} rows, {tables} tables, {recent} recent commits, {unseen} unseen\n"
                ));
            }
            _ => {
                let commit = Commit {
                    database,
                    xid: Xid::new(number(args)?),
                    start: position(args, "start")?,
                    end: position(args, "end")?,
                    wrote: footprint(args.take_key("wrote").unwrap_or("t1"), true)?,
                };
                let closed = self.scheduler.writers() == Writers::ThroughConsort;
                let decoded =
                    if name == "ddl" { self.scheduler.ddl(commit) } else { self.scheduler.decoded(commit) };
                let mut said = String::new();
                for (so, word) in [
                    (!decoded.fresh, "known\n"),
                    (closed && !decoded.explained, "no doubt explains it\n"),
                    (decoded.switched.is_some(), "writers are anywhere from here on\n"),
                ] {
                    said.push_str(if so { word } else { "" });
                }
                return Ok(said);
            }
        }
        Ok(String::new())
    }

    fn standbys(&mut self, name: &str, args: Args) -> Answer {
        if name == "standbys" {
            return Ok(self.show_standbys());
        }
        let id = StandbyId::new(u32::try_from(number(args)?)?);
        match name {
            "standby" => {
                self.scheduler.standby_joined(id, args.take_key("weight").unwrap_or("1").parse()?);
                self.scheduler.standby_serving(id, Serving::Yes);
            }
            "mark" => {
                let at = Lsn::new(number(args)?);
                self.scheduler.standby_marked(id, incarnation(args)?, at);
            }
            "serve" => self.scheduler.standby_serving(id, Serving::Yes),
            "unserve" => self.scheduler.standby_serving(id, Serving::No("it is told so".into())),
            "mark_wanted" => return Ok(format!("{}\n", self.scheduler.mark_wanted(id))),
            _ => self.scheduler.standby_lost(id),
        }
        Ok(String::new())
    }

    fn show_standbys(&self) -> String {
        let mut said = String::new();
        for standby in self.scheduler.standbys() {
            let shows = standby.shows.get(&DatabaseId::new(5)).map(|mark| mark.version.to_string());
            let mark = standby.mark.map(|mark| mark.get().to_string()).or(shows).unwrap_or("unknown".into());
            let refused: Vec<_> =
                standby.refused.iter().map(|(reason, count)| format!(" {}={count}", reason.name())).collect();
            let _ = writeln!(
                said,
                "{} mark={mark} {:?} pending={} served={}{}",
                standby.id,
                standby.serving,
                standby.pending,
                standby.served,
                refused.concat()
            );
        }
        said
    }

    /// Reported state of a logical replica: what it shows and keeps of database 5.
    fn fed(&mut self, name: &str, args: Args) -> Answer {
        let id = StandbyId::new(u32::try_from(number(args)?)?);
        let database = DatabaseId::new(5);
        match name {
            "fed" => {
                self.scheduler.fed_joined(id, args.take_key("weight").unwrap_or("1").parse()?);
                self.scheduler.standby_serving(id, Serving::Yes);
                self.scheduler.fed_takes(id, database);
            }
            "takes" => self.scheduler.fed_takes(id, database),
            "holds" => {
                let mut tables = BTreeSet::new();
                while let Some(table) = args.next_pos() {
                    tables.insert(RelationId::new(table.trim_start_matches('t').parse()?));
                }
                self.scheduler.fed_holds(id, database, tables);
            }
            "leaves" => self.scheduler.fed_leaves(id, database),
            "loses" => self.scheduler.fed_lost(id, database),
            "distrusted" => self.scheduler.fed_distrusted(id, database),
            "trusted" => self.scheduler.fed_trusted(id, database),
            "keeps" => self.scheduler.fed_keeps(id, database, Lsn::new(number(args)?)),
            "left" => self.scheduler.replica_left(id),
            _ => {
                let boundary = self.boundaries.get(&number(args)?).ok_or("no such boundary was taken")?;
                self.scheduler.fed_shows(id, incarnation(args)?, boundary);
            }
        }
        Ok(String::new())
    }

    fn boundaries(&mut self) -> String {
        let mut said = String::new();
        for boundary in self.scheduler.take_boundaries() {
            let (run, number, reached) = (boundary.run, boundary.number, boundary.reached);
            let _ = writeln!(said, "{run} {number} at {reached}, {} commits", boundary.commits.len());
            self.boundaries.insert(number.get(), boundary);
        }
        if said.is_empty() { "none\n".into() } else { said }
    }

    /// Shows if a read may be sent.
    fn ready(&mut self, args: Args) -> Answer {
        let read = args.next_pos().ok_or("which read?")?.to_string();
        let (mut ticket, ran) = self.reads.remove(&read).ok_or("no such read")?;
        let verdict = self.scheduler.ready(&mut ticket);
        Ok(match verdict {
            Verdict::Refused(reason) => {
                self.scheduler.finish(ticket, End::Refused(reason));
                said(&read, verdict)
            }
            Verdict::Wait(_) => {
                self.reads.insert(read.clone(), (ticket, ran));
                said(&read, verdict)
            }
            Verdict::Proven => {
                let told = format!("{read}: {} is ready\n", ticket.standby());
                self.reads.insert(read, (ticket, ran));
                told
            }
        })
    }

    fn reads(&mut self, name: &str, args: Args) -> Answer {
        let read = args.next_pos().ok_or("which read?")?.to_string();
        if name == "read" {
            return self.route(read, args);
        }
        if matches!(name, "deliver" | "give_up") {
            let (ticket, ran) = self.reads.remove(&read).ok_or("no such read")?;
            let seen = ran.and_then(|ran| ticket.seen(&ran));
            let end = if name == "deliver" { End::Delivered } else { End::Refused(Reason::TimedOut) };
            self.scheduler.finish(ticket, end);
            let seen = seen.filter(|_| name == "deliver");
            return Ok(seen.map_or_else(String::new, |seen| format!("{read} has seen {}\n", seen.get())));
        }
        if name == "locked" {
            let (ticket, _) = self.reads.get_mut(&read).ok_or("no such read")?;
            self.scheduler.prove_anew(ticket);
            return Ok(format!("{read}: {}\n", proof(ticket)));
        }
        let (mut ticket, ran) = self.reads.remove(&read).ok_or("no such read")?;
        let ran = if name == "ran" {
            let replayed = args.next_pos().map(|at| at.parse()).transpose()?.map(Lsn::new);
            let locked = match args.take_key("locked") {
                None => replayed,
                Some("none") => None,
                Some(at) => Some(Lsn::new(at.parse()?)),
            };
            Ran { incarnation: incarnation(args)?, replayed, locked }
        } else {
            ran.ok_or("it has not run")?
        };
        let verdict = self.scheduler.judge(&mut ticket, &ran);
        let said = said(&read, verdict);
        match verdict {
            Verdict::Refused(reason) => self.scheduler.finish(ticket, End::Refused(reason)),
            _ => drop(self.reads.insert(read, (ticket, Some(ran)))),
        }
        Ok(said)
    }

    fn route(&mut self, read: String, args: Args) -> Answer {
        let seen_at = args.take_key("seen_at").map(|id| id.trim_start_matches('s').parse()).transpose()?;
        let question = Question {
            database: DatabaseId::new(args.take_key("db").unwrap_or("5").parse()?),
            footprint: Arc::new(footprint(args.next_pos().ok_or("footprint")?, false)?),
            consistency: consistency(args.take_key("level").unwrap_or("strong"))?,
            session: SessionMarks {
                own_commit: Lsn::new(args.take_key("own").unwrap_or("0").parse()?),
                last_seen: Lsn::new(args.take_key("seen").unwrap_or("0").parse()?),
                seen_at: seen_at.map(StandbyId::new).zip(incarnation(args).ok()),
                not_before: Lsn::new(args.take_key("not_before").unwrap_or("0").parse()?),
            },
            prefer: args
                .take_key("prefer")
                .map(|id| id.trim_start_matches('s').parse())
                .transpose()?
                .map(StandbyId::new),
            now: self.now,
            at_copies: args.take_key("copies") != Some("no"),
        };
        Ok(match self.scheduler.route(&question) {
            Route::Primary(reason) => format!("{read}: primary, {}\n", reason.name()),
            Route::Standby(ticket) => {
                let proof = proof(&ticket);
                let low = match ticket.kind() {
                    Kind::Standby => format!("low {}, ", ticket.low().get()),
                    Kind::Fed => String::new(),
                };
                let said = format!("{read}: {}, {low}{proof}\n", ticket.standby());
                self.reads.insert(read, (ticket, None));
                said
            }
        })
    }

    /// A statement arrives in a transaction that runs at s1, or asks again.
    fn catalog(&mut self, args: Args) -> Answer {
        let statement = args.next_pos().ok_or("statement")?.to_owned();
        let wanted = self.statements.entry(statement.clone()).or_default();
        let place = (StandbyId::new(1), incarnation(args)?);
        Ok(said(&statement, self.scheduler.catalog_shown(DatabaseId::new(5), place, wanted)))
    }

    fn doubts(&mut self, name: &str, args: Args) -> Answer {
        match name {
            "doubt" => {
                let wrote = footprint(args.next_pos().ok_or("footprint")?, true)?;
                return Ok(format!("{}\n", self.scheduler.order_mut().doubt(DatabaseId::new(5), wrote)));
            }
            "answered" => self.scheduler.order_mut().answered(DoubtId::new(number(args)?)),
            "connection_lost" => self.scheduler.order_mut().connection_lost(DoubtId::new(number(args)?)),
            "gone" => self.scheduler.order_mut().backend_gone(DoubtId::new(number(args)?)),
            "orphans_gone" => self.scheduler.order_mut().orphans_gone(),
            "primary_lost" => self.scheduler.order_mut().primary_lost(),
            "close" => self.scheduler.close(),
            "open" => self.scheduler.open(),
            "slot_closed" => self.scheduler.order_mut().slot_closed(DatabaseId::new(5)),
            "foreign_login" => return Ok(format!("{}\n", self.scheduler.foreign_login())),
            "writers" => match args.next_pos() {
                Some(mode) => self.scheduler.set_writers(writers(mode)?),
                None => return Ok(format!("{:?}\n", self.scheduler.writers())),
            },
            _ => return Err(format!("no command {name}").into()),
        }
        Ok(String::new())
    }
}

fn said(read: &str, verdict: Verdict) -> String {
    match verdict {
        Verdict::Proven => format!("{read}: proven\n"),
        Verdict::Wait(reason) => format!("{read}: wait ({})\n", reason.name()),
        Verdict::Refused(reason) => format!("{read}: refused, {}\n", reason.name()),
    }
}

fn writers(name: &str) -> Result<Writers, Box<dyn Error>> {
    match name {
        "through" => Ok(Writers::ThroughConsort),
        "anywhere" => Ok(Writers::Anywhere),
        _ => Err(format!("no mode {name}").into()),
    }
}

fn consistency(name: &str) -> Result<Consistency, Box<dyn Error>> {
    Ok(match name {
        "strong" => Consistency::Strong,
        "session" => Consistency::Session,
        "weak" => Consistency::Weak,
        "primary" => Consistency::Primary,
        bounded => Consistency::Bounded(Duration::from_millis(bounded.parse()?)),
    })
}

/// Plants a bug of the scheduler, or of the order where the scheduler has none of this name.
fn plant(options: &mut Options, name: &str) -> Result<(), Box<dyn Error>> {
    let planted = match name {
        "index_restart_without_floor" => options.bugs.plant_named("restart_without_floor"),
        "restart_without_floor" => options.order.bugs.plant_named(name),
        _ => options.bugs.plant_named(name) || options.order.bugs.plant_named(name),
    };
    if planted { Ok(()) } else { Err(format!("no bug {name}").into()) }
}

fn number(args: Args) -> Result<u64, Box<dyn Error>> {
    let text = args.next_pos().ok_or("a number is missing")?;
    Ok(text.trim_start_matches(|letter: char| letter.is_alphabetic()).parse()?)
}

fn position(args: Args, name: &str) -> Result<Lsn, Box<dyn Error>> {
    Ok(Lsn::new(args.take_key(name).ok_or(name)?.parse()?))
}

/// `life=2 epoch=1`; both 1 unless said.
fn incarnation(args: Args) -> Result<Incarnation, Box<dyn Error>> {
    let started_us = args.take_key("life").unwrap_or("1").parse()?;
    let epoch = Epoch::new(args.take_key("epoch").unwrap_or("1").parse()?);
    Ok(Incarnation { epoch, timeline: Timeline::new(1), started_us })
}

fn footprint(text: &str, writes: bool) -> Result<Footprint, Box<dyn Error>> {
    if text == "all" {
        return Ok(Footprint::Everything);
    }
    let mut footprint = Footprint::NOTHING;
    for table in text.split('/').filter(|table| *table != "none") {
        let mut parts = table.split('.');
        let table = RelationId::new(parts.next().unwrap_or("").trim_start_matches('t').parse()?);
        let (mut columns, mut keys) = (Vec::new(), BTreeSet::new());
        let (mut existence, mut none, mut plain) = (false, false, true);
        for part in parts {
            plain = false;
            match part.split_at(1) {
                ("c", column) => columns.push(column.parse()?),
                ("k", key) => drop(keys.insert(Key::new(key.parse()?))),
                _ if part == "new" => existence = true,
                _ if part == "none" => none = true,
                _ => return Err(format!("what is {part}?").into()),
            }
        }
        let columns = if columns.is_empty() && !none { ColumnSet::All } else { ColumnSet::of(columns) };
        let rows = if keys.is_empty() { Rows::All } else { Rows::Keys(keys) };
        footprint.add(table, Access { columns, rows, existence: existence || (writes && plain) });
    }
    Ok(footprint)
}
