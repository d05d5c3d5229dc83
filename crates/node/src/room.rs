//! Whether the primary has room for all clients that may come, and for Consort itself.

use crate::config::Config;
use crate::understanding::ANALYSTS;
use postgres::Error;
use postgres::address::Control;
use postgres::attach::{self, Finding};

/// The gauge, the log-ins, the roles, the slots, the lead; now and then one to mark or to attach.
const OWN: usize = 6;
/// Each database's catalog and analysts. (Decoders are walsenders: they do not count.)
const EACH: usize = 1 + ANALYSTS;
/// What a replica's copy takes while it is made.
const COPYING: usize = 4;

/// What is wrong with `max_clients`, if the primary of this connection lets fewer in.
///
/// # Errors
/// As every query.
pub async fn check_room(control: &Control, config: &Config) -> Result<Option<Finding>, Error> {
    let all = config.databases.iter().any(|name| name == "*");
    let databases = (!all).then_some(config.databases.len());
    let own = OWN + COPYING * config.replicas.len();
    attach::check_room(control, config.max_clients, own, EACH, databases).await
}
