//! The table of keys: name, default, what it is for, and how it is read. The only place that knows them; the manual's
//! table is generated from it.

mod words;

use std::time::Duration;
use toml::de::DeValue;

pub use super::key::{Key, Place};
use super::key::{choice, choice_in, global, procedure, reloaded, reloaded_server, server};
use super::value::{
    Read, declared, default, duration, flag, least_duration, networks, number, one_of, share, shown, size,
    tables, text, texts,
};
use super::{Choice, LogFormat, Server};
use crate::pooling::PoolMode;
use crate::statement_log::Routing;
use words::{AUTH_TYPES, GRAINS, SERVER_TLS, UNREPLICABLE_DDL, WRITERS, design};

/// PgBouncer's names of global keys that have another one here: both are understood.
pub const ALIASES: &[(&str, &str)] =
    &[("max_client_conn", "max_clients"), ("client_login_timeout", "login_time")];

/// The key of this name in this place.
pub fn find(place: Place, name: &str) -> Option<&'static Key> {
    let alias = ALIASES.iter().find(|(alias, _)| place == Place::Global && *alias == name);
    let name = alias.map_or(name, |(_, name)| name);
    KEYS.iter().find(|key| key.stands_in(place) && key.name == name)
}

/// A key's default as `SHOW CONFIG` writes values: without quotes.
pub fn shown_default(key: &Key) -> String {
    shown(&default(key.default))
}

/// The name that was probably meant.
pub(super) fn nearest(place: Place, name: &str) -> Option<&'static str> {
    let names = KEYS.iter().filter(|key| key.stands_in(place)).map(|key| key.name);
    let tables = ["primary", "standby", "replica", "database", "user", "procedure"]
        .into_iter()
        .filter(|_| place == Place::Global);
    let near = names.chain(tables).map(|known| (strsim::damerau_levenshtein(known, name), known));
    near.filter(|(distance, known)| *distance <= known.len().max(name.len()) / 3 + 1)
        .min()
        .map(|(_, known)| known)
}

/// A lease is long enough to be renewed a few times, or there is none.
fn lease(value: &DeValue<'_>) -> Read<Duration> {
    let lease = duration(value)?;
    let fits = lease.is_zero() || (SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease);
    if fits { Ok(lease) } else { Err("expected \"0s\", or from \"1s\" to \"1h\"".to_owned()) }
}

const SHORTEST_LEASE: Duration = Duration::from_secs(1);
const LONGEST_LEASE: Duration = Duration::from_secs(3600);

/// Every key.
pub static KEYS: &[Key] = &[
    global("listen", "[\"127.0.0.1:6432\"]", "Addresses on which clients are awaited.", |config, value| {
        config.listen = texts(value)?;
        config.listen.iter().try_for_each(|address| check_address(address))
    }),
    global(
        "unix_socket_dir",
        "\"\"",
        "Folder of a Unix socket for clients, `.s.PGSQL.PORT` with the first port of `listen`; empty: none.",
        |config, value| {
            let path = config.path(value);
            put(&mut config.unix_socket_dir, path)
        },
    ),
    global(
        "auth_type",
        "\"scram-sha-256\"",
        "How clients prove who they are: `scram-sha-256`, `md5` (SCRAM all the same if a role's secret is a SCRAM \
         key), `password` (in clear: sensible under TLS only), `trust`: nobody is asked who comes from this machine; from \
         elsewhere it is SCRAM all the same; or `hba`: as the rules in `auth_hba_file` say.",
        |config, value| put(&mut config.auth_type, one_of(value, AUTH_TYPES)),
    ),
    reloaded(global(
        "auth_hba_file",
        "\"\"",
        "With `auth_type = \"hba\"`: who may come in, and how, in the format of PostgreSQL's `pg_hba.conf` \
         ([which parts of it](operation.md#who-may-enter)).",
        |config, value| {
            let path = config.path(value);
            put(&mut config.auth_hba_file, path)
        },
    )),
    reloaded(global(
        "auth_ident_file",
        "\"\"",
        "The maps that `map=` names in `auth_hba_file`, in the format of PostgreSQL's `pg_ident.conf`.",
        |config, value| {
            let path = config.path(value);
            put(&mut config.auth_ident_file, path)
        },
    )),
    reloaded(global(
        "auth_file",
        "\"\"",
        "Roles and their secrets, one `\"role\" \"secret\"` a line as PgBouncer has it. A secret is a password, a SCRAM \
         key or an MD5 hash. Consort logs in at the nodes as the client's role with it.",
        |config, value| {
            let path = config.path(value);
            put(&mut config.auth_file, path)
        },
    )),
    reloaded(global(
        "auth_user",
        "\"\"",
        "The role as which the primary is asked for the secrets of roles that have no line in `auth_file`, at each of their \
         log-ins; empty: it is not. Its own password comes from `auth_file`.",
        |config, value| put(&mut config.auth_user, text(value)),
    )),
    reloaded(global(
        "auth_query",
        "\"SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN NULL ELSE rolpassword END FROM \
         pg_catalog.pg_authid WHERE rolname = $1 AND rolcanlogin\"",
        "What `auth_user` asks: a query with the role as its parameter, which gives the role and its secret, or nothing. A \
         SECURITY DEFINER function spares `auth_user` to be a superuser.",
        |config, value| put(&mut config.auth_query, text(value)),
    )),
    reloaded(global(
        "auth_dbname",
        "\"postgres\"",
        "The database in which `auth_user` asks.",
        |config, value| put(&mut config.auth_dbname, text(value)),
    )),
    global(
        "tls_certificate",
        "\"\"",
        "PEM file with the certificate chain that clients are shown; empty: no TLS.",
        |config, value| {
            let path = config.path(value);
            put(&mut config.tls_certificate, path)
        },
    ),
    global("tls_key", "\"\"", "PEM file with the key of `tls_certificate`.", |config, value| {
        let path = config.path(value);
        put(&mut config.tls_key, path)
    }),
    global(
        "client_tls_ca",
        "\"\"",
        "PEM file with the certificates whose signature counts on those of clients, for `cert` and `clientcert=` in \
         `auth_hba_file`; empty: clients are asked for none.",
        |config, value| {
            let path = config.path(value);
            put(&mut config.client_tls_ca, path)
        },
    ),
    global("tls_required", "false", "Refuse clients that do not use TLS.", |config, value| {
        put(&mut config.tls_required, flag(value))
    }),
    global(
        "server_tls",
        "\"disable\"",
        "TLS towards the nodes, as libpq's `sslmode`: `disable`, `prefer` (in the clear where a node has no TLS, or somebody on the \
         way says so), `require` (whoever answers is believed), `verify-ca` or `verify-full`. Unix sockets are never encrypted.",
        |config, value| put(&mut config.server_tls, one_of(value, SERVER_TLS)),
    ),
    global(
        "server_tls_ca",
        "\"\"",
        "PEM file with the certificates that the nodes' own are signed by, for `verify-ca` and `verify-full`.",
        |config, value| {
            let path = config.path(value);
            put(&mut config.server_tls_ca, path)
        },
    ),
    global(
        "server_tls_certificate",
        "\"\"",
        "PEM file with the certificate chain that nodes are shown which ask for one; empty: none.",
        |config, value| {
            let path = config.path(value);
            put(&mut config.server_tls_certificate, path)
        },
    ),
    global(
        "server_tls_key",
        "\"\"",
        "PEM file with the key of `server_tls_certificate`.",
        |config, value| {
            let path = config.path(value);
            put(&mut config.server_tls_key, path)
        },
    ),
    global(
        "control_user",
        "\"postgres\"",
        "The role as which Consort itself watches the nodes, a superuser. Its secret comes from `auth_file`.",
        |config, value| put(&mut config.control_user, text(value)),
    ),
    global(
        "databases",
        "[\"*\"]",
        "Databases that are followed, so that their reads may leave the primary; `*` is all. Each takes one replication \
         slot at the primary, which is read from the start. Others are served by the primary alone; a slot that one of \
         them has from before is left over (`consort detach`).",
        |config, value| put(&mut config.databases, texts(value)),
    ),
    global(
        "attach_on_first_use",
        "false",
        "Attach a followed database by itself when it is first used. `consort up` sets it; otherwise `consort attach` \
         is what changes your servers.",
        |config, value| put(&mut config.attach_on_first_use, flag(value)),
    ),
    global(
        "design",
        "\"consort\"",
        "What decides where a read runs: `consort` (only where it is proven to show what the primary would show), \
         `weak` (anywhere: stale reads, for comparison only), or the design of a paper ([designs](designs.md)).",
        |config, value| put(&mut config.design, design(value).map(Some)),
    ),
    reloaded(global(
        "writers",
        "\"anywhere\"",
        "`anywhere`: others may write at the primary past Consort, and each read's proof reckons with it. \
         `through-consort`: nobody else can log in at the nodes; cheaper proofs. Watched: a foreign commit switches to \
         `anywhere` as soon as it is decoded, a foreign log-in at the primary within half a second if it lasts that long; \
         RELOAD switches back.",
        |config, value| put(&mut config.writers, one_of(value, WRITERS).map(Some)),
    )),
    global(
        "lease_time",
        "\"0s\"",
        "Of several Consorts in front of the same servers, which all say the same here (`\"10s\"`): so long the one that leads is \
         taken to live when nothing is heard of it; then another one takes over ([how](operation.md#two-consorts)). `\"0s\"`: one \
         takes over only when the connection of the one that leads has ended; with `writers = \"through-consort\"` reads go on for \
         as long as the primary is silent.",
        |config, value| put(&mut config.lease_time, lease(value)),
    ),
    reloaded(global(
        "consistency",
        "\"\"",
        "What a session's reads may see that asks for nothing else: `strong`, `session`, `bounded 200ms` (any \
         duration), `weak` or `primary`; docs/consistency.md says what each means. Empty: what the design says, `weak` \
         for `weak`, else `strong`.",
        |config, value| match text(value)?.as_str() {
            "" => put(&mut config.consistency.consistency, Ok(None)),
            _ => set_consistency(&mut config.consistency, value),
        },
    )),
    reloaded(global(
        "read_only_snapshots",
        "false",
        "Transactions declared REPEATABLE READ READ ONLY may run at a standby as a whole ([what that means](consistency.md#transactions)). Where the design has reads wait for replicas it counts as true.",
        |config, value| put(&mut config.consistency.read_only_snapshots, flag(value).map(Some)),
    )),
    global(
        "proof_limit",
        "\"5ms\"",
        "How long a standby's answer is held for its proof before the statement runs at the primary instead; and how long a read waits for a standby that is about to replay what it must see. \
         While the primary takes longer than that to answer the looks that a proof needs, as long as they take, up to twenty times.",
        |config, value| put(&mut config.proof_limit, duration(value)),
    ),
    global(
        "wait_limit",
        "\"5s\"",
        "How long a client waits at most where its design has it wait: a read for a replica, a commit for its turn, a statement for its \
         tables. Then it gets SQLSTATE 40001. In `forward` a refresh waits half as long for those who read at its replica; then these get it.",
        |config, value| put(&mut config.wait_limit, duration(value)),
    ),
    global(
        "acknowledged_by",
        "0",
        "Where the design has commits take turns: so many replicas show a commit before its client hears of it; if they do not \
         within `wait_limit`, the client gets SQLSTATE 40003, and the commit stands.",
        |config, value| put(&mut config.acknowledged_by, number(value, 0, 1_000)),
    ),
    reloaded(global(
        "max_clients",
        "1000",
        "Clients at one time (PgBouncer's `max_client_conn`, which is understood too). The limit of open files lowers it: Consort \
         raises the soft limit to the hard one, and the log and SHOW CONFIG have what is left ([open files](operation.md#open-files)). \
         With `pool_mode = \"session\"` each client owns a connection at the primary, so that its `max_connections` must be larger.",
        |config, value| put(&mut config.max_clients, number(value, 1, 100_000)),
    )),
    reloaded(global(
        "max_clients_per_address",
        "0",
        "Clients of one address (of one /64 network for IPv6); 0: no limit but `max_clients`. Who comes then is refused (53300). Behind \
         a balancer of `proxy_protocol_from` the client's own address counts; who comes through a Unix socket has none.",
        |config, value| put(&mut config.max_clients_per_address, number(value, 0, 100_000)),
    )),
    reloaded(global(
        "login_time",
        "\"60s\"",
        "How long a client may take to log in (PgBouncer's `client_login_timeout`, which is understood too).",
        |config, value| put(&mut config.login_time, duration(value)),
    )),
    reloaded(global(
        "max_half_open_per_address",
        "0",
        "Clients of one address (of one /64 network for IPv6) that may be logging in at one time; 0: as many as of all together. \
         For doors that strangers reach; all connections of a pool that begins may be logging in at once.",
        |config, value| put(&mut config.max_half_open_per_address, number(value, 0, 100_000)),
    )),
    reloaded(global(
        "proxy_protocol_from",
        "[]",
        "Addresses or networks of balancers that say by the PROXY protocol (version 1 or 2) who their clients are: from these \
         it must come, from others it is not taken.",
        |config, value| put(&mut config.proxy_protocol_from, networks(value)),
    )),
    reloaded(global(
        "pool_mode",
        "\"transaction\"",
        "How long a client keeps its connection at the primary: `transaction` (until its transaction ends, unless something of it \
         lives there; [how](operation.md#clients-that-share-connections)), `session` (as long as it stays) or `statement` (as \
         `transaction`, and it may not begin a transaction block: 08P01, and it is sent away). Who keeps its connection goes on so after \
         a RELOAD.",
        |config, value| put(&mut config.pool.mode, one_of(value, &PoolMode::ALL)),
    )),
    reloaded(global(
        "default_pool_size",
        "20",
        "Where clients share connections: how many there are at the primary for one role in one database. (With `pool_mode = \
         \"session\"` each client has its own, and `max_clients`, `max_db_connections` and `max_user_connections` limit them, or a \
         `pool_size` of their database or their role.)",
        |config, value| put(&mut config.pool.size, number(value, 1, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "min_pool_size",
        "0",
        "Where clients share connections, and there are any: so many are kept open for one role in one database, used or not. Not where \
         `max_db_connections` or `max_user_connections` limits them.",
        |config, value| put(&mut config.pool.min_size, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "reserve_pool_size",
        "0",
        "So many connections more for one role in one database, once a client has waited for `reserve_pool_timeout`.",
        |config, value| put(&mut config.pool.reserve, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "reserve_pool_timeout",
        "\"5s\"",
        "How long a client waits before a connection of the reserve is opened for it; `\"0s\"`: none is.",
        |config, value| put(&mut config.pool.reserve_wait, duration(value)),
    )),
    reloaded(global(
        "max_db_connections",
        "0",
        "Clients' connections at the primary in one database, whoever has them; 0: no limit. For one that must wait, one that nobody \
         uses in the same database is closed.",
        |config, value| put(&mut config.pool.database_connections, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "max_db_client_connections",
        "0",
        "Clients in one database; 0: no limit but `max_clients`. Who comes then is refused (53300).",
        |config, value| put(&mut config.pool.database_clients, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "max_user_connections",
        "0",
        "Clients' connections at the primary of one role, in all databases; 0: no limit.",
        |config, value| put(&mut config.pool.user_connections, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "max_user_client_connections",
        "0",
        "Clients of one role, in all databases; 0: no limit but `max_clients`.",
        |config, value| put(&mut config.pool.user_clients, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "query_wait_timeout",
        "\"2min\"",
        "A client that waits longer for a connection at the primary is told so and leaves (53300); `\"0s\"`: it waits on.",
        |config, value| put(&mut config.pool.wait, duration(value)),
    )),
    reloaded(global(
        "server_idle_timeout",
        "\"10min\"",
        "A shared connection that nobody has used for so long is closed; `\"0s\"`: it stays.",
        |config, value| put(&mut config.pool.idle, duration(value)),
    )),
    reloaded(global(
        "server_lifetime",
        "\"1h\"",
        "A shared connection that is older is closed when its client leaves it; `\"0s\"`: it is used once.",
        |config, value| put(&mut config.pool.life, duration(value)),
    )),
    reloaded(global(
        "server_connect_timeout",
        "\"5s\"",
        "A log-in at the primary that takes longer has failed. Counts for clients that come after a RELOAD.",
        |config, value| put(&mut config.pool.connect, duration(value)),
    )),
    reloaded(global(
        "server_login_retry",
        "\"0s\"",
        "Behind a log-in that the primary did not answer, or refused for a reason of its own (too many connections, starting up, no \
         such database), so long the next ones of this role in this database get the same error without another try; `\"0s\"`: \
         each is tried.",
        |config, value| put(&mut config.pool.retry, duration(value)),
    )),
    reloaded(global(
        "client_idle_timeout",
        "\"0s\"",
        "A client that has asked for nothing for so long, outside a transaction, is sent away (57P05); `\"0s\"`: it stays.",
        |config, value| put(&mut config.pool.client_idle, duration(value)),
    )),
    reloaded(global(
        "idle_transaction_timeout",
        "\"0s\"",
        "A client that has asked for nothing for so long inside a transaction is sent away (25P03); `\"0s\"`: it stays.",
        |config, value| put(&mut config.pool.idle_transaction, duration(value)),
    )),
    reloaded(global(
        "transaction_timeout",
        "\"0s\"",
        "A client whose transaction takes longer is sent away (25P04), and what it runs is ended; `\"0s\"`: it may.",
        |config, value| put(&mut config.pool.transaction, duration(value)),
    )),
    reloaded(global(
        "query_timeout",
        "\"0s\"",
        "A client whose statement takes longer, its wait for a connection included, is sent away (57014), and the statement is ended; \
         `\"0s\"`: it may. PostgreSQL's `statement_timeout` does less harm.",
        |config, value| put(&mut config.pool.query, duration(value)),
    )),
    global(
        "standby_connections",
        "64",
        "Connections that Consort opens to one standby at most. A read that finds none free runs at the primary.",
        |config, value| put(&mut config.standby_connections, number(value, 1, 10_000)),
    ),
    global(
        "analysis_cache",
        "\"16MB\"",
        "Memory for what is known about statements. A statement that is not in it is analysed again.",
        |config, value| put(&mut config.analysis_cache_bytes, size(value, 64 << 10)),
    ),
    global(
        "freshness_rows",
        "917504",
        "Rows whose last change is remembered. Older ones count as their table's last forgotten change.",
        |config, value| put(&mut config.freshness_rows, number(value, 1_000, 100_000_000)),
    ),
    global(
        "held_answer",
        "\"64kB\"",
        "How much of a standby's answer is held until it is proven; a longer answer waits in the network.",
        |config, value| put(&mut config.held_answer_bytes, size(value, 1 << 10)),
    ),
    global(
        "fed_buffer",
        "\"256MB\"",
        "Memory, for each database, for the rows of commits that some replica has not kept yet. What is more than that goes \
         to files.",
        |config, value| put(&mut config.fed_buffer_bytes, size(value, 1 << 20)),
    ),
    global(
        "fed_archive",
        "\"4GB\"",
        "Room in files, for each database, for such rows: in `TMPDIR`, or else in `/var/tmp`, without names. A replica that \
         falls further behind is copied anew; so is one whose server is away while its slot keeps more of the primary's log \
         than `fed_buffer` and this together. `\"0B\"`: no files.",
        |config, value| put(&mut config.fed_archive_bytes, size(value, 0)),
    ),
    global(
        "unreplicable_ddl",
        "\"copy\"",
        "DDL that is known beforehand not to run at replicas with the same effect (DROP OWNED, IMPORT FOREIGN SCHEMA, a partition \
         that is detached CONCURRENTLY): `copy`: it runs, and the database is copied anew to each replica; `refuse`: it is refused before \
         it does anything, with SQLSTATE 0A000, also where it does not come through Consort. Without `attach_on_first_use` it counts \
         from the next `consort attach` on.",
        |config, value| put(&mut config.unreplicable_ddl, one_of(value, UNREPLICABLE_DDL)),
    ),
    global(
        "apply_connections",
        "1",
        "Connections to a replica that is behind on which commits are executed at once, for each database, where they do not \
         depend on each other; they become visible in their order. 1: one commit after the other.",
        |config, value| put(&mut config.apply_connections, number(value, 1, 64)),
    ),
    global(
        "statement_rows",
        "20",
        "Where the design has statements travel to replicas: a transaction that wrote fewer rows than this travels as rows, which \
         cost a replica less then.",
        |config, value| put(&mut config.statement_rows, number(value, 1, 1_000_000_000)),
    ),
    global(
        "footprint_grain",
        "\"row\"",
        "For experiments: what a read tells apart when it asks whether something that it reads was written: `row` (tables, \
         their columns, and rows by their primary key), `column` (tables and columns), or `table`. The coarser, the more \
         reads stay at the primary.",
        |config, value| put(&mut config.footprint_grain, one_of(value, GRAINS)),
    ),
    global(
        "reads_in_blocks",
        "true",
        "Reads of a transaction block that may write may leave the primary, statement by statement. `false`: such a block is \
         the primary's as a whole; blocks that are declared to read only, and statements outside blocks, may leave all the same.",
        |config, value| put(&mut config.reads_in_blocks, flag(value)),
    ),
    global(
        "harmless_functions",
        "[]",
        "Functions (`schema.name`) and extensions (`name`) that may run at a replica. An IMMUTABLE function counts by its name. A STABLE or \
         VOLATILE one counts if a table `[procedure.\"schema.name\"]` declares the tables that it reads, and none that it writes: \
         these tables count as read by the statement. VOLATILE functions in C never count \
         ([what to declare](offload.md#functions-of-your-own)).",
        |config, value| put(&mut config.harmless_functions, texts(value)),
    ),
    global(
        "shadow",
        "\"\"",
        "For tests: a file that gets a line for each answer of a standby that is not the primary's. Each read that leaves \
         also runs at the primary, before and after, and answers are held whole. Empty: off.",
        |config, value| {
            let path = config.path(value);
            put(&mut config.shadow, path)
        },
    ),
    global(
        "console_database",
        "\"consort\"",
        "Name of the database that answers SHOW commands instead of a server's.",
        |config, value| put(&mut config.console_database, text(value)),
    ),
    reloaded(global(
        "admin_users",
        "[\"postgres\"]",
        "Roles that may look and command in the console (SHOW HELP lists them: KILL, SET, VERIFY REPAIR and SHUTDOWN among them).",
        |config, value| put(&mut config.admin_users, texts(value)),
    )),
    reloaded(global("stats_users", "[]", "Roles that may look in the console.", |config, value| {
        put(&mut config.stats_users, texts(value))
    })),
    global(
        "metrics_listen",
        "\"\"",
        "Address of `/metrics` (Prometheus), `/healthz` and `/readyz`; empty: none.",
        |config, value| {
            let address = text(value)?;
            config.metrics_listen = (!address.is_empty()).then_some(address);
            config.metrics_listen.as_deref().map_or(Ok(()), check_address)
        },
    ),
    reloaded(global(
        "log_level",
        "\"info\"",
        "The least level that is logged: `error`, `warn`, `info`, `debug` or `trace`.",
        |config, value| {
            let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level));
            put(&mut config.log_level, one_of(value, &levels).map(str::to_owned))
        },
    )),
    global("log_format", "\"text\"", "`text` for people, `json` for programs.", |config, value| {
        put(&mut config.log_format, one_of(value, &[("text", LogFormat::Text), ("json", LogFormat::Json)]))
    }),
    reloaded(global(
        "log_routing",
        "\"none\"",
        "Statements of which the log says where they ran, why, and how long they waited ([such lines](operation.md#lines-about-statements)): \
         `none`, `primary` (reads that ran at the primary, and what begins as they do) or `all`.",
        |config, value| put(&mut config.statement_log.routing, one_of(value, Routing::ALL)),
    )),
    reloaded(global(
        "log_statement_sample_rate",
        "1",
        "The share of those statements that has a line, from 0 to 1.",
        |config, value| put(&mut config.statement_log.sample_rate, share(value)),
    )),
    reloaded(global(
        "log_min_duration_statement",
        "-1",
        "Each statement that took so long has such a line, too: milliseconds, or a duration such as `\"250ms\"`; 0: each, -1: none.",
        |config, value| put(&mut config.statement_log.min_duration, least_duration(value)),
    )),
    reloaded(global(
        "log_client_stalls",
        "\"1min\"",
        "A client that takes nothing for so long of an answer that is there for it is named in the log, once; `\"0s\"`: none is.",
        |config, value| put(&mut config.log_client_stalls, duration(value)),
    )),
    reloaded(global(
        "drain_time",
        "\"30s\"",
        "After SIGTERM or SHUTDOWN: how long open transactions may go on before their clients are cut off.",
        |config, value| put(&mut config.drain_time, duration(value)),
    )),
    server(Place::Primary, "name", "\"primary\"", "Its name in Consort's words.", set_name),
    server(Place::Primary, "host", "", "Host name, address, or the folder of its Unix socket.", set_host),
    server(Place::Primary, "port", "5432", "Its port.", set_port),
    server(
        Place::Standby,
        "name",
        "\"\"",
        "Its name in Consort's words; empty: `standby1`, `standby2` ..",
        set_name,
    ),
    server(Place::Standby, "host", "", "Host name, address, or the folder of its Unix socket.", set_host),
    server(Place::Standby, "port", "5432", "Its port.", set_port),
    reloaded_server(
        Place::Standby,
        "weight",
        "1",
        "Its share of the reads against the other nodes'; 0: it is watched and never read from.",
        |server, value| put(&mut server.weight, number(value, 0, 1_000)),
    ),
    reloaded_server(
        Place::Replica,
        "name",
        "\"\"",
        "Its name in Consort's words; empty: `replica1`, `replica2` .. RELOAD takes in who is new, and lets go of who is not \
         named any more.",
        set_name,
    ),
    reloaded_server(
        Place::Replica,
        "host",
        "",
        "Host name, address, or the folder of its Unix socket. Another one is another replica.",
        set_host,
    ),
    reloaded_server(Place::Replica, "port", "5432", "Its port.", set_port),
    reloaded_server(
        Place::Replica,
        "weight",
        "1",
        "Its share of the reads against the other nodes'; 0: it is fed and never read from.",
        |server, value| put(&mut server.weight, number(value, 0, 1_000)),
    ),
    reloaded_server(
        Place::Replica,
        "tables",
        "[]",
        "The tables that it has: `name` (in every schema), `schema.name` or `schema.*`, with their partitions and children; \
         empty: all ([how](operation.md#a-part-of-the-tables)). With others than before it is copied anew.",
        |server, value| put(&mut server.tables, tables(value)),
    ),
    choice(
        "consistency",
        "As the global key, for sessions in this database or of this user; the user's wins.",
        set_consistency,
    ),
    choice(
        "read_only_snapshots",
        "As the global key, for sessions in this database or of this user; the user's wins.",
        |choice, value| put(&mut choice.read_only_snapshots, flag(value).map(Some)),
    ),
    choice(
        "pool_mode",
        "As the global key, for clients in this database or of this user; the user's wins.",
        |choice, value| put(&mut choice.pool.mode, one_of(value, &PoolMode::ALL).map(Some)),
    ),
    choice(
        "pool_size",
        "Connections at the primary for one role in this database, or for this role in each database, also where clients keep their \
         own; the user's wins. Not given: `default_pool_size` where they are shared.",
        |choice, value| put(&mut choice.pool.size, number(value, 1, MOST_CONNECTIONS).map(Some)),
    ),
    choice(
        "reserve_pool_size",
        "As the global key, for clients in this database or of this user; the user's wins.",
        |choice, value| put(&mut choice.pool.reserve, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(Place::Database, "min_pool_size", "As the global key, for this database.", |choice, value| {
        put(&mut choice.pool.min_size, number(value, 0, MOST_CONNECTIONS).map(Some))
    }),
    choice_in(
        Place::Database,
        "server_lifetime",
        "As the global key, for this database; `\"0s\"`: the global one.",
        |choice, value| put(&mut choice.pool.life, duration(value).map(Some)),
    ),
    choice_in(
        Place::Database,
        "max_db_connections",
        "As the global key, for this database; 0: the global one.",
        |choice, value| put(&mut choice.pool.connections, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(
        Place::Database,
        "max_db_client_connections",
        "As the global key, for this database; 0: the global one.",
        |choice, value| put(&mut choice.pool.clients, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(
        Place::User,
        "max_user_connections",
        "As the global key, for this user; 0: the global one.",
        |choice, value| put(&mut choice.pool.connections, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(
        Place::User,
        "max_user_client_connections",
        "As the global key, for this user; 0: the global one.",
        |choice, value| put(&mut choice.pool.clients, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(
        Place::User,
        "client_idle_timeout",
        "As the global key, for this user; `\"0s\"`: the global one.",
        |choice, value| put(&mut choice.pool.client_idle, duration(value).map(Some)),
    ),
    choice_in(
        Place::User,
        "idle_transaction_timeout",
        "As the global key, for this user; `\"0s\"`: the global one.",
        |choice, value| put(&mut choice.pool.idle_transaction, duration(value).map(Some)),
    ),
    choice_in(
        Place::User,
        "transaction_timeout",
        "As the global key, for this user; `\"0s\"`: the global one.",
        |choice, value| put(&mut choice.pool.transaction, duration(value).map(Some)),
    ),
    choice_in(
        Place::User,
        "query_timeout",
        "As the global key, for this user; `\"0s\"`: the global one.",
        |choice, value| put(&mut choice.pool.query, duration(value).map(Some)),
    ),
    procedure(
        "tables_read",
        "The tables that the procedures and functions of this name read, and those that are read because of what they write: \
         names as in `consort.tables_read`, `'*'` for all ([what a declaration says](designs.md#declared-procedures)).",
        |procedure, value| put(&mut procedure.tables_read, declared(value)),
    ),
    procedure(
        "tables_written",
        "The tables that they write, their triggers and all that follows included, and the sequences whose numbers they draw.",
        |procedure, value| put(&mut procedure.tables_written, declared(value)),
    ),
];

/// No limit of connections or clients is larger.
const MOST_CONNECTIONS: usize = 100_000;

fn set_consistency(choice: &mut Choice, value: &DeValue<'_>) -> Read<()> {
    let written = text(value)?;
    let parsed = written.parse();
    choice.consistency = Some(parsed.map_err(|_| {
        format!(
            "expected \"strong\", \"session\", \"bounded 200ms\", \"weak\" or \"primary\", found {written:?}"
        )
    })?);
    Ok(())
}

fn set_name(server: &mut Server, value: &DeValue<'_>) -> Read<()> {
    put(&mut server.name, text(value))
}

fn set_host(server: &mut Server, value: &DeValue<'_>) -> Read<()> {
    put(&mut server.host, text(value))
}

fn set_port(server: &mut Server, value: &DeValue<'_>) -> Read<()> {
    put(&mut server.port, number(value, 1, u16::MAX))
}

/// Puts a value into its place, if it could be read.
fn put<T>(place: &mut T, value: Read<T>) -> Read<()> {
    *place = value?;
    Ok(())
}

/// `host:port`, an IPv6 address in brackets.
fn check_address(address: &str) -> Read<()> {
    let port = address
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty())
        .and_then(|(_, port)| port.parse::<u16>().ok());
    port.map(drop).ok_or_else(|| format!("expected an address such as \"127.0.0.1:6432\", found {address:?}"))
}
