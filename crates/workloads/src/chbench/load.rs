//! The three tables that the CH-benCHmark adds to TPC-C's: suppliers, nations, regions.
//!
//! A stock's supplier is its warehouse times its item, modulo 10,000; a customer's nation is the first
//! character of its state.

use crate::workload::Loader;
use load_clients::chance::{digits, letters_and_digits, within};
use load_clients::session::Trouble;
use load_clients::value::Decimal;

/// Number of suppliers, at any scale.
pub(super) const SUPPLIERS: i32 = 10_000;

pub(super) const TABLES: &str = "
DROP TABLE IF EXISTS chbench_supplier; DROP TABLE IF EXISTS chbench_nation; DROP TABLE IF EXISTS chbench_region;
CREATE TABLE chbench_region (r_regionkey int NOT NULL, r_name char(55) NOT NULL, r_comment char(152) NOT NULL);
CREATE TABLE chbench_nation (n_nationkey int NOT NULL, n_name char(25) NOT NULL, n_regionkey int NOT NULL,
    n_comment char(152) NOT NULL);
CREATE TABLE chbench_supplier (su_suppkey int NOT NULL, su_name char(25) NOT NULL, su_address varchar(40) NOT NULL,
    su_nationkey int NOT NULL, su_phone char(15) NOT NULL, su_acctbal numeric(12,2) NOT NULL,
    su_comment char(101) NOT NULL);
";

pub(super) const FINISH: [&str; 6] = [
    "ALTER TABLE chbench_region ADD PRIMARY KEY (r_regionkey)",
    "ALTER TABLE chbench_nation ADD PRIMARY KEY (n_nationkey)",
    "ALTER TABLE chbench_supplier ADD PRIMARY KEY (su_suppkey)",
    "ANALYZE chbench_region",
    "ANALYZE chbench_nation",
    "ANALYZE chbench_supplier",
];

const REGIONS: [&str; 5] = ["Africa", "America", "Asia", "Australia", "Europe"];

/// A nation for each digit and upper- or lower-case character, with its region.
const NATIONS: [(&str, i32); 62] = [
    ("Australia", 3),
    ("Belgium", 4),
    ("Cameroon", 0),
    ("Denmark", 4),
    ("Equatorial Guinea", 0),
    ("France", 4),
    ("Germany", 4),
    ("Hungary", 4),
    ("Italy", 4),
    ("Japan", 2),
    ("Kenya", 0),
    ("Lithuania", 4),
    ("Mexico", 1),
    ("Netherlands", 4),
    ("Oman", 2),
    ("Portugal", 4),
    ("Qatar", 2),
    ("Rwanda", 0),
    ("Serbia", 4),
    ("Togo", 0),
    ("United States", 1),
    ("Vietnam", 2),
    ("Singapore", 2),
    ("Cambodia", 2),
    ("Yemen", 2),
    ("Zimbabwe", 0),
    ("Argentina", 1),
    ("Bolivia", 1),
    ("Canada", 1),
    ("Dominican Republic", 1),
    ("Egypt", 0),
    ("Finland", 4),
    ("Ghana", 0),
    ("Haiti", 1),
    ("India", 2),
    ("Jamaica", 1),
    ("Kazakhstan", 2),
    ("Luxembourg", 4),
    ("Morocco", 0),
    ("Norway", 4),
    ("Poland", 4),
    ("Peru", 1),
    ("Nicaragua", 1),
    ("Romania", 4),
    ("South Africa", 0),
    ("Thailand", 2),
    ("United Kingdom", 4),
    ("Venezuela", 1),
    ("Liechtenstein", 4),
    ("Austria", 4),
    ("Laos", 2),
    ("Zambia", 0),
    ("Switzerland", 4),
    ("China", 2),
    ("Papua New Guinea", 3),
    ("East Timor", 3),
    ("Bulgaria", 4),
    ("Brazil", 1),
    ("Albania", 4),
    ("Andorra", 4),
    ("Belize", 1),
    ("Botswana", 0),
];

/// The character codes that are nations: digits, capitals, small letters. Germany and Cambodia, which the
/// queries name, are among the capitals, from which our customers' states are drawn.
fn nation_keys() -> impl Iterator<Item = i32> {
    let keys = (b'A'..=b'Z').chain(b'a'..=b'z').chain(b'0'..=b'9');
    keys.map(i32::from)
}

/// Fills the tables.
pub(super) async fn fill(loader: &mut Loader<'_>) -> Result<(), Trouble> {
    let mut chance = fastrand::Rng::with_seed(2);
    loader
        .copy("chbench_region", (0..).zip(REGIONS), |(key, name), row| {
            row.put(key).put(name).put(letters_and_digits(&mut chance, 30, 100));
        })
        .await?;
    loader
        .copy("chbench_nation", nation_keys().zip(NATIONS), |(key, (name, region)), row| {
            row.put(key).put(name).put(region).put(letters_and_digits(&mut chance, 30, 100));
        })
        .await?;
    let keys: Vec<i32> = nation_keys().collect();
    loader
        .copy("chbench_supplier", 0..SUPPLIERS, |key, row| {
            let nation = keys[chance.usize(0..keys.len())];
            row.put(key).put(format_args!("Supplier#{key:09}")).put(letters_and_digits(&mut chance, 10, 40));
            row.put(nation).put(digits(&mut chance, 15));
            row.put(Decimal::cents(within(&mut chance, -99_999, 999_999).into()));
            // A few of ten thousand are complained of (TPC-H 4.2.3).
            let complaint = if key % 2000 == 7 { "bad " } else { "" };
            row.put(format_args!("{complaint}{}", letters_and_digits(&mut chance, 25, 90)));
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_has_a_nation() {
        assert_eq!(nation_keys().count(), NATIONS.len());
        let key = |name: &str| nation_keys().zip(NATIONS).find(|(_, nation)| nation.0 == name).unwrap().0;
        assert!(["Germany", "Cambodia"].iter().all(|name| (65..=90).contains(&key(name))));
    }
}
