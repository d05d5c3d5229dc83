//! Accepted configurations, and mistakes with their messages.

use super::*;

const LEAST: &str = "auth_type = \"trust\"\n[primary]\nhost = \"db1\"\n";

fn parse(text: &str) -> Result<Config, Vec<Mistake>> {
    Config::parse(text, Path::new("dir/consort.toml"))
}

fn mistakes(text: &str) -> Vec<String> {
    parse(text).expect_err("the text has mistakes").iter().map(Mistake::to_string).collect()
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = parse(LEAST).unwrap();
    assert_eq!(config.listen, ["127.0.0.1:6432"]);
    assert_eq!(
        config.primary,
        Server { name: "primary".into(), host: "db1".into(), port: 5432, ..Server::default() }
    );
    assert_eq!(config.proof_timeout, Duration::from_millis(5));
    assert_eq!(config.held_answer_bytes, 65_536);
    assert_eq!(config.writers(), Writers::Anywhere);
    assert_eq!(config.design(), design::CONSORT);
    assert!(config.follows("shop"));
}

#[test]
fn every_table_is_read() {
    let config = parse(
        "auth_file = \"users.txt\"\nwriters = \"through-consort\"\ndatabases = [\"shop\"]\nconsistency = \"session\"\n\
         [primary]\nhost = \"/run/p\"\nport = 5433\n[[standby]]\nhost = \"a\"\nweight = 3\n[[standby]]\nname = \"far\"\n\
         host = \"b\"\n[[replica]]\nhost = \"c\"\n[database.shop]\nconsistency = \"bounded 200ms\"\n[user.report]\nconsistency = \"weak\"\n",
    )
    .unwrap();
    assert_eq!(
        config.auth_file,
        Some(std::env::current_dir().unwrap().join("dir/users.txt")),
        "relative to the file's folder"
    );
    assert!(!config.follows("other"));
    let names: Vec<_> =
        config.standbys.iter().map(|standby| (standby.name.as_str(), standby.weight)).collect();
    assert_eq!(names, [("standby1", 3), ("far", 1)]);
    let names: Vec<_> = config.read_nodes().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["standby1", "far", "replica1"]);
    assert_eq!(config.defaults("x", "y").consistency, Consistency::Session);
    assert_eq!(config.defaults("shop", "y").consistency, Consistency::Bounded(Duration::from_millis(200)));
    assert_eq!(config.defaults("shop", "report").consistency, Consistency::Weak);
    assert!(matches!(config.primary.address("u", None, "d").host, Host::Socket(_)));
}

#[test]
fn connections_are_limited_by_database_and_by_user() {
    let tables = "[database.shop]\npool_mode = \"session\"\npool_size = 4\nmax_db_connections = 9\n\
        [user.ann]\npool_mode = \"statement\"\nreserve_pool_size = 2\nmax_user_client_connections = 3\n";
    let pools = parse(&format!("max_user_connections = 8\n{LEAST}{tables}")).unwrap().pools();
    let of = |database, user| {
        let found = pools.of(database, user);
        (found.mode.name(), found.size, found.reserve, found.database_connections, found.user_clients)
    };
    assert_eq!(of("shop", "bob"), ("session", 4, 0, 9, 0));
    assert_eq!(of("shop", "ann"), ("statement", 4, 2, 9, 3));
    assert_eq!(of("other", "ann"), ("statement", 20, 2, 0, 3));
    assert_eq!(of("other", "bob").0, "transaction");
    assert_eq!(pools.of("other", "bob").user_connections, 8);
    for (wrong, said) in [
        ("[database.shop]\nmax_user_connections = 1\n", "did you mean max_db_connections?"),
        ("[user.ann]\nmax_db_connections = 1\n", "did you mean max_user_connections?"),
        ("[user.ann]\npool_mode = \"none\"\n", "\"session\" or \"transaction\" or \"statement\""),
    ] {
        let said_of = mistakes(&format!("{LEAST}{wrong}"));
        assert!(said_of.len() == 1 && said_of[0].contains(said), "{said_of:?}");
    }
}

#[test]
fn one_key_is_set_as_a_file_or_as_pgbouncer_writes_it() {
    let config = parse(LEAST).unwrap();
    let set = |key, value| {
        let config = config.with(key, value).map_err(|refusal| (refusal.sqlstate, refusal.message))?;
        let shown = config.shown().find(|(known, _)| known.name == key).map(|(_, value)| value.to_owned());
        Ok::<_, (&str, String)>((shown.expect("it is a key"), config))
    };
    let (shown, config) = set("query_wait_timeout", "7").unwrap();
    assert_eq!((shown.as_str(), config.pool.wait), ("7s", Duration::from_secs(7)));
    assert_eq!(set("query_wait_timeout", "2min").unwrap().1.pool.wait, Duration::from_secs(120));
    assert_eq!(set("max_clients", "9").unwrap().1.max_clients, 9);
    assert_eq!(set("pool_mode", "statement").unwrap().0, "statement");
    assert_eq!(set("stats_users", "ann, bob").unwrap().1.stats_users, ["ann", "bob"]);
    for (key, value, sqlstate, said) in [
        ("max_client", "9", "42704", "setting \"max_client\" does not exist"),
        ("listen", "x", "55P02", "cannot be changed now"),
        ("max_clients", "none", "22023", "a whole number"),
        ("query_wait_timeout", "soon", "22023", "found \"soon\""),
    ] {
        let (found, message) = set(key, value).map(|_| ()).unwrap_err();
        assert!(found == sqlstate && message.contains(said), "{key}: {found} {message}");
    }
}

#[test]
fn a_hint_has_no_links() {
    let refusal = parse(LEAST).unwrap().with("log_routing", "some").unwrap_err();
    assert!(refusal.hint.contains("waiting time (format): `none`"), "{}", refusal.hint);
}

#[test]
fn what_is_set_goes_with_what_is_there() {
    let ruled = "auth_type = \"hba\"\nauth_hba_file = \"rules\"\n[primary]\nhost = \"db1\"\n";
    let scram = "auth_file = \"users.txt\"\n[primary]\nhost = \"db1\"\n";
    for (text, key, value, said) in [
        (ruled, "auth_hba_file", "", "auth_hba_file and auth_type = \"hba\" must be set together"),
        (LEAST, "auth_hba_file", "rules", "auth_hba_file and auth_type = \"hba\" must be set together"),
        (LEAST, "auth_ident_file", "maps", "needs auth_hba_file"),
        (scram, "auth_file", "", "auth_file is missing"),
    ] {
        let refused = parse(text).unwrap().with(key, value).map(|_| ()).unwrap_err();
        assert!(refused.sqlstate == "22023" && refused.message.contains(said), "{refused:?}");
    }
    let asks = parse(scram).unwrap().with("auth_user", "asker").unwrap();
    assert_eq!(asks.with("auth_file", "").unwrap().auth_file, None);
}

#[test]
fn what_counts_from_the_next_start_stays_as_it_is() {
    let standby = |host: &str, weight: u32| format!("[[standby]]\nhost = \"{host}\"\nweight = {weight}\n");
    let running = parse(&format!("{LEAST}{}", standby("a", 1))).unwrap();
    let keys = "design = \"weak\"\nconsole_database = \"other\"\nlisten = [\n\"127.0.0.1:1\", # one\n]\nmax_clients = 7\n";
    let auth = "auth_type = \"hba\"\nauth_hba_file = \"rules\"\n[primary]\nhost = \"db2\"\n";
    let mut new = parse(&format!("{keys}{auth}{}", standby("b", 5))).unwrap();
    let waiting = running.changed_until_start(&new);
    assert_eq!(waiting, ["listen", "auth_type", "design", "console_database", "the primary or the standbys"]);
    new.until_start(&running).unwrap();
    assert_eq!((new.design(), &*new.console_database), (design::CONSORT, "consort"));
    assert_eq!(new.defaults("x", "y").consistency, Consistency::Strong);
    assert_eq!(new.listen, running.listen);
    assert_eq!((new.auth_type, &new.auth_hba_file), (AuthType::Trust, &None), "they change together");
    assert_eq!((&*new.primary.host, &*new.standbys[0].host), ("db1", "a"));
    assert_eq!((new.max_clients, new.standbys[0].weight), (7, 5), "these count at once");
    assert_eq!(running.changed_until_start(&new), [""; 0]);
    // A value that was not a default comes back too.
    let mut back = running.clone();
    let other = parse(&format!("{keys}{LEAST}{}", standby("a", 1))).unwrap();
    back.until_start(&other).unwrap();
    assert_eq!((back.design().name, &*back.console_database), ("weak", "other"));
    assert_eq!(back.listen, ["127.0.0.1:1"]);
}

/// As in PgBouncer, and as the import carries it over.
#[test]
fn zero_is_no_limit_of_a_log_in() {
    let config = parse(&format!("login_time = \"0s\"\nserver_connect_timeout = \"0s\"\n{LEAST}")).unwrap();
    for limit in [config.login_time, config.pool.connect] {
        assert!(limit > Duration::from_hours(24 * 365), "{limit:?}");
    }
}

/// Two valid files whose mixture is not: replicas leave at once, and the quorum changes at the next start.
#[test]
fn reload_that_contradicts_what_waits_is_refused() {
    let takes_turns = |design: &&design::Design| design.orderer == design::Orderer::PrimaryOneByOne;
    let name = design::PRIMARY_COPY.iter().find(takes_turns).expect("a design").name;
    let of = |quorum: usize| {
        let replica = |number| format!("[[replica]]\nname = \"r{number}\"\nhost = \"r{number}\"\n");
        let replicas: String = (0..quorum).map(replica).collect();
        parse(&format!("design = \"{name}\"\ncommit_replica_quorum = {quorum}\n{LEAST}{replicas}")).unwrap()
    };
    let (running, mut new) = (of(2), of(1));
    let why = new.until_start(&running).unwrap_err();
    assert!(why.contains("commit_replica_quorum") && why.contains("restart"), "{why}");
    of(2).until_start(&running).unwrap();
}

/// A trusted extension joins the functions that are safe at replicas, wherever its table stands in the file.
#[test]
fn trusted_extension_is_replica_safe() {
    let text = format!(
        "replica_safe_functions = [\"shop.price\"]\n{LEAST}[extension.ip4r]\ntrust = \"immutable\"\n"
    );
    let running = parse(&text).unwrap();
    assert_eq!(running.declared_safe(), ["shop.price", "ip4r"]);
    let mut new = parse(LEAST).unwrap();
    assert_eq!(running.changed_until_start(&new), ["replica_safe_functions", "an [extension] table"]);
    new.until_start(&running).unwrap();
    assert_eq!(new.declared_safe(), ["shop.price", "ip4r"], "until the next start");
    for (wrong, said) in
        [("trust = \"all\"", "expected \"immutable\""), ("trusts = \"\"", "did you mean trust?")]
    {
        let said_of = mistakes(&format!("{LEAST}[extension.ip4r]\n{wrong}\n"));
        assert!(said_of.len() == 1 && said_of[0].contains(said), "{said_of:?}");
    }
}

#[test]
fn procedures_are_declared_by_their_whole_name() {
    let tables = "[procedure.\"shop.place\"]\ntables_read = \"items\"\ntables_written = \"orders, shop.lines\"\n\
        [procedure.\"shop.nothing\"]\n";
    let config = parse(&format!("{LEAST}{tables}")).unwrap();
    let [nothing, place] = &config.procedures[..] else { panic!("{:?}", config.procedures) };
    assert_eq!((&*place.schema, &*place.name), ("shop", "place"));
    assert_eq!((place.tables_read.text(), place.tables_written.text()), ("items", "orders, shop.lines"));
    assert!(nothing.name == "nothing" && nothing.tables_written.is_empty());
    for (wrong, said) in [
        ("[procedure.place]\n", "qualified with its schema"),
        ("[procedure.\"s.p\"]\ntables_read = \"a b\"\n", "a list of tables"),
        ("[procedure.\"s.p\"]\ntables_wriden = \"a\"\n", "did you mean tables_written?"),
        ("[procedur.\"s.p\"]\n", "did you mean procedure?"),
    ] {
        let said_of = mistakes(&format!("{LEAST}{wrong}"));
        assert!(said_of.len() == 1 && said_of[0].contains(said), "{said_of:?}");
    }
}

#[test]
fn databases_that_are_named_and_not_there() {
    let there = ["shop", "postgres"].map(str::to_owned);
    let config = parse(&format!("databases = [\"shopp\", \"shop\"]\n{LEAST}")).unwrap();
    assert_eq!(config.absent(&there).collect::<Vec<_>>(), ["shopp"]);
    assert_eq!(parse(LEAST).unwrap().absent(&there).next(), None, "* names none");
}

#[test]
fn the_design_says_what_nobody_else_says() {
    let weak = parse(&format!("design = \"weak\"\n{LEAST}")).unwrap();
    assert_eq!(weak.defaults("x", "y").consistency, Consistency::Weak);
    let said = parse(&format!("design = \"weak\"\nconsistency = \"strong\"\n{LEAST}")).unwrap();
    assert_eq!(said.defaults("x", "y").consistency, Consistency::Strong);
    assert_eq!(parse(LEAST).unwrap().defaults("x", "y").consistency, Consistency::Strong);
}

#[test]
fn a_mistake_has_file_line_key_and_what_would_be_right() {
    assert_eq!(
        mistakes(&format!("max_client = 5\nproof_timeout = 2\nlisten = [\"x\"]\n{LEAST}prot = 1\n")),
        [
            "dir/consort.toml:1: max_client: unknown key; did you mean max_clients?",
            "dir/consort.toml:2: proof_timeout: expected a duration such as \"2ms\" (us, ms, s, min, h, d), found 2",
            "dir/consort.toml:3: listen: expected an address such as \"127.0.0.1:6432\", found \"x\"",
            "dir/consort.toml:7: primary.prot: unknown key; did you mean port?",
        ]
    );
}

#[test]
fn a_key_that_is_there_twice_is_named() {
    let twice = format!("max_clients = 5\nmax_clients = 6\n{LEAST}");
    assert_eq!(mistakes(&twice), ["dir/consort.toml:2: max_clients: duplicate key"]);
}

#[test]
fn values_out_of_their_bounds_are_refused() {
    for (line, word) in [
        ("max_clients = 0", "from 1"),
        ("analysis_cache_size = \"16 mb\"", "MB"),
        ("analysis_cache_size = \"1kB\"", "at least"),
        ("design = \"strong\"", "\"consort\" or \"weak\""),
        ("writers = \"nobody\"", "through-consort"),
        ("consistency = \"bounded\"", "bounded 200ms"),
        ("tls_required = 1", "true or false"),
        ("listen = \"127.0.0.1:1\"", "a list"),
        ("log_level = \"loud\"", "\"info\""),
        ("standby = 1", "a table"),
    ] {
        let found = mistakes(&format!("{line}\n{LEAST}"));
        assert!(
            found.len() == 1 && found[0].contains(":1: ") && found[0].contains(word),
            "{line}: {found:?}"
        );
    }
}

#[test]
fn the_whole_must_make_sense() {
    for (text, word) in [
        ("auth_type = \"trust\"\n", "[primary]"),
        ("[primary]\nhost = \"a\"\n", "auth_file"),
        ("auth_type = \"trust\"\n[primary]\nport = 1\n", "host is missing"),
        ("auth_type = \"trust\"\ntls_key = \"k\"\n[primary]\nhost = \"a\"\n", "together"),
        ("auth_type = \"trust\"\ntls_required = true\n[primary]\nhost = \"a\"\n", "needs tls_certificate"),
        (
            "auth_type = \"trust\"\nserver_tls = \"prefer\"\nserver_tls_certificate = \"c\"\n[primary]\nhost = \"a\"\n",
            "server_tls_certificate: needs server_tls_key",
        ),
        (
            "auth_type = \"trust\"\nserver_tls = \"require\"\nserver_tls_key = \"k\"\n[primary]\nhost = \"a\"\n",
            "server_tls_key: needs server_tls_certificate",
        ),
        (
            "auth_type = \"trust\"\nserver_tls_certificate = \"c\"\nserver_tls_key = \"k\"\n[primary]\nhost = \"a\"\n",
            "set server_tls",
        ),
        ("auth_type = \"trust\"\nlisten = []\n[primary]\nhost = \"a\"\n", "clients could not connect"),
        (
            "auth_type = \"trust\"\n[primary]\nhost = \"a\"\n[[standby]]\nhost = \"b\"\nname = \"primary\"\n",
            ":6: standby.name: duplicate server name primary",
        ),
    ] {
        let found = mistakes(text);
        assert!(found.len() == 1 && found[0].contains(word), "{text}: {found:?}");
    }
}

#[test]
fn a_part_of_the_tables_is_for_designs_whose_reads_may_go_to_the_primary() {
    let part = "[[replica]]\nhost = \"b\"\ntables = [\"orders\", \"shop.*\"]\n";
    assert!(!parse(&format!("{LEAST}{part}")).unwrap().replicas[0].tables.is_all());
    let wrong = mistakes(&format!("{LEAST}{}", part.replace("shop.*", "*")));
    assert!(wrong.len() == 1 && wrong[0].contains("found \"*\""), "{wrong:?}");
    for design in design::PRIMARY_COPY.iter().filter(|design| design.needs_replicas()) {
        let found = mistakes(&format!("design = \"{}\"\n{LEAST}{part}", design.name));
        assert!(found.len() == 1 && found[0].contains("replica.tables"), "{}: {found:?}", design.name);
    }
}

#[test]
fn design_of_an_unknown_name_is_refused_with_all_names() {
    for travel in
        design::PRIMARY_COPY.iter().filter(|design| design.effects.are_statements() && design.is_fed())
    {
        let found = mistakes(&format!("design = \"{}-as-published\"\n{LEAST}", travel.name));
        assert!(found.len() == 1 && found[0].contains(&format!("\"{}\"", travel.name)), "{found:?}");
    }
}

#[test]
fn where_reads_wait_for_replicas() {
    let waits = |design: &&design::Design| design.reads == design::Reads::LatestWaiting;
    design::PRIMARY_COPY.iter().filter(waits).for_each(|design| waits_for_replicas(design.name));
    for design in design::PRIMARY_COPY.iter().filter(|design| design.orders_first()) {
        let found = mistakes(&format!("design = \"{}\"\n{LEAST}[[standby]]\nhost = \"b\"\n", design.name));
        assert!(found.len() == 1 && found[0].contains("[[replica]]"), "{found:?}");
    }
    let locks = design::PRIMARY_COPY.iter().find(|design| design.intake.locks()).expect("there is one").name;
    let replica = "[[replica]]\nhost = \"b\"\n";
    let found = mistakes(&format!("design = \"{locks}\"\ncommit_replica_quorum = 1\n{LEAST}{replica}"));
    assert!(found.len() == 1 && found[0].contains("orders commits one by one"), "{found:?}");
}

fn waits_for_replicas(name: &str) {
    let config = parse(&format!("design = \"{name}\"\n{LEAST}[[replica]]\nhost = \"b\"\n")).unwrap();
    let own = config.defaults("x", "y");
    assert!(own.read_only_snapshots && own.read_only_is_repeatable);
    assert!(!parse(LEAST).unwrap().defaults("x", "y").read_only_is_repeatable);
    let not_by_user = format!("design = \"{name}\"\n{LEAST}[user.y]\nread_only_snapshots = false\n");
    assert!(!parse(&not_by_user).unwrap().defaults("x", "y").read_only_snapshots);
    let found = mistakes(&format!("design = \"{name}\"\n{LEAST}[[standby]]\nhost = \"b\"\n"));
    assert!(found.len() == 1 && found[0].contains("[[replica]]"), "{found:?}");
    for too_many in [
        format!("design = \"{name}\"\ncommit_replica_quorum = 1\n"),
        "commit_replica_quorum = 1\n".to_owned(),
    ] {
        let found = mistakes(&format!("{too_many}{LEAST}"));
        assert!(found.len() == 1 && found[0].contains("commit_replica_quorum"), "{found:?}");
    }
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let found = mistakes("auth_type = \"trust\"\nlisten = [\n");
    assert!(found[0].starts_with("dir/consort.toml:"), "{found:?}");
}

#[test]
fn durations_and_sizes_are_written_as_postgresql_writes_them() {
    for (written, ms) in
        [("0", 0), ("5ms", 5), ("2s", 2_000), ("3min", 180_000), ("1h", 3_600_000), ("1d", 86_400_000)]
    {
        let config = parse(&format!("shutdown_drain_timeout = \"{written}\"\n{LEAST}")).unwrap();
        assert_eq!(config.shutdown_drain_timeout, Duration::from_millis(ms), "{written}");
    }
    for (written, bytes) in [("2048B", 2048), ("64kB", 65_536), ("1MB", 1 << 20)] {
        let config = parse(&format!("max_held_result_size = \"{written}\"\n{LEAST}")).unwrap();
        assert_eq!(config.held_answer_bytes, bytes, "{written}");
    }
}

#[test]
fn what_is_shown_is_what_was_written() {
    let config = parse(&format!("max_clients = 7\n{LEAST}")).unwrap();
    let shown: BTreeMap<_, _> = config.shown().map(|(key, value)| (key.name, value.to_owned())).collect();
    assert_eq!(shown["max_clients"], "7");
    assert_eq!(shown["auth_type"], "trust");
    assert_eq!(shown["login_time"], "60s");
    assert_eq!(shown["admin_users"], "postgres");
}

#[test]
fn the_manual_names_every_key_with_its_default_and_nothing_else() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let manual = fs::read_to_string(path).expect("docs/configuration.md is there");
    let begin = manual.find(manual::BEGIN).expect("the mark is there") + manual::BEGIN.len();
    let end = manual.find(manual::END).expect("the other mark is there");
    let there = manual[begin..end].trim();
    assert!(there == manual::tables().trim(), "put this between the marks:\n{}", manual::tables());
}

#[test]
fn former_names_of_keys_are_read() {
    let path = Path::new("consort.toml");
    let old = "proof_limit = \"7ms\"\nreads_in_blocks = false\nfootprint_grain = \"table\"\nauth_type = \"trust\"\n[primary]\nhost = \"a\"\n";
    let new = "auth_type = \"trust\"\nproof_timeout = \"7ms\"\noffload_in_transactions = \"off\"\n[primary]\nhost = \"a\"\n[debug]\nfootprint_grain = \"table\"\n";
    let [old, new] = [old, new].map(|text| Config::parse(text, path).expect("it is sound"));
    assert_eq!(old.proof_timeout, Duration::from_millis(7));
    let shown =
        |config: &Config| config.shown().map(|(key, value)| (key.name, value.to_owned())).collect::<Vec<_>>();
    assert_eq!(old.offload_in_transactions, OffloadInTransactions::Off);
    assert_eq!(shown(&old), shown(&new));
    let both =
        "auth_type = \"trust\"\nproof_limit = \"7ms\"\nproof_timeout = \"8ms\"\n[primary]\nhost = \"a\"\n";
    let mistakes = Config::parse(both, path).expect_err("one setting has two values");
    assert_eq!((mistakes.len(), mistakes[0].line), (1, 2));
}

#[test]
fn relative_paths_start_in_the_files_folder_wherever_that_is_read_from() {
    let here = std::env::current_dir().unwrap();
    assert_eq!(folder_of(Path::new("consort.toml")), here);
    assert_eq!(folder_of(Path::new("a/consort.toml")), here.join("a"));
    assert_eq!(folder_of(Path::new("/etc/consort/consort.toml")), Path::new("/etc/consort"));
}

/// The name of a design.
fn named(is: fn(&design::Design) -> bool) -> &'static str {
    design::all().find(is).expect("there is such a design").name
}

/// Settings of the in-memory tier and of nodes that all take writes are refused where they would be ignored.
#[test]
fn settings_of_other_designs_are_refused() {
    let several =
        "design = \"SEVERAL\"\nledger_dir = \"/l\"\nauth_type = \"trust\"\n[[node]]\nhost = \"a\"\n";
    let tier = "design = \"TIER\"\nledger_dir = \"/l\"\nauth_type = \"trust\"\n[[node]]\nhost = \"a\"\n[[node]]\nhost = \"b\"\n";
    let store =
        "design = \"STORE\"\nledger_dir = \"/l\"\nauth_type = \"trust\"\n[store]\nembedded = \"/s\"\n";
    let several = &several.replace("SEVERAL", design::CERTIFIED[0].name);
    let tier = &tier.replace("TIER", named(design::Design::is_memory_tier));
    let store = &store.replace("STORE", named(design::Design::is_key_value));
    let remedy = format!("set design = \"{}\"", named(design::Design::is_memory_tier));
    let of_tier = [
        ("back_ends", "back_ends = [\"postgres://u@h/d\"]\n"),
        ("tier_secret_file", "tier_secret_file = \"secret\"\n"),
        ("tier_spares", "tier_spares = 1\n"),
        ("tier_tls_ca_file", "tier_tls_ca_file = \"ca.pem\"\n"),
    ];
    for (key, line) in of_tier {
        for base in [LEAST, several, store] {
            let found = mistakes(&format!("{line}{base}"));
            assert!(
                found.iter().any(|mistake| mistake.contains(key) && mistake.contains(&remedy)),
                "{found:?}"
            );
        }
    }
    let capture = "capture = \"sql\"\n";
    for base in [LEAST, tier, store] {
        let found = mistakes(&format!("{capture}{base}"));
        assert!(
            found
                .iter()
                .any(|mistake| mistake.contains("capture") && mistake.contains(design::CERTIFIED[0].name)),
            "{found:?}"
        );
    }
    let all: String = of_tier.iter().map(|(_, line)| *line).collect();
    assert!(parse(&format!("{all}{tier}")).is_ok(), "{:?}", parse(&format!("{all}{tier}")).err());
    assert!(parse(&format!("{capture}{several}")).is_ok());
}

/// A design that follows no commits attaches nothing, and feeds no replica.
#[test]
fn pooler_refuses_what_it_would_ignore() {
    let pooler = format!("design = \"pooler\"\n{LEAST}");
    assert_eq!(parse(&pooler).unwrap().defaults("d", "u").consistency, Consistency::Session);
    let found = mistakes(&format!("attach_on_first_use = true\n{pooler}[[replica]]\nhost = \"r\"\n"));
    assert!(found.iter().any(|mistake| mistake.contains("attach_on_first_use")), "{found:?}");
    assert!(found.iter().any(|mistake| mistake.contains("replica")), "{found:?}");
}
