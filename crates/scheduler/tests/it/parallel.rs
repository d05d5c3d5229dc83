//! Runs the stories in `tests/parallel`: transactions that run at a replica, transactions that wait, the
//! prefix, and the answer of the index by classes for a read.
//!
//! `UPDATE_GOLDENFILES=1 cargo test -p scheduler` writes the answers again; review them after a change.
//!
//! `t NAME reads=FOOTPRINT writes=FOOTPRINT` adds a statement to a transaction and shows its classes. A footprint is
//! written `r.c2.c3.k100/s`: tables (single letters) joined by `/`, a column by `.c3`, a row by `.k100`; `.new` if rows come or
//! go, `.none` for no column; without a column it is all of them; `all` is everything.

use goldenscript::{ArgumentConsumer, Command, Context};
use history::{Access, ColumnSet, Footprint, Key, RelationId, Rows, Version};
use scheduler::parallel::{Bugs, Class, ClassIndex, Combined, Compare, Executor, Options, Sets};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;

type Answer = Result<String, Box<dyn Error>>;
type Args<'a, 'b> = &'a mut ArgumentConsumer<'b>;

/// The levels of the paper's figure 6.
const LEVELS: [Class; 3] = [Class::Table, Class::Column, Class::Row];

struct Story {
    executor: Executor,
    next: Version,
    finest: BTreeMap<RelationId, Class>,
    level: Class,
    /// The statements of each transaction.
    transactions: BTreeMap<String, Vec<(Footprint, Footprint)>>,
    names: BTreeMap<Version, String>,
    index: BTreeMap<Class, ClassIndex>,
}

#[test]
fn parallel_stories() -> std::io::Result<()> {
    let paths = std::fs::read_dir("tests/parallel")?.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<_> = paths.collect::<std::io::Result<_>>()?;
    paths.sort();
    assert!(paths.len() >= 6, "the stories are there");
    for path in paths {
        goldenscript::run(&mut Story::new(Options::default(), Version::new(10)), path)?;
    }
    Ok(())
}

impl goldenscript::Runner for Story {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Answer {
        let mut args = command.consume_args();
        let said = match command.name.as_str() {
            "options" => self.options(&mut args)?,
            "t" => self.statement(&mut args)?,
            "new" => self.offer(&mut args)?,
            "done" => self.done(&mut args)?,
            "state" => format!("{}, prefix {}\n", self.places(), self.executor.prefix()),
            "compare" => self.compare(&mut args)?,
            "commit" => self.commit(&mut args)?,
            "read" => self.read(&mut args)?,
            "index" => self.shown(),
            "prune" => {
                let to = Version::new(args.next_pos().ok_or("version")?.parse()?);
                self.index.values_mut().for_each(|index| index.prune(to));
                String::new()
            }
            name => return Err(format!("no command {name}").into()),
        };
        args.reject_next()?;
        Ok(said)
    }
}

impl Story {
    fn new(options: Options, done: Version) -> Story {
        Story {
            executor: Executor::new(options, done),
            next: done.next(),
            finest: BTreeMap::new(),
            level: Class::Row,
            transactions: BTreeMap::new(),
            names: BTreeMap::new(),
            index: LEVELS.map(|level| (level, ClassIndex::default())).into(),
        }
    }

    /// Begins again with these options.
    fn options(&mut self, args: Args) -> Answer {
        let mut options = Options::default();
        let (mut level, mut finest) = (Class::Row, BTreeMap::new());
        while let Some(word) = args.next_pos() {
            match word {
                "published" => options = Options::as_published(),
                "classes" => options.compare = Compare::Classes,
                bug => plant(&mut options.bugs, bug)?,
            }
        }
        while let Some((name, value)) = args.next_key() {
            match name {
                "look" => options.look = value.parse()?,
                "running" => options.max_running = value.parse()?,
                "ahead" => options.max_ahead = value.parse()?,
                "level" => level = class(value)?,
                table => drop(finest.insert(self::table(table)?, class(value)?)),
            }
        }
        let transactions = std::mem::take(&mut self.transactions);
        *self = Story { finest, level, transactions, ..Story::new(options, Version::new(10)) };
        Ok(String::new())
    }

    fn statement(&mut self, args: Args) -> Answer {
        let name = args.next_pos().ok_or("name")?.to_owned();
        let reads = footprint(args.take_key("reads").unwrap_or_default())?;
        let writes = footprint(args.take_key("writes").unwrap_or_default())?;
        self.transactions.entry(name.clone()).or_default().push((reads, writes));
        let sets = self.sets(&name, self.level)?;
        let mut said = format!("{name}:");
        if sets.is_everything() {
            said += " everything";
        }
        sets.classes().try_for_each(|(table, class)| write!(said, " {} {class}", letter(table)))?;
        Ok(said + "\n")
    }

    fn offer(&mut self, args: Args) -> Answer {
        let mut said = String::new();
        while let Some(name) = args.next_pos() {
            let sets = Arc::new(self.sets(name, self.level)?);
            match self.executor.offer(self.next, sets) {
                Ok(place) => {
                    writeln!(said, "{name} ({}): {}", self.next, format!("{place:?}").to_lowercase())?;
                    self.names.insert(self.next, name.to_owned());
                    self.next = self.next.next();
                }
                Err(refused) => writeln!(said, "{name}: refused, {refused}")?,
            }
        }
        Ok(said)
    }

    fn done(&mut self, args: Args) -> Answer {
        let name = args.next_pos().ok_or("name")?;
        let version = self.executor.running().find(|version| self.names[version] == name);
        let completed = self.executor.completed(version.unwrap_or_default())?;
        let mut said = String::new();
        for version in completed.started {
            writeln!(said, "{} ({version}) starts", self.names[&version])?;
        }
        match completed.prefix {
            Some(prefix) => writeln!(said, "prefix {prefix} is reported")?,
            None => writeln!(said, "nothing is reported")?,
        }
        Ok(said)
    }

    fn places(&self) -> String {
        let named = |versions: &mut dyn Iterator<Item = Version>| {
            let names: Vec<_> = versions.map(|version| self.names[&version].as_str()).collect();
            if names.is_empty() { "nobody".to_owned() } else { names.join(" ") }
        };
        let (running, waiting) = (named(&mut self.executor.running()), named(&mut self.executor.waiting()));
        format!("running: {running}; waiting: {waiting}; done ahead: {}", self.executor.done_ahead())
    }

    /// Shows if two transactions are independent, by items and by classes.
    fn compare(&mut self, args: Args) -> Answer {
        let (one, other) = (args.next_pos().ok_or("one")?, args.next_pos().ok_or("other")?);
        let sets = self.sets(other, self.level)?;
        let mut state = Combined::default();
        state.merge(&self.sets(one, self.level)?);
        let said = |compare| if state.independent(&sets, compare) { "independent" } else { "dependent" };
        Ok(format!(
            "{one} {other}: by items {}, by classes {}\n",
            said(Compare::Items),
            said(Compare::Classes)
        ))
    }

    fn commit(&mut self, args: Args) -> Answer {
        while let Some(name) = args.next_pos() {
            for level in LEVELS {
                let sets = self.sets(name, level)?;
                self.index.get_mut(&level).ok_or("level")?.note(&sets, self.next);
            }
            self.next = self.next.next();
        }
        Ok(String::new())
    }

    /// The version that a replica must have come to, by the classes in use.
    fn read(&mut self, args: Args) -> Answer {
        let mut said = String::new();
        while let Some(name) = args.next_pos() {
            write!(said, "{name}:")?;
            for (level, what) in LEVELS.into_iter().zip(["tables only", "with columns", "all classes"]) {
                write!(said, " {what} {}", self.index[&level].consistent(&self.sets(name, level)?))?;
            }
            said.push('\n');
        }
        Ok(said)
    }

    /// The index of all classes, as in the paper's Table 5.
    fn shown(&self) -> String {
        let text = self.index[&Class::Row].to_string();
        let lines = text.lines().map(|line| match line.split_once(':') {
            Some((table, rest)) => match table.parse() {
                Ok(number) => format!("{}:{rest}\n", letter(RelationId::new(number))),
                Err(_) => format!("{line}\n"),
            },
            None => format!("{line}\n"),
        });
        lines.collect()
    }

    fn sets(&self, name: &str, level: Class) -> Result<Sets, Box<dyn Error>> {
        let statements = self.transactions.get(name).ok_or_else(|| format!("no transaction {name}"))?;
        let finest = |table| self.finest.get(&table).copied().unwrap_or(level).max(level);
        let mut statements = statements.iter().map(|(reads, writes)| Sets::of(reads, writes, finest));
        let mut sets = statements.next().ok_or("a statement")?;
        statements.for_each(|later| sets.merge(&later));
        Ok(sets)
    }
}

fn class(name: &str) -> Result<Class, Box<dyn Error>> {
    LEVELS
        .into_iter()
        .find(|class| class.to_string() == name)
        .ok_or_else(|| format!("no class {name}").into())
}

fn plant(bugs: &mut Bugs, name: &str) -> Result<(), Box<dyn Error>> {
    if bugs.plant_named(name) { Ok(()) } else { Err(format!("no bug {name}").into()) }
}

/// `r` is the table 114.
fn table(name: &str) -> Result<RelationId, Box<dyn Error>> {
    let letter = name.chars().next().filter(|_| name.len() == 1).ok_or_else(|| format!("no table {name}"))?;
    Ok(RelationId::new(u32::from(letter)))
}

fn letter(table: RelationId) -> char {
    char::from_u32(table.get()).unwrap_or('?')
}

fn footprint(text: &str) -> Result<Footprint, Box<dyn Error>> {
    if text == "all" {
        return Ok(Footprint::Everything);
    }
    let mut footprint = Footprint::NOTHING;
    for accessed in text.split('/').filter(|text| !text.is_empty()) {
        let mut parts = accessed.split('.');
        let table = table(parts.next().unwrap_or_default())?;
        let (mut columns, mut keys, mut existence) = (None, None, false);
        for part in parts {
            match part.split_at(1) {
                _ if part == "new" => existence = true,
                _ if part == "none" => columns = Some(ColumnSet::NONE),
                ("c", column) => columns = Some(columns.unwrap_or(ColumnSet::NONE).with(column.parse()?)),
                ("k", key) => keys.get_or_insert_with(Vec::new).push(Key::new(key.parse()?)),
                _ => return Err(format!("what is {part}?").into()),
            }
        }
        let rows = keys.map_or(Rows::All, Rows::keys);
        footprint.add(table, Access { columns: columns.unwrap_or(ColumnSet::All), rows, existence });
    }
    Ok(footprint)
}
