//! Sequences are asked for at the primary, and stand at the replica as they stand there.

use super::Fed;
use crate::soon;
use replica_apply::sequences::{Look, Sequence, Sequences, moved};
use testkit::Scratch;

/// More than one statement asks, some of which have given nothing.
const SEQUENCES: &str = "CREATE TABLE t (id serial PRIMARY KEY); CREATE TABLE u (id int GENERATED ALWAYS AS IDENTITY); \
    CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE \"It's \\ odd\"; CREATE SEQUENCE gone; CREATE SEQUENCE small; \
    CREATE UNLOGGED SEQUENCE quick; \
    DO 'BEGIN FOR n IN 1..300 LOOP EXECUTE format(''CREATE SEQUENCE n%s'', n); END LOOP; END'";

/// Differences of the replica alone: it has not run DDL yet.
const OTHERWISE: &str = "DROP SEQUENCE gone; CREATE TABLE gone (n int); ALTER SEQUENCE small MAXVALUE 10";

const MOVES: &str = "SELECT nextval('t_id_seq') FROM generate_series(1, 7); INSERT INTO u DEFAULT VALUES; \
    SELECT nextval('down') FROM generate_series(1, 3); SELECT setval('\"It''s \\ odd\"', 50, false); \
    SELECT nextval('gone'); SELECT setval('small', 100); SELECT nextval('quick'); \
    SELECT setval(('n' || n)::regclass, n + 1) FROM generate_series(1, 290) n";

/// Positions of the sequences that can be alike.
fn positions(server: &Scratch) -> Vec<Vec<Option<String>>> {
    server.query(
        "SELECT relname::text, pg_sequence_last_value(oid)::text FROM pg_class \
         WHERE relkind = 'S' AND relname NOT IN ('gone', 'small', 'quick') \
         UNION ALL SELECT 'first', concat_ws(' ', last_value, is_called) FROM \"It's \\ odd\" ORDER BY 1",
    )
}

fn names<'s>(sequences: &[&'s Sequence]) -> Vec<&'s str> {
    let mut names: Vec<_> = sequences.iter().map(|sequence| &*sequence.name).collect();
    names.sort_unstable();
    names
}

fn all(sequences: &Sequences) -> Vec<&Sequence> {
    moved(None, sequences)
}

#[tokio::test]
async fn sequences_stand_at_the_replica_where_they_stand_at_the_primary() {
    let mut fed = Fed::with(SEQUENCES, OTHERWISE).await;
    fed.primary.query(MOVES);
    let control = crate::client(&fed.primary.address("postgres")).await.unwrap();
    let mut look = Look::default();
    let first = look.read(&control).await.unwrap();
    assert_eq!(first.len(), 306, "all but the unlogged one");
    assert_eq!(
        fed.feeder.set_sequences(&all(&first)).await.unwrap(),
        0,
        "what cannot stand there is passed over"
    );
    assert_eq!(positions(&fed.replica), positions(&fed.primary));
    // Forth, back, and from one first number to another.
    fed.primary.query(
        "SELECT nextval('n1'); ALTER SEQUENCE n2 RESTART; SELECT setval('\"It''s \\ odd\"', 70, false)",
    );
    let second = look.read(&control).await.unwrap();
    let told = moved(Some(&first), &second);
    assert_eq!(names(&told), ["It's \\ odd", "n1", "n2"]);
    assert_eq!(fed.feeder.set_sequences(&told).await.unwrap(), 0);
    assert_eq!(positions(&fed.replica), positions(&fed.primary));
    assert_eq!(moved(Some(&second), &look.read(&control).await.unwrap()), Vec::<&Sequence>::new());
}

#[tokio::test]
async fn one_that_cannot_be_set_does_not_keep_the_others() {
    let mut fed = Fed::with(SEQUENCES, "").await;
    fed.primary.query(MOVES);
    let control = crate::client(&fed.primary.address("postgres")).await.unwrap();
    let first = Look::default().read(&control).await.unwrap();
    let holder = crate::client(&fed.replica.address("postgres")).await.unwrap();
    holder.batch_execute("BEGIN; ALTER SEQUENCE n7 CACHE 2").await.unwrap();
    assert_eq!(fed.feeder.set_sequences(&all(&first)).await.unwrap(), 1);
    holder.batch_execute("ROLLBACK").await.unwrap();
    let (there, here) = (positions(&fed.primary), positions(&fed.replica));
    let others = there.iter().zip(&here).filter(|(there, here)| there != here);
    assert_eq!(others.map(|(there, _)| there[0].as_deref()).collect::<Vec<_>>(), [Some("n7")]);
    assert_eq!(fed.feeder.set_sequences(&all(&first)).await.unwrap(), 0);
    assert_eq!(positions(&fed.replica), there);
    // The feed goes on.
    fed.primary.query("INSERT INTO t VALUES (1)");
    fed.feed().await.unwrap();
    fed.compare();
}

#[tokio::test]
async fn what_ddl_that_goes_on_has_drawn_is_not_told_yet() {
    let fed = Fed::with(SEQUENCES, "").await;
    let control = crate::client(&fed.primary.address("postgres")).await.unwrap();
    let mut look = Look::default();
    assert_eq!(
        look.read(&control).await.unwrap().len(),
        256,
        "no more are asked at a time that have given nothing"
    );
    let first = look.read(&control).await.unwrap();
    assert_eq!(first.len(), 306);
    let altering = crate::client(&fed.primary.address("postgres")).await.unwrap();
    let alters = "BEGIN; INSERT INTO t DEFAULT VALUES; ALTER TABLE t ADD COLUMN n int DEFAULT nextval('n1')";
    altering.batch_execute(alters).await.unwrap();
    let restarting = crate::client(&fed.primary.address("postgres")).await.unwrap();
    restarting.batch_execute("BEGIN; ALTER SEQUENCE n2 RESTART WITH 7").await.unwrap();
    fed.primary.query("SELECT nextval('n3')");
    let meanwhile = look.read(&control).await.unwrap();
    assert_eq!(names(&moved(Some(&first), &meanwhile)), ["n3"]);
    let are_there = |name: &str| meanwhile.values().any(|sequence| sequence.name == name);
    assert_eq!(["n1", "n2", "n3"].map(are_there), [false, false, true]);
    altering.batch_execute("COMMIT").await.unwrap();
    restarting.batch_execute("COMMIT").await.unwrap();
    let behind = look.read(&control).await.unwrap();
    assert_eq!(names(&moved(Some(&first), &behind)), ["n1", "n2", "n3", "t_id_seq"]);
}

#[tokio::test]
async fn one_for_which_ddl_waits_is_not_waited_for() {
    let primary = super::server();
    primary.query("CREATE SEQUENCE still; CREATE SEQUENCE wanted");
    primary.query("SELECT nextval('still'), nextval('wanted')");
    let address = primary.address("postgres");
    let control = crate::client(&address).await.unwrap();
    let drawing = crate::client(&address).await.unwrap();
    let altering = crate::client(&address).await.unwrap();
    drawing.batch_execute("BEGIN; SELECT nextval('wanted')").await.unwrap();
    let alters = altering.batch_execute("ALTER SEQUENCE wanted RESTART WITH 7");
    let looks = async {
        let waits = "SELECT FROM pg_locks WHERE NOT granted";
        while control.query(waits, &[]).await.unwrap().is_empty() {}
        let meanwhile = Look::default().read(&control).await.unwrap();
        assert_eq!(names(&all(&meanwhile)), ["still"]);
        let log = primary.primary().end_of_log();
        assert!(!log.contains("due to lock timeout"), "{log}");
        drawing.batch_execute("COMMIT").await.unwrap();
    };
    let (altered, ()) = soon("the end of what waits", async { tokio::join!(alters, looks) }).await;
    altered.unwrap();
}

#[tokio::test]
async fn what_asks_takes_no_place_in_pg_stat_statements() {
    let mut options = Scratch::options();
    options.settings.push(("shared_preload_libraries".to_owned(), "pg_stat_statements".to_owned()));
    let primary = super::alone(options);
    primary.query("CREATE EXTENSION pg_stat_statements; CREATE SEQUENCE fresh; CREATE SEQUENCE given");
    primary.query("SELECT nextval('given')");
    let control = crate::client(&primary.address("postgres")).await.unwrap();
    let there = Look::default().read(&control).await.unwrap();
    assert_eq!(names(&all(&there)), ["fresh", "given"]);
    let kept = |part: &str| {
        primary.query(&format!("SELECT query FROM pg_stat_statements WHERE query LIKE '%{part}%'"))
    };
    assert_eq!(kept("nextval(").len(), 1, "it keeps what others ask");
    assert_eq!(["last_value", "is_called"].map(kept).concat(), Vec::<Vec<Option<String>>>::new());
}
