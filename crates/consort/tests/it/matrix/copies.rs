//! A replica that is copied anew holds what it should, whatever it could not take: so each copy has its cause, and that must be
//! one that is known.

use local_cluster::Node;

use crate::fixture::eventually;
use crate::load::{Console, Feed};

/// What has a replica that is fed copied anew: a statement, or nothing that has a number, and what is said then. Each costs a copy
/// of the whole database, and needs its reason here. What is on the list may reach the replica without a copy too.
const KNOWN: &[(Option<&str>, &str)] = &[
    // The log of commands does not say all that it does.
    (Some("DROP OWNED BY reader"), "the log cannot say all that it does"),
    // Numbers are drawn in the order in which rows lie.
    (Some("ALTER TABLE costly ADD COLUMN nr serial"), "rows of public.costly were computed otherwise"),
    // What was written while it was not logged is nowhere but at the primary.
    (Some("ALTER TABLE costly SET LOGGED"), "rows of public.costly were computed otherwise"),
    // It is two transactions.
    (Some("ALTER TABLE measured DETACH PARTITION measured_1 CONCURRENTLY"), "ALTER TABLE: "),
];

/// Copies of the database to the replica, and what ran in front of them.
#[derive(Default)]
pub(super) struct Copies {
    /// So many were begun, from the first moment on in which all was well.
    begun: Option<u64>,
    /// Why there must be another one, as was said last.
    said: String,
    /// Statements that may have one made, each with the number of a transaction behind it.
    ran: Vec<(u64, &'static str)>,
    in_block: bool,
    /// Why there was another one, and the last statement by then.
    anew: Vec<(String, &'static str)>,
}

impl Copies {
    /// A statement ran. While a copy is made nothing else does: it would be in the copy's way.
    pub(super) fn behind(&mut self, statement: &'static str, primary: &Node, console: &mut Console) {
        match statement.split(' ').next() {
            Some("BEGIN") => self.in_block = true,
            Some("COMMIT") => self.in_block = false,
            Some("ROLLBACK") => self.in_block = statement.starts_with("ROLLBACK TO"),
            _ => {}
        }
        if may_define(statement)
            && let Some(next) = next_transaction(primary)
        {
            self.ran.push((next, statement));
        }
        let feed = self.look(console);
        if !self.in_block && matches!(feed.state.as_str(), "waiting" | "copying") {
            self.wait_until_fed(console);
        }
    }

    /// Waits until the replica shows all.
    pub(super) fn wait_until_fed(&mut self, console: &mut Console) {
        eventually("a replica that is fed", || {
            let feed = self.look(console);
            feed.state == "serving" && feed.version == feed.newest_version
        });
    }

    /// Waits until the replica executes by itself.
    pub(super) fn wait_until_executing(&mut self, console: &mut Console) {
        eventually("a replica that executes", || self.look(console).state == "executing");
    }

    /// What was copied, and not for a reason that is known.
    pub(super) fn without_reason(&self) -> Vec<String> {
        let unknown = self.anew.iter().filter(|(why, _)| !self.is_known(why));
        let line = |(why, last): &(String, &'static str)| {
            let culprit = self.culprit(why).unwrap_or("nobody knows which");
            format!("a new copy because of [{culprit}]: {why:?}; the last statement was [{last}]")
        };
        unknown.map(line).collect()
    }

    /// None at all.
    pub(super) fn all(&self) -> Vec<String> {
        self.anew
            .iter()
            .map(|(why, last)| format!("a new copy: {why:?}; the last statement was [{last}]"))
            .collect()
    }

    fn look(&mut self, console: &mut Console) -> Feed {
        let feed = console.feed("replica1", "postgres");
        let is_well = matches!(feed.state.as_str(), "serving" | "executing");
        if !is_well && !feed.why.is_empty() {
            self.said.clone_from(&feed.why);
        }
        if let Some(begun) = self.begun {
            let last = self.ran.last().map_or("none", |(_, statement)| *statement);
            self.anew.extend((begun..feed.copies).map(|_| (self.said.clone(), last)));
            self.begun = Some(begun.max(feed.copies));
        } else if is_well {
            self.begun = Some(feed.copies);
        }
        if is_well {
            self.said.clear();
        }
        feed
    }

    fn is_known(&self, why: &str) -> bool {
        let culprit = self.culprit(why);
        KNOWN.iter().any(|(statement, says)| *statement == culprit && why.contains(*says))
    }

    /// The statement of the transaction that it names.
    fn culprit(&self, why: &str) -> Option<&'static str> {
        let number = why.split_once("transaction ")?.1.split(' ').next()?.parse::<u64>().ok()?;
        self.ran.iter().find(|(next, _)| *next > number).map(|(_, statement)| *statement)
    }
}

/// Whether it may change what is defined, or commit that.
fn may_define(statement: &str) -> bool {
    let others = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "MERGE ", "WITH ", "VALUES ", "SET ", "RESET "];
    let makes_a_table = statement.starts_with("SELECT ") && statement.contains(" INTO ");
    makes_a_table || !others.iter().any(|word| statement.starts_with(word))
}

/// The number of the next transaction at the primary, if it answers. Who stays there past Consort would be taken for a writer:
/// each time it is another connection.
fn next_transaction(primary: &Node) -> Option<u64> {
    let rows = primary.query("postgres", "SELECT pg_snapshot_xmax(pg_current_snapshot())").ok()?;
    rows.first()?.first()?.as_deref()?.parse().ok()
}
