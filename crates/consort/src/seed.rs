//! The seed of replicas to come, for people and programs.

use local_cluster::{Seed, SeedLog};
use postgres::attach::Finding;
use serde_json::{Value, json};

/// Fix for a seed that is of no use.
const REMEDY: &str = "replace it with `consort replica seed`";

/// One line.
pub(crate) fn in_words(seed: &Seed) -> String {
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / f64::from(1 << 20));
    let log = match seed.log {
        SeedLog::Kept { bytes, left_bytes: None } => {
            format!("the primary retains {} of WAL for it, without a limit", megabytes(bytes))
        }
        SeedLog::Kept { bytes, left_bytes: Some(left) } => format!(
            "the primary retains {} of WAL for it, and {} more until it becomes unusable",
            megabytes(bytes),
            megabytes(left)
        ),
        SeedLog::Going { bytes } => format!("{}; {REMEDY}", going(&megabytes(bytes))),
        SeedLog::Gone => format!("unusable: {GONE}; {REMEDY}"),
        SeedLog::Unknown => "cannot read from the primary if its WAL is retained".to_owned(),
    };
    format!("seed: {}, from WAL position {}; {log}", megabytes(seed.bytes), seed.from)
}

const GONE: &str = "the primary no longer has all WAL since (max_slot_wal_keep_size)";

fn going(megabytes: &str) -> String {
    format!(
        "about to become unusable: its {megabytes} of WAL exceed max_slot_wal_keep_size, and one of the primary's next \
         checkpoints removes them"
    )
}

/// The same for programs.
pub(crate) fn as_json(seed: &Seed) -> Value {
    let (log, bytes, left) = match seed.log {
        SeedLog::Kept { bytes, left_bytes } => ("kept", Some(bytes), left_bytes),
        SeedLog::Going { bytes } => ("going", Some(bytes), None),
        SeedLog::Gone => ("gone", None, None),
        SeedLog::Unknown => ("unknown", None, None),
    };
    json!({
        "from": seed.from.to_string(),
        "bytes": seed.bytes,
        "usable": seed.log.is_whole(),
        "log": log,
        "log_bytes": bytes,
        "log_left_bytes": left,
    })
}

/// The finding for a seed that is of no use.
pub(crate) fn finding(seed: &Seed) -> Option<Finding> {
    let what = match seed.log {
        SeedLog::Kept { .. } | SeedLog::Unknown => return None,
        SeedLog::Going { bytes } => going(&format!("{:.1} MB", bytes as f64 / f64::from(1 << 20))),
        SeedLog::Gone => format!("unusable: {GONE}"),
    };
    let mend = "consort replica seed, or consort replica seed --remove; increase max_slot_wal_keep_size to retain the next one longer";
    Some(Finding { what, mend: mend.to_owned(), fatal: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::Lsn;

    #[test]
    fn whether_a_seed_is_of_use() {
        let seed = |log| Seed { from: Lsn::new(0x1_0000_0028), bytes: 3 << 20, log };
        let kept = seed(SeedLog::Kept { bytes: 1 << 19, left_bytes: Some(5 << 20) });
        assert_eq!(
            in_words(&kept),
            "seed: 3.0 MB, from WAL position 1/28; the primary retains 0.5 MB of WAL for it, and 5.0 MB more until it \
             becomes unusable"
        );
        assert!(finding(&kept).is_none() && finding(&seed(SeedLog::Unknown)).is_none());
        let going = seed(SeedLog::Going { bytes: 9 << 20 });
        assert!(in_words(&going).contains("about to become unusable: its 9.0 MB"), "{}", in_words(&going));
        assert!(finding(&going).is_some_and(|finding| !finding.fatal && finding.what.contains("9.0 MB")));
        assert!(in_words(&seed(SeedLog::Gone)).contains("unusable: "));
        assert_eq!(as_json(&going)["usable"], true);
        assert_eq!(as_json(&seed(SeedLog::Gone))["log"], "gone");
    }
}
