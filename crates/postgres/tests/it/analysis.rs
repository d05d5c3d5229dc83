//! Analysis connections, facts and the digest of roles.

use crate::soon;
use history::Epoch;
use local_cluster::Options;
use postgres::snapshot_probe::Gauger;
use postgres::{Analysed, Analyst, Error, attach, differences, digest, digest_sql, facts, load};
use session_state::Settings;
use std::collections::BTreeMap;
use std::time::Instant;
use testkit::Scratch;

/// Settings of a session.
fn settings(values: &[(&str, &str)]) -> Settings {
    thread_local! {
        static INTERNER: std::cell::RefCell<session_state::Interner> =
            std::cell::RefCell::new(session_state::Interner::new(100));
    }
    let values: BTreeMap<String, String> =
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    INTERNER.with_borrow_mut(|interner| interner.intern(values))
}

fn types(analysed: &Analysed) -> Vec<u32> {
    analysed.columns.iter().map(|column| column.type_id).collect()
}

#[tokio::test]
async fn a_schema_that_a_membership_opens_counts_from_the_next_version_of_the_catalog_on() {
    let scratch = Scratch::start(0);
    scratch.query(
        "CREATE ROLE anna; CREATE ROLE crew; CREATE SCHEMA deck; GRANT USAGE ON SCHEMA deck TO crew; \
         CREATE TABLE deck.t (id int); CREATE TABLE public.t (id int); GRANT SELECT ON deck.t, public.t TO PUBLIC",
    );
    let path = settings(&[("search_path", "deck, public"), ("session_authorization", "anna")]);
    let mut analyst = Analyst::connect(&scratch.address("postgres")).await.unwrap();
    let mut oids = Vec::new();
    for (catalog, sql) in [(1, "SELECT"), (2, "GRANT crew TO anna")] {
        scratch.query(sql);
        analyst.under(catalog);
        let seen = analyst.analyse(&path, "SELECT id FROM t", &[]).await.unwrap();
        oids.push(seen.columns[0].table.to_string());
    }
    let oid = |name: &str| crate::one(&scratch.query(&format!("SELECT '{name}'::regclass::oid"))).to_owned();
    assert_eq!(oids, [oid("public.t"), oid("deck.t")]);
}

/// Parse reads constants, which runs the checks of domains in arrays and rows; the parsing session is a
/// superuser's.
#[tokio::test]
async fn nobody_becomes_a_superuser_by_what_is_analysed() {
    let scratch = Scratch::start(0);
    let address = scratch.address("postgres");
    let control = crate::client(&address).await.unwrap();
    attach::attach(&control).await.unwrap();
    scratch.query("CREATE ROLE anna; GRANT ALL ON SCHEMA public TO anna; CREATE TABLE t (id int, v text); GRANT SELECT ON t TO anna");
    let anna = settings(&[("search_path", "public"), ("session_authorization", "anna")]);
    let mut analyst = Analyst::connect(&address).await.unwrap();
    let (constant, none) = ("SELECT v FROM t WHERE v = 'x'", "SELECT v FROM t WHERE id = 5");
    analyst.analyse(&anna, constant, &[]).await.unwrap();
    scratch.query(
        "SET ROLE anna; CREATE FUNCTION takes(n int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN \
           PERFORM set_config('role', 'none', false); ALTER ROLE anna SUPERUSER; RETURN true; END $$; \
         CREATE DOMAIN taking AS int CHECK (takes(VALUE)); CREATE TYPE has AS (n taking)",
    );
    for text in [
        "SELECT '{5}'::taking[]",
        "SELECT $q$(5)$q$::has",
        "SELECT 1 FROM t WHERE '{5}'::taking[] IS NULL",
        constant,
    ] {
        let error = analyst.analyse(&anna, text, &[]).await.unwrap_err();
        assert!(error.is("42501"), "{text}: {error}");
    }
    let is_super = "SELECT rolsuper FROM pg_roles WHERE rolname = 'anna'";
    assert_eq!(crate::one(&scratch.query(is_super)), "f");
    analyst.analyse(&anna, none, &[]).await.unwrap();
    scratch.query("DROP DOMAIN taking CASCADE");
    analyst.analyse(&anna, constant, &[]).await.unwrap();
    // A check can run such code without a function of the owner's.
    for check in [
        "set_config('role', 'none', false) <> ''",
        "query_to_xml('SELECT takes(1)', true, true, '') IS NOT NULL",
    ] {
        scratch.query(&format!("SET ROLE anna; CREATE DOMAIN turning AS int CHECK ({check})"));
        let error = analyst.analyse(&anna, "SELECT '{5}'::turning[]", &[]).await.unwrap_err();
        assert!(error.is("42501"), "{check}: {error}");
        scratch.query("DROP DOMAIN turning");
    }
    scratch.query(
        "CREATE DOMAIN plain AS text CHECK (length(VALUE) > 0 AND VALUE IN ('x', 'y') AND VALUE ~ '^.')",
    );
    analyst.analyse(&anna, "SELECT '{x}'::plain[]", &[]).await.unwrap();
    // A domain that is being created is waited for, or the text is not analysed.
    let maker = crate::client(&address).await.unwrap();
    maker
        .batch_execute("BEGIN; SET ROLE anna; CREATE DOMAIN taking AS int CHECK (takes(VALUE))")
        .await
        .unwrap();
    let error = analyst.analyse(&anna, "SELECT '{5}'::taking[]", &[]).await.unwrap_err();
    assert!(error.is("55P03"), "{error}");
    maker.batch_execute("COMMIT").await.unwrap();
    let error = analyst.analyse(&anna, "SELECT '{5}'::taking[]", &[]).await.unwrap_err();
    assert!(error.is("42501"), "{error}");
    assert_eq!(crate::one(&scratch.query(is_super)), "f");
}

#[tokio::test]
async fn trees_are_those_of_the_asking_session() {
    let scratch = Scratch::start(0);
    scratch.query(
        "CREATE ROLE anna; CREATE SCHEMA a; CREATE SCHEMA anna AUTHORIZATION anna; \
         CREATE TABLE a.t (id int PRIMARY KEY, n text); CREATE TABLE public.t (id int PRIMARY KEY, owner text); \
         GRANT USAGE ON SCHEMA a TO anna; \
         ALTER TABLE public.t ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON public.t USING (owner = current_user); \
         CREATE VIEW v AS SELECT id FROM public.t",
    );
    let oid = |name: &str| crate::one(&scratch.query(&format!("SELECT '{name}'::regclass::oid"))).to_owned();
    let (a, public) = (oid("a.t"), oid("public.t"));
    let mut analyst = Analyst::connect(&scratch.address("postgres")).await.unwrap();
    let plain =
        settings(&[("search_path", "public"), ("session_authorization", "postgres"), ("role", "none")]);
    let other = settings(&[("search_path", "a, public"), ("session_authorization", "postgres")]);
    let anna = settings(&[("search_path", "\"$user\", public"), ("session_authorization", "anna")]);
    let set = settings(&[("search_path", "public"), ("session_authorization", "postgres"), ("role", "anna")]);

    let names = |relation: &str| format!(":relid {relation} ");
    // The server breaks its lines anywhere.
    let text = |analysed: &Analysed| analysed.trees.replace('\n', " ");
    let select = "SELECT * FROM t WHERE id = $1";
    let seen = analyst.analyse(&plain, select, &[0]).await.unwrap();
    assert!(text(&seen).contains(&names(&public)) && !text(&seen).contains(&names(&a)), "{}", seen.trees);
    assert_eq!((&*seen.parameters, types(&seen)), (&[23][..], vec![23, 25]));
    assert!(text(&seen).contains(":securityQuals <>"), "a superuser has no policy");
    let seen = analyst.analyse(&other, select, &[20]).await.unwrap();
    assert!(text(&seen).contains(&names(&a)));
    assert_eq!(seen.parameters, [20]);
    for role in [&anna, &set] {
        let seen = analyst.analyse(role, select, &[]).await.unwrap();
        assert!(!text(&seen).contains(":securityQuals <>"), "the role has a policy");
    }
    scratch.query("CREATE TABLE anna.t (x int)");
    let seen = analyst.analyse(&anna, "SELECT x FROM t", &[]).await.unwrap();
    assert!(text(&seen).contains(&names(&oid("anna.t"))));
    // The settings change back: a role without rights must not be in the way of the next settings.
    let seen = analyst.analyse(&plain, "SELECT * FROM v", &[]).await.unwrap();
    assert!(text(&seen).contains(&names(&public)));

    let written = analyst.analyse(&plain, "INSERT INTO t VALUES (1, 'x') RETURNING id", &[]).await.unwrap();
    assert_eq!(types(&written), [23]);
    assert_eq!(crate::one(&scratch.query("SELECT count(*) FROM t")), "0", "nothing is executed");
    assert_eq!(analyst.analyse(&plain, "", &[]).await.unwrap().trees, "");
    assert!(analyst.analyse(&plain, "CREATE TABLE nowhere (n int)", &[]).await.unwrap().columns.is_empty());

    for (sql, sqlstate) in
        [("SELEC 1", "42601"), ("SELECT * FROM nowhere", "42P01"), ("SELECT 1; SELECT 2", "42601")]
    {
        let error = analyst.analyse(&plain, sql, &[]).await.unwrap_err();
        assert!(error.is(sqlstate), "{sql}: {error:?}");
    }
    let unknown = settings(&[("session_authorization", "nobody")]);
    assert!(analyst.analyse(&unknown, select, &[]).await.unwrap_err().is("22023"));
    analyst.analyse(&plain, select, &[]).await.unwrap();
    // Backslashes and quotes in a value are only text.
    let odd = settings(&[("search_path", "public, \"o'\\ha\""), ("standard_conforming_strings", "off")]);
    analyst.analyse(&odd, select, &[]).await.unwrap();

    // A lock bounds the wait, and the server's log stays quiet.
    let holder = crate::client(&scratch.address("postgres")).await.unwrap();
    holder.batch_execute("BEGIN; LOCK TABLE public.t").await.unwrap();
    let blocked = soon("the lock's time", analyst.analyse(&plain, select, &[])).await.unwrap_err();
    assert!(blocked.is("55P03"), "{blocked:?}");
    holder.batch_execute("COMMIT").await.unwrap();
    let logs = std::fs::read_dir(scratch.primary().log_folder()).unwrap();
    for log in logs {
        let text = std::fs::read_to_string(log.unwrap().path()).unwrap();
        assert!(!text.contains("rewritten parse tree") && !text.contains("SELEC 1"), "{text}");
    }

    scratch.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'postgres'");
    assert!(matches!(analyst.analyse(&plain, select, &[]).await, Err(Error::Unreachable(_))));
}

#[tokio::test]
async fn what_is_loaded_can_be_judged() {
    let scratch = Scratch::start(0);
    scratch.query("CREATE TABLE t (id int PRIMARY KEY, n text)");
    let control = crate::client(&scratch.address("postgres")).await.unwrap();
    attach(&control).await.unwrap();
    let loaded = load(&control).await.unwrap();
    let again = load(&control).await.unwrap();
    assert!(again.insert_lsn >= loaded.insert_lsn && again.snapshot.xmax() >= loaded.snapshot.xmax());
    let (id, relation) =
        loaded.catalog.relations.iter().find(|(_, relation)| relation.name == "t").expect("the table");
    assert!(relation.published && relation.key.is_some());
    let mut analyst = Analyst::connect(&scratch.address("postgres")).await.unwrap();
    let plain = settings(&[("search_path", "public"), ("session_authorization", "postgres")]);
    let text = "SELECT n FROM t WHERE id = $1";
    let trees = analyst.analyse(&plain, text, &[]).await.unwrap().trees;
    let template = statement_analysis::judge(
        &statement_analysis::Input { trees: &trees, text, literals: &[], parameters: &[] },
        &loaded.catalog,
    );
    assert_eq!(template.stay(), None);
    assert!(template.depends_on.relations.contains(id), "{template:?}");
}

/// An extension's functions for GIN and GiST run in such indexes alone: they are no part of `text` and `int`
/// where there is none.
#[tokio::test]
async fn operator_classes_of_indexes_keep_no_type_at_home() {
    let scratch = Scratch::start(0);
    scratch.query("CREATE EXTENSION btree_gin; CREATE EXTENSION btree_gist");
    scratch.query("CREATE TABLE t (id int PRIMARY KEY, n text)");
    // The operator class of a type's btree order belongs to it, wherever it is sorted.
    scratch.query("CREATE TYPE pair AS (a int, b int)");
    scratch.query(
        "CREATE FUNCTION compared(pair, pair) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN 0; END';
         CREATE OPERATOR CLASS pairs DEFAULT FOR TYPE pair USING btree AS FUNCTION 1 compared(pair, pair)",
    );
    scratch.query("CREATE TABLE p (v pair)");
    let control = crate::client(&scratch.address("postgres")).await.unwrap();
    attach(&control).await.unwrap();
    let loaded = load(&control).await.unwrap();
    let mut analyst = Analyst::connect(&scratch.address("postgres")).await.unwrap();
    let plain = settings(&[("search_path", "public"), ("session_authorization", "postgres")]);
    for (text, leaves) in [
        ("SELECT 1", true),
        ("SELECT n, max(id) FROM t WHERE id < 7 GROUP BY n ORDER BY n", true),
        ("SELECT v FROM p", false),
    ] {
        let trees = analyst.analyse(&plain, text, &[]).await.unwrap().trees;
        let input = statement_analysis::Input { trees: &trees, text, literals: &[], parameters: &[] };
        let template = statement_analysis::judge(&input, &loaded.catalog);
        assert_eq!(template.stay().is_none(), leaves, "{text}: {:?}", template.stay());
    }
}

#[tokio::test]
async fn standbys_are_told_from_strangers() {
    let scratch = Scratch::start(1);
    let stranger = Scratch::with(Options { standbys: 0, ..Scratch::options_of_a_stranger() });
    scratch.query("CREATE EXTENSION hstore");
    scratch.catch_up(crate::SOON);
    let control = crate::client(&scratch.address("postgres")).await.unwrap();
    let standby = crate::client(&scratch.standby(0).address("postgres", "postgres")).await.unwrap();
    let other = crate::client(&stranger.address("postgres")).await.unwrap();
    let primary = facts(&control).await.unwrap();
    let twin = facts(&standby).await.unwrap();
    assert_eq!(differences(&primary, &twin), [""; 0]);
    assert!(
        primary.brings.contains_key("extension hstore") && primary.brings.contains_key("setting block_size")
    );
    assert_eq!(primary.upstream, None);
    assert!(twin.upstream.as_deref().is_some_and(|upstream| upstream.ends_with(":5432")), "{twin:?}");
    assert_eq!(differences(&primary, &facts(&other).await.unwrap()).len(), 2);

    // Promoted by an administrator: no standby.
    scratch.standby(0).query("postgres", "SELECT pg_promote()").unwrap();
    let promoted = facts(&standby).await.unwrap();
    let text = differences(&primary, &promoted).join("; ");
    assert!(text.contains("not a standby"), "{text}");
}

#[tokio::test]
async fn the_digest_changes_with_roles_and_with_nothing_else() {
    let scratch = Scratch::start(0);
    let control = crate::client(&scratch.address("postgres")).await.unwrap();
    let mut gauger = Gauger::connect(&scratch.address("postgres"), Epoch::new(1)).await.unwrap();
    let digests = digest_sql(&control).await.unwrap();
    let mut last = digest(&control, &digests).await.unwrap();
    scratch.query("CREATE TABLE t (n int); INSERT INTO t VALUES (1)");
    scratch.query("VACUUM FREEZE");
    assert_eq!(digest(&control, &digests).await.unwrap(), last);
    for sql in [
        "CREATE ROLE anna",
        "CREATE ROLE staff; ",
        "GRANT staff TO anna",
        "ALTER ROLE anna SET search_path = a",
        "ALTER ROLE anna BYPASSRLS",
        "ALTER DATABASE postgres SET work_mem = '8MB'",
        "GRANT CREATE ON DATABASE postgres TO anna",
        "GRANT SET ON PARAMETER log_min_messages TO anna",
        "CREATE DATABASE other",
        "ALTER DATABASE other RENAME TO another",
        "REVOKE staff FROM anna",
    ] {
        scratch.query(sql);
        let now = digest(&control, &digests).await.unwrap();
        assert_ne!(now, last, "{sql}");
        assert_eq!(gauger.gauge_with_roles().await.unwrap().1, now, "{sql}");
        last = now;
    }
}

/// Prints the cost of a probe with and without the roles. The result is not judged: the machine is shared.
#[tokio::test]
async fn what_a_digest_costs() {
    let scratch = Scratch::start(0);
    for roles in [0, 100, 1_000, 10_000] {
        scratch.query(&format!(
            "DO $$ BEGIN FOR n IN 1..{roles} LOOP EXECUTE format('CREATE ROLE r{roles}_%s IN ROLE pg_monitor', n); END LOOP; END $$"
        ));
        scratch.query("VACUUM ANALYZE");
        let mut gauger = Gauger::connect(&scratch.address("postgres"), Epoch::new(1)).await.unwrap();
        for _ in 0..20 {
            gauger.gauge_with_roles().await.unwrap();
        }
        let begun = Instant::now();
        for _ in 0..100 {
            gauger.gauge().await.unwrap();
        }
        let without = begun.elapsed() / 100;
        let begun = Instant::now();
        for _ in 0..100 {
            gauger.gauge_with_roles().await.unwrap();
        }
        println!("{roles} roles more: {without:?} without, {:?} with", begun.elapsed() / 100);
    }
}

/// Prints the cost of an analysis. The result is not judged: the machine is shared.
#[tokio::test]
async fn cost_of_an_analysis() {
    let scratch = Scratch::start(0);
    scratch.query("CREATE TABLE t (id int PRIMARY KEY, a int, b text, c text)");
    let mut analyst = Analyst::connect(&scratch.address("postgres")).await.unwrap();
    let plain = settings(&[("search_path", "public"), ("session_authorization", "postgres")]);
    let mut times = Vec::new();
    for n in 0..1000 {
        let start = Instant::now();
        analyst
            .analyse(&plain, &format!("SELECT a, b FROM t WHERE id = $1 AND c = '{n}'"), &[])
            .await
            .unwrap();
        times.push(start.elapsed().as_micros());
    }
    times.sort_unstable();
    println!("analysis: p50 {} us, p99 {} us", times[500], times[990]);
    let control = crate::client(&scratch.address("postgres")).await.unwrap();
    let start = Instant::now();
    load(&control).await.unwrap();
    println!("catalog: {:?}", start.elapsed());
    let digests = digest_sql(&control).await.unwrap();
    let start = Instant::now();
    digest(&control, &digests).await.unwrap();
    println!("digest: {:?}", start.elapsed());
}
