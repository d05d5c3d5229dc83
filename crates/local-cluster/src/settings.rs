//! The configuration of the local servers: one file of ours that PostgreSQL's own includes, so that what a person adds
//! to `postgresql.conf` below the include, or by ALTER SYSTEM, has the last word.

use postgres::sql::conninfo_value;
use std::fmt::Write;
use std::path::Path;

/// Clients that can log in at the nodes themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogIns {
    /// Only users that can enter the folder of the sockets: Consort's own. No client bypasses Consort.
    SocketOnly,
    /// Also local users by TCP on loopback, trusted, as PostgreSQL's own initdb would have it.
    Loopback,
}

/// The name of our file in the data folder.
pub(crate) const FILE: &str = "consort.conf";

/// The line at the end of `postgresql.conf`.
pub(crate) const INCLUDE: &str =
    "\ninclude 'consort.conf'    # Consort's; lines below it have the last word\n";

/// Settings that differ between the nodes of one cluster.
pub(crate) struct NodeSettings<'a> {
    pub(crate) name: &'a str,
    pub(crate) port: u16,
    pub(crate) sockets: &'a Path,
    pub(crate) log_ins: LogIns,
    /// The folder of the sockets and the port of the primary that it follows; `None` for the primary itself.
    pub(crate) follows: Option<(&'a Path, u16)>,
    /// True if it follows the primary only until it is fed.
    pub(crate) joins: bool,
}

/// Overrides of the primary's ALTER SYSTEM settings at a server of a base backup: it would wait for the
/// primary's standbys, write into its archive, and subscribe under its name. And the line that marks it as
/// ready for a feed.
pub(crate) fn of_a_backup() -> String {
    format!(
        "synchronous_standby_names = ''\narchive_mode = 'off'\nmax_logical_replication_workers = '0'\n\
         primary_slot_name = ''\n{} = 'on'\n",
        postgres::base_backup::SETTING
    )
}

/// Settings of every node of `up`. The limits are equal everywhere: a standby must not have less than its
/// primary.
const EVERYWHERE: &str = "\
wal_level = logical                     # the decoder's slot
max_wal_senders = 64                    # one per standby and per served database
max_replication_slots = 64              # the same
max_slot_wal_keep_size = '8GB'          # a slot that falls behind never fills the disk
hot_standby = on
hot_standby_feedback = on               # vacuum at the primary spares what standbys read
wal_receiver_status_interval = '1s'
wal_writer_delay = '1ms'                # asynchronous commits are soon at the standbys and the decoder
wal_retrieve_retry_interval = '200ms'   # a standby is back soon after its primary
logging_collector = on
log_directory = '../log'
log_filename = 'postgresql-%a.log'      # a week, then over again
log_truncate_on_rotation = on
log_rotation_age = '1d'
log_rotation_size = 0
";

/// The whole file.
pub(crate) fn file(node: &NodeSettings<'_>, more: &[(String, String)]) -> String {
    let mut text = format!("# Written by Consort for the node {}.\n{EVERYWHERE}", node.name);
    let mut set = |name: &str, value: &str| {
        writeln!(text, "{name} = {}", quoted(value)).expect("a String takes every text");
    };
    set("cluster_name", node.name);
    set("port", &node.port.to_string());
    set("unix_socket_directories", &format!("\"{}\"", node.sockets.display()));
    set("listen_addresses", if node.log_ins == LogIns::Loopback { "localhost" } else { "" });
    if let Some(primary) = node.follows {
        set("primary_conninfo", &conninfo(node, primary));
        set("primary_slot_name", &if node.joins { String::new() } else { slot_of(node.name) });
    }
    for (name, value) in more {
        set(name, value);
    }
    text
}

/// Connection string of a standby to its primary.
fn conninfo(node: &NodeSettings<'_>, (sockets, port): (&Path, u16)) -> String {
    let host = conninfo_value(&sockets.display().to_string());
    format!("host={host} port={port} user=postgres application_name={}", node.name)
}

/// The physical slot at the primary that keeps the WAL for this standby.
pub(crate) fn slot_of(standby: &str) -> String {
    format!("standby_{standby}")
}

/// Rules for logins. Within the folder of the sockets every client is trusted: the folder's permissions
/// decide who is there.
pub(crate) fn host_based_authentication(log_ins: LogIns) -> String {
    let mut text =
        "# Written by Consort. The folder of the sockets can be entered by Consort's own user only.\n\
                    local all all trust\nlocal replication all trust\n"
            .to_owned();
    if log_ins == LogIns::Loopback {
        for address in ["127.0.0.1/32", "::1/128"] {
            writeln!(text, "host all all {address} trust\nhost replication all {address} trust")
                .expect("a String takes every text");
        }
    }
    text
}

/// A value between quotes, as `postgresql.conf` has it.
pub(crate) fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_quotes() {
        assert_eq!(quoted("it's"), "'it''s'");
        let node = NodeSettings {
            name: "standby1",
            port: 5433,
            sockets: Path::new("/tmp/o'brien"),
            log_ins: LogIns::SocketOnly,
            follows: Some((Path::new("/tmp/o'brien"), 5432)),
            joins: false,
        };
        let text = file(&node, &[("work_mem".to_owned(), "8MB".to_owned())]);
        assert!(text.contains("unix_socket_directories = '\"/tmp/o''brien\"'\n"), "{text}");
        assert!(text.contains(r"host=''/tmp/o\\''brien'' port=5432"), "{text}");
        assert!(text.ends_with("work_mem = '8MB'\n"), "{text}");
        assert!(text.contains("primary_slot_name = 'standby_standby1'\n"), "{text}");
        let text = file(&NodeSettings { name: "replica1", joins: true, ..node }, &[]);
        assert!(
            text.contains("primary_slot_name = ''\n") && text.contains("application_name=replica1'"),
            "{text}"
        );
    }
}
