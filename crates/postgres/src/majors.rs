//! The majors of PostgreSQL, and the differences between them that Consort goes by. A server of another major is
//! refused: the meaning of its catalogs, trees and event triggers is not known. Built-in functions have a table of their
//! own, `builtin.txt` of `statement-analysis`.

/// One major version.
#[derive(Debug, PartialEq, Eq)]
pub struct Major {
    /// Its number.
    pub number: u32,
    /// True once Consort's tests run on it. Servers of another major are refused.
    pub is_served: bool,
    /// First bytes of a page of WAL, if the server's integers are little-endian (`XLOG_PAGE_MAGIC`).
    pub wal_page: [u8; 2],
    /// Columns of `pg_database` with the locale of a provider other than libc, separated by commas.
    pub locale_columns: &'static str,
    /// Options of a membership, in words of GRANT and REVOKE, with the column of `pg_auth_members` of each.
    pub membership_options: &'static [(&'static str, &'static str)],
    /// Options with which the publication is created.
    pub publication_options: &'static str,
    /// Condition on a row of `pg_publication` that shows these options.
    pub has_publication_options: &'static str,
    /// True if the setting `transaction_timeout` exists.
    pub limits_transactions: bool,
}

const ADMIN: (&str, &str) = ("ADMIN", "admin_option");

/// The oldest one; each other says only how it differs from the one before.
const FIFTEEN: Major = Major {
    number: 15,
    is_served: true,
    wal_page: [0x10, 0xD1],
    locale_columns: "daticulocale",
    membership_options: &[ADMIN],
    publication_options: "",
    has_publication_options: "true",
    limits_transactions: false,
};

const SIXTEEN: Major = Major {
    number: 16,
    wal_page: [0x13, 0xD1],
    locale_columns: "daticulocale, daticurules",
    membership_options: &[ADMIN, ("INHERIT", "inherit_option"), ("SET", "set_option")],
    ..FIFTEEN
};

const SEVENTEEN: Major = Major {
    number: 17,
    wal_page: [0x16, 0xD1],
    locale_columns: "datlocale, daticurules",
    limits_transactions: true,
    ..SIXTEEN
};

/// A table whose replica identity has a stored generated column can only be written if the publication sends such columns.
const EIGHTEEN: Major = Major {
    number: 18,
    wal_page: [0x18, 0xD1],
    publication_options: " WITH (publish_generated_columns = stored)",
    has_publication_options: "p.pubgencols = 's'",
    ..SEVENTEEN
};

/// Every known major, from the oldest on. Each but the first has the `is_served` of the one before, unless it says otherwise.
pub const MAJORS: [Major; 4] = [FIFTEEN, SIXTEEN, SEVENTEEN, EIGHTEEN];

/// The parameter in which a server reports its version at a log-in.
pub(crate) const PARAMETER: &str = "server_version";

/// The served majors in words: `15, 16 or 17`.
pub fn in_words() -> String {
    let numbers: Vec<String> = served().map(|major| major.number.to_string()).collect();
    match numbers.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// The major of a `server_version` such as `15.18 (Debian 15.18-0+deb12u1)` or `16beta1`; `None` if it is not supported.
pub fn of_version(server_version: &str) -> Option<&'static Major> {
    let digits = server_version.split(|letter: char| !letter.is_ascii_digit()).next();
    of_number(digits?.parse().ok()?)
}

/// The major with this number; `None` if it is not supported.
pub fn of_number(number: u32) -> Option<&'static Major> {
    served().find(|major| major.number == number)
}

/// Majors that Consort works with, from the oldest on.
pub fn served() -> impl Iterator<Item = &'static Major> {
    MAJORS.iter().filter(|major| major.is_served)
}

/// True if these bytes begin a page of WAL of a supported major.
pub(crate) fn is_wal_page(page: &[u8]) -> bool {
    MAJORS.iter().any(|major| page.starts_with(&major.wal_page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majors_are_told_from_versions() {
        let number = |version| of_version(version).map(|major| major.number);
        assert_eq!(number("15.18 (Debian 15.18-0+deb12u1)"), Some(15));
        assert_eq!(number("15devel"), Some(15));
        for version in ["14.9", "19beta1", "9.6.24", "150.1", "1.5", "", "devel"] {
            assert_eq!(number(version), None, "{version}");
        }
        assert!(MAJORS.is_sorted_by_key(|major| major.number));
    }
}
