//! Replicas that have a part of the tables.

use std::fs;
use std::sync::Arc;

use local_cluster::Options;
use testkit::Scratch;

use crate::backed_up::{at, replica};
use crate::fed::rows;
use crate::fixture::{Serving, UpFolder, configuration, eventually, free_port, up_folder};
use crate::load::{Client, Console, THROUGH, served};
use crate::replicas::number;

const TABLES: &str = "CREATE SCHEMA shop; CREATE TABLE people (id int PRIMARY KEY, name text); \
    CREATE TABLE orders (id int, person int REFERENCES people, n int, PRIMARY KEY (id)) PARTITION BY RANGE (id); \
    CREATE TABLE orders_low PARTITION OF orders FOR VALUES FROM (0) TO (100); \
    CREATE TABLE shop.stock (id int PRIMARY KEY, n int, of_order int REFERENCES orders); \
    CREATE TABLE claims (id int PRIMARY KEY, of_order int REFERENCES orders); \
    INSERT INTO people SELECT n, 'p' || n FROM generate_series(1, 9) n; \
    INSERT INTO orders SELECT n, n, 0 FROM generate_series(1, 9) n; \
    INSERT INTO shop.stock SELECT n, 0, n FROM generate_series(1, 9) n; INSERT INTO claims VALUES (1, 1)";

/// Consort in front of a primary with these tables, and of a replica that is to have those of `chosen`.
fn partly(chosen: &str) -> (Serving, Console, Client) {
    let servers = Arc::new(Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() }));
    servers.query(TABLES);
    let (port, metrics_port) = (free_port(), free_port());
    let lines = format!("metrics_listen = \"127.0.0.1:{metrics_port}\"\nauth_type = \"trust\"\n{THROUGH}");
    let text = configuration(&servers, port, &lines) + &format!("tables = [{chosen}]\n");
    let serving = Serving::configured(servers, port, metrics_port, &text);
    let client = Client::connect(&serving.url("postgres", "postgres")).expect("a log-in");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    is_fed(&mut console);
    (serving, console, client)
}

fn is_fed(console: &mut Console) {
    eventually("a replica that is fed", || {
        let feed = console.feed("replica1", "postgres");
        matches!(feed.state.as_str(), "feeding" | "serving") && feed.version == feed.newest_version
    });
}

/// A read comes to run at the replica.
fn leaves(console: &mut Console, client: &mut Client, read: &str) {
    let before = served(console, "replica1");
    eventually(read, || {
        client.rows(read).expect("a read");
        served(console, "replica1") > before
    });
}

/// A read runs at the primary, for the replica does not have all that it reads.
fn stays(console: &mut Console, client: &mut Client, read: &str) {
    let why = |console: &mut Console| {
        let routes = console.rows("SHOW ROUTES");
        let mine = routes.iter().filter(|row| row.get("statement") == Some(read));
        mine.map(|row| format!("{:?} {:?}", row.get("node"), row.get("reason"))).collect::<Vec<_>>()
    };
    eventually(read, || {
        client.rows(read).expect("a read");
        why(console).iter().any(|why| why.contains("not_at_copies"))
    });
    assert!(why(console).iter().all(|why| !why.contains("replica1")), "{:?}", why(console));
}

/// VERIFY's line of each table: its name and state.
fn verified(console: &mut Console) -> Vec<String> {
    let mut lines = Vec::new();
    eventually("a comparison", || {
        let found = console.rows("VERIFY postgres");
        lines = found
            .iter()
            .map(|row| [row.get("table"), row.get("state")].map(Option::unwrap_or_default).join(" "))
            .collect();
        lines.iter().all(|line| !line.ends_with("unreached"))
    });
    lines
}

#[test]
fn a_replica_of_some_tables_answers_who_reads_no_others() {
    let (serving, mut console, mut client) = partly("\"orders\", \"shop.*\"");
    let node = serving.servers.replica(0);
    let there = |table: &str| rows(node, "postgres", table).map(|rows| rows.len());
    assert_eq!(["orders", "shop.stock", "people", "claims"].map(there), [Some(9), Some(9), Some(0), Some(0)]);
    leaves(&mut console, &mut client, "SELECT n FROM orders");
    leaves(&mut console, &mut client, "SELECT o.n + s.n FROM orders o JOIN shop.stock s USING (id)");
    stays(&mut console, &mut client, "SELECT name FROM people");
    stays(&mut console, &mut client, "SELECT name FROM people JOIN orders USING (id)");
    stays(&mut console, &mut client, "SELECT of_order FROM claims");
    // All that is written is seen, wherever it is.
    for n in 1..=20 {
        client.rows(&format!("UPDATE people SET name = 'n{n}'; UPDATE orders SET n = {n}")).unwrap();
        let read = "SELECT count(*) FROM people JOIN orders ON person = people.id WHERE name = 'n' || n";
        assert_eq!(client.one(read).unwrap(), "9");
        assert_eq!(client.number("SELECT min(n) FROM orders").unwrap(), n);
    }
    is_fed(&mut console);
    assert_eq!(
        verified(&mut console),
        ["public.claims left out", "public.orders_low equal", "public.people left out", "shop.stock equal"]
    );
}

#[test]
fn what_ddl_makes_of_the_tables_of_a_part() {
    let (serving, mut console, mut client) = partly("\"orders\", \"shop.*\"");
    let node = serving.servers.replica(0);
    let copy = number(node);
    let count = |table: &str| rows(node, "postgres", table).map(|rows| rows.len());
    // New tables: one that is not chosen, a partition of one that is, one in a schema that is.
    client.rows("CREATE TABLE other AS SELECT n FROM generate_series(1, 5) n").unwrap();
    client.rows("CREATE TABLE orders_high PARTITION OF orders FOR VALUES FROM (100) TO (200)").unwrap();
    client.rows("CREATE TABLE shop.price (id int PRIMARY KEY); INSERT INTO shop.price VALUES (1)").unwrap();
    client.rows("INSERT INTO orders VALUES (150, 1, 0); INSERT INTO other VALUES (6)").unwrap();
    eventually("rows that are chosen", || count("orders") == Some(10) && count("shop.price") == Some(1));
    assert_eq!(count("other"), Some(0));
    // They are read elsewhere until the next copy: their rows are not known to be there yet.
    assert_eq!(client.one("SELECT count(*) FROM other").unwrap(), "6");
    assert_eq!(client.one("SELECT count(*) FROM orders").unwrap(), "10");
    stays(&mut console, &mut client, "SELECT n FROM other");
    stays(&mut console, &mut client, "SELECT id FROM shop.price");
    // The replica keeps its rows under another name; a table that takes the old name is chosen, too.
    client.rows("ALTER TABLE shop.stock SET SCHEMA public; ALTER TABLE stock RENAME TO kept").unwrap();
    client.rows("UPDATE kept SET n = 7").unwrap();
    let kept = "SELECT FROM kept WHERE n = 7";
    eventually("rows under another name", || node.query("postgres", kept).is_ok_and(|rows| rows.len() == 9));
    leaves(&mut console, &mut client, "SELECT n FROM kept");
    assert_eq!(client.number("SELECT min(n) FROM kept").unwrap(), 7);
    assert_eq!(number(node), copy, "nothing of that made a new copy necessary");
    is_fed(&mut console);
    let differs = |line: &String| line.ends_with("differs");
    assert!(!verified(&mut console).iter().any(differs), "{:?}", verified(&mut console));
    // A table that comes to be chosen lacks its rows.
    client.rows("ALTER TABLE people SET SCHEMA shop").unwrap();
    eventually("a copy anew", || number(node).is_some() && number(node) != copy);
    is_fed(&mut console);
    assert_eq!(count("shop.people"), Some(9));
    leaves(&mut console, &mut client, "SELECT name FROM shop.people");
    leaves(&mut console, &mut client, "SELECT id FROM shop.price");
    leaves(&mut console, &mut client, "SELECT id FROM orders");
    assert!(!verified(&mut console).iter().any(differs));
}

#[test]
fn a_replica_that_is_to_have_other_tables_is_copied_anew() {
    let (serving, mut console, mut client) = partly("\"orders\"");
    let node = serving.servers.replica(0);
    stays(&mut console, &mut client, "SELECT name FROM people");
    let text = fs::read_to_string(serving.config_file()).unwrap();
    let with = |tables: &str| text.replace("tables = [\"orders\"]", tables);
    for (tables, people) in
        [("tables = [\"people\"]", Some(9)), ("", Some(9)), ("tables = [\"orders\"]", Some(0))]
    {
        let copy = number(node);
        fs::write(serving.config_file(), with(tables)).unwrap();
        console.rows("RELOAD");
        eventually("a copy anew", || number(node).is_some() && number(node) != copy);
        is_fed(&mut console);
        assert_eq!(rows(node, "postgres", "people").map(|rows| rows.len()), people, "{tables}");
        let read = if people == Some(9) { "SELECT name FROM people" } else { "SELECT person FROM orders" };
        leaves(&mut console, &mut client, read);
    }
}

/// Number of rows that a replica of a folder of `up` has of each table of [`TABLES`] but the partition.
fn counts(folder: &UpFolder, node: &str) -> String {
    let sql = "SELECT concat_ws(' ', (SELECT count(*) FROM orders), (SELECT count(*) FROM shop.stock), \
               (SELECT count(*) FROM people), (SELECT count(*) FROM claims))";
    at(folder, node, "postgres", sql)
}

#[test]
fn replicas_of_some_tables_are_added() {
    let folder = up_folder();
    folder.up().worked();
    let mut client = Client::connect(&folder.url()).expect("a log-in");
    client.rows(TABLES).unwrap();
    let url = folder.url().replace("/postgres", "/consort").replace("//consort@", "//postgres@");
    let mut console = Console::connect(&url);
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    let refused = replica(&folder, &["add", "--tables", "orders,shop.stock.x"]).failed(1);
    assert!(refused.contains("found \"shop.stock.x\""), "{refused}");
    assert!(!folder.path().join("replica1").exists());
    let added = replica(&folder, &["add", "--tables", "orders,shop.*"]).worked();
    assert_eq!(added, "replica1: added\n");
    let added = replica(&folder, &["add", "--from", "backup", "--tables", "people"]).worked();
    assert_eq!(added, "replica2: added\n");
    eventually("both copies", || {
        counts(&folder, "replica1") == "9 9 0 0" && counts(&folder, "replica2") == "0 0 9 0"
    });
    leaves(&mut console, &mut client, "SELECT n FROM orders");
    // Another replica, `up` and the end of one do not change what the others have.
    let config = || fs::read_to_string(folder.path().join("consort.toml")).expect("the configuration");
    let (first, second) = ("tables = [\"orders\", \"shop.*\"]", "tables = [\"people\"]");
    assert!(config().contains(first) && config().contains(second), "{}", config());
    drop((client, console));
    folder.run("down", &[]).worked();
    folder.run("up", &[]).worked();
    assert!(config().contains(first) && config().contains(second), "{}", config());
    let (mut client, mut console) =
        (Client::connect(&folder.url()).expect("a log-in"), Console::connect(&url));
    leaves(&mut console, &mut client, "SELECT n FROM orders");
    replica(&folder, &["remove", "replica2"]).worked();
    assert!(config().contains(first) && !config().contains(second), "{}", config());
    assert_eq!(counts(&folder, "replica1"), "9 9 0 0");
    // The next one of that name has all.
    assert_eq!(replica(&folder, &["add"]).worked(), "replica2: added\n");
    assert_eq!(counts(&folder, "replica2"), "9 9 9 1");
}

#[test]
fn a_replica_of_some_tables_is_refused_where_reads_never_go_to_the_primary() {
    let folder = up_folder();
    let listen = format!("127.0.0.1:{}", folder.port);
    let design =
        design::PRIMARY_COPY.iter().find(|design| design.needs_replicas()).expect("there is one").name;
    folder.run("up", &["--listen", &listen, "--design", design, "--replicas", "1"]).worked();
    let refused = replica(&folder, &["add", "--tables", "orders"]).failed(1);
    assert!(refused.contains("--tables is not supported by the design"), "{refused}");
    let why = format!("the design {design}, in which every replica has all tables");
    assert!(refused.contains(&why), "{refused}");
    assert!(!folder.path().join("replica2").exists());
}
