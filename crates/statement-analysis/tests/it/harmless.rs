//! Functions that `replica_safe_functions` names, as a real catalog has them: some count by name, some by
//! declaration.

use crate::server::Server;
use statement_analysis::catalog::Procedure;
use statement_analysis::declared_tables::Declared;
use statement_analysis::template::{Stay, Template};
use statement_analysis::{Catalog, Values};

const SCHEMA: &str = "CREATE PUBLICATION consort FOR ALL TABLES; \
    CREATE EXTENSION pg_trgm; CREATE EXTENSION tablefunc; \
    CREATE TABLE rates (id int PRIMARY KEY, v int); CREATE TABLE other (id int); \
    CREATE VIEW shown AS SELECT v FROM rates; \
    CREATE FUNCTION total() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT sum(v) FROM rates'; \
    CREATE FUNCTION wild() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT sum(v) FROM rates); END'; \
    CREATE FUNCTION adds(int, int) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1 + $2 + (SELECT max(v) FROM rates)'; \
    CREATE AGGREGATE added(int) (sfunc = adds, stype = int, initcond = '0'); \
    CREATE FUNCTION pure(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1'";

/// Named functions, in addition to those that the case declares.
const NAMED: [&str; 7] = [
    "public.total",
    "public.wild",
    "public.added",
    "public.pure",
    "public.set_limit",
    "pg_trgm",
    "tablefunc",
];

fn procedure(name: &str, read: &str, written: &str) -> Procedure {
    let (schema, name) = ("public".to_owned(), name.to_owned());
    let (tables_read, tables_written) = (Declared::read(read).unwrap(), Declared::read(written).unwrap());
    Procedure { schema, name, tables_read, tables_written }
}

fn stay(template: &Template) -> Option<Stay> {
    template.stay_with(&Values { literals: &["''", "''"], parameters: &[], utf8: true })
}

/// The tables that the statement reads, by name.
fn read(template: &Template, catalog: &Catalog) -> Vec<String> {
    let footprint = template.reads.fill(&Values::default());
    let tables = footprint.tables().into_iter().flatten();
    tables.map(|(table, _)| catalog.relation_name(table)).collect()
}

/// A proof knows the tables of the statement's tree. A STABLE or VOLATILE function hides others, crosstab executes a text, and
/// set_limit changes the session: their names alone count for nothing.
#[test]
fn harmless_name_of_volatile_function_is_refused() {
    let server = Server::start();
    crate::block_on(async {
        let mut analyst = server.connect("postgres").await;
        analyst.run(SCHEMA).await;
        let mut catalog = crate::catalog(&mut analyst).await;
        let wrong = catalog.declare(&[], &NAMED.map(str::to_owned));
        for words in [
            "public.total is STABLE, and no table [procedure.\"public.total\"] declares what it reads (tables_read)",
            "public.wild is VOLATILE",
            "public.added is STABLE",
            "public.set_limit is VOLATILE and written in C",
        ] {
            assert!(wrong.iter().any(|wrong| wrong.contains(words)), "{words} is missing in {wrong:#?}");
        }
        assert!(!wrong.iter().any(|wrong| wrong.contains("pure")), "{wrong:#?}");
        analyst.listen().await;
        // Functions of known extensions have the class of their table.
        for (text, why) in [
            ("SELECT total()", Stay::UnknownFunction),
            ("SELECT wild()", Stay::UnknownFunction),
            ("SELECT added(v) FROM rates", Stay::UnknownFunction),
            ("SELECT set_limit(0.5)", Stay::Session),
            ("SELECT show_limit()", Stay::Session),
            ("SELECT * FROM crosstab('SELECT 1, 2, 3') AS t(a int, b int)", Stay::RunsText),
        ] {
            let (template, _) = crate::judged(text, &mut analyst, &catalog).await.unwrap();
            assert_eq!(stay(&template), Some(why), "{text}");
        }
        for text in ["SELECT pure(1)", "SELECT similarity('a', 'b')", "SELECT 'a' % 'b'"] {
            let (template, _) = crate::judged(text, &mut analyst, &catalog).await.unwrap();
            assert_eq!(stay(&template), None, "{text}");
        }
    });
}

/// With its tables declared, a function counts, and its tables are the statement's. A view, a written table and a VOLATILE
/// function in C do not count.
#[test]
fn harmless_function_with_tables_reads_them() {
    let server = Server::start();
    crate::block_on(async {
        let mut analyst = server.connect("postgres").await;
        analyst.run(SCHEMA).await;
        let fresh = crate::catalog(&mut analyst).await;
        analyst.listen().await;
        let named = NAMED.map(str::to_owned);
        for (text, function, tables) in [
            ("SELECT total() FROM other", "total", &["rates", "other"][..]),
            ("SELECT wild()", "wild", &["rates"]),
            ("SELECT added(id) FROM other", "added", &["rates", "other"]),
        ] {
            let mut catalog = fresh.clone();
            let wrong = catalog.declare(&[procedure(function, "rates", "")], &named);
            assert!(!wrong.iter().any(|wrong| wrong.contains(function)), "{wrong:#?}");
            let (template, _) = crate::judged(text, &mut analyst, &catalog).await.unwrap();
            assert_eq!((stay(&template), template.dirties), (None, false), "{text}");
            assert_eq!(read(&template, &catalog), tables, "{text}");
            // Only a VOLATILE function may draw random values.
            assert_eq!((template.writes.is_nothing(), template.random), (true, function == "wild"), "{text}");
        }
        for (text, declared, why) in [
            ("SELECT total()", procedure("total", "shown", ""), "is declared to read the view shown"),
            ("SELECT total()", procedure("total", "rates", "other"), "is declared to write"),
            ("SELECT total()", procedure("total", "nowhere", ""), "which does not exist"),
            ("SELECT set_limit(0.5)", procedure("set_limit", "", ""), "VOLATILE and written in C"),
        ] {
            let mut catalog = fresh.clone();
            let wrong = catalog.declare(&[declared], &named);
            assert!(wrong.iter().any(|wrong| wrong.contains(why)), "{why} is missing in {wrong:#?}");
            let (template, _) = crate::judged(text, &mut analyst, &catalog).await.unwrap();
            let stays = if text.contains("set_limit") { Stay::Session } else { Stay::UnknownFunction };
            assert_eq!(stay(&template), Some(stays), "{text}");
        }
    });
}
