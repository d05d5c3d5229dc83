//! The command as a person uses it: the program itself, real servers, real clients.

mod acceptance;
mod access;
mod barriers;
mod configuration;
mod console;
mod declared;
mod demo;
#[cfg(feature = "control-groups")]
mod experiment;
mod faults_consort;
mod faults_primary;
mod faults_standby;
mod fed;
mod fixture;
mod levels;
mod life;
mod load;
mod locking;
mod logged;
mod matrix;
mod members;
mod ordered;
mod partial;
mod procedures;
mod promoted;
mod readme;
mod reloads;
mod renamed;
mod replicas;
mod resources;
mod serving;
mod snapshots;
mod statements;
mod subcommands;
mod verify;
mod waiting;
