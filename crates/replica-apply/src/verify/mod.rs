//! Compares the tables of a logical replica with the primary's, each in one snapshot that is held.
//!
//! ```text
//! primary   tables locked (ACCESS SHARE) --> snapshot --\
//!                                                        sum of the hashes of all rows, table by table
//! replica   brought to that very state    --> snapshot --/          |
//!                                                                    differs --> halved by the key, until few rows are left
//! ```
//!
//! **The sum does not depend on the order of rows**: each row's text is hashed, and the hashes are added. Two
//! tables with the same sum and the same number of rows have the same rows, except for a random collision (64
//! bits). Both sides give texts under the same settings, those under which values travel to a replica.
//!
//! **The first key** that differs is found by halving: the half below the middle key is summed at both sides,
//! and the lower of the halves that differ is halved again. A table whose rows no index distinguishes is cut
//! into buckets by the hashes.
//!
//! **Repaired** are the rows that differ of tables with such an index, if they are not too many
//! (`repair.rs`).
//!
//! **Left out**: tables whose rows a replica does not have, and columns that it may compute otherwise
//! (`statement_analysis::load::UNLIKE`). Such data is read at the primary, and tables are named with the
//! reason.

mod repair;
mod search;
mod side;
mod table;

use postgres::Error;
pub use repair::{MOST_ROWS, Repair, Repaired, Rows, differing};
pub use side::{Side, Source};
use std::collections::BTreeSet;
pub use table::{Table, tables};

/// Contents of a table: number of rows, and the sum of their hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Rows.
    pub rows: u64,
    /// A whole number, as the server writes it.
    hashes: String,
}

/// Difference of a replica's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// A sentence without its subject, for a person.
    pub what: String,
    /// The first row that differs, by its key, or by all of its columns where it has none.
    pub key: Option<String>,
    /// True if rows alone differ, as far as was seen.
    pub by_rows: bool,
}

impl Difference {
    fn of_all(what: impl Into<String>) -> Difference {
        Difference { what: what.into(), key: None, by_rows: false }
    }

    fn of_row(what: impl Into<String>, key: String) -> Difference {
        Difference { what: what.into(), key: Some(key), by_rows: true }
    }
}

fn not_understood() -> Error {
    Error::Protocol("the server does not report the checksum of a table".to_owned())
}

/// Findings about one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Rows at the primary.
    pub rows: u64,
    /// For each replica, in their order: nothing if it has the same rows.
    pub found: Vec<Option<Difference>>,
}

/// Compares a table of the primary with those of replicas. The primary and one replica work at a time.
///
/// # Errors
/// Errors of the primary, and of a replica that went away. A refusal of a replica (a page that cannot be
/// read) is a difference.
pub async fn compare(
    primary: &mut Side,
    replicas: &mut [&mut Side],
    table: &Table,
) -> Result<Compared, Error> {
    let sums = async {
        let mut sums = Vec::with_capacity(replicas.len());
        for replica in &mut *replicas {
            sums.push(sum_at(replica, table).await?);
        }
        Ok::<_, Error>(sums)
    };
    let (wanted, sums) = tokio::join!(primary.sum(table, ""), sums);
    let (wanted, sums) = (wanted?, sums?);
    let mut found = Vec::with_capacity(replicas.len());
    for (replica, sum) in replicas.iter_mut().zip(sums) {
        found.push(match sum {
            Err(difference) => Some(difference),
            Ok(sum) if sum == wanted => None,
            Ok(sum) => Some(first(primary, replica, table, (wanted.rows, sum.rows)).await?),
        });
    }
    Ok(Compared { rows: wanted.rows, found })
}

/// The first row that differs; that one does is known already.
async fn first(
    primary: &mut Side,
    replica: &mut Side,
    table: &Table,
    rows: (u64, u64),
) -> Result<Difference, Error> {
    match search::first(primary, replica, table, rows).await {
        Err(Error::Refused { message, .. }) => {
            Ok(Difference::of_all(format!("has other rows, but none could be identified: {message}")))
        }
        found => found,
    }
}

/// Sum of a table at the replica. The difference, if it shows before its rows are read.
async fn sum_at(replica: &mut Side, table: &Table) -> Result<Result<Sum, Difference>, Error> {
    match sum_if_it_fits(replica, table).await {
        Err(Error::Refused { sqlstate, message }) => {
            let what = format!("cannot be read at the replica: {message} (SQLSTATE {sqlstate})");
            Ok(Err(Difference::of_all(what)))
        }
        summed => summed,
    }
}

async fn sum_if_it_fits(replica: &mut Side, table: &Table) -> Result<Result<Sum, Difference>, Error> {
    match table.misfit(replica).await? {
        Some(misfit) => Ok(Err(Difference::of_all(misfit))),
        None => Ok(Ok(replica.sum(table, "").await?)),
    }
}

/// The tables that the replica is not to have the rows of, as people name them.
///
/// # Errors
/// As every query.
pub async fn not_chosen(replica: &mut Side) -> Result<BTreeSet<String>, Error> {
    let sql = format!(
        "SELECT schema || '.' || relation FROM consort.left_out WHERE why OPERATOR(pg_catalog.=) '{}'",
        crate::clone::NOT_CHOSEN
    );
    Ok(replica.ask(&sql).await?.into_iter().flatten().flatten().collect())
}

/// Tables that the replica has and the primary has not, as people name them.
///
/// # Errors
/// As every query.
pub async fn only_at(replica: &mut Side, tables: &[Table]) -> Result<Vec<String>, Error> {
    let there = table::names(replica).await?;
    let known = |name: &String| tables.iter().any(|table| table.shown() == name);
    Ok(there.into_iter().filter(|name| !known(name)).collect())
}
