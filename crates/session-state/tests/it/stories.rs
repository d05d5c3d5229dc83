//! Runs the stories in `tests/scripts`: events of a session, and whether its next statement may be offloaded.
//!
//! `UPDATE_GOLDENFILES=1 cargo test -p analysis` rewrites the answers; read the changes after that.
//!
//! `sql "text" T` is a message that succeeded, after which the server was ready with status T. `error "text"
//! E` is one whose last statement failed. `report name value` is a ParameterStatus. `probe name=value ..
//! temporary listening lock application` is the result of the session's probe. `code` is a statement that may
//! have had any effect on the session.

use goldenscript::{Argument, Command, Context};
use session_state::utility::{self, What};
use session_state::{BlockStatus, Dirt, Interner, MIRRORED, Own, SessionState, Startup};
use statement_analysis::shape::Strings;
use std::error::Error;
use std::fmt::Write as _;

struct Story {
    interner: Interner,
    session: SessionState,
}

/// Value of a setting at a server with an empty configuration.
fn default_of(name: &str) -> &'static str {
    match name {
        "default_transaction_isolation" => "read committed",
        "session_replication_role" => "origin",
        "role" => "none",
        "session_authorization" => "app",
        "search_path" => "\"$user\", public",
        "timezone" => "UTC",
        "exit_on_error" | "default_transaction_read_only" => "off",
        "restrict_nonsystem_relation_kind" => "",
        "idle_in_transaction_session_timeout" | "idle_session_timeout" => "0",
        _ => "default",
    }
}

impl Story {
    fn new() -> Story {
        let mut interner = Interner::new(100);
        let startup = Startup::of([("user", "app")], Own::default()).unwrap();
        let session = SessionState::new(&startup, &mut interner);
        Story { interner, session }
    }

    fn sql(&mut self, text: &str, fails: bool, status: &str) {
        let statements = utility::split(text, Strings::Standard);
        let last = statements.len() - 1;
        for (place, statement) in statements.iter().enumerate() {
            match &statement.what {
                What::Tree if fails && place == last => self.session.statement_failed(),
                What::Tree => {}
                What::Utility(utility) if fails && place == last => self.session.failed(utility),
                What::Utility(utility) => self.session.completed(utility, &mut self.interner),
            }
        }
        self.session.ready(status.as_bytes()[0], &mut self.interner);
    }

    fn consort(&mut self, text: &str) -> String {
        let statements = utility::split(text, Strings::Standard);
        let What::Utility(utility) = &statements[0].what else { panic!("{text}") };
        assert!(utility.consort_setting().is_some());
        match self.session.consort(utility) {
            Ok(answer) => format!("{answer:?}\n"),
            Err(error) => format!("{} {}\n", error.sqlstate, error.message),
        }
    }

    fn probe(&mut self, command: &Command) -> String {
        if self.session.probe().is_none() {
            return "no probe is due\n".to_owned();
        }
        let others: Vec<String> = self.session.settings().iter().map(|(name, _)| name.to_owned()).collect();
        let others: Vec<String> =
            others.into_iter().filter(|name| !MIRRORED.contains(&name.as_str())).collect();
        let found = |name: &str| command.args.contains(&Argument::Positional(name.to_owned()));
        let mut row: Vec<Option<String>> = ["temporary", "listening", "lock", "application"]
            .iter()
            .map(|name| Some(found(name).to_string()))
            .collect();
        row.push(Some("0".to_owned()));
        for name in MIRRORED.iter().copied().chain(others.iter().map(String::as_str)) {
            let given = command.args.iter().find_map(|arg| match arg {
                Argument::KeyValue(key, value) if key == name => Some(value.clone()),
                _ => None,
            });
            let custom = || self.session.settings().get(name).unwrap_or_default().to_owned();
            let usual = || if name.contains('.') { custom() } else { default_of(name).to_owned() };
            row.push(Some(given.unwrap_or_else(usual)));
        }
        let quoted: Vec<String> = row
            .iter()
            .flatten()
            .map(|value| format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
            .collect();
        match self.session.probed(&[Some(&format!("{{{}}}", quoted.join(",")))], &mut self.interner) {
            Ok(()) => String::new(),
            Err(dirt) => format!("still dirty: {dirt}\n"),
        }
    }

    fn state(&self) -> String {
        let session = &self.session;
        let block = match session.block() {
            BlockStatus::Idle => "idle",
            BlockStatus::Open => "in a block",
            BlockStatus::Failed => "in a failed block",
        };
        let leaves = session
            .may_leave()
            .map_or_else(|stay| format!("stays: {}", stay.name()), |()| "may leave".into());
        let mut state = format!("{block}, {leaves}, {}", session.consistency());
        if session.read_only_snapshot() {
            state.push_str(", a snapshot may leave");
        }
        for (name, value) in session.settings().iter().filter(|(name, value)| default_of(name) != *value) {
            write!(state, ", {name}={value}").unwrap();
        }
        state
    }
}

impl goldenscript::Runner for Story {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let arg = |at: usize| match command.args.get(at) {
            Some(Argument::Positional(value)) => value.as_str(),
            _ => "",
        };
        let said = match command.name.as_str() {
            "sql" => {
                self.sql(arg(0), false, arg(1));
                String::new()
            }
            "error" => {
                self.sql(arg(0), true, arg(1));
                String::new()
            }
            "consort" => self.consort(arg(0)),
            "report" => {
                self.session.reported(arg(0), arg(1));
                String::new()
            }
            "probe" => self.probe(command),
            "code" => {
                self.session.dirtied(Dirt::Function);
                String::new()
            }
            "unjudged" => {
                self.session.dirtied(Dirt::Unjudged);
                String::new()
            }
            "random" => format!("seeded: {}\n", self.session.is_seeded()),
            "judged" => {
                self.session.judged((arg(0) == "dirties").then_some(Dirt::Function));
                String::new()
            }
            other => return Err(format!("no command {other}").into()),
        };
        Ok(format!("{said}{}", self.state()))
    }
}

#[test]
fn stories() -> std::io::Result<()> {
    let mut paths = std::fs::read_dir("tests/scripts")?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    assert!(paths.len() > 5, "the stories are there");
    for path in paths {
        goldenscript::run(&mut Story::new(), path)?;
    }
    Ok(())
}
