//! Identity of a table in a database.

use std::fmt;

/// A database's OID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseId(u32);

impl DatabaseId {
    /// The database with this OID.
    pub const fn new(oid: u32) -> DatabaseId {
        DatabaseId(oid)
    }

    /// The OID.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A table's OID, within its database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationId(u32);

impl RelationId {
    /// The table with this OID.
    pub const fn new(oid: u32) -> RelationId {
        RelationId(oid)
    }

    /// The OID.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for RelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
