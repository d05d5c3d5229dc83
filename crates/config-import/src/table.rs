//! Conversion of each setting of the other products. The only place that knows their names.
//!
//! A row that names a key of ours carries the value there if this build knows the key; else the row's reason
//! is reported. So keys that PgBouncer has, too, are named as PgBouncer names them, and are carried as soon
//! as Consort has them.

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
    /// The product's default, where Consort's default differs; empty: the same.
    pub(super) default: &'static str,
    /// With these values nothing is lost when the setting is not carried.
    pub(super) idle: &'static [&'static str],
    /// The setting counts only while this other setting of the section has one of these values.
    pub(super) with: Option<(&'static str, &'static [&'static str])>,
    /// Reason why it is not needed, or advice.
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

    /// Advice if this build has no such key.
    const fn or(self, why: &'static str) -> Self {
        Self { why, ..self }
    }
}

/// Reasons why several products' settings are not needed.
mod why {
    pub(super) const TLS_CHOICES: &str =
        "Consort supports TLS 1.2 and 1.3 with the default cipher suites of rustls";
    pub(super) const KEEPALIVE: &str =
        "TCP keepalive is on, with the intervals of the system's tcp_keepalive_* settings";
    pub(super) const WATCHED: &str =
        "Consort monitors every node and sends no read to one that is down or lags; see SHOW REPLICAS";
    pub(super) const NAMES: &str = "host names are resolved whenever a connection is opened";
    pub(super) const RESTORED: &str =
        "Consort restores each client's settings and prepared statements on every server connection";
    pub(super) const FIGURES: &str =
        "SHOW STATS counts since the start, and metrics_listen serves a page for Prometheus";
    pub(super) const THREADS: &str = "Consort is single-threaded";
    pub(super) const PARSED: &str = "Consort always has PostgreSQL analyse statements";
    pub(super) const SHARDS: &str = "Consort does not shard databases";
    pub(super) const ALTER_ROLE: &str = "set it in PostgreSQL: ALTER ROLE .. SET, or ALTER DATABASE .. SET";
    pub(super) const OWN_ROLE: &str =
        "Consort logs in at the servers as the client's role; let clients log in as the intended role";
    pub(super) const ROLES: &str =
        "add the roles to auth_file; docs/operate/authentication.md has a query that prints their lines";
    pub(super) const CLIENT_CERTIFICATES: &str =
        "auth_type = \"hba\" with client_tls_ca: hostssl with the method cert or clientcert=verify-full";
    pub(super) const RESTART: &str = "consort serve --takeover hands clients over to a new process; a second Consort takes over from a failed one, with leader_lease_timeout";
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
