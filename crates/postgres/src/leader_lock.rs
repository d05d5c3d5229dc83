//! Leader election of several Consorts in front of the same servers: the leader holds one advisory lock at
//! the primary.
//!
//! ```text
//! leads   --asks, again and again------------------------------------------>  as long as it is answered
//!         --asks ... hangs, or is cut off    the primary ends its session:     the lock is free
//! waits   --tries the lock, again and again--------------------------------->  leads
//! ```
//!
//! The primary itself keeps the time: it ends a session that is silent for `idle_session_timeout`, and
//! releases the lock with it. So no other Consort has the lock before that much time has passed since the
//! last answered query was *sent*. This holds as long as the session is not terminated by hand and the
//! primary does not crash. The next leader queries the [traces](Claim::traces) that a living one leaves.

use crate::Error;
use crate::address::{Address, Control};
use std::fmt;
use std::time::Duration;

/// Keys of the lock: "cons", "ort".
const KEYS: &str = "1668247155, 1869771776";
const IS_LOCK: &str =
    "l.locktype = 'advisory' AND l.classid = 1668247155 AND l.objid = 1869771776 AND l.objsubid = 2";

/// Holder of the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Pid of the holder's backend at the primary.
    pub pid: i32,
    /// Client address of its session; `None` for a Unix socket.
    pub address: Option<String>,
    /// True if its role is this Consort's own, or a superuser's: any other may take an advisory lock too, but has
    /// no business with this one.
    pub is_consort: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.address.as_deref().unwrap_or("a Unix socket");
        write!(f, "process {} at the primary, logged in from {from}", self.pid)
    }
}

/// Traces of the lock's former holder at the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traces {
    /// The start of the primary's present incarnation, microseconds since 1970: compared for equality only.
    pub life_us: i64,
    /// Number of Consort's slots that are being read.
    pub streams: i64,
}

/// A connection that requests the lock, or holds it.
pub struct Claim {
    control: Control,
    pid: i32,
}

impl Claim {
    /// Connects. The primary ends the session after `lease` without a query; never, if that is zero. The lock
    /// is waited for no longer than `patience` at a time, because a waiting session holds up VACUUM.
    ///
    /// # Errors
    /// As every connection.
    pub async fn open(primary: &Address, lease: Duration, patience: Duration) -> Result<Claim, Error> {
        let control = Control::connect(primary).await?;
        let (lease_ms, patience_ms) = (lease.as_millis(), patience.as_millis());
        let settings = format!(
            "SET idle_session_timeout = {lease_ms}; SET lock_timeout = {patience_ms}; \
             SELECT set_config('log_min_messages', 'fatal', false) WHERE has_parameter_privilege('log_min_messages', 'SET')"
        );
        control.batch_execute(&settings).await?;
        let pid = control.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
        Ok(Claim { control, pid })
    }

    /// Pid of the connection's backend at the primary.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Takes the lock as soon as it is free. `false`: another session has held it all the while. The holder
    /// must not call this.
    ///
    /// # Errors
    /// As every query.
    pub async fn take(&self) -> Result<bool, Error> {
        let sql = format!("SELECT pg_advisory_lock({KEYS})");
        match self.control.query_one(&sql, &[]).await.map_err(Error::from) {
            Ok(_) => Ok(true),
            Err(error) if error.is("55P03") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renews the lease.
    ///
    /// # Errors
    /// As every query: the lock may be lost.
    pub async fn renew(&self) -> Result<(), Error> {
        Ok(self.control.query_one("SELECT 1", &[]).await.map(drop)?)
    }

    /// Returns the holder of the lock, and the time since its last query.
    ///
    /// # Errors
    /// As every query.
    pub async fn holder(&self) -> Result<Option<(Holder, Duration)>, Error> {
        let sql = format!(
            "SELECT l.pid, host(a.client_addr), coalesce(r.rolsuper OR r.rolname = current_user, false), \
               (extract(epoch FROM clock_timestamp() - a.state_change) * 1000)::int8 FROM pg_locks l \
             JOIN pg_stat_activity a USING (pid) LEFT JOIN pg_roles r ON r.oid = a.usesysid \
             WHERE {IS_LOCK} AND l.granted AND l.database = a.datid AND a.datname = current_database()"
        );
        let row = self.control.query_opt(&sql, &[]).await?;
        Ok(row.map(|row| {
            let silent_ms = row.get::<_, Option<i64>>(3).unwrap_or_default();
            let holder = Holder { pid: row.get(0), address: row.get(1), is_consort: row.get(2) };
            (holder, Duration::from_millis(u64::try_from(silent_ms).unwrap_or_default()))
        }))
    }

    /// Returns the traces that a living Consort leaves at the primary in addition to the lock.
    ///
    /// # Errors
    /// As every query.
    pub async fn traces(&self) -> Result<Traces, Error> {
        let row = self.control.query_one(TRACES, &[]).await?;
        Ok(Traces { life_us: row.get(0), streams: row.get(1) })
    }

    /// Terminates this backend at the primary.
    ///
    /// # Errors
    /// As every query.
    pub async fn end(&self, pid: i32) -> Result<(), Error> {
        Ok(self.control.query("SELECT pg_terminate_backend($1)", &[&pid]).await.map(drop)?)
    }

    /// Ends the traces of the lock's former holder: the streams of its slots, and the locks that it holds for
    /// copies.
    ///
    /// # Errors
    /// As every query.
    pub async fn end_streams(&self) -> Result<(), Error> {
        Ok(self.control.query(&end_streams(), &[]).await.map(drop)?)
    }

    /// Ends all sessions that were logged in from the holder's address, except those of Consorts themselves.
    /// Returns the number of those that this role may not end.
    ///
    /// # Errors
    /// As every query.
    pub async fn end_sessions(&self, holder: &Holder) -> Result<i64, Error> {
        let from = holder.address.as_deref();
        Ok(self.control.query_one(&end_sessions(), &[&from]).await?.get(0))
    }

    /// Number of client sessions at the primary that have written and not ended their transactions.
    ///
    /// # Errors
    /// As every query.
    pub async fn writers(&self) -> Result<i64, Error> {
        Ok(self.control.query_one(&writers(), &[]).await?.get(0))
    }
}

/// Returns true if a Consort leads at the primary of this connection, in any of its databases.
///
/// # Errors
/// As every query.
pub async fn is_led(control: &Control) -> Result<bool, Error> {
    let sql = format!("SELECT EXISTS (SELECT FROM pg_locks l WHERE {IS_LOCK} AND l.granted)");
    Ok(control.query_one(&sql, &[]).await?.get(0))
}

const TRACES: &str = "\
    SELECT coalesce((SELECT (extract(epoch FROM backend_start) * 1000000)::int8 FROM pg_stat_activity \
                     WHERE backend_type = 'checkpointer'), 0), \
           (SELECT count(*) FROM pg_replication_slots \
            WHERE slot_type = 'logical' AND slot_name LIKE 'consort\\_%' AND active)";

/// Condition on `pg_stat_activity a`, that the session is a Consort's own: its name, and the role of this one or a superuser. Any
/// client may give itself the name.
pub const IS_CONSORT: &str = "\
    (a.application_name = 'consort' AND EXISTS (SELECT FROM pg_catalog.pg_roles r \
      WHERE r.oid = a.usesysid AND (r.rolsuper OR r.rolname = current_user)))";
/// Condition that this role may end the session: only a superuser may end one of a superuser, and the attempt would keep the
/// others from being ended.
const MAY_END: &str = "\
    (current_setting('is_superuser') = 'on' OR NOT EXISTS (SELECT FROM pg_roles s WHERE s.oid = a.usesysid AND s.rolsuper))";

fn end_streams() -> String {
    format!(
        "SELECT pg_terminate_backend(a.pid) FROM pg_replication_slots p JOIN pg_stat_activity a ON a.pid = p.active_pid \
         WHERE p.slot_type = 'logical' AND p.slot_name LIKE 'consort\\_%' AND p.active AND {MAY_END} \
         UNION ALL SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a \
         WHERE {IS_CONSORT} AND a.state LIKE 'idle in transaction%' AND a.pid <> pg_backend_pid() AND {MAY_END}"
    )
}

/// Ends those that may be ended, and counts the others.
fn end_sessions() -> String {
    format!(
        "SELECT count(*) FILTER (WHERE NOT is_ended) FROM (SELECT CASE WHEN {MAY_END} THEN pg_terminate_backend(a.pid) \
         ELSE false END AS is_ended FROM pg_stat_activity a WHERE a.backend_type = 'client backend' \
         AND NOT {IS_CONSORT} AND host(a.client_addr) IS NOT DISTINCT FROM $1::text) ended"
    )
}

fn writers() -> String {
    format!(
        "SELECT count(*) FROM pg_stat_activity a \
         WHERE a.backend_type = 'client backend' AND a.backend_xid IS NOT NULL AND NOT {IS_CONSORT}"
    )
}
