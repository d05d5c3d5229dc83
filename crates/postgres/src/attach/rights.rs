//! Rights of a `control_user` that is no superuser: which are missing, the SQL that grants each, and the guarantee that
//! weakens without it. The same SQL is what an administrator runs once.

use super::{EVENT_TRIGGERS, Finding, OBJECTS, UNPROVEN, has_publication, publication};
use crate::Error;
use crate::address::Control;
use crate::roles::{MAY_READ_WAL, MAY_SET_ROLE};
use crate::sql::{literal, quoted};
use crate::version;

/// The role as the server shows it.
struct Role {
    name: String,
    is_superuser: bool,
    may_replicate: bool,
    monitors: bool,
    signals: bool,
    keeps_trees_out_of_log: bool,
    reads_wal: bool,
    reads_file_settings: bool,
    /// Roles of clients that it may not become; superusers excluded.
    strangers: Vec<String>,
}

/// Settings that the role should be allowed to set, so that no query tree lies in the server's log.
const QUIET: &str =
    "log_min_messages, log_min_error_statement, log_statement, log_min_duration_statement, log_duration";

/// Functions that read WAL. A role that may call them can read every file of the data directory.
const WAL_FUNCTIONS: &str =
    "pg_read_file(text, bigint, bigint, boolean), pg_read_binary_file(text, bigint, bigint, boolean)";

impl Role {
    async fn ask(control: &Control) -> Result<Role, Error> {
        let sql = format!(
            "SELECT r.rolname::text, r.rolsuper, r.rolreplication, \
               pg_catalog.pg_has_role(r.oid, 'pg_monitor', 'USAGE'), \
               pg_catalog.pg_has_role(r.oid, 'pg_signal_backend', 'USAGE'), \
               has_parameter_privilege('log_min_messages', 'SET') \
                 OR current_setting('log_min_messages') IN ('fatal', 'panic'), \
               ({MAY_READ_WAL}), has_table_privilege('pg_file_settings', 'SELECT') \
                 AND has_function_privilege('pg_show_all_file_settings()', 'EXECUTE'), \
               ARRAY(SELECT c.rolname::text FROM pg_roles c \
                 WHERE c.rolcanlogin AND NOT c.rolsuper AND NOT pg_has_role(r.oid, c.oid, {MAY_SET_ROLE}) ORDER BY 1) \
             FROM pg_roles r WHERE r.rolname = current_user"
        );
        let row = control.query_one(&sql, &[]).await?;
        Ok(Role {
            name: row.get(0),
            is_superuser: row.get(1),
            may_replicate: row.get(2),
            monitors: row.get(3),
            signals: row.get(4),
            keeps_trees_out_of_log: row.get(5),
            reads_wal: row.get(6),
            reads_file_settings: row.get(7),
            strangers: row.get(8),
        })
    }

    /// Missing rights at the whole server.
    fn findings(&self) -> Vec<Finding> {
        let role = quoted(&self.name);
        let mut findings = Vec::new();
        let mut find = |is_there: bool, fatal: bool, what: &str, sql: String| {
            if !is_there {
                findings.push(Finding::new(fatal, format!("the role {} {what}", self.name), sql));
            }
        };
        find(
            self.may_replicate,
            true,
            "has no REPLICATION: neither commits nor the timelines of standbys are read, and every read stays at the primary",
            format!("ALTER ROLE {role} REPLICATION;"),
        );
        find(
            self.monitors,
            true,
            "is no member of pg_monitor: no standby can prove its timeline, and every read stays at the primary",
            format!("GRANT pg_monitor TO {role};"),
        );
        find(
            self.signals,
            false,
            "is no member of pg_signal_backend: it cannot end sessions of clients, neither by KILL nor those of a leader \
             that hangs (G9)",
            format!("GRANT pg_signal_backend TO {role};"),
        );
        find(
            self.keeps_trees_out_of_log,
            false,
            "may not set log_min_messages: query trees with the constants of statements lie in the server's log (G10)",
            format!("GRANT SET ON PARAMETER {QUIET} TO {role};"),
        );
        find(
            self.reads_wal,
            false,
            "may not read WAL: standbys are compared with the primary by timeline alone, and one that has diverged on the \
             same timeline may serve reads (G9)",
            format!("GRANT EXECUTE ON FUNCTION {WAL_FUNCTIONS} TO {role}; -- in the database postgres"),
        );
        find(
            self.reads_file_settings,
            false,
            "may not read pg_file_settings: a standby with another local_preload_libraries may serve reads (G1)",
            format!(
                "GRANT SELECT ON pg_file_settings TO {role}; GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO {role}; \
                 -- in the database postgres"
            ),
        );
        let strangers: Vec<String> = self.strangers.iter().map(|name| quoted(name)).collect();
        let strangers = strangers.join(", ");
        find(
            self.strangers.is_empty(),
            false,
            &format!(
                "may not become {strangers}: reads of their sessions stay at the primary (role_not_analysed)"
            ),
            format!("GRANT {strangers} TO {role};"),
        );
        findings
    }
}

/// Returns the rights that the role lacks at the server of this connection. A superuser lacks none.
///
/// # Errors
/// As every query.
pub(super) async fn of_server(control: &Control) -> Result<Vec<Finding>, Error> {
    let role = Role::ask(control).await?;
    Ok(if role.is_superuser { Vec::new() } else { role.findings() })
}

/// Query of a database: whether the role may make the schema, and the owners of tables that it may not alter.
const DATABASE: &str = "\
    SELECT current_database()::text, current_user::text, current_setting('is_superuser') = 'on', \
      has_database_privilege(current_database(), 'CREATE') OR to_regnamespace('consort') IS NOT NULL, \
      ARRAY(SELECT DISTINCT o.rolname::text FROM pg_class c JOIN pg_roles o ON o.oid = c.relowner \
        WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384 \
          AND NOT o.rolsuper AND NOT pg_has_role(current_user, o.oid, 'USAGE') ORDER BY 1)";

/// Returns the rights that the role lacks in the database of this connection. `fix` is the command that prints an
/// administrator's SQL.
///
/// # Errors
/// As every query.
pub async fn check_rights(control: &Control, fix: &str) -> Result<Vec<Finding>, Error> {
    let row = control.query_one(DATABASE, &[]).await?;
    let (database, role): (String, String) = (row.get(0), row.get(1));
    if row.get(2) {
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    if !row.get::<_, bool>(3) {
        findings.push(Finding::new(
            true,
            format!(
                "{database}: the role {role} may not create the schema consort: reads stay at the primary"
            ),
            format!("ALTER DATABASE {} OWNER TO {};", quoted(&database), quoted(&role)),
        ));
    }
    let owners: Vec<String> = row.get::<_, Vec<String>>(4).iter().map(|name| quoted(name)).collect();
    if !owners.is_empty() {
        let owners = owners.join(", ");
        findings.push(Finding::new(
            false,
            format!(
                "{database}: the role {role} may not alter tables of {owners}: UPDATE and DELETE of those without a key fail \
                 until their owner sets REPLICA IDENTITY FULL (G5)"
            ),
            format!("GRANT {owners} TO {};", quoted(&role)),
        ));
    }
    let lacking = lacking_admin_objects(control).await?;
    if !lacking.is_empty() {
        findings.push(Finding::new(
            true,
            format!("{database}: an administrator has to make {}", lacking.join(", ")),
            fix,
        ));
    }
    Ok(findings)
}

/// Objects that only an administrator can make.
const EVENT_TRIGGERS_LACKING: &str = "\
    SELECT 'event trigger consort_' || event \
      FROM unnest(ARRAY['ddl_command_start', 'ddl_command_end', 'sql_drop', 'table_rewrite']) event \
      WHERE NOT EXISTS (SELECT FROM pg_event_trigger t WHERE t.evtname = 'consort_' || event AND t.evtenabled = 'A' \
        AND t.evtfoid = to_regproc('consort.note_command') \
        AND t.evttags IS NOT DISTINCT FROM CASE event WHEN 'ddl_command_start' THEN ARRAY['ALTER TABLE'] END)";

async fn lacking_admin_objects(control: &Control) -> Result<Vec<String>, Error> {
    let rows = control.query(EVENT_TRIGGERS_LACKING, &[]).await?;
    let mut lacking: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    if !has_publication(control, version::of_server(control).await?).await? {
        lacking.push("publication consort".to_owned());
    }
    Ok(lacking)
}

/// Refuses to attach if an administrator has to make something first. A superuser makes everything.
///
/// # Errors
/// [`Error::Setup`] with what is missing; otherwise as every query.
pub(super) async fn demand_admin_objects(control: &Control) -> Result<(), Error> {
    if Role::ask(control).await?.is_superuser {
        return Ok(());
    }
    let lacking = lacking_admin_objects(control).await?;
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Error::Setup(format!(
        "an administrator has to make {} first: run as one what `consort attach --print-admin-sql` prints",
        lacking.join(", ")
    )))
}

/// The error of detaching what an administrator has made.
pub(super) fn owned_by_administrator(error: &Error) -> Error {
    Error::Setup(format!(
        "{error}: the slot is dropped; run as an administrator: {}; then run `consort detach` again",
        include_str!("detach.sql")
            .lines()
            .filter(|line| !line.starts_with("--"))
            .map(|line| line.trim_end_matches(';'))
            .collect::<Vec<_>>()
            .join("; ")
    ))
}

/// Returns the SQL that an administrator runs once, for psql: what the role lacks at the server, and in each database.
/// The connections are the role's own. Empty for a superuser.
///
/// # Errors
/// As every query.
pub async fn admin_sql(server: &Control, databases: &[Control]) -> Result<String, Error> {
    let role = Role::ask(server).await?;
    if role.is_superuser {
        return Ok(String::new());
    }
    // The right to read WAL is one to read every file of the server: the administrator decides.
    let line = |finding: Finding| match finding.mend {
        line if line.starts_with("GRANT EXECUTE") => format!("-- optional: {line}"),
        line => line,
    };
    let mut sql = Vec::from_iter(role.findings().into_iter().map(line));
    sql.push("\\set ON_ERROR_STOP on".to_owned());
    for control in databases {
        sql.push(admin_sql_of_database(control, &role.name).await?);
    }
    Ok(sql.join("\n"))
}

async fn admin_sql_of_database(control: &Control, role: &str) -> Result<String, Error> {
    let name: String = control.query_one("SELECT current_database()::text", &[]).await?.get(0);
    // A connection string needs no further quoting than that of its value.
    let mut sql = vec![format!("\\connect {}", quoted(&name))];
    let findings = check_rights(control, "").await?;
    sql.extend(findings.into_iter().map(|finding| finding.mend).filter(|line| !line.is_empty()));
    if lacking_admin_objects(control).await?.is_empty() {
        return Ok(sql.join("\n"));
    }
    let hand_over = include_str!("hand_over.sql").replace("{owner}", &literal(role));
    let mark = format!("COMMENT ON TABLE consort.log IS '{UNPROVEN}';");
    sql.extend(
        ["BEGIN;", OBJECTS, &mark, &hand_over, EVENT_TRIGGERS, "COMMIT;", IDENTITIES].map(str::to_owned),
    );
    sql.push(format!("{};", publication(version::of_server(control).await?)));
    Ok(sql.join("\n"))
}

/// Gives an identity to each table that would be published without one. The publication is made afterwards.
const IDENTITIES: &str = "\
SELECT format('ALTER TABLE %s REPLICA IDENTITY FULL', oid::regclass) FROM pg_class
WHERE relkind = 'r' AND consort.lacks_identity(oid) \\gexec";
