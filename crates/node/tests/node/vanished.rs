//! Clients that vanish: in whatever state of the protocol that happens, their place in the pool is free again, and the next
//! client sees nothing of them. There is one place for all.

use crate::listens::own_connections;
use crate::pooled::{connections, pooling, shared, sharing};
use crate::session::{answer, query, until_it_leaves};
use crate::stage::{Open, Raw, SERVERS, database, message, run, until};
use crate::turns::{by_query, shared_stage};
use config::hba::{Method, Rules};
use config::pooling::{Pooling, Pools};
use local_cluster::{Node, Options};
use postgres::address::Control;
use postgres::attach;
use rustix::net::sockopt::set_socket_linger;
use scheduler::Writers;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;
use testkit::Scratch;
use wire::tag::{back, front};
use wire::{Asks, Frame};

/// Ways in which a client vanishes.
#[derive(Clone, Copy, Debug)]
enum Gone {
    /// The client closes its connection.
    Closed,
    /// The client resets its connection.
    Reset,
    /// Nothing more comes from it, and it could still receive.
    HalfClosed,
}

const WAYS: [Gone; 3] = [Gone::Closed, Gone::Reset, Gone::HalfClosed];

impl Gone {
    /// The rest of the client, for as long as that is kept.
    fn of(self, client: Raw) -> Option<Raw> {
        match self {
            Gone::Closed => None,
            Gone::Reset => {
                set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
                None
            }
            Gone::HalfClosed => {
                client.stream.shutdown(Shutdown::Write).unwrap();
                Some(client)
            }
        }
    }
}

/// State that could be left at a connection, and in the rows that a client was about to write.
const LEFT: &str = "SELECT coalesce(current_setting('app.mine', true), ''), current_setting('work_mem'), \
    (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors), \
    now() = statement_timestamp() AND pg_current_xact_id_if_assigned() IS NULL, \
    (SELECT count(*) FROM items WHERE name = 'left'), (SELECT count(*) FROM items)";

/// A client that has settings of its own, and has left its connection to others.
fn comes(open: &Open, database: &str) -> Raw {
    let mut client = Raw::ready(open, database);
    query(&mut client, "SET app.mine = 'mine'");
    query(&mut client, "SET work_mem = '9MB'");
    assert_eq!(query(&mut client, "SELECT current_setting('app.mine') FROM pg_backend_pid()"), ["mine"]);
    until(|| !has_a_connection(open));
    client
}

/// True if a client has a connection at the primary.
fn has_a_connection(open: &Open) -> bool {
    open.door(|door| door.registry.seats().iter().any(|seat| seat.pid.get() != 0))
}

/// The next client has the only place, where nothing is left, nor any lock.
fn next_is_served(open: &Open, database: &str, why: &str) {
    let mut next = Raw::ready(open, database);
    assert_eq!(query(&mut next, LEFT), ["", "4MB", "0", "0", "t", "0", "100"], "{why}");
    let update = "UPDATE items SET name = 'item 1' WHERE id = 1 RETURNING name";
    assert_eq!(query(&mut next, update), ["item 1"], "{why}");
    until(|| open.door(|door| door.registry.seats().len()) == 1);
    until(|| connections(database) <= 1);
}

/// A client comes into a state and vanishes there, in each way.
fn vanishes((open, database): (&Open, &str), state: &str, comes_into: impl Fn(&mut Raw)) {
    for gone in WAYS {
        let mut client = comes(open, database);
        comes_into(&mut client);
        let left = gone.of(client);
        next_is_served(open, database, &format!("{state}: {gone:?}"));
        drop(left);
    }
}

/// Reads up to the message of this tag.
fn hears(client: &mut Raw, tag: u8) {
    while client.message().expect("the session goes on")[0] != tag {}
}

/// Sends this, if the frontend has not closed.
fn says(client: &mut Raw, write: impl FnOnce(&mut Vec<u8>)) -> bool {
    let mut bytes = Vec::new();
    write(&mut bytes);
    client.stream.write_all(&bytes).is_ok()
}

/// True if the server answers its request for TLS: there is none.
fn is_heard(client: &mut Raw) -> bool {
    says(client, |out| out.ssl_request()) && client.stream.read_exact(&mut [0]).is_ok()
}

/// True if the frontend asks for a proof, or for more of it.
fn is_asked(client: &mut Raw) -> bool {
    client.message().is_some_and(|message| message[0] == back::AUTHENTICATION)
}

/// Sends the user's name and awaits the request for a proof.
fn comes_to_prove_it(client: &mut Raw) -> bool {
    says(client, |out| out.startup(&[("user", "postgres"), ("database", "postgres")])) && is_asked(client)
}

/// Stages of a client's log-in; `false`: it was closed unheard.
const ARRIVALS: [fn(&mut Raw) -> bool; 5] = [
    is_heard,
    |client| is_heard(client) && says(client, |out| out.extend_from_slice(&[0, 0, 0, 40, 0, 3])),
    comes_to_prove_it,
    |client| {
        comes_to_prove_it(client) && says(client, |out| out.extend_from_slice(&[b'p', 0, 0, 0, 40, b'x']))
    },
    |client| {
        comes_to_prove_it(client)
            && says(client, |out| out.sasl_first("SCRAM-SHA-256", b"n,,n=,r=chance"))
            && is_asked(client)
    },
];

/// One connection of an address may be on its way in, and no client is disconnected from there for a long
/// time.
#[test]
fn a_client_that_vanishes_on_its_way_in_counts_no_more() {
    let set = |options: &mut frontend::Options| {
        options.rules = Rules::by_origin(Method::ScramSha256, Method::ScramSha256);
        options.max_half_open = 1;
        options.log_in_limit = Duration::from_secs(600);
    };
    let open = Open::with(set, &[("postgres", "pencil")]);
    for (comes_so_far, gone) in ARRIVALS.into_iter().flat_map(|comes| WAYS.map(|gone| (comes, gone))) {
        let mut client = None;
        until(|| {
            let mut raw = Raw::connect(&open);
            client = comes_so_far(&mut raw).then_some(raw);
            client.is_some()
        });
        let left = client.map(|client| gone.of(client));
        until(|| comes_to_prove_it(&mut Raw::connect(&open)));
        drop(left);
    }
    until(|| open.door(|door| door.registry.seats().is_empty()));
}

#[test]
fn a_client_that_vanishes_between_its_statements_leaves_nothing() {
    let name = "vanished_between";
    database(name);
    let open = sharing(1);
    let begins = |client: &mut Raw| {
        query(client, "BEGIN");
        query(client, "UPDATE items SET name = 'left' WHERE id = 1");
    };
    vanishes((&open, name), "idle", |_| {});
    vanishes((&open, name), "in a block", begins);
    vanishes((&open, name), "in a block that has failed", |client| {
        begins(client);
        assert_eq!(query(client, "SELECT 1/0"), ["22012"]);
    });
    vanishes((&open, name), "with a cursor that outlives its block", |client| {
        query(client, "BEGIN");
        query(client, "DECLARE left_open CURSOR WITH HOLD FOR SELECT name FROM items");
        query(client, "COMMIT");
    });
    vanishes((&open, name), "in a pipeline of which no server has heard", |client| {
        client.ask(|out| {
            out.parse(b"", b"UPDATE items SET name = 'left' WHERE id = 1", &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
        });
    });
}

/// The client waits for another one. Outside a block its statement goes on, inside it is undone.
#[test]
fn a_client_that_vanishes_while_its_statement_runs_keeps_no_place() {
    let name = "vanished_running";
    database(name);
    let open = sharing(1);
    let waits = format!("SELECT FROM pg_stat_activity WHERE datname = '{name}' AND wait_event_type = 'Lock'");
    for (gone, in_block) in WAYS.into_iter().flat_map(|gone| [(gone, false), (gone, true)]) {
        let mut holder = Raw::at_primary(name);
        query(&mut holder, "SELECT pg_advisory_lock(78)");
        let mut client = comes(&open, name);
        if in_block {
            query(&mut client, "BEGIN");
            query(&mut client, "UPDATE items SET name = 'left' WHERE id = 1");
        }
        client.ask(|out| out.query(b"SELECT pg_advisory_xact_lock(78)"));
        until(|| SERVERS.query(&waits).len() == 1);
        let left = gone.of(client);
        let mut next = Raw::ready(&open, name);
        assert_eq!(query(&mut next, LEFT), ["", "4MB", "0", "0", "t", "0", "100"], "{gone:?}");
        assert_eq!(SERVERS.query(&waits).len(), 1, "it was served meanwhile");
        drop((holder, next));
        next_is_served(&open, name, &format!("{gone:?}, in a block: {in_block}"));
        drop(left);
    }
}

#[test]
fn a_client_that_vanishes_while_it_waits_for_a_place_has_asked_for_nothing() {
    let name = "vanished_waiting";
    database(name);
    // Longer than any wait here: no timeout disconnects a client.
    let wait = Duration::from_secs(3600);
    let open = pooling(Pools::of_all(Pooling { wait, ..shared(1) }));
    let waiting = || open.door(|door| door.registry.seats().iter().filter(|seat| seat.is_queued()).count());
    let clients = WAYS.map(|gone| (gone, Raw::ready(&open, name)));
    let mut busy = Raw::ready(&open, name);
    query(&mut busy, "BEGIN");
    query(&mut busy, "SELECT 1 FROM pg_backend_pid()");
    for (gone, mut client) in clients {
        client.ask(|out| out.query(b"UPDATE items SET name = 'left' WHERE id = 2"));
        until(|| waiting() == 1);
        let left = gone.of(client);
        until(|| waiting() == 0);
        drop(left);
    }
    query(&mut busy, "COMMIT");
    drop(busy);
    next_is_served(&open, name, "all have left");
}

/// A transaction that begins before its database is followed keeps the reads of that database at the primary. The end of its
/// backend ends that state, although the client never hears an answer.
#[test]
fn early_transaction_of_a_killed_client_ends() {
    let name = "vanished_early";
    database(name);
    let open = Open::before(&SERVERS, Writers::Anywhere, |setup| setup.attach = false);
    for (number, gone) in WAYS.into_iter().enumerate() {
        let mut client = Raw::ready(&open, name);
        query(&mut client, "BEGIN");
        query(&mut client, &format!("CREATE TABLE early_{number} (v int)"));
        let left = gone.of(client);
        until(|| open.door(|door| door.registry.seats().is_empty()));
        drop(left);
    }
    let address = SERVERS.address(name);
    run(async move { attach::attach(&Control::connect(&address).await.unwrap()).await.unwrap() });
    let mut next = Raw::ready(&open, name);
    assert_eq!(until_it_leaves(&open, &mut next, "SELECT name FROM items WHERE id = 7"), ["item 7"]);
}

/// The connection that listens for it ends, too.
#[test]
fn a_client_that_vanishes_and_listens_is_heard_for_no_more() {
    let name = "vanished_listening";
    database(name);
    let open = sharing(1);
    for (gone, in_block) in WAYS.into_iter().flat_map(|gone| [(gone, false), (gone, true)]) {
        let mut client = comes(&open, name);
        query(&mut client, "LISTEN news");
        until(|| own_connections(name) == 1);
        if in_block {
            query(&mut client, "BEGIN");
            query(&mut client, "LISTEN more");
        }
        let left = gone.of(client);
        until(|| own_connections(name) == 0);
        next_is_served(&open, name, &format!("{gone:?}, in a block: {in_block}"));
        drop(left);
    }
}

/// A replication connection that takes the only place, and the process at the primary that serves it.
fn replicates(open: &Open) -> (Raw, i32) {
    let mut client = Raw::connect(open);
    let replication = [("user", "postgres"), ("database", "postgres"), ("replication", "true")];
    client.ask(|out| out.startup(&replication));
    let pid = loop {
        let message = client.message().expect("it is let in");
        if message[0] == back::BACKEND_KEY_DATA {
            break wire::key_data(&Frame::new(&message).unwrap()).unwrap().0;
        }
    };
    client.until_ready();
    (client, pid)
}

#[test]
fn a_client_that_vanishes_and_replicates_leaves_no_process() {
    let open = sharing(1);
    for (gone, streams) in WAYS.into_iter().flat_map(|gone| [(gone, false), (gone, true)]) {
        let (mut client, pid) = replicates(&open);
        if streams {
            let from = query(&mut client, "IDENTIFY_SYSTEM").remove(2);
            client.ask(|out| out.query(format!("START_REPLICATION PHYSICAL {from}").as_bytes()));
            hears(&mut client, back::COPY_BOTH);
        }
        let left = gone.of(client);
        until(|| SERVERS.query(&format!("SELECT FROM pg_stat_activity WHERE pid = {pid}")).is_empty());
        until(|| open.door(|door| door.registry.seats().is_empty()));
        drop(left);
    }
}

/// The server has asked for rows.
fn begins_to_copy(client: &mut Raw) {
    client.ask(|out| out.query(b"COPY items FROM STDIN"));
    hears(client, back::COPY_IN);
}

/// Some rows of a COPY.
fn rows() -> Vec<u8> {
    [message(front::COPY_DATA, b"1000\tleft\n"), message(front::COPY_DATA, b"1001\tleft\n1002\tle")].concat()
}

#[test]
fn a_client_that_vanishes_in_the_middle_of_a_copy_has_written_nothing() {
    let name = "vanished_copying_in";
    database(name);
    let open = sharing(1);
    vanishes((&open, name), "asked for rows", begins_to_copy);
    vanishes((&open, name), "rows have come", |client| {
        begins_to_copy(client);
        client.send(&rows());
    });
    vanishes((&open, name), "in the middle of a row's message", |client| {
        begins_to_copy(client);
        client.send(&rows());
        client.send(&message(front::COPY_DATA, &[b'x'; 1000])[..500]);
    });
    vanishes((&open, name), "in a block", |client| {
        query(client, "BEGIN");
        query(client, "UPDATE items SET name = 'left' WHERE id = 1");
        begins_to_copy(client);
        client.send(&rows());
    });
    vanishes((&open, name), "in the extended protocol", |client| {
        client.ask(|out| {
            out.parse(b"", b"COPY items FROM STDIN", &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.sync();
        });
        hears(client, back::COPY_IN);
        client.send(&rows());
    });
}

/// Number of backends that cannot go on because their clients read nothing.
fn stuck(node: &Node, database: &str) -> usize {
    let activity = "SELECT FROM pg_stat_activity WHERE wait_event = 'ClientWrite' AND datname = ";
    node.query("postgres", &format!("{activity}'{database}'")).unwrap().len()
}

#[test]
fn a_client_that_vanishes_and_has_not_read_what_is_copied_to_it_keeps_no_place() {
    let name = "vanished_copying_out";
    database(name);
    let open = sharing(1);
    for (state, begin) in [("alone", None), ("in a block", Some("BEGIN"))] {
        vanishes((&open, name), state, |client| {
            begin.into_iter().for_each(|begin| drop(query(client, begin)));
            client.ask(|out| {
                out.query(b"COPY (SELECT repeat('x', 1000) FROM generate_series(1, 100000)) TO STDOUT")
            });
            hears(client, back::COPY_OUT);
            until(|| stuck(SERVERS.primary(), name) > 0);
        });
    }
}

/// Ten rows of many, from a portal that stays open; the rows are locked.
fn opens_a_portal(out: &mut Vec<u8>) {
    out.parse(b"left", b"SELECT id FROM items ORDER BY id FOR UPDATE", &[]);
    out.bind(b"left", b"left", &[0; 6]);
    out.execute(b"left", 10);
}

#[test]
fn a_client_that_vanishes_with_an_open_portal_leaves_nothing() {
    let name = "vanished_with_a_portal";
    database(name);
    let open = sharing(1);
    vanishes((&open, name), "in a block", |client| {
        query(client, "BEGIN");
        client.ask(|out| {
            opens_a_portal(out);
            out.sync();
        });
        assert_eq!(answer(client).1, "12DDDDDDDDDDsZ");
    });
    vanishes((&open, name), "in a pipeline", |client| {
        client.ask(|out| {
            opens_a_portal(out);
            Asks::flush(out);
        });
        hears(client, back::PORTAL_SUSPENDED);
    });
}

#[test]
fn a_client_that_vanishes_in_the_middle_of_a_message_has_not_said_it() {
    let name = "vanished_in_a_message";
    database(name);
    let open = sharing(1);
    let half = |client: &mut Raw| client.send(b"Q\0\0\0\x40UPDATE items SET name = 'left' WHERE");
    vanishes((&open, name), "idle", half);
    vanishes((&open, name), "in a block", |client| {
        query(client, "BEGIN");
        query(client, "UPDATE items SET name = 'left' WHERE id = 1");
        half(client);
    });
    vanishes((&open, name), "in a pipeline", |client| {
        client.ask(|out| {
            out.parse(b"", b"UPDATE items SET name = 'left' WHERE id = 1", &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            Asks::flush(out);
        });
        hears(client, back::COMMAND_COMPLETE);
        client.send(b"S\0\0");
    });
    // The request is too long to be held, so that its beginning is at the primary already.
    vanishes((&open, name), "that is long", |client| {
        let text = b"UPDATE items SET name = 'left' -- ";
        let mut begun = [&b"Q"[..], &1_000_000_u32.to_be_bytes(), text].concat();
        begun.resize(500_000, b'x');
        client.send(&begun);
        until(|| has_a_connection(&open));
    });
}

/// A COMMIT waits for a lock of another session.
const SLOW: &str = "CREATE TABLE slow (v int); \
    CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS \
      $$ BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END $$; \
    CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED \
      FOR EACH ROW EXECUTE FUNCTION waits()";

#[test]
fn a_client_that_vanishes_while_its_commit_runs_keeps_no_place_and_has_committed() {
    let name = "vanished_committing";
    database(name);
    SERVERS.query_in(name, SLOW);
    let open = sharing(1);
    let mut holder = Raw::at_primary(name);
    let waits = format!("SELECT FROM pg_stat_activity WHERE datname = '{name}' AND wait_event_type = 'Lock'");
    for (round, gone) in WAYS.into_iter().enumerate() {
        query(&mut holder, "SELECT pg_advisory_lock(77)");
        let mut client = comes(&open, name);
        query(&mut client, "BEGIN");
        query(&mut client, &format!("INSERT INTO slow VALUES ({round})"));
        client.ask(|out| out.query(b"COMMIT"));
        until(|| SERVERS.query(&waits).len() == 1);
        let left = gone.of(client);
        let mut next = Raw::ready(&open, name);
        assert_eq!(query(&mut next, "SELECT count(*) FROM slow"), [round.to_string()], "{gone:?}");
        assert_eq!(query(&mut next, LEFT), ["", "4MB", "0", "0", "t", "0", "100"], "{gone:?}");
        assert_eq!(SERVERS.query(&waits).len(), 1, "it was served meanwhile");
        query(&mut holder, "SELECT pg_advisory_unlock(77)");
        // The sent request goes on, and later reads see its effect.
        until(|| SERVERS.query_in(name, "SELECT FROM slow").len() == round + 1);
        assert_eq!(query(&mut next, "SELECT count(*) FROM slow"), [(round + 1).to_string()], "{gone:?}");
        // One of the two is who held the lock.
        until(|| connections(name) <= 2);
        drop(left);
    }
}

/// The primary has answered, and the replica that is to show the commit hangs.
#[test]
fn a_client_that_vanishes_while_replicas_are_to_show_its_commit_keeps_no_place() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.query("CREATE TABLE late (v int)");
    let (open, mut next) = shared_stage(&servers);
    let (replica, insert) = (servers.replica(0), "INSERT INTO late VALUES (1)");
    assert_eq!(by_query(&mut next, insert), "CZI", "the replica shows what is written");
    let ways = WAYS.into_iter().flat_map(|gone| [(gone, false), (gone, true)]);
    for (rows, (gone, in_block)) in (2..).zip(ways) {
        let mut client = Raw::ready(&open, "postgres");
        if in_block {
            assert_eq!(by_query(&mut client, "BEGIN"), "CZT");
            assert_eq!(by_query(&mut client, insert), "CZT");
        }
        replica.hang();
        let commits = if in_block { "COMMIT" } else { insert };
        client.ask(|out| out.query(commits.as_bytes()));
        until(|| servers.query("SELECT FROM late").len() == rows);
        let left = gone.of(client);
        // A read at the replica would wait for it.
        let served = query(&mut next, "SELECT 1 FROM pg_backend_pid()");
        replica.resume();
        assert_eq!(served, ["1"], "{gone:?}, in a block: {in_block}");
        until(|| replica.query("postgres", "SELECT FROM late").unwrap().len() == rows);
        drop(left);
    }
    until(|| open.door(|door| door.registry.seats().len()) == 1);
}

/// There is one place at the standby, too.
#[test]
fn a_client_that_vanishes_and_has_not_read_a_standbys_answer_keeps_no_place_there() {
    let name = "vanished_at_a_standby";
    database(name);
    let open = Open::before(&SERVERS, Writers::Anywhere, |setup| {
        setup.pools = Pools::of_all(shared(1));
        setup.standby_connections = 1;
    });
    let (primary, standby) = (SERVERS.primary(), SERVERS.standby(0));
    for gone in [Gone::Closed, Gone::Reset] {
        let mut streams = None;
        until(|| {
            let mut client = Raw::ready(&open, name);
            query(&mut client, "SET datestyle = 'German'");
            client.ask(|out| out.query(b"SELECT repeat(a.name, 100) FROM items a, items b, items c"));
            hears(&mut client, back::ROW_DESCRIPTION);
            until(|| stuck(primary, name) + stuck(standby, name) > 0);
            let has_left = stuck(standby, name) > 0;
            // Otherwise it was not known yet, and leaves another time.
            streams = Some(client).filter(|_| has_left);
            until(|| stuck(primary, name) == 0);
            has_left
        });
        drop(streams.map(|client| gone.of(client)));
        until(|| stuck(standby, name) == 0);
        let mut next = Raw::ready(&open, name);
        let read = "SELECT (date '2024-02-03' + id)::text FROM items WHERE id = 1";
        assert_eq!(until_it_leaves(&open, &mut next, read), ["2024-02-04"], "{gone:?}");
        drop(next);
        next_is_served(&open, name, &format!("{gone:?}"));
    }
}

/// A read that takes for ever, if all ids are large enough, or no time.
fn crosses(most: u32) -> String {
    let below = ["a", "b", "c", "d", "e"].map(|item| format!("{item}.id <= {most}")).join(" AND ");
    format!("SELECT count(*) FROM items a, items b, items c, items d, items e WHERE {below}")
}

/// Somebody's read of that kind runs there.
fn computes(node: &Node, database: &str) -> bool {
    let sql = format!(
        "SELECT FROM pg_stat_activity WHERE datname = '{database}' AND state = 'active' AND query LIKE '%items e%' \
         AND pid <> pg_backend_pid()"
    );
    !node.query("postgres", &sql).unwrap().is_empty()
}

#[test]
fn a_client_that_vanishes_while_a_standby_computes_leaves_nothing_running_there() {
    let name = "vanished_computing";
    database(name);
    let open = Open::before(&SERVERS, Writers::Anywhere, |setup| setup.pools = Pools::of_all(shared(1)));
    let standby = SERVERS.standby(0);
    for gone in WAYS {
        let client = loop {
            let mut client = Raw::ready(&open, name);
            assert_eq!(until_it_leaves(&open, &mut client, &crosses(1)), ["1"]);
            client.ask(|out| out.query(crosses(100).as_bytes()));
            until(|| computes(standby, name) || computes(SERVERS.primary(), name));
            if computes(standby, name) {
                break client;
            }
            // Any read may stay: its standby lags, or a catalog has changed.
            let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'vanished_computing' \
                        AND query LIKE '%items e%'";
            SERVERS.query(ends);
            until(|| !computes(SERVERS.primary(), name));
        };
        let left = gone.of(client);
        until(|| !computes(standby, name));
        next_is_served(&open, name, &format!("{gone:?}"));
        assert!(!computes(SERVERS.primary(), name), "{gone:?}: it runs nowhere else");
        drop(left);
    }
}
