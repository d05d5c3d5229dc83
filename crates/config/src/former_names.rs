//! Former names of keys: files that use them are read for one more release, and `consort check` prints the
//! new lines.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::key::{Key, Place};
use crate::keys;

/// Former name of a global key, with the table and the name it has now.
const FORMER: &[(&str, Place, &str)] = &[
    ("proof_limit", Place::Global, "proof_timeout"),
    ("wait_limit", Place::Global, "replica_wait_timeout"),
    ("lease_time", Place::Global, "leader_lease_timeout"),
    ("drain_time", Place::Global, "shutdown_drain_timeout"),
    ("held_answer", Place::Global, "max_held_result_size"),
    ("fed_buffer", Place::Global, "replication_buffer_size"),
    ("fed_archive", Place::Global, "replication_spill_size"),
    ("acknowledged_by", Place::Global, "commit_replica_quorum"),
    ("harmless_functions", Place::Global, "replica_safe_functions"),
    ("reads_in_blocks", Place::Global, "offload_in_transactions"),
    ("freshness_rows", Place::Global, "freshness_index_rows"),
    ("analysis_cache", Place::Global, "analysis_cache_size"),
    ("shadow", Place::Debug, "shadow"),
    ("footprint_grain", Place::Debug, "footprint_grain"),
];

/// A line of a file that uses a former name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerName {
    /// Line of the file, from 1.
    pub line: usize,
    /// The name in the file.
    pub name: String,
    /// The line that says the same today; a table's name stands in front of a key of a table.
    pub new: String,
}

/// The key that a former name at the top of a file stands for.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    let (_, place, new) = FORMER.iter().find(|(former, ..)| *former == name)?;
    keys::KEYS.iter().find(|key| key.place == *place && key.name == *new)
}

/// The value as a file says it today: `offload_in_transactions` was a boolean.
pub(super) fn source(key: &Key, source: &str) -> String {
    match (key.name, source) {
        ("offload_in_transactions", "true") => "\"locked\"".to_owned(),
        ("offload_in_transactions", "false") => "\"off\"".to_owned(),
        _ => source.to_owned(),
    }
}

/// The new name, if a table gives a setting by both of its names.
pub(super) fn given_twice(table: &DeTable<'_>, name: &str) -> Option<&'static str> {
    let key = find(name)?;
    let holds = |table: &DeTable<'_>| table.iter().any(|(there, _)| there.get_ref() == key.name);
    let twice = match key.place {
        Place::Debug => table.iter().any(|(there, value)| {
            there.get_ref() == "debug" && value.get_ref().as_table().is_some_and(holds)
        }),
        _ => holds(table),
    };
    twice.then_some(key.name)
}

/// Lines of a file with former names, in the file's order. Unreadable files have none.
pub fn former_names(path: &Path) -> Vec<FormerName> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    in_text(&text)
}

fn in_text(text: &str) -> Vec<FormerName> {
    let Ok(table) = DeTable::parse(text) else { return Vec::new() };
    let mut found = Vec::new();
    for (name, value) in table.get_ref() {
        let is_table = matches!(value.get_ref(), DeValue::Table(_));
        let Some(key) = find(name.get_ref()).filter(|_| !is_table) else { continue };
        let line = text[..name.span().start].matches('\n').count() + 1;
        let table = if key.place == Place::Debug { "debug." } else { "" };
        let new = format!("{table}{} = {}", key.name, source(key, &text[value.span()]));
        found.push(FormerName { line, name: name.get_ref().to_string(), new });
    }
    found.sort_by_key(|former| former.line);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_names_have_new_lines() {
        let text =
            "proof_limit = \"7ms\"\nreads_in_blocks = false\nfootprint_grain = \"table\"\nmax_clients = 1\n";
        let lines: Vec<_> = in_text(text).into_iter().map(|former| (former.line, former.new)).collect();
        let wanted = [
            (1, "proof_timeout = \"7ms\""),
            (2, "offload_in_transactions = \"off\""),
            (3, "debug.footprint_grain = \"table\""),
        ];
        assert_eq!(lines, wanted.map(|(line, new)| (line, new.to_owned())));
    }

    #[test]
    fn every_former_name_stands_for_a_key() {
        assert!(FORMER.iter().all(|(former, ..)| find(former).is_some()));
    }
}
