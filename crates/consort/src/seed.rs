//! The seed of replicas to come, as people and programs are told of it.

use local_cluster::{Seed, SeedLog};
use postgres::attach::Finding;
use serde_json::{Value, json};

/// What makes it useful again.
const MEND: &str = "`consort replica seed` puts a new one in its place";

/// One line.
pub(crate) fn in_words(seed: &Seed) -> String {
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / f64::from(1 << 20));
    let log = match seed.log {
        SeedLog::Kept { bytes, left_bytes: None } => {
            format!("the primary keeps {} of log for it, without a limit", megabytes(bytes))
        }
        SeedLog::Kept { bytes, left_bytes: Some(left) } => format!(
            "the primary keeps {} of log for it, {} more and it is of no use",
            megabytes(bytes),
            megabytes(left)
        ),
        SeedLog::Going { bytes } => format!("{}; {MEND}", going(&megabytes(bytes))),
        SeedLog::Gone => format!("it is of no use: {GONE}; {MEND}"),
        SeedLog::Unknown => "the primary does not say whether it keeps the log since".to_owned(),
    };
    format!("seed: {}, from {} of the primary's log on; {log}", megabytes(seed.bytes), seed.from)
}

const GONE: &str = "the primary has not kept all of its log since (max_slot_wal_keep_size)";

fn going(megabytes: &str) -> String {
    format!(
        "it is about to be of no use: its {megabytes} of log are more than max_slot_wal_keep_size, and go with one of the \
         primary's next checkpoints"
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

/// What is wrong with it.
pub(crate) fn finding(seed: &Seed) -> Option<Finding> {
    let what = match seed.log {
        SeedLog::Kept { .. } | SeedLog::Unknown => return None,
        SeedLog::Going { bytes } => going(&format!("{:.1} MB", bytes as f64 / f64::from(1 << 20))),
        SeedLog::Gone => format!("it is of no use: {GONE}"),
    };
    let mend = "consort replica seed, or consort replica seed --remove; a larger max_slot_wal_keep_size keeps the next one for longer";
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
            "seed: 3.0 MB, from 1/28 of the primary's log on; the primary keeps 0.5 MB of log for it, 5.0 MB more and it is \
             of no use"
        );
        assert!(finding(&kept).is_none() && finding(&seed(SeedLog::Unknown)).is_none());
        let going = seed(SeedLog::Going { bytes: 9 << 20 });
        assert!(in_words(&going).contains("about to be of no use: its 9.0 MB"), "{}", in_words(&going));
        assert!(finding(&going).is_some_and(|finding| !finding.fatal && finding.what.contains("9.0 MB")));
        assert!(in_words(&seed(SeedLog::Gone)).contains("it is of no use"));
        assert_eq!(as_json(&going)["usable"], true);
        assert_eq!(as_json(&seed(SeedLog::Gone))["log"], "gone");
    }
}
