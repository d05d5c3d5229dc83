//! OIDs that are the same in every PostgreSQL.

/// The first OID of a user's objects. Objects below it were made by initdb; they are equal in every PostgreSQL of one major.
pub const FIRST_USER_OID: u32 = 16384;
/// The first OID that initdb gave to an object without a fixed one: functions of `information_schema` have such.
pub const FIRST_UNPINNED_OID: u32 = 12_000;

/// The type `bytea`.
pub const BYTEA: u32 = 17;
/// The type `int8`.
pub const INT8: u32 = 20;
/// The type `int2`.
pub const INT2: u32 = 21;
/// The type `int4`.
pub const INT4: u32 = 23;
/// The type `text`.
pub const TEXT: u32 = 25;
/// The type `varchar`.
pub const VARCHAR: u32 = 1043;
/// The type `date`.
pub const DATE: u32 = 1082;
/// The type `uuid`.
pub const UUID: u32 = 2950;
