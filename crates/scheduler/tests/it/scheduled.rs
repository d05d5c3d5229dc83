//! Runs the stories in `tests/scheduled`: the steps sent to each replica, the waiting transactions, the
//! answers to clients.
//!
//! `UPDATE_GOLDENFILES=1 cargo test -p scheduler` writes the answers again; review them after a change.
//!
//! Tables are single letters. `holding` and `locking` begin again with replicas s1 to s3 and either order.
//! `done s1 A` says that s1 has answered A's last step, `fails s1 A` that it answered with an error.
//! `begin A at=s1` names the replica of a transaction that only reads, and under locks `run A at=s1` the
//! place of a statement (`at=all`: everywhere). `back A` goes back to a savepoint, `withdraw A` stops waiting
//! for locks, `abandon A` drops the transaction, and `join s4` takes part.

use goldenscript::{ArgumentConsumer, Command, Context};
use history::RelationId;
use scheduler::StandbyId;
use scheduler::scheduled::{
    Action, Bugs, Holding, Locking, Options, Outcome, Place, Refused, Tables, TransactionId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;

type Answer = Result<String, Box<dyn Error>>;
type Args<'a, 'b> = &'a mut ArgumentConsumer<'b>;

enum Machine {
    Holding(Holding),
    Locking(Locking),
}

struct Story {
    machine: Machine,
    names: BTreeMap<String, TransactionId>,
}

fn three() -> impl Iterator<Item = StandbyId> {
    (1..=3).map(StandbyId::new)
}

#[test]
fn scheduled_stories() -> std::io::Result<()> {
    let paths = std::fs::read_dir("tests/scheduled")?.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<_> = paths.collect::<std::io::Result<_>>()?;
    paths.sort();
    assert!(paths.len() >= 8, "the stories are there");
    for path in paths {
        let machine = Machine::Holding(Holding::new(Options::default(), three()));
        goldenscript::run(&mut Story { machine, names: BTreeMap::new() }, path)?;
    }
    Ok(())
}

impl goldenscript::Runner for Story {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Answer {
        let mut args = command.consume_args();
        let said = match command.name.as_str() {
            name @ ("holding" | "locking") => self.anew(name, &mut args)?,
            "begin" => self.begin(&mut args)?,
            "run" => self.statement(&mut args)?,
            name @ ("commit" | "rollback") => self.end(name == "commit", &mut args)?,
            name @ ("done" | "fails") => self.answered(name == "done", &mut args)?,
            "lost" => self.lost(&mut args)?,
            name @ ("back" | "withdraw" | "abandon") => self.otherwise(name, &mut args)?,
            "join" => self.join(&mut args)?,
            "state" => self.state(),
            name => return Err(format!("no command {name}").into()),
        };
        args.reject_next()?;
        match &self.machine {
            Machine::Holding(holding) => holding.audit(),
            Machine::Locking(locking) => locking.audit(),
        }
        Ok(said)
    }
}

impl Story {
    fn anew(&mut self, name: &str, args: Args) -> Answer {
        let mut options = Options::default();
        while let Some((name, value)) = args.next_key() {
            match name {
                "open" => options.max_open = value.parse()?,
                "held" => options.max_held = value.parse()?,
                "statements" => options.max_statements = value.parse()?,
                _ => return Err(format!("no option {name}").into()),
            }
        }
        while let Some(bug) = args.next_pos() {
            plant(&mut options.bugs, bug)?;
        }
        self.names.clear();
        self.machine = match name {
            "holding" => Machine::Holding(Holding::new(options, three())),
            _ => Machine::Locking(Locking::new(options, three())),
        };
        Ok(String::new())
    }

    fn begin(&mut self, args: Args) -> Answer {
        let (name, tables) = (args.next_pos().ok_or("name")?.to_owned(), tables(args)?);
        let place = place(args)?;
        let begun = match &mut self.machine {
            Machine::Holding(holding) => match place {
                None => holding.begin(tables),
                Some(place) => holding.begin_at(tables, place),
            },
            Machine::Locking(locking) => locking.begin().map(|id| (id, Vec::new())),
        };
        Ok(match begun {
            Ok((id, actions)) => {
                self.names.insert(name, id);
                self.told(&actions)
            }
            Err(refused) => format!("{name}: refused, {refused}\n"),
        })
    }

    fn statement(&mut self, args: Args) -> Answer {
        let (name, id) = self.named(args)?;
        let tables = tables(args)?;
        let place = place(args)?;
        let said = match (&mut self.machine, place) {
            (Machine::Holding(holding), _) => holding.statement(id, &tables),
            (Machine::Locking(locking), None) => locking.statement(id, tables),
            (Machine::Locking(locking), Some(place)) => locking.statement_at(id, tables, place),
        };
        Ok(self.refused_or(&name, said))
    }

    fn otherwise(&mut self, what: &str, args: Args) -> Answer {
        let (name, id) = self.named(args)?;
        let said = match (&mut self.machine, what) {
            (Machine::Locking(locking), "back") => locking.back_to_savepoint(id),
            (Machine::Locking(locking), "withdraw") => Ok(locking.withdraw(id)),
            (Machine::Locking(locking), _) => Ok(locking.abandon(id)),
            (Machine::Holding(holding), "back") => holding.back_to_savepoint(id),
            (Machine::Holding(_), "withdraw") => return Err("under locks alone".into()),
            (Machine::Holding(holding), _) => Ok(holding.abandon(id)),
        };
        Ok(self.refused_or(&name, said))
    }

    fn join(&mut self, args: Args) -> Answer {
        let replica = replica(args)?;
        match &mut self.machine {
            Machine::Holding(holding) => holding.join(replica),
            Machine::Locking(locking) => locking.join(replica),
        }
        Ok(self.state())
    }

    fn end(&mut self, commit: bool, args: Args) -> Answer {
        let (name, id) = self.named(args)?;
        let said = match &mut self.machine {
            Machine::Holding(holding) => holding.end(id, commit),
            Machine::Locking(locking) => locking.end(id, commit),
        };
        Ok(self.refused_or(&name, said))
    }

    fn answered(&mut self, done: bool, args: Args) -> Answer {
        let replica = replica(args)?;
        let (_, id) = self.named(args)?;
        let outcome = if done { Outcome::Done } else { Outcome::Failed };
        let actions = match &mut self.machine {
            Machine::Holding(holding) => holding.answered(replica, id, outcome),
            Machine::Locking(locking) => locking.answered(replica, id, outcome),
        };
        Ok(self.told(&actions))
    }

    fn lost(&mut self, args: Args) -> Answer {
        let replica = replica(args)?;
        let actions = match &mut self.machine {
            Machine::Holding(holding) => holding.replica_failed(replica),
            Machine::Locking(locking) => locking.replica_failed(replica),
        };
        Ok(self.told(&actions))
    }

    fn state(&self) -> String {
        let mut said = String::new();
        match &self.machine {
            Machine::Holding(holding) => {
                for (id, held) in holding.replicas() {
                    let version = |table: char| holding.produced(id, RelationId::new(u32::from(table)));
                    let _ = writeln!(said, "{id}: holds {held}, a {}, b {}", version('a'), version('b'));
                }
            }
            Machine::Locking(locking) => {
                let waiting: Vec<String> = locking.waiting().map(|id| self.name(id)).collect();
                for (id, reads) in locking.replicas() {
                    let _ = writeln!(said, "{id}: {reads} reads");
                }
                let _ = writeln!(said, "waiting: {}", waiting.join(" "));
            }
        }
        said
    }

    fn named(&self, args: Args) -> Result<(String, TransactionId), Box<dyn Error>> {
        let name = args.next_pos().ok_or("which one?")?.to_owned();
        let id = *self.names.get(&name).ok_or("no such transaction")?;
        Ok((name, id))
    }

    fn name(&self, id: TransactionId) -> String {
        let named = self.names.iter().find(|(_, of)| **of == id);
        named.map_or_else(|| id.to_string(), |(name, _)| name.clone())
    }

    fn refused_or(&self, name: &str, said: Result<Vec<Action>, Refused>) -> String {
        said.map_or_else(|refused| format!("{name}: refused, {refused}\n"), |actions| self.told(&actions))
    }

    fn told(&self, actions: &[Action]) -> String {
        let mut said = String::new();
        for action in actions {
            let _ = match action {
                Action::Send(to, id, step) => writeln!(said, "{to} <- {} {step:?}", self.name(*id)),
                Action::Answer(id, from) => writeln!(said, "{} hears {from}", self.name(*id)),
                Action::Fail(id, why) => writeln!(said, "{} is no more, {why:?}", self.name(*id)),
                Action::TakeOut(replica, why) => writeln!(said, "{replica} is taken out, {why:?}"),
            };
        }
        if said.is_empty() { "nothing to do\n".into() } else { said }
    }
}

fn replica(args: Args) -> Result<StandbyId, Box<dyn Error>> {
    let name = args.next_pos().ok_or("which replica?")?;
    Ok(StandbyId::new(name.trim_start_matches('s').parse()?))
}

fn place(args: Args) -> Result<Option<Place>, Box<dyn Error>> {
    Ok(match args.take_key("at") {
        None => None,
        Some("all") => Some(Place::Everywhere),
        Some(name) => Some(Place::At(StandbyId::new(name.trim_start_matches('s').parse()?))),
    })
}

fn tables(args: Args) -> Result<Tables, Box<dyn Error>> {
    let letters = |text: &str| -> BTreeSet<RelationId> {
        text.chars().map(|letter| RelationId::new(u32::from(letter))).collect()
    };
    let reads = letters(args.take_key("reads").unwrap_or_default());
    Ok(Tables { reads, writes: letters(args.take_key("writes").unwrap_or_default()) })
}

fn plant(bugs: &mut Bugs, name: &str) -> Result<(), Box<dyn Error>> {
    if bugs.plant_named(name) { Ok(()) } else { Err(format!("no bug {name}").into()) }
}
