//! Missing prerequisites of a server, each with the line that fixes it.

use super::rights;
use crate::Error;
use crate::address::Control;
use crate::version;

/// A finding: a setting or limit that differs from the required one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The problem.
    pub what: String,
    /// The line that fixes it.
    pub mend: String,
    /// True if Consort cannot work without a fix; otherwise it works worse than it could.
    pub fatal: bool,
}

impl Finding {
    pub(super) fn new(fatal: bool, what: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { what: what.into(), mend: mend.into(), fatal }
    }

    /// For a primary: settings that a standby lacks for a promotion.
    #[must_use]
    pub fn once_promoted(self) -> Finding {
        Finding { what: format!("if it is promoted: {}", self.what), fatal: false, ..self }
    }
}

/// State of a server: its settings, the rest of its limits, the rights of the role.
struct Server {
    version: String,
    in_recovery: bool,
    wal_level: String,
    free_slots: i64,
    free_senders: i64,
    slot_keep_mb: i64,
    wal_writer_ms: i32,
    feedback: bool,
    hot_standby: bool,
    slots_wanted: i64,
}

const SERVER: &str = "\
    SELECT current_setting('server_version'), pg_is_in_recovery(), \
      current_setting('wal_level'), \
      current_setting('max_replication_slots')::bigint - (SELECT count(*) FROM pg_replication_slots), \
      current_setting('max_wal_senders')::bigint - (SELECT count(*) FROM pg_stat_replication), \
      (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size'), \
      (SELECT setting::int FROM pg_settings WHERE name = 'wal_writer_delay'), \
      current_setting('hot_standby_feedback')::bool, current_setting('hot_standby')::bool, \
      (SELECT count(*) FROM unnest($1::text[]) followed WHERE NOT EXISTS ( \
        SELECT FROM pg_replication_slots WHERE database = followed AND slot_name LIKE 'consort\\_%'))";

impl Server {
    async fn ask(control: &Control, databases: &[String]) -> Result<Server, Error> {
        let row = control.query_one(SERVER, &[&databases]).await?;
        Ok(Server {
            version: row.get(0),
            in_recovery: row.get(1),
            wal_level: row.get(2),
            free_slots: row.get(3),
            free_senders: row.get(4),
            slot_keep_mb: row.get(5),
            wal_writer_ms: row.get(6),
            feedback: row.get(7),
            hot_standby: row.get(8),
            slots_wanted: row.get(9),
        })
    }

    /// Prerequisites without which a primary cannot be served.
    fn needs(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.wal_level != "logical" {
            findings.push(Finding::new(
                true,
                format!("wal_level is {}", self.wal_level),
                "ALTER SYSTEM SET wal_level = 'logical'; then restart the server",
            ));
        }
        let wanted = self.slots_wanted;
        for (name, free) in
            [("max_replication_slots", self.free_slots), ("max_wal_senders", self.free_senders)]
        {
            if free < wanted {
                findings.push(Finding::new(
                    true,
                    format!("{name} leaves {free} free, {wanted} more are needed: one per served database"),
                    format!("ALTER SYSTEM SET {name} = '64'; then restart the server"),
                ));
            }
        }
        findings
    }

    /// Prerequisites that a standby lacks to be served as the primary after a promotion: it serves reads
    /// without them.
    fn once_promoted(&self) -> Vec<Finding> {
        let lacks = self.needs().into_iter().chain(self.advice());
        lacks.map(Finding::once_promoted).collect()
    }

    /// Recommendations for a primary, which is served without them too.
    fn advice(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.slot_keep_mb < 0 {
            findings.push(Finding::new(
                false,
                "max_slot_wal_keep_size is -1: while Consort is down, its slot can fill the primary's disk",
                "ALTER SYSTEM SET max_slot_wal_keep_size = '8GB'; SELECT pg_reload_conf()",
            ));
        }
        if self.wal_writer_ms > WAL_WRITER_MS {
            findings.push(Finding::new(
                false,
                format!(
                    "wal_writer_delay is {} ms: commits with synchronous_commit = off reach standbys and decoder that much \
                     later, and reads run at the primary meanwhile",
                    self.wal_writer_ms
                ),
                "if clients use synchronous_commit = off: ALTER SYSTEM SET wal_writer_delay = '1ms'; \
                 SELECT pg_reload_conf()",
            ));
        }
        findings
    }

    fn wrong_major(&self) -> Option<Finding> {
        (!version::is_supported(&self.version)).then(|| {
            Finding::new(true, format!("the server is PostgreSQL {}", self.version), version::remedy())
        })
    }
}

/// Maximum `wal_writer_delay` (milliseconds) with which reads alongside asynchronous commits are usually
/// proven in time.
const WAL_WRITER_MS: i32 = 2;

/// Returns the missing prerequisites of this connection's primary. Each of these databases needs a slot, if
/// it has none. `None`: the design follows no commits.
///
/// # Errors
/// As every query.
pub async fn check(control: &Control, databases: Option<&[String]>) -> Result<Vec<Finding>, Error> {
    let server = Server::ask(control, databases.unwrap_or_default()).await?;
    let mut findings: Vec<Finding> = server.wrong_major().into_iter().collect();
    if server.in_recovery {
        let mend = "name the primary here, and this server under the standbys";
        findings.push(Finding::new(true, "the server is a standby", mend));
    }
    let follows = databases.is_some();
    findings.extend(follows.then(|| server.needs()).into_iter().flatten());
    findings.extend(rights::of_server(control).await?);
    findings.extend(follows.then(|| server.advice()).into_iter().flatten());
    Ok(findings)
}

/// Checks that the primary of this connection has room for this many client connections, by the setting that
/// allows them, in addition to Consort's own: `own` and `each` for every database that is served, all of them
/// if `databases` is `None`.
///
/// # Errors
/// As every query.
pub async fn check_room(
    control: &Control,
    (setting, clients): (&str, usize),
    own: usize,
    each: usize,
    databases: Option<usize>,
) -> Result<Option<Finding>, Error> {
    let row = control.query_one(ROOM, &[]).await?;
    let (max, reserved, all): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let own = number(own) + number(each) * databases.map_or(all, number);
    let (clients, room) = (number(clients), max - reserved - own);
    let finding = || {
        Finding::new(
            true,
            format!(
                "{setting} is {clients}, but the server has room for {room} of them: max_connections is {max}, less \
                 {reserved} (superuser_reserved_connections) and {own} of Consort's own"
            ),
            format!(
                "ALTER SYSTEM SET max_connections = '{}', at the standbys first (one that has fewer than the primary stops \
                 replaying), and restart each; or a smaller {setting}",
                clients + reserved + own
            ),
        )
    };
    Ok((clients > room).then(finding))
}

const ROOM: &str = "\
    SELECT current_setting('max_connections')::bigint, current_setting('superuser_reserved_connections')::bigint, \
      (SELECT count(*) FROM pg_database WHERE datallowconn AND NOT datistemplate)";

const PAUSED: &str = "\
    SELECT s FROM (SELECT pg_is_in_recovery() AS standby) AS r \
    CROSS JOIN LATERAL (SELECT CASE WHEN r.standby THEN pg_get_wal_replay_pause_state() END AS s) AS p \
    WHERE s <> 'not paused'";

/// Returns the prerequisites that the standby of this connection lacks to serve reads, and to take the
/// primary's place: each of these databases needs a slot then. `None`: the design follows no commits.
///
/// # Errors
/// As every query.
pub async fn check_standby(control: &Control, databases: Option<&[String]>) -> Result<Vec<Finding>, Error> {
    let server = Server::ask(control, databases.unwrap_or_default()).await?;
    let mut findings: Vec<Finding> = server.wrong_major().into_iter().collect();
    if !server.in_recovery {
        findings.push(Finding::new(
            true,
            "the server is not a standby: it is not in recovery",
            "make it one with pg_basebackup -R from the primary",
        ));
    }
    if !server.hot_standby {
        findings.push(Finding::new(
            true,
            "hot_standby is off",
            "ALTER SYSTEM SET hot_standby = on; then restart the standby",
        ));
    }
    if let Some(row) = control.query_opt(PAUSED, &[]).await? {
        findings.push(Finding::new(
            true,
            format!("replay is paused ({}): the standby answers only reads of unchanged data", row.get::<_, &str>(0)),
            "SELECT pg_wal_replay_resume(); if it ends, the server's log names the setting that is lower than at the primary \
             (max_connections and others): raise it and start the standby again",
        ));
    }
    if !server.feedback {
        findings.push(Finding::new(
            false,
            "hot_standby_feedback is off: vacuum at the primary can cancel reads at the standby",
            "ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf()",
        ));
    }
    if databases.is_some() {
        findings.extend(server.once_promoted());
    }
    Ok(findings)
}
