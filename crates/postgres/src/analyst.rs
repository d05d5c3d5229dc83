//! PostgreSQL's own analysis of a statement's footprint: the analysed and rewritten query tree, which a mere
//! Parse sends as a notice on request. Nothing is executed, nothing is written.
//!
//! The connection takes on the asking session's settings and role first: names are resolved along its search path,
//! row-level policies are the role's. A superuser can become each role, another `control_user` those of which it is a
//! member. Parse waits for ACCESS EXCLUSIVE locks,
//! so the wait is short and there are several such connections.
//!
//! **No code of clients runs here.** Parse reads text constants as values of their types. The checks of
//! domains inside arrays and rows, and the canonical functions of ranges, run with that: any such function of
//! a client could become `control_user` again. So a text that may have such a constant is parsed under two
//! conditions. No domain's check of the database calls more than immutable functions of PostgreSQL's own. No
//! range has a canonical function of a client's. Every command that makes such an object writes to
//! `consort.log`, and the lock on that table keeps the conditions until the text is parsed.

use crate::Error;
use crate::address::Address;
use crate::link::Link;
use crate::roles::MAY_SET_ROLE;
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{Field, Message, NoticeResponseBody};
use postgres_protocol::message::frontend;
use session_state::Settings;
use statement_analysis::cache::SettingsId;
use statement_analysis::sql::literal;
use statement_analysis::template::Described;

/// Makes Parse send all messages to the client, the tree and every warning among them. Bounds the wait for a lock.
const SETTINGS: &str = "-c client_min_messages=log -c debug_pretty_print=off \
    -c escape_string_warning=on -c lock_timeout=50ms -c statement_timeout=2s";

/// Query of the role's rights, which keeps the trees out of the server's log if the role may. It returns true for a
/// superuser. `consort check` tells of a log that gets the trees.
const KEEP_OUT_OF_LOG: &str = "\
    SELECT current_setting('is_superuser') = 'on', \
      (SELECT count(set_config(name, value, false)) FROM (VALUES ('log_min_messages', 'fatal'), \
        ('log_min_error_statement', 'panic'), ('log_statement', 'none'), ('log_min_duration_statement', '-1'), \
        ('log_duration', 'off')) AS quiet (name, value) WHERE has_parameter_privilege(name, 'SET'))";

/// Query that turns the trees on. Its own tree has been rewritten by then.
const SEND_TREES: &str = "SELECT set_config('debug_print_rewritten', 'on', false)";

/// The message of the notice whose detail is the tree.
const TITLE: &[u8] = b"rewritten parse tree:";

/// PostgreSQL's answer about a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Analysed {
    /// The list of rewritten query trees, as `nodeToString` writes it. Empty for an empty statement.
    pub trees: String,
    /// OIDs of the parameters' types.
    pub parameters: Vec<u32>,
    /// Columns of the result; none if it returns no rows.
    pub columns: Vec<Described>,
    /// True if Parse sends its client a notice or a warning.
    pub warns: bool,
}

/// A connection that analyses statements.
pub struct Analyst {
    link: Link,
    /// Settings of the connection; unknown at first and after a failure.
    settings: Option<SettingsId>,
    /// Version of the catalog under which the connection took them on.
    catalog: u64,
    /// True if the role may set every setting and take on every role.
    is_superuser: bool,
    /// True if the database is attached: its DDL writes to the log table.
    is_attached: bool,
}

/// Statement that waits until no DDL runs, and lets none begin.
const LOCK: &str = "LOCK TABLE consort.log IN SHARE MODE;";
const IS_ATTACHED: &str = "SELECT pg_catalog.to_regclass('consort.log') IS NOT NULL";

/// Query: true if reading a constant may run more than immutable functions of PostgreSQL's own, as
/// `consort.is_plain` has it. No function of a client's is needed to become another role (`set_config`) or to
/// run a text (`query_to_xml`). Dependencies on objects of initdb are not written down, so the trees are
/// read. No name is resolved by the search path, which is a client's.
const RUNS_CODE: &str = "\
    SELECT EXISTS ( \
      SELECT 1 FROM pg_catalog.pg_constraint c \
      WHERE c.contypid OPERATOR(pg_catalog.>) 0::pg_catalog.oid AND c.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid \
        AND (c.conbin::pg_catalog.text OPERATOR(pg_catalog.~) \
               '[{](COERCEVIAIO|COERCETODOMAIN|SQLVALUEFUNCTION|ROWCOMPAREEXPR|XMLEXPR) ' \
          OR EXISTS (SELECT 1 FROM pg_catalog.regexp_matches(c.conbin::pg_catalog.text, ':(?:op)?funcid ([0-9]+)', 'g') AS f (id) \
            LEFT JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) f.id[1]::pg_catalog.oid \
              AND p.oid OPERATOR(pg_catalog.<) 16384::pg_catalog.oid AND p.provolatile OPERATOR(pg_catalog.=) 'i'::pg_catalog.\"char\" \
            WHERE p.oid IS NULL))) \
    OR EXISTS (SELECT 1 FROM pg_catalog.pg_range r \
      WHERE r.rngcanonical::pg_catalog.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid)";

/// Returns true if a text may hold a text constant.
fn has_text_constant(text: &str) -> bool {
    let bytes = text.as_bytes();
    let opens = |pair: &[u8]| pair[0] == b'$' && !pair[1].is_ascii_digit();
    bytes.contains(&b'\'') || bytes.windows(2).any(opens)
}

impl Analyst {
    /// Connects to the database whose statements are to be analysed, at the primary.
    ///
    /// # Errors
    /// As every connection.
    pub async fn connect(address: &Address) -> Result<Analyst, Error> {
        let mut link = Link::connect(address, SETTINGS).await?;
        let told = link.query(KEEP_OUT_OF_LOG).await?;
        link.query(SEND_TREES).await?;
        let is_superuser = told.into_iter().flatten().flatten().next().as_deref() == Some("t");
        Ok(Analyst { link, settings: None, catalog: 0, is_superuser, is_attached: false })
    }

    /// Notes the catalog's version. Under another version the memberships of roles may differ, but a backend
    /// does not look for the schemas of its search_path again for that. So the connection takes on the next
    /// session's settings again.
    pub fn under(&mut self, catalog: u64) {
        if std::mem::replace(&mut self.catalog, catalog) != catalog {
            self.settings = None;
        }
    }

    /// Analyses one statement as a session with these settings would see it. Types of parameters that the
    /// client left open are 0.
    ///
    /// # Errors
    /// [`Error::Refused`]: the statement's own error, a lock that was not free within 50 ms (55P03), or code
    /// of clients that would run (42501). None says anything about a later attempt.
    pub async fn analyse(
        &mut self,
        settings: &Settings,
        text: &str,
        parameters: &[u32],
    ) -> Result<Analysed, Error> {
        self.take_on(settings).await?;
        if !has_text_constant(text) {
            return self.parse(text, parameters).await;
        }
        let parsed = match self.keep_code_out(settings).await {
            Ok(()) => self.parse(text, parameters).await,
            Err(error) => Err(error),
        };
        self.link.query("ROLLBACK").await?;
        parsed
    }

    /// Begins a transaction in which reading constants runs no code of clients.
    async fn keep_code_out(&mut self, settings: &Settings) -> Result<(), Error> {
        if !self.is_attached {
            let found = self.link.query(IS_ATTACHED).await?;
            self.is_attached = found.into_iter().flatten().flatten().next().as_deref() == Some("t");
        }
        let lock = if self.is_attached { LOCK } else { "" };
        let role = |role| local_step("role", role);
        let sql = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT {}; {lock} {RUNS_CODE}; SELECT {}",
            role("none"),
            role(settings.effective_role().unwrap_or("none"))
        );
        let rows = self.link.query(&sql).await?;
        match rows.get(1).and_then(|row| row.first()).and_then(Option::as_deref) {
            Some("f") => Ok(()),
            _ => Err(Error::Refused {
                sqlstate: "42501".to_owned(),
                message: "cannot analyse the statement: a domain check or a range would run a function as control_user".to_owned(),
            }),
        }
    }

    async fn parse(&mut self, text: &str, parameters: &[u32]) -> Result<Analysed, Error> {
        let mut request = BytesMut::with_capacity(text.len() + 64);
        frontend::parse("", text, parameters.iter().copied(), &mut request)?;
        frontend::describe(b'S', "", &mut request)?;
        frontend::close(b'S', "", &mut request)?;
        frontend::sync(&mut request);
        let mut analysed = Analysed::default();
        self.link
            .ask(&request, |message| {
                match message {
                    Message::NoticeResponse(notice) => match trees(&notice)? {
                        Some(trees) => analysed.trees = trees,
                        None => analysed.warns |= is_for_clients(&notice)?,
                    },
                    Message::ParameterDescription(body) => {
                        analysed.parameters = body.parameters().collect()?
                    }
                    Message::RowDescription(body) => {
                        analysed.columns = body.fields().map(|field| Ok(described(&field))).collect()?;
                    }
                    _ => {}
                }
                Ok(())
            })
            .await?;
        Ok(analysed)
    }

    /// Returns true if the connection may take on the role of a session with these settings. The answer holds for the
    /// catalog's present version.
    ///
    /// # Errors
    /// As every query.
    pub async fn may_become(&mut self, settings: &Settings) -> Result<bool, Error> {
        let Some(role) = settings.effective_role().filter(|_| !self.is_superuser) else { return Ok(true) };
        let name = literal(role);
        let sql = format!(
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) {name} AND ( \
               r.rolname OPERATOR(pg_catalog.=) session_user \
               OR NOT r.rolsuper AND pg_catalog.pg_has_role(session_user, r.oid, {MAY_SET_ROLE})))"
        );
        let rows = self.link.query(&sql).await?;
        Ok(rows.into_iter().flatten().flatten().next().as_deref() == Some("t"))
    }

    /// Gives the connection a session's settings and role.
    async fn take_on(&mut self, settings: &Settings) -> Result<(), Error> {
        if self.settings == Some(settings.analysis_id()) {
            return Ok(());
        }
        self.settings = None;
        // The role comes last: the others may need the rights of the one that logged in.
        let mut steps = vec![step("role", "none")];
        // Other roles may not set it, not even to what it is. A session with another value is not analysed then.
        let keeps = |(name, value): &(&str, &str)| {
            self.is_superuser || (*name, *value) != ("session_replication_role", "origin")
        };
        steps.extend(settings.analysis().filter(keeps).map(|(name, value)| step(name, value)));
        steps.extend(settings.effective_role().map(|role| step("role", role)));
        self.link.query(&format!("SELECT {}", steps.join(", "))).await?;
        self.settings = Some(settings.analysis_id());
        Ok(())
    }
}

fn step(name: &str, value: &str) -> String {
    set(name, value, false)
}

fn local_step(name: &str, value: &str) -> String {
    set(name, value, true)
}

fn set(name: &str, value: &str, local: bool) -> String {
    // Independent of `standard_conforming_strings`: no backslash is left to be read in two ways.
    format!("pg_catalog.set_config('{name}', {}, {local})", literal(value))
}

fn described(field: &Field<'_>) -> Described {
    Described { table: field.table_oid(), attribute: field.column_id(), type_id: field.type_oid() }
}

/// Returns true for a notice, a warning or an information; other messages are for the server's log.
fn is_for_clients(notice: &NoticeResponseBody) -> Result<bool, Error> {
    let severity = |field: &postgres_protocol::message::backend::ErrorField<'_>| {
        Ok(field.type_() == b'V' && matches!(field.value_bytes(), b"NOTICE" | b"WARNING" | b"INFO"))
    };
    Ok(notice.fields().any(|field| severity(&field))?)
}

/// Returns the detail of the one notice that has it.
fn trees(notice: &NoticeResponseBody) -> Result<Option<String>, Error> {
    let (mut ours, mut detail) = (false, None);
    let mut fields = notice.fields();
    while let Some(field) = fields.next()? {
        match field.type_() {
            b'M' => ours = field.value_bytes() == TITLE,
            b'D' => detail = Some(String::from_utf8_lossy(field.value_bytes()).into_owned()),
            _ => {}
        }
    }
    Ok(detail.filter(|_| ours))
}
