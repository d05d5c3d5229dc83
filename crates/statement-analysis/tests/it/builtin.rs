//! The table of built-in functions against the server's own catalog.

use crate::server::Server;
use statement_analysis::catalog::{Builtin, Class};
use statement_analysis::oid::FIRST_UNPINNED_OID;
use std::collections::BTreeMap;

/// Functions that came with a minor release of PostgreSQL 15: an older one does not have them (15.18 lacks it, 15.20 has it).
const OF_A_MINOR_RELEASE: [u32; 1] = [4551];

/// Every function of `pg_proc`, immutable ones too, is in the table of the server's major, and the table has no function that is
/// another one or that no minor release has. Two majors have other functions under one OID.
#[test]
fn every_function_is_classified() {
    let server = Server::start();
    let rows = crate::block_on(async {
        let mut analyst = server.connect("postgres").await;
        let query = "SELECT oid, current_setting('server_version_num')::int / 10000, proname || '(' || oidvectortypes(proargtypes) || ')' FROM pg_proc WHERE oid < ";
        analyst.rows(&format!("{query}{FIRST_UNPINNED_OID}")).await
    });
    let cell = |row: &Vec<Option<String>>, column: usize| row[column].clone().unwrap();
    let major: u32 = cell(&rows[0], 1).parse().unwrap();
    let known: BTreeMap<u32, (Class, &str)> = {
        let table = Box::leak(Box::new(Builtin::of(major)));
        table.entries().map(|(oid, class, signature)| (oid, (class, signature))).collect()
    };
    let mut wrong = Vec::new();
    let mut absent: BTreeMap<u32, &str> = known.iter().map(|(oid, (_, name))| (*oid, *name)).collect();
    absent.retain(|oid, _| !OF_A_MINOR_RELEASE.contains(oid));
    for row in &rows {
        let (oid, signature) = (cell(row, 0).parse::<u32>().unwrap(), cell(row, 2));
        match known.get(&oid) {
            Some((_, name)) if *name == signature => {
                absent.remove(&oid);
            }
            Some((_, name)) => wrong.push(format!("{oid} is {signature}, the table says {name}")),
            None => wrong.push(format!("{oid} {signature} is not in the table")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(absent.is_empty(), "the table names functions that the server does not have: {absent:?}");
}

/// A function that the table of a major lacks is unknown there, also if another major has it; a major without a table has
/// no known function at all.
#[test]
fn function_of_another_major_is_unknown() {
    let (random, version_7, pi) = (6339, 6429, 1610);
    assert_eq!(Builtin::of(16).class(random), Class::Unknown);
    assert_eq!(Builtin::of(17).class(random), Class::Harmless);
    assert_eq!(Builtin::of(17).class(version_7), Class::Unknown);
    assert_eq!(Builtin::of(18).class(version_7), Class::Clock);
    assert_eq!((Builtin::of(15).class(4099), Builtin::of(17).class(4099)), (Class::Node, Class::Unknown));
    assert_eq!((Builtin::of(15).class(pi), Builtin::of(14).class(pi)), (Class::Harmless, Class::Unknown));
    assert_eq!(Builtin::of(19).class(pi), Class::Unknown);
}
