//! Runs the stories in `tests/scripts`: each shows a way in which an answer could be wrong, and the order's
//! answer.
//!
//! `UPDATE_GOLDENFILES=1 cargo test -p order` writes the answers again; review them after a change.
//!
//! A footprint is written `t1/t2.c3.k7`: tables joined by `/`, a column by `.c3`, a row by `.k7`, rows that
//! came or went by `.new`; `all` is everything. Positions are bytes. After each command stand its automatic
//! changes: a snapshot probe that settled, an in-flight write set that ended; and every invariant is checked.

use goldenscript::{ArgumentConsumer, Command, Context};
use history::{
    Access, ColumnSet, Commit, DatabaseId, Epoch, Footprint, Incarnation, Key, Lsn, RelationId, Rows, Shown,
    Snapshot, Timeline, Xid,
};
use order::{Bugs, DoubtId, Gauge, GaugeNumber, Options, Order, Placed};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;

type Answer = Result<String, Box<dyn Error>>;

struct Story {
    order: Order,
    databases: BTreeSet<DatabaseId>,
    settled: BTreeMap<DatabaseId, GaugeNumber>,
    doubts: BTreeSet<DoubtId>,
    quick: u64,
    by_lsn: u64,
    folded: u64,
}

#[test]
fn stories() -> std::io::Result<()> {
    let mut paths: Vec<_> =
        std::fs::read_dir("tests/scripts")?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    assert!(paths.len() > 8, "the stories are there");
    for path in paths {
        goldenscript::run(&mut Story::new(Options::default()), path)?;
    }
    Ok(())
}

impl goldenscript::Runner for Story {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Answer {
        let mut args = command.consume_args();
        let mut said = match command.name.as_str() {
            "options" => self.options(&mut args)?,
            "primary" | "primary_lost" | "want" | "send" | "gauge" | "look" | "gauge_lost" => {
                self.gauges(&command.name, &mut args)?
            }
            "slot" | "slot_created" | "slot_closed" | "dropped" | "commit" | "decoded_to" | "settled" => {
                self.slots(&command.name, &mut args)?
            }
            "place" | "place_none" | "forget" | "boundaries" | "resume" => {
                self.versions(&command.name, &mut args)?
            }
            _ => self.doubts(&command.name, &mut args)?,
        };
        args.reject_next()?;
        self.order.audit();
        said.push_str(&self.changes());
        Ok(said)
    }
}

impl Story {
    fn new(options: Options) -> Story {
        Story {
            order: Order::new(options),
            databases: BTreeSet::new(),
            settled: BTreeMap::new(),
            doubts: BTreeSet::new(),
            quick: 0,
            by_lsn: 0,
            folded: 0,
        }
    }

    fn options(&mut self, args: &mut ArgumentConsumer) -> Answer {
        let mut options = Options::default();
        while let Some((name, value)) = args.next_key() {
            let bound: usize = value.parse()?;
            match name {
                "gauges" => options.max_unsettled_gauges = bound,
                "owed" => options.max_owed_xids = bound,
                "out" => options.max_out_xids = bound,
                "ending" => options.max_ending_doubts = bound,
                "waiting" => options.max_waiting_commits = bound,
                _ => return Err(format!("no bound {name}").into()),
            }
        }
        while let Some(bug) = args.next_pos() {
            plant(&mut options.bugs, bug)?;
        }
        *self = Story::new(options);
        Ok(String::new())
    }

    fn gauges(&mut self, name: &str, args: &mut ArgumentConsumer) -> Answer {
        Ok(match name {
            "primary" => {
                self.order.incarnate(incarnation(args)?);
                String::new()
            }
            "primary_lost" => {
                self.order.primary_lost();
                String::new()
            }
            "want" => format!("{}\n", self.order.want_gauge()),
            "send" => self.send(),
            "gauge_lost" => {
                self.order.gauge_lost(GaugeNumber::new(number(args)?));
                String::new()
            }
            "look" => {
                self.order.want_gauge();
                self.send();
                let number = self.order.counts().gauges_sent;
                self.answer(GaugeNumber::new(number), args)?
            }
            _ => {
                let number = GaugeNumber::new(number(args)?);
                self.answer(number, args)?
            }
        })
    }

    fn send(&mut self) -> String {
        self.order.gauge_to_send().map_or("nothing to send\n".into(), |number| format!("{number} is sent\n"))
    }

    fn answer(&mut self, number: GaugeNumber, args: &mut ArgumentConsumer) -> Answer {
        let xmax = Xid::new(args.take_key("xmax").ok_or("xmax")?.parse()?);
        let running = args.take_key("running").unwrap_or("");
        let running = running.split('/').filter(|xid| !xid.is_empty());
        let running = running.map(|xid| Ok(Xid::new(xid.parse()?))).collect::<Result<_, Box<dyn Error>>>()?;
        let gauge = Gauge {
            incarnation: incarnation(args)?,
            snapshot: Snapshot::new(xmax, running),
            insert_lsn: position(args, "lsn")?,
        };
        Ok(self
            .order
            .gauge_answered(number, gauge)
            .map_or_else(|void| format!("void: {void}\n"), |()| String::new()))
    }

    fn slots(&mut self, name: &str, args: &mut ArgumentConsumer) -> Answer {
        let database = database(args)?;
        self.databases.insert(database);
        match name {
            "slot" => self.order.slot_opened(database, position(args, "from")?),
            "slot_created" => self.order.slot_created(database, position(args, "from")?),
            "slot_closed" => self.order.slot_closed(database),
            "dropped" => self.order.database_dropped(database),
            "decoded_to" => self.order.decoded_to(database, Lsn::new(number(args)?)),
            "settled" => {
                let settled = self.order.settled(database);
                return Ok(settled
                    .map_or("none\n".into(), |(number, gauge)| format!("{number} {}\n", gauge.snapshot)));
            }
            _ => {
                let commit = Commit {
                    database,
                    xid: Xid::new(number(args)?),
                    start: position(args, "start")?,
                    end: position(args, "end")?,
                    wrote: footprint(args.take_key("wrote").unwrap_or("t1"), true)?,
                };
                let explained = if self.order.explained(&commit) { "" } else { "NOT explained by a doubt\n" };
                let known = if self.order.decoded(&commit) { "" } else { "known\n" };
                return Ok(format!("{known}{explained}"));
            }
        }
        Ok(String::new())
    }

    fn versions(&mut self, name: &str, args: &mut ArgumentConsumer) -> Answer {
        if name == "boundaries" {
            return self.boundaries(args);
        }
        let database = database(args)?;
        self.databases.insert(database);
        match name {
            "place" => self.order.place_commits(database),
            "place_none" => self.order.place_no_commits(database),
            "forget" => self.order.forget_slot(database),
            _ => {
                let resume = self.order.resume(database).map(|at| at.get().to_string());
                return Ok(format!("{}\n", resume.unwrap_or("not yet".into())));
            }
        }
        let run = self.order.run(database).map_or("no run".into(), |run| run.to_string());
        Ok(format!("{run}, newest {}\n", self.order.newest_version(database)))
    }

    /// Takes them; `for=` a position says what a replica there lacks.
    fn boundaries(&mut self, args: &mut ArgumentConsumer) -> Answer {
        let at: Option<Shown> = args.take_key("for").map(str::parse).transpose()?;
        let mut said = String::new();
        for boundary in self.order.take_boundaries() {
            let (position, run) = (boundary.position(), boundary.run);
            let (number, reached) = (boundary.number, boundary.reached);
            let (decoded, resume) = (position.decoded().get(), position.resume().get());
            let commits: Vec<String> = match &at {
                Some(at) if !boundary.feeds(at) => vec!["which cannot be fed from there".into()],
                Some(at) if boundary.after(at) != position => {
                    vec![format!("behind it, which stays as it is: {}", boundary.after(at))]
                }
                Some(at) => boundary.missing(at).map(placed).collect(),
                None => boundary.commits.iter().map(placed).collect(),
            };
            let commits = if commits.is_empty() { "nothing".into() } else { commits.join(" ") };
            let snapshot = position.snapshot();
            let of = boundary.database;
            let of = if of.get() == 5 { String::new() } else { format!(" of database {of}") };
            let _ = writeln!(
                said,
                "{number}{of} at {reached}: {commits} ({run} since {}; decoded {decoded}, resume {resume}, {snapshot})",
                boundary.since.get()
            );
        }
        Ok(if said.is_empty() { "none\n".into() } else { said })
    }

    fn doubts(&mut self, name: &str, args: &mut ArgumentConsumer) -> Answer {
        match name {
            "doubt" => {
                let database = database(args)?;
                self.databases.insert(database);
                let id = self.order.doubt(database, footprint(args.next_pos().ok_or("footprint")?, true)?);
                self.doubts.insert(id);
                return Ok(format!("{id}\n"));
            }
            "narrow" => {
                let id = DoubtId::new(number(args)?);
                self.order.narrow(id, footprint(args.next_pos().ok_or("footprint")?, true)?);
            }
            "widen" => {
                let id = DoubtId::new(number(args)?);
                self.order.widen(id, &footprint(args.next_pos().ok_or("footprint")?, true)?);
            }
            "ddl" => self.order.catalog_changed(database(args)?),
            "answered" => self.order.answered(DoubtId::new(number(args)?)),
            "quietly" => self.order.answered_quietly(DoubtId::new(number(args)?)),
            "lost" => self.order.connection_lost(DoubtId::new(number(args)?)),
            "gone" => self.order.backend_gone(DoubtId::new(number(args)?)),
            "orphans_gone" => self.order.orphans_gone(),
            "distrust" => self.order.distrust(),
            "in_flight" => {
                let database = database(args)?;
                let read = footprint(args.next_pos().ok_or("footprint")?, false)?;
                return Ok(if self.order.in_flight(database, &read) {
                    "in doubt\n"
                } else {
                    "not in doubt\n"
                }
                .into());
            }
            "show" => return Ok(self.show()),
            "counts" => return Ok(format!("{:?}\n", self.order.counts()).replace("Counts ", "")),
            _ => return Err(format!("no command {name}").into()),
        }
        Ok(String::new())
    }

    fn show(&self) -> String {
        let mut said = String::new();
        for doubt in self.order.doubts() {
            let _ = writeln!(said, "{} {} {}", doubt.id, doubt.state, doubt.footprint);
        }
        if said.is_empty() { "no doubts\n".into() } else { said }
    }

    /// Automatic changes since the last command.
    fn changes(&mut self) -> String {
        let mut said = String::new();
        let counts = self.order.counts();
        let rule = match (counts.settled_quick > self.quick, counts.settled_by_lsn > self.by_lsn) {
            (true, false) => "all that finished came out",
            (false, true) => "decoded past its position",
            _ => "one rule after the other, or for several databases",
        };
        (self.quick, self.by_lsn) = (counts.settled_quick, counts.settled_by_lsn);
        for database in &self.databases {
            let now = self.order.settled(*database).map(|(number, _)| number);
            if let Some(number) = now
                && self.settled.insert(*database, number) != Some(number)
            {
                let _ = writeln!(said, "  {number} settles for database {database}: {rule}");
            }
            if now.is_none() && self.settled.remove(database).is_some() {
                let _ = writeln!(said, "  nothing is settled for database {database}");
            }
        }
        // One that is about nothing is not shown, and has not ended.
        let order = &self.order;
        let (now, ended): (BTreeSet<DoubtId>, BTreeSet<DoubtId>) = std::mem::take(&mut self.doubts)
            .into_iter()
            .partition(|doubt| order.doubt_state(*doubt).is_some());
        let folded = counts.doubts_folded > self.folded;
        self.folded = counts.doubts_folded;
        for ended in ended {
            let _ = writeln!(said, "  {ended} {}", if folded { "folds into everything" } else { "ends" });
        }
        self.doubts = now;
        said
    }
}

fn placed(commit: &Placed) -> String {
    format!("{}={}", commit.xid, commit.version)
}

fn plant(bugs: &mut Bugs, name: &str) -> Result<(), Box<dyn Error>> {
    if bugs.plant_named(name) { Ok(()) } else { Err(format!("no bug {name}").into()) }
}

fn number(args: &mut ArgumentConsumer) -> Result<u64, Box<dyn Error>> {
    let text = args.next_pos().ok_or("a number is missing")?;
    Ok(text.trim_start_matches(|letter: char| letter.is_alphabetic()).parse()?)
}

fn position(args: &mut ArgumentConsumer, name: &str) -> Result<Lsn, Box<dyn Error>> {
    Ok(Lsn::new(args.take_key(name).ok_or(name)?.parse()?))
}

fn database(args: &mut ArgumentConsumer) -> Result<DatabaseId, Box<dyn Error>> {
    Ok(DatabaseId::new(args.take_key("db").unwrap_or("5").parse()?))
}

/// `life=2 epoch=1`; both 1 unless said.
fn incarnation(args: &mut ArgumentConsumer) -> Result<Incarnation, Box<dyn Error>> {
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
        let (mut columns, mut keys, mut existence, mut plain) = (Vec::new(), BTreeSet::new(), false, true);
        for part in parts {
            plain = false;
            match part.split_at(1) {
                ("c", column) => columns.push(column.parse()?),
                ("k", key) => drop(keys.insert(Key::new(key.parse()?))),
                _ if part == "new" => existence = true,
                _ => return Err(format!("what is {part}?").into()),
            }
        }
        let columns = if columns.is_empty() { ColumnSet::All } else { ColumnSet::of(columns) };
        let rows = if keys.is_empty() { Rows::All } else { Rows::Keys(keys) };
        footprint.add(table, Access { columns, rows, existence: existence || (writes && plain) });
    }
    Ok(footprint)
}
