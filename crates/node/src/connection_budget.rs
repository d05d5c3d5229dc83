//! Whether the primary has room for all clients that may come, and for Consort itself.

use cluster::understanding::ANALYSTS;
use config::Config;
use postgres::Error;
use postgres::address::Control;
use postgres::attach::{self, Finding};

/// The gauge, the log-ins, the roles, the slots, the lead; now and then one to mark or to attach.
const OWN: usize = 6;
/// Each database's catalog and analysts. (Decoders are walsenders: they do not count.)
const EACH: usize = 1 + ANALYSTS;
/// What a replica's copy takes while it is made.
const COPYING: usize = 4;

/// What is wrong with the connections that clients may have, if the primary of this connection lets fewer in: one for each of
/// `max_clients`, or, where they share them, those of one role in one database at least.
///
/// # Errors
/// As every query.
pub async fn check_room(control: &Control, config: &Config) -> Result<Option<Finding>, Error> {
    let all = config.databases.iter().any(|name| name == "*");
    let databases = (!all).then_some(config.databases.len());
    let own = OWN + COPYING * config.replicas.len();
    let pools = config.pools();
    let wanted = match pools.of("", "") {
        one if one.mode.shares() => ("default_pool_size", config.max_clients.min(one.size)),
        _ => ("max_clients", config.max_clients),
    };
    let found = attach::check_room(control, wanted, own, EACH, databases).await?;
    // The default is large for clients that own a connection each: it is said, and hinders nobody.
    let is_default = wanted.0 == "max_clients" && config.is_default("max_clients");
    Ok(found.map(|finding| Finding { fatal: finding.fatal && !is_default, ..finding }))
}
