//! Runs SQL from standard input, a statement a line, and prints SQLite's text and the rows. With the argument
//! `explain` it prints SQLite's plans and executes definitions only.

use std::io::BufRead;
use std::ops::ControlFlow;

use dialect::{Catalog, Settings};

/// SQLite's plan of a statement.
fn explain(conn: &rusqlite::Connection, sql: &str) {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("SQLite's text");
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().expect("a row") {
        println!("   {}", row.get::<_, String>(3).expect("a text"));
    }
}

fn main() {
    let conn = rusqlite::Connection::open_in_memory().expect("memory");
    Catalog::create(&conn).expect("catalogue");
    let context = dialect::install(&conn).expect("functions");
    context.begin(0, 1);
    context.session("postgres", "postgres");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        match dialect::split(&line) {
            Err(problem) => println!("{problem:?}"),
            Ok(statements) => {
                for statement in statements {
                    let catalog = Catalog::load(&conn).expect("catalogue");
                    let plan = match dialect::plan(&statement, &catalog, &[], &Settings::default()) {
                        Ok(plan) => plan,
                        Err(problem) => {
                            println!("{} -- {:?}", problem, problem.hint);
                            continue;
                        }
                    };
                    println!("   {}", plan.sql());
                    if std::env::args().nth(1).as_deref() == Some("explain")
                        && plan.effect != dialect::Effect::Ddl
                    {
                        explain(&conn, &plan.sql());
                        continue;
                    }
                    let names: Vec<String> =
                        plan.columns.iter().map(|column| format!("{}:{}", column.name, column.oid)).collect();
                    println!("{}", names.join(" | "));
                    let mut print = |row: &[u8]| {
                        println!("{}", String::from_utf8_lossy(&row[7..]).replace('\0', "."));
                        ControlFlow::Continue(())
                    };
                    match plan.execute(&conn, &context, &[], &[], &mut print) {
                        Ok(done) => println!("{}", done.tag),
                        Err(problem) => println!("{problem:?}"),
                    }
                }
            }
        }
    }
}
