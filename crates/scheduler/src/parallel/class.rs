//! Extent of a transaction's effect on a table.

use history::{Access, ColumnSet, Rows};
use std::fmt;

/// Extent of the effect of a statement or a transaction on one table, the finest first (section 4.1: RAS,
/// CAS, TAS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Rows named by their primary keys, and no others.
    Row,
    /// Some columns of any rows; no row comes or goes.
    Column,
    /// All columns, or rows that come and go without being named.
    Table,
}

impl Class {
    /// The finest class that says all that one statement reads or writes of a table.
    pub fn of<'a>(accesses: impl IntoIterator<Item = &'a Access>) -> Class {
        let (mut named, mut columns_say_it) = (true, true);
        for access in accesses {
            named &= access.rows != Rows::All;
            columns_say_it &= !access.existence && access.columns != ColumnSet::All;
        }
        match (named, columns_say_it) {
            (true, _) => Class::Row,
            (false, true) => Class::Column,
            (false, false) => Class::Table,
        }
    }

    /// The class of two statements of one transaction, or of two transactions in one state (rules i to iii):
    /// the class of both if it is the same, else the table's.
    #[must_use]
    pub fn merged(self, other: Class) -> Class {
        if self == other { self } else { Class::Table }
    }

    /// The access as it is when this is the finest class that counts: rows unnamed, then columns too.
    #[must_use]
    pub fn fold(self, access: &Access) -> Access {
        match self {
            Class::Row => access.clone(),
            Class::Column => Access { rows: Rows::All, ..access.clone() },
            Class::Table => Access { columns: ColumnSet::All, rows: Rows::All, existence: access.existence },
        }
    }
}

/// `row`, `column` or `table`.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Row => "row",
            Class::Column => "column",
            Class::Table => "table",
        })
    }
}
