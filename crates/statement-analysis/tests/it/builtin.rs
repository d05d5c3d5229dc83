//! The table of built-in functions against the server's own catalog.

use crate::server::Server;
use statement_analysis::catalog::{Builtin, Class};
use statement_analysis::oid::FIRST_UNPINNED_OID;
use std::collections::BTreeMap;

/// Functions that came with a minor release of PostgreSQL 15: an older one does not have them (15.18 lacks it, 15.20 has it).
const OF_A_MINOR_RELEASE: [u32; 1] = [4551];

/// Every function of `pg_proc` is IMMUTABLE or in the table, and the table says nothing of a function that is another or
/// that no minor release has.
#[test]
fn every_function_is_classified() {
    let server = Server::start();
    let rows = crate::block_on(async {
        let mut analyst = server.connect("postgres").await;
        let query = "SELECT oid, provolatile, proname || '(' || oidvectortypes(proargtypes) || ')' FROM pg_proc WHERE oid < ";
        analyst.rows(&format!("{query}{FIRST_UNPINNED_OID}")).await
    });
    let cell = |row: &Vec<Option<String>>, column: usize| row[column].clone().unwrap();
    let known: BTreeMap<u32, (Class, &str)> = {
        let table = Box::leak(Box::new(Builtin::default()));
        table.entries().map(|(oid, class, signature)| (oid, (class, signature))).collect()
    };
    let mut wrong = Vec::new();
    let mut absent: BTreeMap<u32, &str> = known.iter().map(|(oid, (_, name))| (*oid, *name)).collect();
    absent.retain(|oid, _| !OF_A_MINOR_RELEASE.contains(oid));
    for row in &rows {
        let (oid, volatility, signature) = (cell(row, 0).parse::<u32>().unwrap(), cell(row, 1), cell(row, 2));
        match known.get(&oid) {
            Some((_, name)) if *name == signature => {
                absent.remove(&oid);
            }
            Some((_, name)) => wrong.push(format!("{oid} is {signature}, the table says {name}")),
            None if volatility == "i" => {}
            None => wrong.push(format!("{oid} {signature} ({volatility}) is not in the table")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(absent.is_empty(), "the table names functions that the server does not have: {absent:?}");
}
