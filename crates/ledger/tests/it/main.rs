//! The ledger on a real disk, with faults at its points.

mod appends;
mod damage;
mod faults;
mod folder;
mod forget;
mod futures;
mod kill;
mod power_loss;
mod reading;
mod steps;
