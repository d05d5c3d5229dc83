//! Two Consorts in front of the same servers: one leads, the other waits and takes over; clients name both.

use std::sync::mpsc::channel;
use std::time::Duration;

use load_clients::progress::Progress;
use load_clients::stop::Stop;
use local_cluster::Node;
use workloads::check::check;
use workloads::histories::{Isolation, Recorded, Workload, record, set_up};

use crate::fed::all_equal;
use crate::fixture::{Ends, Serving, eventually, psql};
use crate::load::{ANYWHERE, Client, Console, Load, READ_QUIET, THROUGH, Trouble, past, serves, serving};
use crate::ordered::verified;
use crate::serving::{figure, page};
use crate::waiting;

/// A leader that is silent for so long loses its lease.
const LEASE: &str = "leader_lease_timeout = \"2s\"";

/// In each history.
const TAKE_OVERS: usize = 4;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// The same, where clients share connections at the primary.
fn shared(lines: &str) -> String {
    format!("{lines}\npool_mode = \"transaction\"")
}

/// The address of both, the first one first.
fn both(first: &Serving, second: &Serving) -> String {
    format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", first.port, second.port)
}

/// Another Consort in front of the same servers.
fn another(of: &Serving, lines: &str) -> Serving {
    Serving::over(of.servers.clone(), &format!("{lines}\n{LEASE}"))
}

fn console(serving: &Serving) -> Console {
    Console::connect(&serving.url("postgres", "consort"))
}

/// True if this Consort leads, and the name of the leader. A Consort that restarts with empty state answers
/// nothing for a moment.
pub(crate) fn lead(serving: &Serving) -> Option<(bool, String)> {
    let mut console = Client::connect(&serving.url("postgres", "consort")).ok()?;
    let rows = console.rows("SHOW LEADER").ok()?;
    let text = |column| rows[0].get(column).unwrap_or_default().to_owned();
    Some((text("leads") == "1", text("led_by")))
}

pub(crate) fn leads(serving: &Serving) {
    eventually("a Consort that leads", || lead(serving).is_some_and(|(leads, _)| leads));
}

pub(crate) fn waits(serving: &Serving) {
    eventually("a Consort that waits", || lead(serving).is_some_and(|(_, by)| by.contains("process")));
}

fn kill(serving: &mut Serving) {
    serving.signal("KILL");
    serving.ended();
}

/// Reads until one has run at the standby.
fn at_standby(serving: &Serving, client: &mut Client) {
    let mut console = console(serving);
    eventually("a read at the standby", || {
        let before = console.node("standby1").served;
        client.rows(READ_QUIET).expect("a read");
        console.node("standby1").served > before
    });
}

#[test]
fn the_one_that_waits_serves_at_the_primary_says_so_and_takes_over() {
    let lines = format!("{ANYWHERE}\n{LEASE}");
    let (mut first, _, url) = serving(1, &lines);
    let mut second = another(&first, ANYWHERE);
    let through_second = second.url("postgres", "postgres");
    let mut client = Client::connect(&through_second).unwrap();
    client.rows("UPDATE quiet SET v = 8").unwrap();
    assert_eq!(Client::connect(&url).unwrap().number(READ_QUIET).unwrap(), 8);
    client.rows("UPDATE quiet SET v = 7").unwrap();
    let mut waiting = console(&second);
    eventually("a reason", || waiting.stays("postgres").contains("another Consort leads: process"));
    assert_eq!((figure(&second, "consort_is_leader"), figure(&first, "consort_is_leader")), (0, 1));
    assert_eq!(page(&second, "/readyz").0, "HTTP/1.1 200 OK");
    let status = second.run("status", &[]).worked();
    assert!(
        status.contains("standing by: another Consort leads (process")
            && status.contains("its clients run at the primary"),
        "{status}"
    );
    // The other Consort has touched nothing in the database: no mark disturbs the leader.
    let marks = "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'log' AND schemaname = 'consort'";
    let marked = first.servers.query(marks);
    at_standby(&first, &mut Client::connect(&url).unwrap());
    assert_eq!(first.servers.query(marks), marked);
    assert_eq!(waiting.node("standby1").served, 0);

    let load = Load::that_comes_back(&both(&first, &second));
    for _ in 0..2 {
        load.goes_on(20, 5);
        kill(&mut first);
        leads(&second);
        serves(&mut console(&second), "standby1");
        first.start_again();
        waits(&first);
        load.goes_on(20, 5);
        second.signal("TERM");
        assert!(second.ended().success());
        leads(&first);
        serves(&mut console(&first), "standby1");
        second.start_again();
        waits(&second);
    }
    load.end();
}

#[test]
fn where_writers_must_pass_the_one_that_leads_the_other_refuses_and_drivers_go_on() {
    let lines = format!("{THROUGH}\n{LEASE}");
    let (mut first, _, url) = serving(1, &lines);
    let mut second = another(&first, THROUGH);
    let refused = Client::connect(&second.url("postgres", "postgres")).err().expect("nobody is let in");
    assert_eq!(refused.sqlstate.as_deref(), Some("57P03"), "{refused:?}");
    assert_eq!(page(&second, "/readyz").0, "HTTP/1.1 503 Service Unavailable");
    let status = second.run("status", &[]).worked();
    assert!(
        status.contains("another Consort leads (process") && status.contains("clients are rejected"),
        "{status}"
    );
    // libpq goes on to the next host, whatever it is to be.
    for attributes in ["any", "read-write", "primary", "prefer-standby"] {
        let url = format!("{}?target_session_attrs={attributes}", both(&second, &first));
        let said = psql(&url, "SHOW port");
        assert_eq!(said.worked(), first.servers.query("SHOW port")[0][0].clone().unwrap() + "\n");
    }
    let standby = format!("{}?target_session_attrs=standby", both(&second, &first));
    assert!(!psql(&standby, "SELECT 1").status.success(), "each leads to the primary");

    let load = Load::that_comes_back(&both(&first, &second));
    for _ in 0..2 {
        load.goes_on(20, 5);
        kill(&mut first);
        leads(&second);
        serves(&mut console(&second), "standby1");
        assert_eq!(console(&second).writers(), "through-consort", "nobody is taken for a bypass");
        first.start_again();
        waits(&first);
        load.goes_on(20, 5);
        kill(&mut second);
        leads(&first);
        serves(&mut console(&first), "standby1");
        second.start_again();
        waits(&second);
    }
    load.end();
    assert!(Client::connect(&url).is_ok());
}

/// Queries the standby directly.
fn ask(node: &Node, sql: &str) {
    node.query("postgres", sql).expect("it answers");
}

#[test]
fn one_that_stood_still_while_another_took_over_answers_nothing_old() {
    for lines in [THROUGH, ANYWHERE, &shared(THROUGH)] {
        let (first, _, url) = serving(1, &format!("{lines}\n{LEASE}"));
        let second = another(&first, lines);
        waits(&second);
        let mut client = Client::connect(&url).unwrap();
        at_standby(&first, &mut client);
        let standby = first.servers.standby(0);
        first.signal("STOP");
        let (say, heard) = channel();
        let asking = std::thread::spawn(move || {
            heard.recv().expect("it is told when");
            let first = client.number(READ_QUIET);
            (first, client.number(READ_QUIET))
        });
        leads(&second);
        ask(standby, "SELECT pg_wal_replay_pause()");
        let mut writer = Client::connect(&second.url("postgres", "postgres")).unwrap();
        writer.rows("UPDATE quiet SET v = 8").unwrap();
        assert_eq!(writer.number(READ_QUIET).unwrap(), 8);
        // Sent after the write was acknowledged; it lies in the socket until the first one wakes, or follows
        // at once.
        say.send(()).unwrap();
        first.signal("CONT");
        let (once, twice) = asking.join().unwrap();
        for read in [once, twice] {
            let right = read.as_ref().map_or_else(Trouble::says_away, |value| *value == 8);
            assert!(right, "{lines}: {read:?}");
        }
        waits(&first);
        ask(standby, "SELECT pg_wal_replay_resume()");
        let mut console = console(&second);
        eventually("reads at the standby", || {
            assert_eq!(writer.number(READ_QUIET).unwrap(), 8);
            console.node("standby1").served > 20
        });
        assert_eq!(console.writers() == "anywhere", lines.contains(ANYWHERE), "nobody is taken for a bypass");
    }
}

fn is_there(node: &Node, sql: &str) -> bool {
    !node.query("postgres", sql).expect("it answers").is_empty()
}

#[test]
fn one_that_stands_still_while_it_feeds_harms_no_replica() {
    for lines in [THROUGH, ANYWHERE] {
        let (first, _, url) = crate::fed::serving(0, &format!("{lines}\n{LEASE}"));
        let second = another(&first, lines);
        waits(&second);
        let replica = first.servers.replica(0);
        // The apply runs the DDL as another role, and resets its role after it.
        Client::connect(&url).unwrap().rows("CREATE TABLE further (id int PRIMARY KEY)").unwrap();
        eventually("DDL at the replica", || {
            is_there(replica, "SELECT FROM pg_class WHERE relname = 'further'")
        });
        // Held up in the middle of a step, and then stopped there: its transaction holds the position.
        let direct = past(replica);
        let mut holder = Client::connect(&direct).unwrap();
        holder.rows("BEGIN; LOCK TABLE quiet IN SHARE MODE").unwrap();
        Client::connect(&url).unwrap().rows("INSERT INTO quiet VALUES (2, 8)").unwrap();
        let feeder = "SELECT FROM pg_stat_activity WHERE application_name = 'consort_feeder' AND";
        eventually("a step that waits", || is_there(replica, &format!("{feeder} wait_event_type = 'Lock'")));
        first.signal("STOP");
        holder.rows("COMMIT").unwrap();
        eventually("a half-done step", || {
            is_there(replica, &format!("{feeder} state = 'idle in transaction'"))
        });
        leads(&second);
        let load = Load::start(&second.url("postgres", "postgres"));
        load.goes_on(40, 20);
        serves(&mut console(&second), "replica1");
        first.signal("CONT");
        load.goes_on(40, 20);
        waits(&first);
        load.goes_on(40, 20);
        load.end();
        verified(&second);
        all_equal(&second, &mut console(&second));
    }
}

#[test]
fn a_commit_that_outlives_the_one_that_led_is_in_doubt_at_the_next() {
    let lines = format!("{THROUGH}\n{LEASE}");
    let (mut first, _, url) = serving(1, &lines);
    // The second one attaches nothing: that would wait for the standby too.
    let second = another(&first, "writers = \"through-consort\"");
    waits(&second);
    let mut writer = Client::connect(&url).unwrap();
    let servers = first.servers.clone();
    let primary = servers.primary();
    primary.set("synchronous_standby_names", "nobody").unwrap();
    eventually("a commit that would wait", || {
        psql(&url, "SHOW synchronous_standby_names").worked() == "nobody\n"
    });
    let committing = std::thread::spawn(move || writer.rows("UPDATE quiet SET v = 8").err());
    let hangs = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'UPDATE quiet%'";
    eventually("a commit that hangs", || is_there(primary, hangs));
    kill(&mut first);
    assert!(committing.join().unwrap().is_some_and(|trouble| trouble.says_away()));
    leads(&second);
    let through_second = second.url("postgres", "postgres");
    let mut reader = Client::connect(&through_second).unwrap();
    let mut console = console(&second);
    // The standby shows it already; the primary does not, as long as it hangs.
    let standby = first.servers.standby(0);
    let shown = || standby.query("postgres", READ_QUIET).unwrap()[0][0].clone();
    eventually("a standby that is ahead", || shown().as_deref() == Some("8"));
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    // On a busy machine the one that led may seem to live when its lease is over, and its sessions are ended: the commit too.
    let still_hangs = || is_there(primary, hangs);
    for _ in 0..50 {
        assert!(reader.number(READ_QUIET).unwrap() == 7 || !still_hangs(), "nobody has shown it yet");
    }
    let unknown = |console: &mut Console| {
        console.rows("SHOW IN_FLIGHT").iter().any(|doubt| doubt.get("state") == Some("unknown"))
    };
    assert!(unknown(&mut console) || !still_hangs(), "a backend is there that nobody knows");
    primary.set("synchronous_standby_names", "").unwrap();
    let mut seen = 7;
    eventually("reads of it at the standby", || {
        let now = reader.number(READ_QUIET).unwrap();
        assert!(now >= seen, "from {seen} back to {now}");
        seen = now;
        now == 8 && console.node("standby1").served > 20
    });
    eventually("no backend that nobody knows", || !unknown(&mut console));
}

#[test]
fn where_transactions_are_ordered_first_the_other_refuses_until_it_orders() {
    let (first, _, _) = crate::ordered::serving_as(crate::ordered::design(), LEASE);
    let lines = format!("design = \"{}\"\nattach_on_first_use = true", crate::ordered::design());
    let mut second = another(&first, &lines);
    let through_second = second.url("postgres", "postgres");
    let refused = Client::connect(&through_second).err().expect("nobody is let in");
    assert_eq!(refused.sqlstate.as_deref(), Some("57P03"), "{refused:?}");
    let mut client = Client::connect(&both(&second, &first)).unwrap();
    client.rows("CREATE TABLE t (id int PRIMARY KEY)").unwrap();
    client.rows("INSERT INTO t VALUES (1)").unwrap();
    // The one that leads stands still.
    first.signal("STOP");
    leads(&second);
    let mut client = Client::connect(&through_second).unwrap();
    client.rows("INSERT INTO t VALUES (2)").unwrap();
    first.signal("CONT");
    waits(&first);
    goes_on_at_all(&second, 3);
    // The one that leads is killed.
    kill(&mut second);
    leads(&first);
    second.start_again();
    waits(&second);
    goes_on_at_all(&first, 4);
}

/// All execute what this one orders, and have the same rows.
fn goes_on_at_all(leading: &Serving, row: u32) {
    let mut client = Client::connect(&leading.url("postgres", "postgres")).expect("it lets in");
    crate::ordered::all_execute(&mut console(leading));
    client.rows(&format!("INSERT INTO t VALUES ({row})")).expect("it writes");
    assert_eq!(client.one("SELECT count(*) FROM t").expect("it reads"), row.to_string());
    verified(leading);
}

/// A history of clients that name both, while one after the other takes over and has reads run at this standby or replica.
fn recorded(first: &mut Serving, second: &mut Serving, isolation: Isolation, reader: &str) -> Recorded {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be made");
    let workload = Workload {
        rate: 400,
        keys: 20,
        read_only: 0.6,
        ..Workload::new(&both(first, second), isolation, LONG)
    };
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let ending = Ends(stop.clone());
        let striking = scope.spawn(move || {
            let _ending = ending;
            for _ in 0..TAKE_OVERS {
                serves(&mut console(first), reader);
                kill(first);
                leads(second);
                first.start_again();
                waits(first);
                std::mem::swap(first, second);
            }
            serves(&mut console(first), reader);
        });
        let recorded = runtime.block_on(async { record(&workload, &stop, &mut Progress::new()).await });
        striking.join().expect("each takes over");
        recorded.expect("a history")
    })
}

/// Judges such a history. One of the two, which leads.
fn is_of_one_server(mut first: Serving, lines: &str, reader: &str) -> Serving {
    let isolation = Isolation::Autocommit;
    let mut second = another(&first, lines);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(set_up(&first.url("postgres", "postgres"), &[])).expect("tables");
    let recorded = recorded(&mut first, &mut second, isolation, reader);
    let findings = check(&recorded.history);
    assert!(findings.holds(isolation.owes()), "{lines}: {isolation}: {findings}");
    assert!(recorded.lost_sessions > 0 && recorded.appends > 100, "{lines}: {recorded:?}");
    // Both have ended with the thread that has started them.
    first.ended();
    first.start_again();
    Client::connect(&first.url("postgres", "postgres"))
        .and_then(|mut client| client.rows(READ_QUIET))
        .expect("a read");
    let mut console = console(&first);
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    eventually("its replica", || console.node(reader).serving);
    first
}

#[test]
fn histories_across_take_overs_are_those_of_one_server() {
    for lines in [THROUGH, ANYWHERE, &shared(THROUGH)] {
        let (first, _, _) = serving(1, &format!("{lines}\n{LEASE}"));
        is_of_one_server(first, lines, "standby1");
    }
}

#[test]
fn histories_across_take_overs_are_those_of_one_server_in_designs_whose_replicas_are_fed() {
    for design in design::PRIMARY_COPY.iter().filter(|design| design.is_fed()) {
        let travel = if design.effects.are_statements() { "\nstatement_rows = 1" } else { "" };
        let lines = format!("{THROUGH}{travel}");
        let (first, _, _) = waiting::serving(design.name, 1, &format!("{lines}\n{LEASE}"));
        let first = is_of_one_server(first, &format!("design = \"{}\"\n{lines}", design.name), "replica1");
        waiting::shows_all(&mut console(&first), 1);
        verified(&first);
    }
}

#[test]
fn whoever_is_no_consort_does_not_lead() {
    let (first, _, url) = serving(1, &format!("{ANYWHERE}\n{LEASE}"));
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE ROLE joker LOGIN").unwrap();
    let mut joker = Client::connect(&first.url("joker", "postgres")).unwrap();
    let lock = "SELECT pg_try_advisory_lock(1668247155, 1869771776)";
    assert_eq!(joker.one(lock).unwrap(), "f");
    let end =
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1668247155";
    eventually("a joker that has the lock", || {
        first.servers.query(end);
        joker.one(lock).is_ok_and(|got| got == "t")
    });
    eventually("a joker that is ended", || joker.rows("SELECT 1").is_err());
    leads(&first);
    at_standby(&first, &mut Client::connect(&url).unwrap());
}
