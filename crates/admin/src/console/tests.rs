//! The console's answers, from a view with one of everything.

use super::fixture::fixture;
use super::*;

/// One row of a SHOW command as `column=value`, NULL left out.
fn shown(command: &str) -> Vec<String> {
    let Reply::Rows(table) = answer(command, Rights::Look, &fixture()) else {
        panic!("{command} has no rows")
    };
    let line = |row: &Vec<Option<String>>| {
        assert_eq!(row.len(), table.columns.len(), "{command}: as many values as columns");
        let pairs = table.columns.iter().zip(row);
        let pairs = pairs.filter_map(|(column, value)| Some(format!("{}={}", column.name, value.as_ref()?)));
        pairs.collect::<Vec<_>>().join(" ")
    };
    table.rows.iter().map(line).collect()
}

#[test]
fn show_clients() {
    let rows = shown("SHOW CLIENTS");
    assert_eq!(rows.len(), 2);
    assert_eq!(
        rows[1],
        "type=C user=ann database=shop replication=none state=waiting addr=10.0.0.9 port=50000 local_addr=10.0.0.1 local_port=6432 \
         connect_time=1970-01-01 00:00:00 UTC request_time=1970-01-01 00:00:01 UTC wait=2 wait_us=5 close_needed=0 \
         ptr=2 link= remote_pid=77 tls= application_name=psql prepared_statements=3 id=2 keeps_server= process_number=5000000"
    );
}

#[test]
fn show_servers() {
    let rows = shown("show servers");
    assert!(rows[0].contains("state=active") && rows[0].contains("link=1") && rows[0].contains("standby1"));
    assert!(rows[0].contains("close_needed=1") && rows[1].contains("close_needed=0"));
    assert!(rows[1].contains("state=idle") && rows[1].contains("link= "));
}

#[test]
fn show_pools() {
    assert_eq!(
        shown("SHOW POOLS"),
        [
            "database=shop user=ann cl_active=1 cl_waiting=1 cl_active_cancel_req=0 cl_waiting_cancel_req=0 sv_active=1 \
          sv_active_cancel=0 sv_being_canceled=0 sv_idle=1 sv_used=0 sv_tested=0 sv_login=0 maxwait=2 maxwait_us=5 \
          pool_mode=statement"
        ]
    );
}

#[test]
fn show_stats() {
    let rows = shown("SHOW STATS");
    let begins = "database=shop total_server_assignment_count=6 total_xact_count=10 total_query_count=20 ";
    assert!(rows[0].starts_with(begins), "{rows:?}");
    assert!(rows[0].contains("avg_xact_count=2 ") && rows[0].contains("avg_xact_time=25 "), "{rows:?}");
    let parsed = " total_wait_time=0 total_client_parse_count=4 total_server_parse_count=5 total_bind_count=30 \
                  avg_server_assignment_count=0 ";
    assert!(rows[0].contains(parsed), "{rows:?}");
    let ends = " avg_wait_time=0 avg_client_parse_count=0 avg_server_parse_count=0 avg_bind_count=3";
    assert!(rows[0].ends_with(ends), "{rows:?}");
}

#[test]
fn parts_of_show_stats() {
    assert_eq!(
        shown("SHOW STATS_TOTALS"),
        [
            "database=shop server_assignment_count=6 xact_count=10 query_count=20 bytes_received=0 bytes_sent=0 xact_time=0 \
          query_time=0 wait_time=0 client_parse_count=4 server_parse_count=5 bind_count=30"
        ]
    );
    assert_eq!(
        shown("SHOW STATS_AVERAGES"),
        [
            "database=shop server_assignment_count=0 xact_count=2 query_count=0 bytes_received=0 bytes_sent=0 xact_time=25 \
          query_time=0 wait_time=0 avg_client_parse_count=0 avg_server_parse_count=0 avg_bind_count=3"
        ]
    );
    let totals = shown("SHOW TOTALS");
    assert_eq!(totals[..2], ["name=total_server_assignment_count value=6", "name=total_xact_count value=10"]);
    for row in
        ["name=avg_xact_time value=25", "name=total_bind_count value=30", "name=avg_bind_count value=3"]
    {
        assert!(totals.contains(&row.to_owned()), "{totals:?}");
    }
}

#[test]
fn show_state() {
    assert_eq!(
        shown("SHOW STATE"),
        ["key=active value=no", "key=paused value=yes", "key=suspended value=no"]
    );
}

#[test]
fn show_lists() {
    let rows = shown("SHOW LISTS");
    for row in
        ["list=databases items=1", "list=users items=1", "list=pools items=1", "list=used_clients items=2"]
    {
        assert!(rows.contains(&row.to_owned()), "{rows:?}");
    }
    assert!(rows.contains(&"list=used_servers items=2".to_owned()), "{rows:?}");
}

#[test]
fn show_mem() {
    assert_eq!(shown("SHOW MEM"), ["name=spare_buffers size=100 used=0 free=3 memtotal=300"]);
}

#[test]
fn show_sockets() {
    let rows = shown("SHOW SOCKETS");
    assert_eq!(rows.iter().filter(|row| row.starts_with("type=C ")).count(), 2);
    assert_eq!(rows.iter().filter(|row| row.starts_with("type=S ")).count(), 2);
    let active = shown("SHOW ACTIVE_SOCKETS");
    assert!(active.len() == 2 && active.iter().all(|row| row.contains(" state=active ")), "{active:?}");
}

#[test]
fn what_there_is_none_of() {
    for name in ["PEERS", "PEER_POOLS", "DNS_HOSTS", "DNS_ZONES"] {
        assert_eq!(shown(&format!("SHOW {name}")), [""; 0], "{name}");
    }
}

#[test]
fn show_feeds() {
    assert_eq!(
        shown("SHOW REPLICATION"),
        [
            "name=replica1 host=db3 port=5432 database=shop state=feeding version=7 newest_version=9 lag_ms=12 \
          pending_commits=2 pending_bytes=300 pending_file_bytes=200 catch_up_left_ms=25 waited_for_readers_ms=40 \
          readers_let_go=1 steps=5 steps_beside=3 steps_again=1 statements=4 steps_undone=2 \
          copies=6",
            "name=replica1 host=db3 port=5432 database=crm state=copying newest_version=9 lag_ms=12 pending_commits=2 \
          pending_bytes=300 pending_file_bytes=200 catch_up_left_ms=25 copied_tables=3 tables_to_copy=8 \
          copied_bytes=4096 bytes_to_copy=65536 copy_left_ms=15000 \
          waited_for_readers_ms=40 readers_let_go=1 steps=5 steps_beside=3 steps_again=1 \
          statements=4 steps_undone=2 copies=6"
        ]
    );
}

#[test]
fn show_verify() {
    assert_eq!(
        shown("SHOW VERIFY"),
        ["database=shop step=comparing tables_done=3 tables=9 table=public.orders"]
    );
}

#[test]
fn what_verify_found() {
    let line = |state, what: Option<&str>| verify::Line {
        node: "replica1".into(),
        database: "shop".into(),
        table: Some("public.orders".into()),
        rows: Some(7),
        state,
        what: what.map(str::to_owned),
        first_key: None,
    };
    let lines = vec![
        line(verify::State::Equal, None),
        line(verify::State::Differs, Some("a row is missing at the replica")),
    ];
    let table = verify::table(lines);
    let values = |row: usize| table.rows[row].iter().flatten().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(values(0), ["replica1", "shop", "public.orders", "7", "equal"]);
    assert_eq!(values(1)[4..], ["differs", "a row is missing at the replica"]);
}

#[test]
fn show_databases() {
    assert_eq!(
        shown("SHOW DATABASES"),
        ["name=shop host=db1 port=5432 database=shop pool_size=3 min_pool_size=0 reserve_pool_size=0 \
          server_lifetime=3600 pool_mode=transaction max_connections=5 current_connections=4 max_client_connections=0 \
          current_client_connections=2 paused=1 disabled=1"]
    );
}

#[test]
fn show_users() {
    assert_eq!(
        shown("SHOW USERS"),
        [
            "name=ann pool_mode=statement max_user_connections=0 current_connections=2 max_user_client_connections=9 \
          current_client_connections=2"
        ]
    );
}

#[test]
fn show_config() {
    let rows = shown("SHOW CONFIG");
    assert!(rows.contains(&"key=max_clients value=7 default=1000 changeable=yes".to_owned()), "{rows:?}");
    assert!(
        rows.contains(&"key=listen value=127.0.0.1:6432 default=127.0.0.1:6432 changeable=no".to_owned())
    );
}

#[test]
fn show_version() {
    assert_eq!(shown("SHOW VERSION"), [concat!("version=Consort ", env!("CARGO_PKG_VERSION"))]);
}

#[test]
fn show_help() {
    let rows = shown("SHOW HELP");
    assert_eq!(rows.len(), SHOWS.len() + COMMANDS.len());
    assert!(rows[0].starts_with("command=SHOW CLIENTS meaning="));
}

#[test]
fn show_replicas() {
    let rows = shown("SHOW REPLICAS");
    assert_eq!(
        rows[1],
        "name=standby1 role=standby host=db1 port=5432 state=not serving why=recovering received_lsn=0/384 \
         replayed_lsn=0/384 lag_bytes=100 lag_ms=3 weight=1 pending=2 reads_served=40 reads_refused=4 \
         refused_by_reason=not_replayed=3 proof_late=1"
    );
    assert!(
        rows[0].contains("role=primary") && rows[0].contains("state=serving") && !rows[0].contains("lag_")
    );
}

#[test]
fn show_routes() {
    assert_eq!(
        shown("SHOW ROUTES"),
        [
            "database=shop statement=SELECT * FROM t WHERE id = ? node=standby1 reason=plain count=5 mean_us=120",
            "database=shop statement=SELECT now() node=primary reason=clock count=3 mean_us=120",
            "database=shop statement=SELECT  count(*)\nFROM t WHERE at < now() node=primary reason=clock count=1 mean_us=120",
            "database=shop statement=COMMIT node=primary reason=commit count=1 mean_us=120"
        ]
    );
}

#[test]
fn show_reasons() {
    assert_eq!(
        shown("SHOW REASONS"),
        [
            "reason=clock count=4 share=40.0 % remedy=pass the time as a parameter example=SELECT now()",
            "reason=commit count=1 share=10.0 % remedy=none: such statements run at the primary example=COMMIT"
        ]
    );
}

#[test]
fn show_doubts() {
    assert_eq!(
        shown("SHOW IN_FLIGHT"),
        [
            "id=4 database=shop state=open footprint=everything",
            "database=shop state=unknown footprint=everything"
        ]
    );
}

#[test]
fn show_slots() {
    assert_eq!(
        shown("SHOW SLOTS"),
        [
            "slot=consort_shop_5 database=shop active=1 retained_bytes=4096 remaining_bytes=1024",
            "slot=consort_retired_6 database=retired active=0 retained_bytes=4096 remaining_bytes=1024 fault=left over \
             fix=consort detach --database retired, or name it in the setting databases",
            "slot=standby_1 active=1 retained_bytes=4096 remaining_bytes=1024",
        ]
    );
}

#[test]
fn show_lead() {
    assert_eq!(shown("SHOW LEADER"), ["leads=0 led_by=process 9 at the primary lease_ms=0 serves=0"]);
}

#[test]
fn former_show_names_answer() {
    for (former, name) in
        [("GAUGES", "SNAPSHOTS"), ("DOUBTS", "IN_FLIGHT"), ("FEEDS", "REPLICATION"), ("LEAD", "LEADER")]
    {
        assert_eq!(shown(&format!("SHOW {former}")), shown(&format!("SHOW {name}")));
    }
}

#[test]
fn show_gauges() {
    assert_eq!(
        shown("SHOW SNAPSHOTS"),
        ["database=shop settled_probe=9 settled_lsn=0/320 why_not_serving=no slot \
          extension_differences=library isn 1.2 isn.so is not as at the primary at standby1 slot_retained_bytes=4096 \
          slot_remaining_bytes=1024 sent=12 lost=0 void=0 \
          settled_quick=10 settled_by_lsn=0 writers=through-consort paused=1"]
    );
}

#[test]
fn commands_are_found_in_a_text() {
    assert_eq!(commands(" SHOW CLIENTS ;; reload; ").collect::<Vec<_>>(), ["SHOW CLIENTS", "reload"]);
    assert_eq!(commands(" ; ").count(), 0);
}

#[test]
fn what_changes_something_is_for_admins() {
    let view = fixture();
    assert_eq!(answer("reload", Rights::Command, &view), Reply::Do(Command::Reload));
    assert_eq!(answer("PAUSE", Rights::Command, &view), Reply::Do(Command::Pause(None)));
    assert_eq!(
        answer("PAUSE \"Shop\"", Rights::Command, &view),
        Reply::Do(Command::Pause(Some("Shop".into())))
    );
    assert_eq!(
        answer("Resume shop", Rights::Command, &view),
        Reply::Do(Command::Resume(Some("shop".into())))
    );
    for (text, wanted) in [
        ("SUSPEND", Command::Suspend),
        ("DISABLE shop", Command::Disable("shop".into())),
        ("ENABLE shop", Command::Enable("shop".into())),
        ("KILL", Command::Kill(None)),
        ("KILL shop", Command::Kill(Some("shop".into()))),
        ("KILL_CLIENT 7", Command::KillClient(7)),
        ("RECONNECT", Command::Reconnect(None)),
        ("WAIT_CLOSE shop", Command::WaitClose(Some("shop".into()))),
        ("SHUTDOWN WAIT_FOR_CLIENTS", Command::Shutdown(Shutdown::WaitForClients)),
        ("SHUTDOWN WAIT_FOR_SERVERS", Command::Shutdown(Shutdown::WaitForServers)),
        ("SET max_clients = 5", Command::Set { key: "max_clients".into(), value: "5".into() }),
    ] {
        let Reply::Refused(refusal) = answer(text, Rights::Look, &view) else { panic!("{text}") };
        assert_eq!(refusal.sqlstate, "42501", "{text}");
        assert_eq!(answer(text, Rights::Command, &view), Reply::Do(wanted));
    }
    for (text, database, repair) in [
        ("verify", None, false),
        ("VERIFY shop", Some("shop"), false),
        ("VERIFY repair", None, true),
        ("VERIFY \"repair\" REPAIR", Some("repair"), true),
    ] {
        let database = database.map(str::to_owned);
        assert_eq!(answer(text, Rights::Command, &view), Reply::Do(Command::Verify { database, repair }));
    }
    assert_eq!(answer("SHUTDOWN", Rights::Command, &view), Reply::Do(Command::Shutdown(Shutdown::Now)));
    let Reply::Refused(refusal) = answer("SHUTDOWN", Rights::Look, &view) else {
        panic!("it must be refused")
    };
    assert_eq!(refusal.sqlstate, "42501");
    assert_eq!(rights(&view.config, "postgres"), Some(Rights::Command));
    assert_eq!(rights(&view.config, "eye"), Some(Rights::Look));
    assert_eq!(rights(&view.config, "ann"), None);
}

#[test]
fn what_is_done_with_a_replica_names_one() {
    let view = fixture();
    let wanted = |change| Reply::Do(Command::Replica(change, "replica1".into()));
    assert_eq!(answer("PAUSE REPLICA replica1", Rights::Command, &view), wanted(Change::Pause));
    assert_eq!(answer("resume replica \"replica1\"", Rights::Command, &view), wanted(Change::Resume));
    assert_eq!(answer("Rebuild Replica replica1", Rights::Command, &view), wanted(Change::Rebuild));
    let refused = |text, rights| match answer(text, rights, &view) {
        Reply::Refused(refusal) => refusal,
        reply => panic!("{text}: {reply:?}"),
    };
    let unknown = refused("PAUSE REPLICA \"my replica\"", Rights::Command);
    assert_eq!(
        (unknown.sqlstate, unknown.message.as_str()),
        ("42704", "replica \"my replica\" does not exist")
    );
    assert_eq!(unknown.hint, "Logical replicas: replica1.");
    assert_eq!(refused("REBUILD REPLICA standby1", Rights::Command).sqlstate, "42809");
    assert_eq!(refused("REBUILD REPLICA replica1", Rights::Look).sqlstate, "42501");
    let added = Command::AddReplica { name: "My copy".into(), source: "replica1".into() };
    assert_eq!(answer("add replica \"My copy\" from replica1", Rights::Command, &view), Reply::Do(added));
    for (text, sqlstate) in [
        ("ADD REPLICA replica2 FROM nobody", "42704"),
        ("ADD REPLICA replica2 FROM standby1", "42809"),
        ("ADD REPLICA standby1 FROM replica1", "42710"),
    ] {
        let refusal = refused(text, Rights::Command);
        assert_eq!(refusal.sqlstate, sqlstate, "{text}");
        assert!(!refusal.hint.is_empty());
    }
    assert_eq!(refused("ADD REPLICA replica2 FROM replica1", Rights::Look).sqlstate, "42501");
}

#[test]
fn what_is_no_command_gets_a_hint() {
    for text in [
        "SELECT 1",
        "SHOW",
        "SHOW NONSENSE",
        "RELOAD now",
        "SHOW CLIENTS now",
        "REBUILD",
        "REBUILD REPLICA",
        "ADD REPLICA a",
    ] {
        let Reply::Refused(refusal) = answer(text, Rights::Command, &fixture()) else { panic!("{text}") };
        assert_eq!(refusal.sqlstate, "42601");
        assert!(refusal.message.contains("SHOW HELP") && !refusal.hint.is_empty());
    }
}

#[test]
fn the_manual_explains_every_reason() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let manual = std::fs::read_to_string(root.join("docs/offload.md")).expect("docs/offload.md is there");
    let statement = statement_analysis::Stay::ALL.map(statement_analysis::Stay::name);
    let text = statement_analysis::shape::Unsure::ALL.map(statement_analysis::shape::Unsure::name);
    let session = session_state::SessionStay::all().map(session_state::SessionStay::name);
    let moment = scheduler::Reason::ALL.map(scheduler::Reason::name);
    let names = statement.into_iter().chain(text).chain(session).chain(moment).map(str::to_owned);
    let mut names: Vec<String> = names.collect();
    for name in ["backend", "cluster", "frontend", "node", "session", "transaction"] {
        named_in(&root.join(format!("crates/{name}/src")), &mut names);
    }
    assert!(names.iter().any(|name| name == "short_in_block"), "the sources were read");
    names.retain(|name| !manual.contains(&format!("| `{name}` |")));
    assert_eq!(names, Vec::<String>::new());
}

/// The reasons that sources in this folder name themselves.
fn named_in(folder: &std::path::Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a folder of sources").path();
        if path.is_dir() {
            named_in(&path, names);
        } else {
            let text = std::fs::read_to_string(&path).expect("a source");
            let found = text.split("Stay(\"").skip(1).filter_map(|rest| rest.split_once('"'));
            names.extend(found.map(|(name, _)| name.to_owned()));
        }
    }
}
