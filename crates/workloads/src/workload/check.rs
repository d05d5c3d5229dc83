//! Conditions on the tables after a run: a query that gives the rows which break it, or a count that the
//! clients have made themselves.

use load_clients::session::{Session, Trouble};
use serde::Serialize;
use std::collections::BTreeMap;

/// Most rows that are read of those that break a rule.
const SHOWN: u64 = 3;

/// A rule.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its number in the specification, or a short name.
    pub number: String,
    /// The rule in words.
    pub what: String,
    proof: Proof,
}

#[derive(Clone, Debug)]
enum Proof {
    /// Gives the rows that break it.
    Query(String),
    /// The clients saw so many things that break it; the first.
    Seen(u64, Option<String>),
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The rule's number or name.
    pub number: String,
    /// The rule in words.
    pub what: String,
    /// True if the rule holds.
    pub holds: bool,
    /// The rows or counts that break it.
    pub broken_by: Option<String>,
}

impl Check {
    /// A rule that holds if the query gives no row.
    #[must_use]
    pub fn query(number: &str, what: &str, query: impl Into<String>) -> Check {
        Check { number: number.to_owned(), what: what.to_owned(), proof: Proof::Query(query.into()) }
    }

    /// A rule that holds if the clients saw nothing that breaks it.
    #[must_use]
    pub fn seen(number: &str, what: &str, count: u64, first: Option<String>) -> Check {
        Check { number: number.to_owned(), what: what.to_owned(), proof: Proof::Seen(count, first) }
    }

    /// A rule that holds if the number that the query gives lies within the bounds.
    #[must_use]
    pub fn within(number: &str, what: &str, query: &str, bounds: (u64, u64)) -> Check {
        let (least, most) = bounds;
        let query = format!(
            "SELECT n AS found, '{least} to {most}' AS expected FROM ({query}) q(n) \
             WHERE n IS NULL OR n NOT BETWEEN {least} AND {most}"
        );
        Check::query(number, what, query)
    }
}

/// Looks at each rule, in this session.
///
/// # Errors
/// A query fails.
pub async fn judge(checks: &[Check], session: &Session) -> Result<Vec<Checked>, Trouble> {
    let mut all = Vec::with_capacity(checks.len());
    for check in checks {
        let broken_by = match &check.proof {
            Proof::Seen(0, _) => None,
            Proof::Seen(count, first) => {
                Some(format!("{count} times: {}", first.as_deref().unwrap_or("unknown")))
            }
            Proof::Query(query) => {
                let rows = session.texts(&format!("SELECT * FROM ({query}) broken LIMIT {SHOWN}")).await?;
                let rows = rows.into_iter().map(|row| row.into_iter().collect::<BTreeMap<_, _>>());
                let told: Vec<String> = rows.map(|row| tell(&row)).collect();
                (!told.is_empty()).then(|| told.join("; "))
            }
        };
        all.push(Checked {
            number: check.number.clone(),
            what: check.what.clone(),
            holds: broken_by.is_none(),
            broken_by,
        });
    }
    Ok(all)
}

fn tell(row: &BTreeMap<String, String>) -> String {
    let cells: Vec<String> = row.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if cells.is_empty() { "a row of NULLs".to_owned() } else { cells.join(", ") }
}
