//! Procedures, functions and triggers that are declared with the tables that they touch: where transactions are ordered before
//! they are executed, every server executes them under the locks of these tables.

use crate::fixture::{Serving, eventually, temporary};
use crate::load::{Client, Console};
use crate::ordered::{become_equal, both, pgbench, serving_as, sqlstate, verified};
use crate::waiting::named;

const TABLES: &[&str] = &[
    "CREATE SCHEMA shop",
    "CREATE TABLE shop.items (id int PRIMARY KEY, stock int NOT NULL)",
    "CREATE TABLE shop.orders (id serial PRIMARY KEY, item int NOT NULL REFERENCES shop.items, amount int NOT NULL)",
    "CREATE TABLE shop.note (id int PRIMARY KEY, v int)",
    "CREATE TABLE shop.log (n serial, id int, v int)",
    "CREATE PROCEDURE shop.place(item int, amount int) LANGUAGE plpgsql AS $$ BEGIN \
        UPDATE shop.items SET stock = stock - place.amount WHERE id = place.item; \
        INSERT INTO shop.orders (item, amount) VALUES (place.item, place.amount); END $$",
    "CREATE FUNCTION shop.chosen() RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (random() * 9)::int; END'",
    "CREATE PROCEDURE shop.unknown() LANGUAGE sql AS 'DELETE FROM shop.orders'",
    "CREATE PROCEDURE shop.commits() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO shop.note VALUES (90, 0); COMMIT; END $$",
    "CREATE FUNCTION shop.take(item int) RETURNS int LANGUAGE sql AS \
        'UPDATE shop.items SET stock = stock - 1 WHERE id = item RETURNING stock'",
    "CREATE FUNCTION shop.left_of(item int) RETURNS int LANGUAGE plpgsql AS \
        $$ BEGIN RETURN stock FROM shop.items WHERE id = item; END $$",
    "CREATE FUNCTION shop.writes_down() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN INSERT INTO shop.log (id, v) VALUES (NEW.id, NEW.v); RETURN NEW; END $$",
    "CREATE FUNCTION shop.doubles() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := 2 * NEW.v; RETURN NEW; END $$",
    "CREATE FUNCTION shop.lies() RETURNS int LANGUAGE sql AS \
        'INSERT INTO shop.note VALUES (91, (random() * 1000000)::int) RETURNING 1'",
    "CREATE TRIGGER doubles BEFORE INSERT ON shop.note FOR EACH ROW EXECUTE FUNCTION shop.doubles()",
    "CREATE TRIGGER writes_down AFTER INSERT OR UPDATE ON shop.note FOR EACH ROW WHEN (NEW.id < 80) \
        EXECUTE FUNCTION shop.writes_down()",
    "INSERT INTO shop.items VALUES (1, 100000), (2, 100000), (3, 100000)",
];

const DECLARED: &str = r#"
[procedure."shop.place"]
tables_written = "shop.items, shop.orders, shop.orders_id_seq"
[procedure."shop.commits"]
tables_written = "shop.note, shop.log, log_n_seq"
[procedure."shop.take"]
tables_written = "items"
[procedure."shop.left_of"]
tables_read = "items"
[procedure."shop.writes_down"]
tables_written = "shop.log, shop.log_n_seq"
[procedure."shop.doubles"]
[procedure."shop.lies"]
tables_written = "shop.note, shop.log, log_n_seq"
[procedure."shop.is_not_there"]
tables_written = "nothing"
"#;

fn serving(design: &str, lines: &str) -> (Serving, Console, String, Client) {
    let (serving, console, url) = serving_as(design, &format!("{lines}{DECLARED}"));
    let mut client = Client::connect(&url).expect("a log-in");
    for sql in TABLES {
        client.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
    }
    (serving, console, url, client)
}

fn all_equal(serving: &Serving) {
    for table in ["shop.items", "shop.orders", "shop.note", "shop.log"] {
        become_equal(serving, table);
    }
    verified(serving);
}

#[test]
fn declared_procedures_are_executed_by_all() {
    for design in both() {
        let (serving, _console, url, mut client) = serving(design, "replica_wait_timeout = \"60s\"\n");
        for sql in [
            "CALL shop.place(1, 5)",
            "SET search_path = shop, public",
            "CALL place(item => 2, amount => '7'::int)",
            "CALL place(item => abs(-2) + 0, amount => greatest(length('abc') - 1, 2))",
            "SELECT take(3)",
            "SELECT * FROM shop.take(3)",
            "RESET search_path",
        ] {
            client.rows(sql).unwrap_or_else(|trouble| panic!("{design}: {sql}: {trouble:?}"));
        }
        assert_eq!(sqlstate(&mut client, "CALL shop.place(1, 1 + nothing)"), "42703");
        assert_eq!(client.number("SELECT shop.left_of(1)").unwrap(), 99_995);
        assert_eq!(client.number("SELECT shop.left_of(3)").unwrap(), 99_998);
        for sql in [
            "CALL shop.unknown()",
            "CALL shop.place(1, (random() * 3)::int)",
            "CALL shop.place(1, extract(day FROM now())::int)",
            "CALL shop.place(1, extract(day FROM CURRENT_DATE)::int)",
            "CALL shop.place(1, date_part('day', 'today'::date)::int)",
            "CALL shop.place(1, nextval('shop.orders_id_seq')::int)",
            "CALL shop.place(1, shop.left_of(1))",
            "CALL shop.place(1, shop.take(1))",
            "CALL shop.place(1, shop.chosen())",
            "CALL shop.place(1, pg_backend_pid())",
            "CALL shop.place(1, current_setting('port')::int)",
            "SELECT shop.take(id) FROM shop.items",
            "UPDATE shop.items SET stock = shop.take(id)",
        ] {
            assert_eq!(sqlstate(&mut client, sql), "0A000", "{design}: {sql}");
        }
        assert_eq!(sqlstate(&mut client, "CALL shop.place(99, 1)"), "23503");
        assert_eq!(sqlstate(&mut client, "CALL shop.commits()"), "2D000");
        all_equal(&serving);
        // Many at once, with parameters.
        let script = temporary("called").with_extension("sql");
        let text = "\\set item random(1, 3)\nCALL shop.place(:item, 1);\nCALL shop.place(:item + 0, 2 - 1);\nSELECT shop.take(:item);\n";
        std::fs::write(&script, text).expect("a temporary file can be written");
        for protocol in ["simple", "extended", "prepared"] {
            let file = script.to_str().expect("a plain name");
            let said = pgbench(&url, &["-t", "25", "-M", protocol, "-f", file]).worked();
            assert!(said.contains("number of failed transactions: 0"), "{said}");
        }
        std::fs::remove_file(&script).expect("it is there");
        assert_eq!(become_equal(&serving, "shop.orders"), 1203);
        let sum = client.number("SELECT sum(stock) FROM shop.items").unwrap();
        assert_eq!(sum, 300_000 - 5 - 7 - 2 - 2 - 3 * 600, "{design}");
        all_equal(&serving);
    }
}

#[test]
fn tables_whose_triggers_are_declared_may_be_written() {
    for design in both() {
        let (serving, _console, _url, mut client) = serving(design, "");
        for sql in [
            "INSERT INTO shop.note VALUES (1, 5), (2, 6)",
            "UPDATE shop.note SET v = v + 1 WHERE id = 2",
            "INSERT INTO shop.note VALUES (2, 9) ON CONFLICT (id) DO UPDATE SET v = 9",
            "DELETE FROM shop.note WHERE v > 100",
        ] {
            client.rows(sql).unwrap_or_else(|trouble| panic!("{design}: {sql}: {trouble:?}"));
        }
        // Numbers would be drawn for rows in the order in which they lie.
        assert_eq!(sqlstate(&mut client, "UPDATE shop.note SET v = 1"), "0A000", "{design}");
        assert_eq!(become_equal(&serving, "shop.log"), 4, "{design}");
        for sql in [
            "CREATE FUNCTION shop.other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            "CREATE TRIGGER other BEFORE UPDATE ON shop.note FOR EACH ROW EXECUTE FUNCTION shop.other()",
        ] {
            client.rows(sql).unwrap_or_else(|trouble| panic!("{design}: {sql}: {trouble:?}"));
        }
        assert_eq!(sqlstate(&mut client, "UPDATE shop.note SET v = 1 WHERE id = 1"), "0A000", "{design}");
        client.rows("INSERT INTO shop.note VALUES (3, 5)").unwrap();
        all_equal(&serving);
    }
}

#[test]
fn what_is_declared_is_locked_and_wanted_in_the_transactions_own_declaration() {
    for design in both() {
        let (serving, _console, url, mut client) = serving(design, "replica_wait_timeout = \"1s\"\n");
        let mut other = Client::connect(&url).unwrap();
        let all = "SET consort.tables_written = \
            'shop.items, shop.orders, shop.orders_id_seq, shop.note, shop.log, shop.log_n_seq'";
        client.rows(all).unwrap();
        for (sql, table) in [
            ("CALL shop.place(1, 1)", "shop.orders"),
            ("SELECT shop.take(2)", "shop.items"),
            ("INSERT INTO shop.note VALUES (1, 1)", "shop.log"),
        ] {
            client.rows("BEGIN").unwrap();
            client.rows(sql).unwrap_or_else(|trouble| panic!("{design}: {sql}: {trouble:?}"));
            let reads = format!("SELECT count(*) FROM {table}");
            assert_eq!(sqlstate(&mut other, &reads), "40001", "{design}: {sql}");
            client.rows("COMMIT").unwrap();
            other.rows(&reads).unwrap();
        }
        if design == named(|design| design.declares_tables()) {
            for (written, sql) in [
                ("shop.items", "CALL shop.place(1, 1)"),
                ("shop.orders", "SELECT shop.take(2)"),
                ("shop.note", "INSERT INTO shop.note VALUES (2, 2)"),
            ] {
                client.rows(&format!("BEGIN /* consort: tables_written = '{written}' */")).unwrap();
                assert_eq!(sqlstate(&mut client, sql), "55000", "{sql}");
                client.rows("ROLLBACK").unwrap();
            }
        }
        all_equal(&serving);
    }
}

#[test]
fn a_declaration_counts_from_a_reload_on() {
    for design in both() {
        let (serving, mut console, _url, mut client) = serving(design, "");
        client.rows("CALL shop.place(1, 1)").unwrap();
        assert_eq!(sqlstate(&mut client, "CALL shop.unknown()"), "0A000");
        let text = std::fs::read_to_string(serving.config_file()).unwrap();
        let more = format!("{text}\n[procedure.\"shop.unknown\"]\ntables_written = \"orders\"\n");
        std::fs::write(serving.config_file(), more).unwrap();
        console.rows("RELOAD");
        eventually("a declaration", || client.rows("CALL shop.unknown()").is_ok());
        assert_eq!(become_equal(&serving, "shop.orders"), 0);
        std::fs::write(serving.config_file(), text.replace("shop.place", "shop.replaced")).unwrap();
        console.rows("RELOAD");
        for sql in ["CALL shop.place(1, 1)", "CALL shop.unknown()"] {
            assert_eq!(sqlstate(&mut client, sql), "0A000", "{design}: {sql}");
        }
        all_equal(&serving);
    }
}

#[test]
fn what_is_declared_wrongly_is_found() {
    for design in both() {
        let (serving, _console, _url, mut client) = serving(design, "");
        client.rows("SELECT shop.lies()").unwrap();
        client.rows("INSERT INTO shop.items VALUES (4, 4)").unwrap();
        become_equal(&serving, "shop.items");
        let said = serving.run("verify", &["postgres"]);
        assert!(!said.status.success() && said.out.contains("shop.note"), "{design}: {said:?}");
    }
}
