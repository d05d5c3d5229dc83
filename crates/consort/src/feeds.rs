//! State of the logical replicas, in words: from the rows of `SHOW REPLICATION`.

use crate::console::{Row, value};

/// A database at a replica.
pub(crate) fn state(feed: &Row) -> String {
    let text = |column| value(Some(feed), column).unwrap_or_default();
    let state = text("state");
    match state {
        "copying" => {
            let far = copied(feed).map_or_else(String::new, |far| format!(": {far}"));
            let before = Some(text("why")).filter(|why| !why.is_empty());
            format!("{state}{far}{}", before.map_or_else(String::new, |why| format!(" ({why})")))
        }
        "feeding" | "serving" => {
            format!("{state}, version {} of {}", text("version"), text("newest_version"))
        }
        _ => match text("why") {
            "" => state.to_owned(),
            why => format!("{state}: {why}"),
        },
    }
}

/// Progress of its copy, as soon as that is known.
fn copied(feed: &Row) -> Option<String> {
    let number = |column| value(Some(feed), column)?.parse::<u64>().ok();
    let megabytes = |column| Some(number(column)? as f64 / f64::from(1 << 20));
    let (tables, all_tables) = (number("copied_tables")?, number("tables_to_copy")?);
    let (done, all) = (megabytes("copied_bytes")?, megabytes("bytes_to_copy")?);
    let left = number("copy_left_ms").map(|left| format!(", about {} s left", left.div_ceil(1000)));
    let left = left.unwrap_or_default();
    Some(format!("{tables} of {all_tables} tables, {done:.1} of {all:.1} MB{left}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(pairs: &[(&str, &str)]) -> Row {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect()
    }

    #[test]
    fn states_in_words() {
        assert_eq!(state(&feed(&[("state", "paused")])), "paused");
        assert_eq!(
            state(&feed(&[("state", "waiting"), ("why", "the server is unreachable")])),
            "waiting: the server is unreachable"
        );
        assert_eq!(
            state(&feed(&[("state", "serving"), ("version", "7"), ("newest_version", "9")])),
            "serving, version 7 of 9"
        );
        assert_eq!(state(&feed(&[("state", "copying")])), "copying");
        let again = [("state", "copying"), ("why", "try 2; the last one: a reason")];
        assert_eq!(state(&feed(&again)), "copying (try 2; the last one: a reason)");
        let far = [
            ("state", "copying"),
            ("copied_tables", "3"),
            ("tables_to_copy", "8"),
            ("copied_bytes", "1572864"),
            ("bytes_to_copy", "3145728"),
            ("copy_left_ms", "14001"),
        ];
        assert_eq!(state(&feed(&far)), "copying: 3 of 8 tables, 1.5 of 3.0 MB, about 15 s left");
        assert_eq!(state(&feed(&far[..5])), "copying: 3 of 8 tables, 1.5 of 3.0 MB");
    }
}
