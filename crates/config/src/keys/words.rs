//! The words that a key may have as its value, and what they mean.

use design::Design;
use history::Grain;
use postgres::attach::UnreplicableDdl;
use postgres::tls::Checks;
use scheduler::Writers;
use std::time::Duration;
use toml::de::DeValue;

use crate::value::{Read, duration, one_of};
use crate::{AuthType, Capture, OffloadInTransactions};

pub(super) const UNREPLICABLE_DDL: &[(&str, UnreplicableDdl)] =
    &[("copy", UnreplicableDdl::Copy), ("refuse", UnreplicableDdl::Refuse)];

pub(super) const GRAINS: &[(&str, Grain)] =
    &[("row", Grain::Row), ("column", Grain::Column), ("table", Grain::Table)];

/// Offload of reads in a block that may write.
const OFFLOADS: &[(&str, OffloadInTransactions)] = &[
    ("off", OffloadInTransactions::Off),
    ("locked", OffloadInTransactions::Locked),
    ("on", OffloadInTransactions::On),
];

/// Reads `offload_in_transactions`, whose former name had a boolean.
pub(super) fn offload(value: &DeValue<'_>) -> Read<OffloadInTransactions> {
    let former = |locked| if locked { OffloadInTransactions::Locked } else { OffloadInTransactions::Off };
    value.as_bool().map_or_else(|| one_of(value, OFFLOADS), |locked| Ok(former(locked)))
}

pub(super) const AUTH_TYPES: &[(&str, AuthType)] = &[
    ("scram-sha-256", AuthType::Scram),
    ("md5", AuthType::Md5),
    ("password", AuthType::Password),
    ("trust", AuthType::Trust),
    ("hba", AuthType::Hba),
];

pub(super) const SERVER_TLS: &[(&str, Option<Checks>)] = &[
    ("disable", None),
    ("prefer", Some(Checks::Prefer)),
    ("require", Some(Checks::Nothing)),
    ("verify-ca", Some(Checks::Signer)),
    ("verify-full", Some(Checks::Host)),
];

pub(super) const CAPTURES: &[(&str, Capture)] =
    &[("auto", Capture::Auto), ("sql", Capture::Sql), ("extension", Capture::Extension)];

pub(super) const WRITERS: &[(&str, Writers)] =
    &[("anywhere", Writers::Anywhere), ("through-consort", Writers::ThroughConsort)];

pub(super) fn design(value: &DeValue<'_>) -> Read<Design> {
    one_of(value, &design::all().map(|design| (design.name, design)).collect::<Vec<_>>())
}

/// Reads a lease: long enough to be renewed a few times, or none.
pub(super) fn lease(value: &DeValue<'_>) -> Read<Duration> {
    let lease = duration(value)?;
    let fits = lease.is_zero() || (SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease);
    if fits { Ok(lease) } else { Err("expected \"0s\", or from \"1s\" to \"1h\"".to_owned()) }
}

const SHORTEST_LEASE: Duration = Duration::from_secs(1);
const LONGEST_LEASE: Duration = Duration::from_secs(3600);
