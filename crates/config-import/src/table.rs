//! What becomes of each setting of the other products. The only place that knows their names.
//!
//! A row that names a key of ours carries the value there if this build knows the key; else the row's reason is told. So keys
//! that PgBouncer has, too, are named as PgBouncer names them, and are carried from the day on that Consort has them.

mod pgbouncer;
mod pgcat;
mod pgdog;

use super::convert::Convert;
use super::foreign::Product;

/// Settings with one fate.
pub(super) struct Row {
    pub(super) section: &'static str,
    keys: &'static [&'static str],
    /// The first of the keys, which a default is of.
    pub(super) key: &'static str,
    pub(super) becomes: Becomes,
    /// What the product does without the setting, where Consort without its key would do something else; empty: the same.
    pub(super) default: &'static str,
    /// With these values nothing is lost when the setting is not carried.
    pub(super) idle: &'static [&'static str],
    /// It counts only while this other setting of the section has one of these values.
    pub(super) with: Option<(&'static str, &'static [&'static str])>,
    /// Why it is not needed, or what to do instead.
    pub(super) why: &'static str,
}

/// A setting's fate.
pub(super) enum Becomes {
    /// A key of ours.
    Key {
        /// Its name.
        name: &'static str,
        convert: Convert,
        /// The name of the key for all databases and users, for products that have none for all.
        common: &'static str,
    },
    /// Read with others: servers, addresses, secrets.
    Elsewhere,
    /// Nothing, and nothing is lost.
    Nothing,
    /// Nothing, and the operator should know.
    Missing,
}

/// Every row of a product.
pub(super) fn rows(product: Product) -> &'static [Row] {
    match product {
        Product::Pgbouncer => pgbouncer::ROWS,
        Product::Pgcat => pgcat::ROWS,
        Product::Pgdog => pgdog::ROWS,
    }
}

/// The row of a setting; a row of a whole section has `*` for its key.
pub(super) fn row(product: Product, section: &str, key: &str) -> Option<&'static Row> {
    let of = |key: &str| rows(product).iter().find(|row| row.section == section && row.keys.contains(&key));
    of(key).or_else(|| of("*"))
}

const fn row_of(
    section: &'static str,
    keys: &'static [&'static str],
    becomes: Becomes,
    why: &'static str,
) -> Row {
    Row { section, keys, key: keys[0], becomes, default: "", idle: &[], with: None, why }
}

/// A setting that is a key of ours.
const fn key(
    section: &'static str,
    keys: &'static [&'static str],
    name: &'static str,
    convert: Convert,
) -> Row {
    row_of(section, keys, Becomes::Key { name, convert, common: "" }, "")
}

/// The same, with the key of ours that says it of all.
const fn key_or_common(
    section: &'static str,
    keys: &'static [&'static str],
    name: &'static str,
    common: &'static str,
    convert: Convert,
) -> Row {
    row_of(section, keys, Becomes::Key { name, convert, common }, "")
}

const fn elsewhere(section: &'static str, keys: &'static [&'static str]) -> Row {
    row_of(section, keys, Becomes::Elsewhere, "")
}

const fn nothing(section: &'static str, keys: &'static [&'static str], why: &'static str) -> Row {
    row_of(section, keys, Becomes::Nothing, why)
}

const fn missing(section: &'static str, keys: &'static [&'static str], why: &'static str) -> Row {
    row_of(section, keys, Becomes::Missing, why)
}

impl Row {
    const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    const fn idle(self, idle: &'static [&'static str]) -> Self {
        Self { idle, ..self }
    }

    const fn with(self, key: &'static str, values: &'static [&'static str]) -> Self {
        Self { with: Some((key, values)), ..self }
    }

    /// What to do if this build has no such key.
    const fn or(self, why: &'static str) -> Self {
        Self { why, ..self }
    }
}

/// Why several products' settings are not needed.
mod why {
    pub(super) const TLS_CHOICES: &str =
        "TLS 1.2 and 1.3 are spoken, with the cipher suites that rustls takes for safe";
    pub(super) const KEEPALIVE: &str =
        "connections have keep-alives, as often as the system's tcp_keepalive_* say";
    pub(super) const WATCHED: &str = "Consort watches every node all the time, and sends no read to one that is away or behind; see SHOW REPLICAS";
    pub(super) const NAMES: &str = "a host's name is looked up whenever a connection is opened";
    pub(super) const RESTORED: &str =
        "Consort gives each client its own settings and statements back, whichever connection it gets";
    pub(super) const FIGURES: &str =
        "SHOW STATS counts from the start on, and metrics_listen has a page for Prometheus";
    pub(super) const THREADS: &str = "Consort works in one thread";
    pub(super) const PARSED: &str = "Consort asks PostgreSQL what a statement touches, always";
    pub(super) const SHARDS: &str = "Consort does not split databases over servers";
    pub(super) const ALTER_ROLE: &str = "say it to PostgreSQL: ALTER ROLE .. SET, or ALTER DATABASE .. SET";
    pub(super) const OWN_ROLE: &str = "Consort logs in at the servers as the client's own role: let clients log in as the role that is meant";
    pub(super) const ROLES: &str =
        "write the roles' lines to auth_file; docs/operate/authentication.md has the query that prints them";
    pub(super) const CLIENT_CERTIFICATES: &str = "auth_type = \"hba\" with client_tls_ca: hostssl with the method cert, or with clientcert=verify-full";
    pub(super) const RESTART: &str = "consort serve --takeover hands clients over to a new process; a second Consort takes over when the first is lost, with lease_time";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_setting_has_one_fate() {
        for product in Product::ALL {
            let mut seen = BTreeSet::new();
            for (section, key) in
                rows(product).iter().flat_map(|row| row.keys.iter().map(|key| (row.section, *key)))
            {
                assert!(seen.insert((section, key)), "{product}: {section}.{key} has two rows");
            }
        }
    }

    #[test]
    fn what_is_lost_has_a_reason() {
        for product in Product::ALL {
            for row in rows(product) {
                let has_reason =
                    !matches!(row.becomes, Becomes::Nothing | Becomes::Missing) || !row.why.is_empty();
                assert!(has_reason, "{product}: {}.{}", row.section, row.key);
            }
        }
    }
}
