//! Open transactions: those that attaching waits for, and their description for an operator.
//!
//! Event triggers do not fire for a command that began before they existed, and a transaction that began
//! before may not have loaded them. Such a transaction need not have a transaction id yet: CREATE TRIGGER
//! waits for its lock without one. And a snapshot does not list every running id (its xmax follows the newest
//! *completed* one). Each transaction has a virtual transaction id from its first moment on, so attaching
//! waits for those.

use super::SLOT_LIMIT;
use crate::Error;
use crate::address::Control;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// First pause between two queries of the open transactions.
const FIRST_ROUND: Duration = Duration::from_millis(5);
/// Longest pause between two queries: `pg_locks` holds up other sessions while it is read.
const LONGEST_ROUND: Duration = Duration::from_millis(250);
/// The wait is reported after this time, and again whenever it has become twice as long.
const FIRST_REPORT: Duration = Duration::from_secs(2);
/// Longest time between two reports.
const LONGEST_REPORT: Duration = Duration::from_secs(60);
/// An error or a report names this many transactions, the oldest first.
const NAMED: usize = 3;
/// Characters of a query in an error or a report.
const QUERY_CHARACTERS: usize = 200;

/// Maximum wait of attaching for open transactions, and the receiver of its reports.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// Limit of each wait. `None`: unlimited.
    pub limit: Option<Duration>,
    /// Receives the text that names the transactions: after two seconds, and then less and less often.
    pub report: &'a dyn Fn(&str),
}

impl Default for Patience<'_> {
    /// Returns a limit of five seconds, without reports.
    fn default() -> Self {
        Patience { limit: Some(SLOT_LIMIT), report: &|_| () }
    }
}

/// Databases whose open transactions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The database of the connection.
    Database,
    /// The database of the connection, and each transaction with an id in another database: a new slot waits
    /// for those.
    NewSlot,
}

/// A transaction, or a command of several transactions, that a query has found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    /// Owner: the backend, by process number and start, or the name of a prepared transaction.
    owner: (Option<i32>, String),
    virtual_xid: Option<String>,
    /// Start of the command, if it may go on in a further transaction.
    command: Option<String>,
    /// Description for the operator.
    text: String,
}

impl Open {
    /// Returns true if this transaction is still open in a later result.
    fn goes_on_in(&self, later: &Open) -> bool {
        self.owner == later.owner
            && (self.virtual_xid.is_some() && self.virtual_xid == later.virtual_xid
                || self.command.is_some() && self.command == later.command
                || self.is_prepared())
    }

    fn is_prepared(&self) -> bool {
        self.owner.0.is_none()
    }
}

/// Query of the open transactions. Autovacuum, VACUUM and the stream of a slot run no DDL, and may take
/// hours, so they are left out.
///
/// A command that commits before its end (such as CREATE INDEX CONCURRENTLY) is the same one as long as its
/// start is; its text says so, unless it was cut off or is not tracked.
const OPEN: &str = "\
    SELECT a.pid, a.backend_start::text, l.virtualxid, \
      CASE WHEN a.state = 'active' AND (a.query ~* 'concurrently' \
          OR octet_length(a.query) >= pg_size_bytes(current_setting('track_activity_query_size')) - 1) \
        THEN a.query_start::text \
        WHEN a.state = 'disabled' AND l.virtualxid IS NOT NULL THEN 'not tracked' END, \
      format('pid %s (user %s, database %s, %s%s)%s', a.pid, a.usename, a.datname, a.state, \
        CASE WHEN a.xact_start IS NOT NULL \
          THEN format(', open for %s s', ceil(extract(epoch FROM clock_timestamp() - a.xact_start))::bigint) END, \
        ': ' || nullif(a.query, '')), a.xact_start AS since \
    FROM pg_stat_activity a \
      LEFT JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'virtualxid' AND l.virtualxid = l.virtualtransaction \
    WHERE a.pid <> pg_backend_pid() AND a.backend_type NOT IN ('autovacuum worker', 'parallel worker') \
      AND NOT (a.backend_type = 'walsender' AND a.query LIKE 'START_REPLICATION%') \
      AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid) \
      AND (a.datname = current_database() OR $1 AND a.backend_xid IS NOT NULL) \
      AND (l.virtualxid IS NOT NULL OR a.state = 'active') \
    UNION ALL SELECT NULL, p.gid, NULL, NULL, \
      format('prepared transaction %L (user %s, database %s, open for %s s)', p.gid, p.owner, p.database, \
        ceil(extract(epoch FROM clock_timestamp() - p.prepared))::bigint), p.prepared \
    FROM pg_prepared_xacts p WHERE p.database = current_database() OR $1 \
    ORDER BY since";

async fn look(control: &Control, scope: Scope) -> Result<Vec<Open>, Error> {
    let rows = control.query(OPEN, &[&(scope == Scope::NewSlot)]).await?;
    let open = rows.iter().map(|row| Open {
        owner: (row.get(0), row.get(1)),
        virtual_xid: row.get(2),
        command: row.get(3),
        text: row.get(4),
    });
    Ok(open
        .filter(|open| open.is_prepared() || open.virtual_xid.is_some() || open.command.is_some())
        .collect())
}

/// Waits for the end of every transaction that is open now, and of every command that may have begun before
/// now.
///
/// # Errors
/// [`Error::NotReady`] with the transactions that are still open, at the limit.
pub(super) async fn wait_for_older(
    control: &Control,
    scope: Scope,
    patience: &Patience<'_>,
) -> Result<(), Error> {
    let mut wait = Wait { control, scope, patience, began: Instant::now(), next_report: FIRST_REPORT };
    let backends = look(control, scope).await?.into_iter().filter(|open| !open.is_prepared()).collect();
    wait.for_these(backends).await?;
    // Any of these sessions may have prepared its transaction instead of ending it.
    let prepared = look(control, scope).await?.into_iter().filter(Open::is_prepared).collect();
    wait.for_these(prepared).await
}

struct Wait<'a> {
    control: &'a Control,
    scope: Scope,
    patience: &'a Patience<'a>,
    began: Instant,
    next_report: Duration,
}

impl Wait<'_> {
    async fn for_these(&mut self, mut older: Vec<Open>) -> Result<(), Error> {
        let mut round = FIRST_ROUND;
        while !older.is_empty() {
            let waited = self.began.elapsed();
            if self.patience.limit.is_some_and(|limit| waited >= limit) {
                return Err(Error::NotReady(format!("timed out: {}", Waits { older: &older, waited })));
            }
            if waited >= self.next_report {
                self.next_report = waited + waited.min(LONGEST_REPORT);
                (self.patience.report)(&Waits { older: &older, waited }.to_string());
            }
            tokio::time::sleep(round).await;
            round = (round * 2).min(LONGEST_ROUND);
            let now = look(self.control, self.scope).await?;
            older = still_open(&older, now);
        }
        Ok(())
    }
}

/// Returns the earlier transactions that are still open, with their newer text.
fn still_open(older: &[Open], now: Vec<Open>) -> Vec<Open> {
    let goes_on = |earlier: &Open, later: &Open| earlier.goes_on_in(later);
    older
        .iter()
        .filter_map(|earlier| {
            let later = now.iter().find(|later| goes_on(earlier, later))?;
            Some(Open { text: later.text.clone(), ..earlier.clone() })
        })
        .collect()
}

/// A wait in words: its time so far and the transactions.
struct Waits<'a> {
    older: &'a [Open],
    waited: Duration,
}

impl fmt::Display for Waits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Waits { older, waited } = self;
        write!(f, "transactions older than the event triggers are open after {} s: ", waited.as_secs())?;
        f.write_str(&named(older))
    }
}

/// Returns the texts of the oldest transactions, each cut, and the number of the others.
fn named(open: &[Open]) -> String {
    let cut = |text: &str| match text.char_indices().nth(QUERY_CHARACTERS) {
        Some((at, _)) => format!("{} ..", &text[..at]),
        None => text.to_owned(),
    };
    let mut texts: Vec<String> = open.iter().take(NAMED).map(|open| cut(&open.text)).collect();
    if open.len() > NAMED {
        texts.push(format!("and {} more", open.len() - NAMED));
    }
    texts.join("; ")
}

/// The transactions that hold up a new slot, in words.
pub(super) async fn holders_of_slot(control: &Control) -> Result<String, Error> {
    Ok(named(&look(control, Scope::NewSlot).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(virtual_xid: Option<&str>, command: Option<&str>) -> Open {
        Open {
            owner: (Some(7), "noon".to_owned()),
            virtual_xid: virtual_xid.map(str::to_owned),
            command: command.map(str::to_owned),
            text: "pid 7".to_owned(),
        }
    }

    #[test]
    fn wait_ends_with_the_transaction_and_its_command() {
        let older = [open(Some("3/1"), None)];
        assert_eq!(still_open(&older, vec![open(Some("3/1"), None)]).len(), 1);
        assert!(still_open(&older, vec![open(Some("3/2"), None)]).is_empty(), "another transaction");
        assert!(still_open(&older, vec![]).is_empty());
        let reused = Open { owner: (Some(7), "one".to_owned()), ..open(Some("3/1"), None) };
        assert!(still_open(&older, vec![reused]).is_empty(), "another process of that number");
        // CREATE INDEX CONCURRENTLY has committed once, and goes on.
        let older = [open(Some("3/1"), Some("noon"))];
        assert_eq!(still_open(&older, vec![open(Some("3/2"), Some("noon"))]).len(), 1);
        assert!(still_open(&older, vec![open(Some("3/3"), Some("one"))]).is_empty(), "the next command");
    }

    #[test]
    fn report_names_the_oldest_and_counts_the_others() {
        let mut long = open(Some("3/1"), None);
        long.text = "ä".repeat(QUERY_CHARACTERS + 1);
        let said = named(&[long.clone(), long.clone(), long.clone(), long]);
        assert!(said.ends_with("; and 1 more") && said.contains("ä ..; ä"), "{said}");
    }
}
