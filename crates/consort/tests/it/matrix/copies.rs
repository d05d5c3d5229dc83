//! A replica that is copied again holds the right data, even if it could not apply a statement. So each copy
//! has its cause, which must be a known one.

use local_cluster::Node;
use testkit::Scratch;

use crate::fixture::LIMIT;
use crate::load::{Client, Console, Feed};

/// Causes of copies of a logical replica: a statement, or none if the cause has no number, and the reported
/// reason. Each costs a copy of the whole database, and needs its reason here. A listed statement may reach
/// the replica without a copy too.
const KNOWN: &[(Option<&str>, &str)] = &[
    // The log of commands does not say all that it does.
    (Some("DROP OWNED BY reader"), "the command log does not record its full effect"),
    // Numbers are drawn in the order in which rows lie.
    (Some("ALTER TABLE costly ADD COLUMN nr serial"), "rows of public.costly were computed otherwise"),
    // Rows that were written while the table was unlogged are only at the primary.
    (Some("ALTER TABLE costly SET LOGGED"), "rows of public.costly were computed otherwise"),
    // The statement is two transactions.
    (Some("ALTER TABLE measured DETACH PARTITION measured_1 CONCURRENTLY"), "ALTER TABLE: "),
];

/// Copies of the database to the replica, and what ran in front of them.
#[derive(Default)]
pub(super) struct Copies {
    /// Copies that were begun, since the first moment in which all was well.
    begun: Option<u64>,
    /// Last reported cause of another copy.
    said: String,
    /// Statements that may cause a copy, each with the number of the next transaction.
    ran: Vec<(u64, &'static str)>,
    in_block: bool,
    /// Causes of further copies, and the last statement by then.
    anew: Vec<(String, &'static str)>,
    /// Number of the newest mark, see [`Copies::wait_until_shown`].
    mark: u32,
}

/// The newest mark at a node.
const MARK: &str = "SELECT obj_description('public'::regnamespace, 'pg_namespace')";

impl Copies {
    /// A statement ran. While a copy is made nothing else does: it would be in the copy's way. So a statement that
    /// may cause one is waited for.
    pub(super) fn behind(
        &mut self,
        statement: &'static str,
        servers: &Scratch,
        client: &mut Client,
        console: &mut Console,
    ) {
        match statement.split(' ').next() {
            Some("BEGIN") => self.in_block = true,
            Some("COMMIT") => self.in_block = false,
            Some("ROLLBACK") => self.in_block = statement.starts_with("ROLLBACK TO"),
            _ => {}
        }
        if may_define(statement)
            && let Some(next) = next_transaction(servers.primary())
        {
            self.ran.push((next, statement));
        }
        if KNOWN.iter().any(|(known, _)| *known == Some(statement)) {
            return self.wait_until_shown(client, servers.replica(0), console);
        }
        let feed = self.look(console);
        if !self.in_block && matches!(feed.state.as_str(), "waiting" | "copying") {
            self.wait_until_fed(console);
        }
    }

    /// Waits until the replica shows all that the client has done. Consort may not have decoded the last commits
    /// yet, and counts no versions of them. The replica shows a mark that is made now only with all commits before.
    pub(super) fn wait_until_shown(&mut self, client: &mut Client, replica: &Node, console: &mut Console) {
        self.mark += 1;
        let mark = self.mark.to_string();
        client.rows(&format!("COMMENT ON SCHEMA public IS '{mark}'")).expect("a mark");
        self.wait_until("serves and shows the mark", console, |feed| {
            let shown =
                || replica.query("postgres", MARK).is_ok_and(|rows| rows[0][0].as_ref() == Some(&mark));
            feed.state == "serving" && shown()
        });
        self.wait_until_fed(console);
    }

    /// Waits until the replica shows all that Consort has decoded, and serves.
    pub(super) fn wait_until_fed(&mut self, console: &mut Console) {
        self.wait_until("is fed", console, |feed| {
            feed.state == "serving" && feed.version == feed.newest_version
        });
    }

    /// Waits until the replica executes statements itself.
    pub(super) fn wait_until_executing(&mut self, console: &mut Console) {
        self.wait_until("executes", console, |feed| feed.state == "executing");
    }

    /// Waits until the replica's feed is so. Otherwise says what the feed and the last statements were.
    fn wait_until(&mut self, event: &str, console: &mut Console, so: impl Fn(&Feed) -> bool) {
        let mut last = Feed::default();
        let in_time = local_cluster::wait_until(LIMIT, || {
            last = self.look(console);
            so(&last)
        });
        let newest = &self.ran[self.ran.len().saturating_sub(3)..];
        assert!(
            in_time,
            "no replica that {event} within {LIMIT:?}: {last:?}; the last statements: {newest:?}"
        );
    }

    /// Copies without a known reason.
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

/// True if the statement may change definitions, or commit such a change.
fn may_define(statement: &str) -> bool {
    let others = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "MERGE ", "WITH ", "VALUES ", "SET ", "RESET "];
    let makes_a_table = statement.starts_with("SELECT ") && statement.contains(" INTO ");
    makes_a_table || !others.iter().any(|word| statement.starts_with(word))
}

/// The number of the next transaction at the primary, if it answers. A client that stays there past Consort
/// would be taken for a writer: each time it is another connection.
fn next_transaction(primary: &Node) -> Option<u64> {
    let rows = primary.query("postgres", "SELECT pg_snapshot_xmax(pg_current_snapshot())").ok()?;
    rows.first()?.first()?.as_deref()?.parse().ok()
}
