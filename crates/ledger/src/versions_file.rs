//! The versions of a dump, as a file of their own: one database a line, then an end mark with a checksum. A ledger keeps the
//! records that a node of such a dump lacks.

use history::Version;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Versions of databases, by their names.
pub type Versions = BTreeMap<String, Version>;

/// The file for these versions.
#[must_use]
pub fn write_versions(versions: &Versions) -> String {
    let mut text = String::new();
    for (name, version) in versions {
        let _ = writeln!(text, "{} {name}", version.get());
    }
    let checksum = crc32fast::hash(text.as_bytes());
    let _ = writeln!(text, "end {checksum:08x}");
    text
}

/// The versions in such a file; `None` if it is torn or damaged.
#[must_use]
pub fn read_versions(text: &str) -> Option<Versions> {
    let (lines, end) = text.strip_suffix('\n')?.rsplit_once('\n').unwrap_or(("", text.trim_end()));
    let lines = if lines.is_empty() { String::new() } else { format!("{lines}\n") };
    let checksum = u32::from_str_radix(end.strip_prefix("end ")?, 16).ok()?;
    if checksum != crc32fast::hash(lines.as_bytes()) {
        return None;
    }
    let version = |line: &str| {
        let (version, name) = line.split_once(' ')?;
        Some((name.to_owned(), Version::new(version.parse().ok()?)))
    };
    lines.lines().map(version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_name_of_a_database_is_its_own() {
        assert_eq!(crate::folder_of("shop_1"), "shop_1");
        assert_eq!(crate::folder_of("../x y"), "%2e%2e%2fx%20y");
    }

    #[test]
    fn versions_are_read_as_written_or_not_at_all() {
        let versions: Versions =
            [("shop".to_owned(), Version::new(7)), ("a b".to_owned(), Version::new(0))].into();
        for versions in [versions, Versions::new()] {
            let text = write_versions(&versions);
            assert_eq!(read_versions(&text), Some(versions));
            for cut in 0..text.len() {
                assert_eq!(read_versions(&text[..cut]), None, "{:?}", &text[..cut]);
            }
            assert_eq!(read_versions(&text.replace("end ", "end 1")), None);
        }
        assert_eq!(read_versions("8 shop\nend 00000000\n"), None);
    }
}
