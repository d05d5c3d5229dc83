//! Begin and end of pooled connections: settings of a role or a database, statements that are prepared there
//! again, and the state that is left when the frontend is gone.

use crate::pooled::{connections, pooling, shared, sharing};
use crate::pools::begins;
use crate::session::{answer, query, until_it_leaves};
use crate::stage::{Raw, SERVERS, database, until};
use config::pooling::{Pooling, Pools};
use std::time::Duration;
use wire::{Asks, Complaint, Frame};

#[test]
fn a_door_that_is_gone_has_left_no_connection() {
    database("door_has_gone");
    let open = sharing(1);
    let mut one = Raw::ready(&open, "door_has_gone");
    query(&mut one, "LISTEN something");
    until_it_leaves(&open, &mut one, "SELECT name FROM items WHERE id = 2");
    assert_eq!(query(&mut one, "UPDATE items SET name = name WHERE id = 1 RETURNING name"), ["item 1"]);
    until(|| open.door(|door| door.registry.seats().iter().all(|seat| seat.opened.get().is_none())));
    assert!(connections("door_has_gone") > 0);
    let all = "SELECT FROM pg_stat_activity WHERE datname = 'door_has_gone' AND pid <> pg_backend_pid()";
    let at_standby = || SERVERS.standby(0).query("postgres", all).unwrap().len();
    drop(open);
    until(|| SERVERS.query(all).is_empty() && at_standby() == 0);
}

/// As at one server: a database's settings hold for clients that log in afterwards; earlier clients keep
/// theirs.
#[test]
fn what_a_database_sets_holds_for_who_logs_in_from_then_on_whatever_connection_he_gets() {
    const TENANT: &str = "UPDATE items SET name = name WHERE id = 1 RETURNING coalesce(nullif(current_setting('app.tenant', true), ''), '-'), \
                          current_setting('work_mem'), current_setting('synchronous_commit')";
    let set = |tenant: &str, memory: &str, commit: &str| {
        let sets = [("app.Tenant", tenant), ("work_mem", memory), ("synchronous_commit", commit)];
        sets.map(|(name, value)| format!("ALTER DATABASE set_by_database SET {name} = '{value}'")).join("; ")
    };
    let reset = "ALTER DATABASE set_by_database RESET ALL".to_owned();
    let stages = [
        (set("a", "3MB", "on"), ["a", "3MB", "on"]),
        (set("b", "5MB", "off"), ["b", "5MB", "off"]),
        (reset, ["-", "4MB", "on"]),
    ];
    database("set_by_database");
    let open = sharing(3);
    let ready = || Raw::ready(&open, "set_by_database");
    let (mut admin, mut busy, mut busier) = (ready(), ready(), ready());
    let mut first = None;
    for (alter, there) in stages {
        // These connections began before.
        begins(&mut busy);
        begins(&mut busier);
        assert_eq!(query(&mut admin, &alter), Vec::<String>::new());
        query(&mut busy, "COMMIT");
        query(&mut busier, "COMMIT");
        for round in 0..6 {
            if round % 2 == 0 {
                begins(&mut busy);
            }
            let mut new = ready();
            assert_eq!(query(&mut new, TENANT), there, "{round}");
            let first = first.get_or_insert(new);
            assert_eq!(query(first, TENANT), ["a", "3MB", "on"], "{round} {alter}");
            query(&mut busy, "COMMIT");
        }
    }
}

/// The statement is prepared again at another connection under its old settings, and the present ones are set
/// again after it.
#[test]
fn what_was_prepared_under_other_settings_tells_its_client_nothing_of_them() {
    database("prepared_before");
    let open = sharing(2);
    let mut one = Raw::ready(&open, "prepared_before");
    query(&mut one, "PREPARE p AS UPDATE items SET name = name WHERE id = 1 RETURNING name");
    query(&mut one, "SET application_name = 'by now'");
    let had = query(&mut one, "SELECT pg_backend_pid()::text FROM items WHERE id = 1 FOR UPDATE");
    let (mut busy, mut busier) = (Raw::ready(&open, "prepared_before"), Raw::ready(&open, "prepared_before"));
    begins(&mut busy);
    begins(&mut busier);
    // They have both connections; its own is the one that is not left.
    let its_own = query(&mut busier, "SELECT pg_backend_pid()::text");
    let left = if its_own == had { &mut busy } else { &mut busier };
    query(left, "COMMIT");
    one.ask(|out| out.query(b"EXECUTE p"));
    assert_eq!(one.told_of("application_name").0, [""; 0]);
    assert_eq!(query(&mut one, "EXECUTE p"), ["item 1"]);
    assert_eq!(query(&mut one, "SHOW application_name"), ["by now"]);
}

/// Any temporary object of the kinds that DISCARD TEMP would drop.
#[test]
fn who_makes_anything_temporary_keeps_the_connection_as_long_as_it_is_there() {
    database("temporary_kinds");
    let open = pooling(Pools::of_all(Pooling { wait: Duration::from_secs(1), ..shared(1) }));
    let is_free = || {
        let mut another = Raw::connect(&open);
        another.ask(|out| out.startup(&[("user", "postgres"), ("database", "temporary_kinds")]));
        another.ask(|out| out.query(b"UPDATE items SET name = name WHERE id = 1"));
        loop {
            let message = another.message().expect("an answer");
            let frame = Frame::new(&message).unwrap();
            match frame.tag() {
                b'C' => return true,
                // After DDL its log-in waits.
                b'E' => {
                    assert_eq!(Complaint::read(&frame).sqlstate(), b"53300");
                    return false;
                }
                _ => {}
            }
        }
    };
    for (make, drop) in [
        ("FUNCTION pg_temp.own() RETURNS int LANGUAGE sql AS 'SELECT 1'", "FUNCTION pg_temp.own()"),
        ("AGGREGATE pg_temp.own(int) (sfunc = int4pl, stype = int)", "AGGREGATE pg_temp.own(int)"),
        ("COLLATION pg_temp.own (locale = 'C')", "COLLATION pg_temp.own"),
        ("TEXT SEARCH DICTIONARY pg_temp.own (template = simple)", "TEXT SEARCH DICTIONARY pg_temp.own"),
        (
            "OPERATOR pg_temp.#=# (leftarg = int, rightarg = int, function = int4pl)",
            "OPERATOR pg_temp.#=# (int, int)",
        ),
        ("TYPE pg_temp.own AS ENUM ('a')", "TYPE pg_temp.own"),
        ("TEMPORARY VIEW own AS SELECT 1", "VIEW pg_temp.own"),
    ] {
        let mut one = Raw::ready(&open, "temporary_kinds");
        assert_eq!(query(&mut one, &format!("CREATE {make}")), Vec::<String>::new(), "{make}");
        assert!(!is_free(), "{make}");
        assert_eq!(query(&mut one, &format!("DROP {drop}")), Vec::<String>::new(), "{drop}");
        until(is_free);
    }
}

/// As applications with many tenants do it.
#[test]
fn a_setting_that_a_client_makes_by_a_function_goes_along_with_it() {
    const SEEN: &str = "UPDATE items SET name = name WHERE id = 1 RETURNING pg_backend_pid()::text, current_setting('app.tenant', true)";
    database("set_by_function");
    let open = sharing(2);
    let by_parameters = |client: &mut Raw| {
        client.ask(|out| {
            out.parse(b"sets", b"SELECT set_config($1, $2, false)", &[]);
            let count = [0, 2];
            let values: [&[u8]; 2] = [b"app.tenant", b"seven"];
            let values = values.map(|value| [&(value.len() as u32).to_be_bytes()[..], value].concat());
            out.bind(b"", b"sets", &[&[0, 0][..], &count, &values.concat(), &[0, 0]].concat());
            out.execute(b"", 0);
            out.sync();
        });
        assert_eq!(answer(client).0, ["seven"]);
    };
    for how in [
        "SELECT set_config('app.tenant', 'seven', false)",
        "BEGIN|SELECT pg_catalog.set_config('App.Tenant', 'seven', false)|COMMIT",
        "PREPARE sets AS SELECT set_config($1, $2, false)|EXECUTE sets('app.tenant', 'seven')",
        "DO $$BEGIN PERFORM set_config('app.tenant', 'seven', false); END$$",
        "by parameters",
    ] {
        let ready = || Raw::ready(&open, "set_by_function");
        let (mut one, mut busy, mut busier) = (ready(), ready(), ready());
        match how {
            "by parameters" => by_parameters(&mut one),
            _ => how.split('|').for_each(|sql| drop(query(&mut one, sql))),
        }
        let had = query(&mut one, SEEN)[0].clone();
        begins(&mut busy);
        begins(&mut busier);
        // They have both connections; it gets the one that is not its own.
        let its_own = query(&mut busier, "SELECT pg_backend_pid()::text")[0] == had;
        query(if its_own { &mut busy } else { &mut busier }, "COMMIT");
        let seen = query(&mut one, SEEN);
        assert!(seen[0] != had && seen[1] == "seven", "{how}: {seen:?}");
        query(if its_own { &mut busier } else { &mut busy }, "COMMIT");
    }
}
