//! The words that a key may have as its value, and what they mean.

use design::Design;
use history::Grain;
use postgres::attach::UnreplicableDdl;
use postgres::tls::Checks;
use scheduler::Writers;
use toml::de::DeValue;

use crate::AuthType;
use crate::value::{Read, one_of};

pub(super) const UNREPLICABLE_DDL: &[(&str, UnreplicableDdl)] =
    &[("copy", UnreplicableDdl::Copy), ("refuse", UnreplicableDdl::Refuse)];

pub(super) const GRAINS: &[(&str, Grain)] =
    &[("row", Grain::Row), ("column", Grain::Column), ("table", Grain::Table)];

/// Offload of reads in a block that may write, once their tables are locked at the primary.
pub(super) const OFFLOADS: &[(&str, bool)] = &[("locked", true), ("off", false)];

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

pub(super) const WRITERS: &[(&str, Writers)] =
    &[("anywhere", Writers::Anywhere), ("through-consort", Writers::ThroughConsort)];

pub(super) fn design(value: &DeValue<'_>) -> Read<Design> {
    one_of(value, &design::all().map(|design| (design.name, design)).collect::<Vec<_>>())
}
