//! Process numbers that clients receive when they log in.

use crate::pooled::sharing;
use crate::session::{answer, query};
use crate::stage::{Open, Raw, SERVERS, database, until};
use std::collections::BTreeSet;
use wire::Asks;

/// The largest number that the kernel gives to a process.
const KERNEL_MAX: i32 = 4_194_304;

/// A client that shares connections has no backend. Its number once counted up from 1, and whoever ended "its" backend ended that
/// of another client.
#[test]
fn process_numbers_of_pooled_clients_name_no_process() {
    let name = "process_numbers";
    database(name);
    let open = sharing(1);
    let mut clients: Vec<_> = (0..40).map(|_| Raw::ready_with_key(&open, name)).collect();
    let told: BTreeSet<i32> = clients.iter().map(|(_, key)| key.pid).collect();
    assert_eq!(told.len(), clients.len());
    assert!(told.iter().all(|number| *number > KERNEL_MAX), "{told:?}");
    let steps: BTreeSet<i32> = told.iter().zip(told.iter().skip(1)).map(|(a, b)| b - a).collect();
    assert!(steps.len() > 1, "no one can count them: {told:?}");
    let known: BTreeSet<i32> = open.door(|door| {
        let keys = door.registry.seats().into_iter().filter_map(|seat| seat.key.borrow().clone());
        keys.map(|key| key.pid).collect()
    });
    assert_eq!(known, told);
    let list = told.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
    let ends = format!("SELECT bool_or(pg_terminate_backend(pid)) FROM unnest(ARRAY[{list}]) pid");
    assert_eq!(SERVERS.query(&ends)[0][0].as_deref(), Some("f"));
    // The number and its secret cancel.
    let (client, key) = &mut clients[7];
    client.ask(|out| out.query(b"SELECT pg_sleep(600)"));
    let runs =
        "SELECT FROM pg_stat_activity WHERE datname = 'process_numbers' AND query LIKE '%pg_sleep(600)'";
    until(|| !SERVERS.query(&format!("{runs} AND state = 'active'")).is_empty());
    Raw::connect(&open).ask(|out| out.cancel(key));
    assert_eq!(answer(client).0, ["57014"]);
}

/// A client with a connection of its own receives the number of its backend.
#[test]
fn process_number_of_an_own_connection_is_its_backend() {
    let name = "own_process_number";
    database(name);
    let open = Open::trusting();
    let (mut client, key) = Raw::ready_with_key(&open, name);
    assert_eq!(query(&mut client, "SELECT pg_backend_pid()"), [key.pid.to_string()]);
}
