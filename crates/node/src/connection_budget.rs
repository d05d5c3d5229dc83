//! Checks that the primary has room for all clients that may come, and for Consort itself.

use cluster::understanding::ANALYSTS;
use config::Config;
use config::keys::Place;
use postgres::Error;
use postgres::address::Control;
use postgres::attach::{self, Finding};

/// Consort's own connections: the snapshot probe, the log-ins, the roles, the slots, the leader lease; now
/// and then one to mark or to attach.
const OWN: usize = 6;
/// Each database's catalog and analysts. (Decoders are walsenders: they do not count.)
const EACH: usize = 1 + ANALYSTS;
/// Connections that the initial copy of a replica takes.
const COPYING: usize = 4;

/// A finding if the primary of this connection admits fewer connections than clients may have: one for each
/// of `max_clients`, or, under transaction pooling, at least those of one role in one database.
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
    // The default is large for clients that own a connection each: a finding is logged, and no client is
    // refused.
    let is_default = wanted.0 == "max_clients" && config.is_default(Place::Global, "max_clients");
    Ok(found.map(|finding| Finding { fatal: finding.fatal && !is_default, ..finding }))
}
