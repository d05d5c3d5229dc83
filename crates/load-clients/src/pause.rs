//! Times as people write them on a command line: `10ms`, `2s`, `0`.

use std::time::Duration;

/// Reads `10ms`, `2s`, `1.5s`, `0`. Any other number needs a unit: programs do not agree on what it is without one.
///
/// # Errors
/// A sentence that says what would be right.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time like 10ms, 2s or 0");
    let (number, unit_ms) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1.0),
        (None, Some(number)) => (number, 1000.0),
        (None, None) if text == "0" => return Ok(Duration::ZERO),
        (None, None) if text.parse::<f64>().is_ok() => {
            return Err(format!("{text} has no unit: write {text}ms or {text}s"));
        }
        (None, None) => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit_ms / 1000.0).map_err(|_| wrong())
}

/// Reads whole seconds: `8` or `8s`.
///
/// # Errors
/// A sentence that says what would be right.
pub fn whole_seconds(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('s').unwrap_or(text);
    number
        .parse()
        .ok()
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| format!("{text:?} is not a whole number of seconds like 8 or 8s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("20"), Err("20 has no unit: write 20ms or 20s".to_owned()));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        assert_eq!((whole_seconds("8"), whole_seconds("8s")), (Ok(8), Ok(8)));
        assert!(
            whole_seconds("0").is_err() && whole_seconds("8ms").is_err() && whole_seconds("1.5s").is_err()
        );
        assert!(parse("soon").is_err() && parse("-1s").is_err());
    }
}
