//! A client's statement in the flow of a commit, by PostgreSQL's own grammar.

use history::Consistency;
use pg_query::protobuf::{KeywordKind, ScanToken, Token};
use session_state::utility::{Assignment, Isolation, Modes, NewValue, Utility, What, split};
use statement_analysis::catalog::Builtin;
use statement_analysis::shape::Strings;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Class of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing.
    Empty,
    /// Reads, as far as its text shows.
    Read,
    /// May write.
    Write,
    /// BEGIN.
    Begin {
        /// READ COMMITTED was asked for, or nothing.
        raised: bool,
    },
    /// COMMIT; AND CHAIN.
    Commit(bool),
    /// ROLLBACK; AND CHAIN.
    Rollback(bool),
    /// Concerns the session alone, and runs outside of a transaction as inside.
    Local,
    /// The same, and it throws prepared statements away.
    Forgets,
    /// SET CONSTRAINTS.
    Constraints,
    /// Changes the catalog; `silent`: no event trigger hears of it.
    Catalog {
        /// Consort records it itself.
        silent: bool,
    },
    /// NOTIFY: every node's listeners hear of it.
    Notify,
    /// Sets sequences: all nodes go on behind their values.
    Sequences,
    /// LOCK TABLE, SELECT FOR UPDATE and their kind, with the tables.
    Locks {
        /// Names as they were written.
        tables: Vec<String>,
        /// Others may lock them so at the same time.
        shared: bool,
    },
    /// SET consort.consistency; nothing: the value with which the session began.
    Sets(Option<Consistency>),
    /// Refused.
    Refused(Refusal),
}

/// Why a statement is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The SQLSTATE.
    pub(crate) sqlstate: &'static str,
    /// Cause.
    pub(crate) message: &'static str,
    /// Hint.
    pub(crate) hint: &'static str,
}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Text for the server.
    pub(crate) text: String,
    /// Class of the statement.
    pub(crate) class: Class,
    /// The client asked for READ COMMITTED, and gets REPEATABLE READ.
    pub(crate) raised: bool,
}

impl Statement {
    /// Whether commands may be sent behind it before it is answered: it is no COPY, which takes what follows for its data.
    pub(crate) fn may_be_followed(&self) -> bool {
        // Several statements may be one text, with a COPY among them.
        let is_one = !self.text.trim_end().trim_end_matches(';').contains(';');
        self.class == Class::Write
            && starts(&self.text, &["INSERT", "UPDATE", "DELETE", "MERGE", "WITH"])
            && (is_one || !self.text.to_ascii_lowercase().contains("copy"))
    }
}

const fn not_supported(message: &'static str, hint: &'static str) -> Class {
    Class::Refused(Refusal { sqlstate: "0A000", message, hint })
}

const SERIALIZABLE: Class = not_supported(
    "SERIALIZABLE is not supported by this design: write skew between nodes cannot be found",
    "Use REPEATABLE READ, and lock what must not change with SELECT FOR UPDATE.",
);
const TWO_PHASE: Class =
    not_supported("prepared transactions cannot be certified", "Use COMMIT: it is atomic at all nodes.");
const DATABASES: Class = not_supported(
    "commands about databases, tablespaces and the server's configuration are not replicated by this design",
    "Run it at each node: consort psql --node NAME.",
);
const CONCURRENTLY: Class = not_supported(
    "CONCURRENTLY is not supported by this design: the command must run in the transaction that is certified",
    "Leave CONCURRENTLY out.",
);
const EXPLAINED_TABLE: Class = not_supported(
    "EXPLAIN ANALYZE of a command that makes a table is not supported by this design",
    "Explain its query alone.",
);
const ENCODING: Class = not_supported(
    "this design needs client_encoding = UTF8",
    "Leave the setting as it is; the driver converts texts.",
);
const REPLICATION_ROLE: Class = not_supported(
    "session_replication_role cannot be changed: changes would not be captured",
    "Disable single triggers with ALTER TABLE .. DISABLE TRIGGER.",
);
const UNKNOWN_CONSISTENCY: Class = Class::Refused(Refusal {
    sqlstate: "22023",
    message: "invalid value for parameter \"consort.consistency\"",
    hint: "Available values: strong, session, weak.",
});
const OWN: Class = Class::Refused(Refusal {
    sqlstate: "42501",
    message: "parameters of Consort itself cannot be set",
    hint: "consort.consistency is the one that sessions set.",
});

/// The statements of a text; one that the grammar refuses is one whole.
pub(crate) fn statements(text: &str) -> Vec<Statement> {
    let found = split(text, Strings::Standard);
    found.into_iter().map(|found| statement(&text[found.range.clone()], found.what)).collect()
}

/// A text that must be one statement.
pub(crate) fn single(text: &str) -> Statement {
    let mut all = statements(text);
    match all.len() {
        0 => Statement { text: text.to_owned(), class: Class::Empty, raised: false },
        1 => {
            let mut one = all.remove(0);
            // The server's own words for errors show places in the text.
            if one.text.len() <= text.len() && text.contains(&one.text) {
                text.clone_into(&mut one.text);
            }
            one
        }
        _ => Statement { text: text.to_owned(), class: Class::Write, raised: false },
    }
}

fn statement(piece: &str, what: What) -> Statement {
    let text = piece.to_owned();
    let sets_sequences = sets_sequences(piece);
    let mut found = match what {
        What::Tree => Statement { class: tree(piece), text, raised: false },
        What::Utility(utility) => of_utility(text, utility),
    };
    if sets_sequences && matches!(found.class, Class::Read | Class::Write) {
        found.class = Class::Sequences;
    }
    found
}

/// Whether the text names what sets a sequence.
fn sets_sequences(text: &str) -> bool {
    let small = text.to_ascii_lowercase();
    small.contains("setval") || small.starts_with("truncate") && small.contains("restart")
}

fn of_utility(text: String, utility: Utility) -> Statement {
    let plain = |class| Statement { text: text.clone(), class, raised: false };
    match utility {
        Utility::Begin(modes) => begin(&text, modes),
        Utility::Commit { chain } => plain(Class::Commit(chain)),
        Utility::Rollback { chain } => plain(Class::Rollback(chain)),
        Utility::PrepareTransaction(_) | Utility::CommitPrepared(_) | Utility::RollbackPrepared(_) => {
            plain(TWO_PHASE)
        }
        Utility::SetTransaction(modes) => levels(&text, modes, "SET TRANSACTION"),
        Utility::SetCharacteristics(modes) => {
            levels(&text, modes, "SET SESSION CHARACTERISTICS AS TRANSACTION")
        }
        Utility::Set(assignment) => set(&text, &assignment),
        Utility::SetConstraints => plain(Class::Constraints),
        Utility::Discard(_) | Utility::Deallocate => plain(Class::Forgets),
        Utility::CopyQuery { .. } => plain(read(&text)),
        Utility::Show(_) | Utility::CopyTo => plain(Class::Read),
        Utility::Explain { analyze: true, .. } if text.to_ascii_lowercase().contains("create ") => {
            plain(EXPLAINED_TABLE)
        }
        Utility::Explain { analyze, .. } => plain(if analyze { Class::Write } else { Class::Read }),
        Utility::Lock { relations, .. } => {
            let tables =
                relations.into_iter().map(|name| name_of(name.schema.as_deref(), &name.name)).collect();
            match lock_mode(&text) {
                LockMode::Weak => plain(Class::Write),
                LockMode::Share => plain(Class::Locks { tables, shared: true }),
                LockMode::Alone => plain(Class::Locks { tables, shared: false }),
            }
        }
        Utility::Maintain if starts(&text, &["REFRESH"]) => plain(Class::Catalog { silent: false }),
        Utility::Ddl { everywhere, .. } => plain(catalog(&text, everywhere)),
        Utility::Notify => plain(Class::Notify),
        Utility::Savepoint(_)
        | Utility::Release(_)
        | Utility::RollbackTo(_)
        | Utility::ResetAll
        | Utility::Prepare { .. }
        | Utility::Fetch
        | Utility::Close
        | Utility::Listen
        | Utility::Unlisten
        | Utility::Vacuum
        | Utility::Maintain
        | Utility::Checkpoint
        | Utility::Load => plain(Class::Local),
        Utility::Declare { .. }
        | Utility::Truncate { .. }
        | Utility::CopyFrom
        | Utility::Execute { .. }
        | Utility::Call
        | Utility::Do => plain(Class::Write),
        Utility::Unknown
            if starts(&text, &["CREATE", "ALTER", "DROP", "GRANT", "REVOKE", "COMMENT", "REINDEX"]) =>
        {
            plain(catalog(&text, false))
        }
        Utility::Unknown => plain(Class::Write),
    }
}

fn name_of(schema: Option<&str>, name: &str) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    schema.map_or_else(|| quoted(name), |schema| format!("{}.{}", quoted(schema), quoted(name)))
}

/// The words at the beginning, in capitals.
fn starts(text: &str, words: &[&str]) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    words.contains(&first.as_str())
}

fn catalog(text: &str, everywhere: bool) -> Class {
    let words: Vec<String> = text.split_whitespace().take(6).map(str::to_ascii_uppercase).collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    if matches!(
        (word(0), word(1)),
        ("CREATE" | "DROP", "DATABASE" | "SUBSCRIPTION")
            | ("CREATE" | "DROP" | "ALTER", "TABLESPACE")
            | ("ALTER", "SYSTEM" | "SUBSCRIPTION")
    ) {
        return DATABASES;
    }
    if words.iter().any(|word| word == "CONCURRENTLY") {
        return CONCURRENTLY;
    }
    Class::Catalog { silent: everywhere }
}

enum LockMode {
    Weak,
    Share,
    Alone,
}

fn lock_mode(text: &str) -> LockMode {
    let text = text.to_ascii_uppercase().split_whitespace().collect::<Vec<_>>().join(" ");
    if text.contains("ACCESS SHARE MODE")
        || text.contains("ROW SHARE MODE")
        || text.contains("IN ROW EXCLUSIVE MODE")
        || text.contains("SHARE UPDATE EXCLUSIVE MODE")
    {
        LockMode::Weak
    } else if text.contains("IN SHARE MODE") {
        LockMode::Share
    } else {
        LockMode::Alone
    }
}

/// A statement with a query tree.
fn tree(piece: &str) -> Class {
    if !starts(piece, &["SELECT", "WITH", "VALUES", "TABLE"]) && !piece.starts_with('(') {
        let is_catalog = starts(piece, &["CREATE"]);
        return if is_catalog { Class::Catalog { silent: false } } else { Class::Write };
    }
    let small = piece.to_ascii_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let locks = |word: &str| small.contains(word);
    if small.contains(" into ") && makes_a_table(piece) {
        return Class::Catalog { silent: false };
    }
    let alone = locks("for update") || locks("for no key update");
    if alone || locks("for share") || locks("for key share") {
        let Ok(parsed) = pg_query::parse(piece, pg_query::ParserOptions::DEFAULT) else {
            return Class::Write;
        };
        return Class::Locks { tables: parsed.tables(), shared: !alone };
    }
    read(piece)
}

/// Words of the grammar before a parenthesis that may also be names.
const SYNTAX: [&str; 6] = ["over", "filter", "materialized", "rollup", "cube", "sets"];

/// Names of PostgreSQL's own functions that run no code of users, and leave nothing that a roll-back keeps.
static PLAIN_FUNCTIONS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    use statement_analysis::catalog::Class::{
        Effect, LargeObject, Reload, RunsText, Sequence, SessionChange, Unknown,
    };
    let builtin = Builtin::default();
    let name = |signature: &'static str| signature.split('(').next().unwrap_or_default();
    let is_plain = |class| {
        !matches!(class, Sequence | SessionChange | Reload | RunsText | LargeObject | Effect | Unknown)
    };
    let (plain, others): (Vec<_>, Vec<_>) = builtin.entries().partition(|(_, class, _)| is_plain(*class));
    let others: BTreeSet<&str> = others.into_iter().map(|(.., signature)| name(signature)).collect();
    plain.into_iter().map(|(.., signature)| name(signature)).filter(|name| !others.contains(name)).collect()
});

/// Class of a query. One that calls functions of users may write, and its code may catch the error of a write in a READ ONLY
/// transaction, and go on without it.
fn read(query: &str) -> Class {
    if !query.contains('(') {
        return Class::Read;
    }
    let Ok(mut tokens) = pg_query::scan_tokens(query) else { return Class::Write };
    let is = |token: &ScanToken, kind: Token| token.token == kind as i32;
    tokens.retain(|token| !is(token, Token::SqlComment) && !is(token, Token::CComment));
    let text = |token: &ScanToken| {
        let place = |at: i32| usize::try_from(at).unwrap_or_default();
        query.get(place(token.start)..place(token.end)).unwrap_or_default().to_ascii_lowercase()
    };
    let calls_code = |at: usize| {
        let name = &tokens[at];
        let may_name = is(name, Token::Ident)
            || is(name, Token::Uident)
            || matches!(
                name.keyword_kind(),
                KeywordKind::UnreservedKeyword | KeywordKind::TypeFuncNameKeyword
            );
        if !may_name || !is(&tokens[at + 1], Token::Ascii40) {
            return false;
        }
        let schema = (at >= 2 && is(&tokens[at - 1], Token::Ascii46)).then(|| text(&tokens[at - 2]));
        let name = text(name);
        schema.is_some_and(|schema| schema != "pg_catalog")
            || !SYNTAX.contains(&&*name) && !PLAIN_FUNCTIONS.contains(&*name)
    };
    let calls = (0..tokens.len().saturating_sub(1)).any(calls_code);
    if calls { Class::Write } else { Class::Read }
}

/// Whether it is SELECT .. INTO.
fn makes_a_table(piece: &str) -> bool {
    let Ok(parsed) = pg_query::parse(piece, pg_query::ParserOptions::DEFAULT) else { return false };
    let statement = parsed.protobuf.stmts.first().and_then(|one| one.stmt.as_ref()?.node.as_ref());
    matches!(statement, Some(pg_query::NodeEnum::SelectStmt(select)) if select.into_clause.is_some())
}

/// The text of a level, and whether it was raised.
fn raised(modes: Modes) -> Result<bool, Class> {
    match modes.isolation {
        Some(Isolation::Serializable) => Err(SERIALIZABLE),
        Some(level) => Ok(level.is_read_committed()),
        None => Ok(false),
    }
}

fn modes_text(modes: Modes) -> String {
    let mut parts = vec!["ISOLATION LEVEL REPEATABLE READ"];
    parts.extend(modes.read_only.map(|only| if only { "READ ONLY" } else { "READ WRITE" }));
    parts.extend(modes.deferrable.map(|may| if may { "DEFERRABLE" } else { "NOT DEFERRABLE" }));
    parts.join(", ")
}

fn begin(text: &str, modes: Modes) -> Statement {
    match raised(modes) {
        Err(class) => Statement { text: text.to_owned(), class, raised: false },
        Ok(_) => {
            let raised = modes.isolation.is_none_or(Isolation::is_read_committed);
            Statement { text: format!("BEGIN {}", modes_text(modes)), class: Class::Begin { raised }, raised }
        }
    }
}

fn levels(text: &str, modes: Modes, words: &str) -> Statement {
    let unchanged = |class| Statement { text: text.to_owned(), class, raised: false };
    if modes.isolation.is_none() || modes.snapshot {
        return unchanged(Class::Local);
    }
    match raised(modes) {
        Err(class) => unchanged(class),
        Ok(raised) => {
            Statement { text: format!("{words} {}", modes_text(modes)), class: Class::Local, raised }
        }
    }
}

/// Whether PostgreSQL takes the name for UTF8; nothing is the session's own, which is UTF8.
pub(crate) fn is_utf8(name: &str) -> bool {
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    matches!(letters.to_ascii_lowercase().as_str(), "" | "utf8" | "unicode")
}

fn set(text: &str, assignment: &Assignment) -> Statement {
    let plain = |class| Statement { text: text.to_owned(), class, raised: false };
    let value = match &assignment.value {
        NewValue::To(value) => value.as_str(),
        NewValue::Default | NewValue::Reset | NewValue::Unknown => "",
    };
    match assignment.name.as_str() {
        "consort.consistency" if value.is_empty() => plain(Class::Sets(None)),
        "consort.consistency" => {
            plain(value.parse().map_or(UNKNOWN_CONSISTENCY, |level| Class::Sets(Some(level))))
        }
        name if name.starts_with("consort.") => plain(OWN),
        "session_replication_role" => plain(REPLICATION_ROLE),
        "client_encoding" if !is_utf8(value) => plain(ENCODING),
        name @ ("default_transaction_isolation" | "transaction_isolation") => match Isolation::of(value) {
            Some(Isolation::Serializable) => plain(SERIALIZABLE),
            Some(level) if level.is_read_committed() => {
                let local = if assignment.local { "LOCAL " } else { "" };
                let text = format!("SET {local}{name} = 'repeatable read'");
                Statement { text, class: Class::Local, raised: true }
            }
            _ => plain(Class::Local),
        },
        _ => plain(Class::Local),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Class {
        single(text).class
    }

    #[test]
    fn single_writes_may_be_followed() {
        let follows = |text| single(text).may_be_followed();
        assert!(follows("UPDATE copies SET v = 'copy';") && follows("DELETE FROM t"));
        assert!(!follows("DELETE FROM t; COPY t FROM STDIN") && !follows("COPY t FROM STDIN"));
    }

    #[test]
    fn isolation_below_snapshots_is_raised() {
        let one = single("begin");
        assert_eq!(
            (one.text.as_str(), one.class),
            ("BEGIN ISOLATION LEVEL REPEATABLE READ", Class::Begin { raised: true })
        );
        let one = single("START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY");
        assert_eq!(one.text, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY");
        assert_eq!(one.class, Class::Begin { raised: false });
        assert_eq!(class("BEGIN ISOLATION LEVEL SERIALIZABLE"), SERIALIZABLE);
        assert_eq!(class("SET default_transaction_isolation = serializable"), SERIALIZABLE);
        let one = single("SET default_transaction_isolation = 'read committed'");
        assert_eq!(
            (one.text.as_str(), one.raised),
            ("SET default_transaction_isolation = 'repeatable read'", true)
        );
        let one = single("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
        assert_eq!(one.text, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    }

    #[test]
    fn class_of_each_kind_of_statement() {
        assert_eq!(class("SELECT 1"), Class::Read);
        assert_eq!(class("insert into t values (1)"), Class::Write);
        assert_eq!(class("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE"), Class::Write);
        assert_eq!(class("CREATE TABLE t (a int)"), Class::Catalog { silent: false });
        assert_eq!(class("CREATE TABLE t AS SELECT 1"), Class::Catalog { silent: false });
        assert_eq!(class("SELECT 1 INTO t"), Class::Catalog { silent: false });
        assert_eq!(class("EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1"), EXPLAINED_TABLE);
        assert_eq!(class("SET NAMES 'latin1'"), ENCODING);
        assert_eq!(class("SET client_encoding = 'utf-8'"), Class::Local);
        assert_eq!(class("SELECT 'a into b'"), Class::Read);
        assert_eq!(class("EXECUTE p"), Class::Write);
        for query in [
            "SELECT count(*), coalesce(max(v), 0), now() FROM t WHERE id IN (1, 2) AND (a OR b)",
            "SELECT pg_catalog.lower(v), cast(v AS numeric(10, 2)) FROM t /* f( */ -- f(",
            "SELECT sum(v) FILTER (WHERE v > 0) OVER (PARTITION BY a), 'f(1)' FROM t",
        ] {
            assert_eq!(class(query), Class::Read, "{query}");
        }
        for query in [
            "SELECT f(1)",
            "SELECT count(f (v)) FROM t",
            "SELECT \"Count\"(1)",
            "SELECT s.lower(v) FROM t",
            "SELECT * FROM t ORDER BY f/* */(v)",
            "SELECT pg_advisory_lock(1)",
            "COPY (SELECT f(1)) TO STDOUT",
        ] {
            assert_eq!(class(query), Class::Write, "{query}");
        }
        assert_eq!(class("SELECT setval('s', 1)"), Class::Sequences);
        assert_eq!(class("TRUNCATE t RESTART IDENTITY"), Class::Sequences);
        assert_eq!(class("CREATE ROLE ann"), Class::Catalog { silent: true });
        assert_eq!(class("CREATE DATABASE d"), DATABASES);
        assert_eq!(class("CREATE INDEX CONCURRENTLY i ON t (a)"), CONCURRENTLY);
        assert_eq!(class("PREPARE TRANSACTION 'x'"), TWO_PHASE);
        assert_eq!(class("SET consort.consistency = strong"), Class::Sets(Some(Consistency::Strong)));
        assert_eq!(class("SET consort.consistency = much"), UNKNOWN_CONSISTENCY);
        assert_eq!(class("SET LOCAL consort.certifies = 'on'"), OWN);
        assert_eq!(class("DISCARD ALL"), Class::Forgets);
        assert_eq!(class(""), Class::Empty);
        let table = vec!["t".to_owned()];
        assert_eq!(
            class("SELECT * FROM t FOR UPDATE"),
            Class::Locks { tables: table.clone(), shared: false }
        );
        assert_eq!(class("SELECT * FROM t FOR SHARE"), Class::Locks { tables: table, shared: true });
    }
}
