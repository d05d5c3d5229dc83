//! The limit of open files. Each client is one, and so is each connection to a server: no more clients are let in than there is
//! room for, so that a client beyond them hears an error with a name.

use config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// No process needs more, and a limit that is infinite has a value that the system allows.
const MOST: u64 = 1 << 20;
/// Consort's own: listening sockets, control connections, decoders, files, and connections that are on their way in.
const OWN: usize = 128;

/// Raises the soft limit of this process to the hard one. A limit that cannot be raised stays.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(MOST).min(MOST);
    let Some(soft) = limit.current.filter(|soft| *soft < hard) else { return };
    match setrlimit(Resource::Nofile, Rlimit { current: Some(hard), ..limit }) {
        Ok(()) => tracing::info!(from = soft, to = hard, "raised the limit of open files"),
        Err(error) => tracing::warn!(%error, limit = soft, "cannot raise the limit of open files"),
    }
}

/// Lowers `max_clients` to what the limit has room for.
pub(crate) fn bound(config: &mut Config) {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (wanted, room) = (config.max_clients, clients(limit, config));
    if wanted > room {
        tracing::warn!(
            max_clients = room,
            wanted,
            open_files = limit,
            mend = "raise the hard limit (ulimit -H -n, LimitNOFILE of systemd)",
            "lowered max_clients to fit the limit of open files"
        );
        config.bound_clients(room);
    }
}

/// Most clients that the file limit allows besides the connections to servers: at least half of the files
/// that Consort's own leave.
fn clients(limit: usize, config: &Config) -> usize {
    let left = limit.saturating_sub(OWN);
    let pools = config.pools();
    let one = pools.of("", "");
    let readers = config.standby_connections * config.read_nodes().count();
    let servers = if one.mode.shares() { one.size + readers } else { left };
    left.saturating_sub(servers).max(left / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(lines: &str) -> Config {
        let text = format!(
            "auth_type = \"trust\"\n{lines}\n[primary]\nhost = \"h\"\n[[standby]]\nname = \"s\"\nhost = \"h\"\nport = 1\n"
        );
        Config::parse(&text, std::path::Path::new("dir/consort.toml")).unwrap()
    }

    /// 80 clients were the default, as if Consort were one backend each. A thousand have room under the usual hard limit.
    #[test]
    fn open_files_have_room_for_so_many_clients() {
        let shares = config("");
        assert_eq!(shares.max_clients, 1000);
        assert!(clients(4096, &shares) >= 1000);
        assert_eq!(clients(1024, &shares), 1024 - 128 - 20 - 64);
        assert_eq!(clients(200, &shares), 36, "half of what is left");
        assert_eq!(
            clients(1024, &config("pool_mode = \"session\"")),
            448,
            "each has a connection of its own"
        );
        assert_eq!(clients(10, &shares), 1);
    }

    #[test]
    fn bounded_clients_are_shown() {
        let mut config = config("max_clients = 90");
        config.bound_clients(100);
        assert_eq!(config.max_clients, 90);
        config.bound_clients(70);
        let shown = |config: &Config| {
            config.shown().find(|(key, _)| key.name == "max_clients").map(|(_, shown)| shown.to_owned())
        };
        assert_eq!((config.max_clients, shown(&config).as_deref()), (70, Some("70")));
    }
}
