//! Several batches at once: shown in their order, each in one step, and as if they had been applied one after the other.

use super::{EPOCH, Fed};
use crate::soon;
use replica_apply::apply::{Batch, Error, Feeder};
use std::cell::Cell;

/// Tables with every way to distinguish rows, each with rows, and one row that every transaction writes.
const TABLES: &str = "\
    CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO hot VALUES (1, 0); \
    CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL, filler text); \
    CREATE TABLE named (a text, b int, n int NOT NULL, filler text, PRIMARY KEY (a, b)); \
    CREATE TABLE counted (n int, filler text); \
    CREATE TABLE mailed (id int PRIMARY KEY, mail text UNIQUE, filler text); \
    CREATE TABLE loose (n numeric PRIMARY KEY, v int, filler text); \
    CREATE TABLE large (id int PRIMARY KEY, v text, n int); ALTER TABLE large ALTER v SET STORAGE EXTERNAL; \
    INSERT INTO stock SELECT n, 0, repeat('s', 200) FROM generate_series(1, 3000) n; \
    INSERT INTO named SELECT n % 7, n, 0, repeat('n', 200) FROM generate_series(1, 1000) n; \
    INSERT INTO mailed SELECT n, 'm' || n, repeat('m', 200) FROM generate_series(1, 500) n; \
    INSERT INTO loose SELECT n, 0, repeat('l', 200) FROM generate_series(1, 500) n; \
    INSERT INTO large SELECT n, repeat('v', 3000), 0 FROM generate_series(1, 50) n";

/// Statements of one round. Each transaction writes the hot row. Rows are written by this round and the one
/// before, by this round alone, and they go and come back.
fn round(round: u32) -> String {
    let first = round * 10_000;
    [
        format!("UPDATE stock SET n = n + {round} WHERE id % 3 = {round} % 3"),
        format!("INSERT INTO stock SELECT {first} + n, {round}, repeat('i', 100) FROM generate_series(1, 500) n"),
        format!("DELETE FROM stock WHERE id BETWEEN {first} - 9900 AND {first} - 9800"),
        format!("INSERT INTO stock SELECT {first} - 19900 + n, {round}, 'back' FROM generate_series(0, 100) n ON CONFLICT DO NOTHING"),
        format!("UPDATE named SET n = n + 1 WHERE b % 2 = {round} % 2; UPDATE named SET a = a || 'x' WHERE b = {round}"),
        format!("INSERT INTO counted SELECT n % 5, repeat('c', 50) FROM generate_series(1, {round} + 30) n"),
        "DELETE FROM counted WHERE n = 3".to_owned(),
        // The value goes from one row to another that the round before has not touched.
        format!("UPDATE mailed SET mail = 'gone' || {round} WHERE mail = 'passed'"),
        format!("UPDATE mailed SET mail = 'passed' WHERE id = 1 + {round} % 400"),
        // Two texts of one number.
        format!("DELETE FROM loose WHERE n = 77; INSERT INTO loose VALUES (77.{:0>1$}, {round}, '')", 0, round as usize),
        format!("UPDATE large SET n = {round}; UPDATE large SET id = -id WHERE id IN ({round}, -{round} + 1)"),
    ]
    .iter()
    .map(|sql| format!("BEGIN; {sql}; UPDATE hot SET n = n + 1; COMMIT"))
    .collect::<Vec<_>>()
    .join("; ")
}

/// A state in one line.
const STATE: &str = "SELECT format('%s %s %s %s %s %s %s', (SELECT n FROM hot), \
    (SELECT sum(n) || '/' || count(*) FROM stock), (SELECT sum(n) || string_agg(a, '' ORDER BY b) FROM named), \
    (SELECT count(*) FROM counted), (SELECT md5(string_agg(mail, ' ' ORDER BY id)) FROM mailed), \
    (SELECT string_agg(n::text, ' ') FROM loose WHERE n = 77), (SELECT sum(n) || '/' || sum(id) FROM large))";

fn state(server: &testkit::Scratch) -> String {
    crate::one(&server.query(STATE)).to_owned()
}

/// Watches the replica until the feed ends: every state that is seen is one of `states`, none older than the
/// one before. Returns the number of different states seen.
async fn watch(fed: &postgres::address::Address, states: &[String], feeding: &Cell<bool>) -> usize {
    let reader = crate::client(fed).await.unwrap();
    let (mut at, mut seen) = (0, 0);
    while feeding.get() {
        let found: String = reader.query_one(STATE, &[]).await.unwrap().get(0);
        let place = states.iter().rposition(|state| *state == found);
        let place = place.unwrap_or_else(|| panic!("never shown by the primary: {found}"));
        assert!(place >= at, "shown after {at}: {place}");
        seen += usize::from(place > at);
        at = place;
    }
    seen
}

#[tokio::test]
async fn batches_are_executed_at_once_and_shown_in_their_order() {
    let mut fed = Fed::with(TABLES, "").await.on_connections(3).await;
    let (mut batches, mut states) = (Vec::new(), vec![state(&fed.primary)]);
    for number in 1..=24 {
        fed.primary.query(&round(number));
        batches.push(fed.batch().await);
        states.push(state(&fed.primary));
    }
    let feeding = Cell::new(true);
    let address = fed.replica.address("postgres");
    let feed = async {
        for batch in batches {
            soon("a batch", fed.feeder.send(batch)).await.unwrap();
        }
        soon("the end", fed.feeder.finish()).await.unwrap();
        feeding.set(false);
    };
    let ((), seen) = tokio::join!(feed, watch(&address, &states, &feeding));
    fed.compare();
    let counts = fed.feeder.counts();
    println!("{counts:?}, {seen} states seen");
    assert_eq!((counts.batches, counts.again), (24, 0), "nothing stood in another's way");
    assert!(counts.beside > 12, "{counts:?}");
    assert!(seen > 2, "the reader saw {seen} states");
}

/// Commands that cannot run alongside other batches, each between batches that can.
const BARRIERS: &[&str] = &[
    "TRUNCATE counted; INSERT INTO counted VALUES (1, 'one')",
    "TRUNCATE counted, named",
    "ALTER TABLE stock ADD more int DEFAULT 5",
    "CREATE TABLE late (id int PRIMARY KEY, v text); INSERT INTO late SELECT n, repeat('x', 100) FROM generate_series(1, 2000) n",
    "UPDATE late SET v = repeat('y', 100); ALTER TABLE late ADD UNIQUE (v, id)",
    "DROP TABLE late",
    // Unique values change places: within a batch no order of rows that knows keys alone is right.
    "BEGIN; UPDATE mailed SET mail = 'x' WHERE id = 450; UPDATE mailed SET mail = 'm450' WHERE id = 451; \
     UPDATE mailed SET mail = 'm451' WHERE id = 450; COMMIT",
    "BEGIN; DELETE FROM mailed WHERE id = 460; UPDATE mailed SET mail = 'm460' WHERE id = 461; \
     INSERT INTO mailed VALUES (460, 'm461'); COMMIT",
    "ALTER TABLE stock DROP filler",
];

#[tokio::test]
async fn what_must_be_alone_waits_and_is_waited_for() {
    let mut fed = Fed::logging(TABLES).await.on_connections(3).await;
    let mut batches = Vec::new();
    for (number, barrier) in (1..).zip(BARRIERS) {
        let filled = number < BARRIERS.len() as u32;
        for step in 0..2 {
            if filled {
                let round = round(2 * number + step);
                fed.primary.query(&round);
            }
            batches.push(fed.batch().await);
        }
        fed.primary.query(barrier);
        fed.primary
            .query(&format!("UPDATE large SET v = repeat('w', 2000 + {number}); UPDATE hot SET n = n + 1"));
        batches.push(fed.batch().await);
    }
    for batch in batches {
        soon("a batch", fed.feeder.send(batch)).await.unwrap();
    }
    soon("the end", fed.feeder.finish()).await.unwrap();
    fed.compare();
    let counts = fed.feeder.counts();
    assert!(counts.beside > 5 && counts.again >= 1, "{counts:?}");
}

const ORPHANS: &str = "SELECT format('%s %s %s', (SELECT count(*) FROM parent), (SELECT count(*) FROM child), \
    (SELECT count(*) FROM child WHERE NOT EXISTS (SELECT FROM parent WHERE parent.id = child.parent)))";

/// Rows that reference each other and come and go: what the primary checked is not checked here, whatever comes first.
#[tokio::test]
async fn parents_and_children_may_come_in_any_order_that_nobody_sees() {
    let mut fed = Fed::with(
        "CREATE TABLE parent (id int PRIMARY KEY, filler text); \
         CREATE TABLE child (id int PRIMARY KEY, parent int NOT NULL REFERENCES parent ON DELETE CASCADE, filler text)",
        "",
    )
    .await
    .on_connections(4)
    .await;
    let (mut batches, mut states) = (Vec::new(), Vec::new());
    let look = |server: &testkit::Scratch| crate::one(&server.query(ORPHANS)).to_owned();
    states.push(look(&fed.primary));
    for number in 0..16 {
        fed.primary.query(&format!(
            "BEGIN; INSERT INTO parent SELECT {number} * 1000 + n, repeat('p', 200) FROM generate_series(1, 500) n; \
             INSERT INTO child SELECT id, id, repeat('c', 100) FROM parent WHERE id > {number} * 1000; \
             DELETE FROM parent WHERE id BETWEEN ({number} - 1) * 1000 AND ({number} - 1) * 1000 + 250; COMMIT"
        ));
        batches.push(fed.batch().await);
        states.push(look(&fed.primary));
    }
    assert!(states.iter().all(|state| state.ends_with(" 0")), "{states:?}");
    let (feeding, address) = (Cell::new(true), fed.replica.address("postgres"));
    let feed = async {
        for batch in batches {
            soon("a batch", fed.feeder.send(batch)).await.unwrap();
        }
        soon("the end", fed.feeder.finish()).await.unwrap();
        feeding.set(false);
    };
    let look = async {
        let reader = crate::client(&address).await.unwrap();
        let mut at = 0;
        while feeding.get() {
            let found: String = reader.query_one(ORPHANS, &[]).await.unwrap().get(0);
            let place = states.iter().position(|state| *state == found);
            let place = place.unwrap_or_else(|| panic!("never shown by the primary: {found}"));
            assert!(place >= at, "shown after {at}: {place}");
            at = place;
        }
    };
    tokio::join!(feed, look);
    fed.compare();
    assert_eq!(fed.feeder.counts().again, 0);
}

#[tokio::test]
async fn who_is_given_up_in_the_middle_leaves_a_prefix() {
    let mut fed = Fed::with(TABLES, "").await.on_connections(3).await;
    let mut batches: Vec<Batch> = Vec::new();
    for number in 1..=15 {
        fed.primary.query(&round(number));
        batches.push(fed.batch().await);
        // The test does not wait for the end; connections that are closed end when the server looks at them.
        let keep = batches.len().saturating_sub(6);
        for batch in &batches[keep..] {
            match soon("a batch", fed.feeder.send(batch.clone())).await {
                Ok(()) => {}
                // An earlier connection of ours came through meanwhile, or holds rows still.
                Err(Error::Moved | Error::Server(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        fed.reopen().await;
        let shown = fed.feeder.shown().decoded();
        assert!(batches.iter().any(|batch| batch.to.decoded() == shown) || shown < batches[0].to.decoded());
    }
    soon("all batches", async {
        loop {
            let mut done = Ok(());
            for batch in &batches {
                done = fed.feeder.send(batch.clone()).await;
                if done.is_err() {
                    break;
                }
            }
            if done.is_ok() && fed.feeder.finish().await.is_ok() {
                return;
            }
            fed.reopen().await;
        }
    })
    .await;
    fed.compare();
}

#[tokio::test]
async fn a_row_that_is_missing_is_named_whoever_is_beside() {
    let mut fed = Fed::with(TABLES, "").await.on_connections(3).await;
    let mut batches = Vec::new();
    for number in 1..=4 {
        fed.primary.query(&round(number));
        batches.push(fed.batch().await);
    }
    fed.replica.query("DELETE FROM named WHERE b = 500");
    let mut said = Ok(());
    for batch in batches.clone() {
        said = soon("a batch", fed.feeder.send(batch)).await;
        if said.is_err() {
            break;
        }
    }
    let said = if said.is_ok() { soon("the end", fed.feeder.finish()).await } else { said };
    let Err(Error::Diverged { table, what }) = said else { panic!("{said:?}") };
    assert!(table == "public.named" && what.contains("(a, b) = (3, 500)"), "{table}: {what}");
    // Earlier batches may show, and nothing else.
    let feeder = Feeder::open(&fed.replica.address("postgres"), EPOCH).await.unwrap();
    let before = batches.iter().filter(|batch| feeder.shown().covers(&batch.to)).count();
    assert!(before <= 1, "row 500 is written by the second batch");
}
