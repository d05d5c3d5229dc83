//! Dates and timestamps in PostgreSQL's units: days and microseconds since 2000-01-01. The time zone is UTC, the
//! calendar is the proleptic Gregorian one, and the text is that of `DateStyle = ISO`.

use std::fmt::Write;

use crate::problem::Problem;

pub(crate) const DAY_US: i64 = 86_400_000_000;
/// Days from 1970-01-01 to 2000-01-01.
const EPOCH_DAYS: i64 = 10_957;
pub(crate) const INFINITY: i64 = i64::MAX;
pub(crate) const MINUS_INFINITY: i64 = i64::MIN;
const DATE_INFINITY: i64 = i32::MAX as i64;
const DATE_MINUS_INFINITY: i64 = i32::MIN as i64;

/// A point of time by its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    /// Microseconds since midnight.
    pub(crate) time_us: i64,
}

/// Days since 2000-01-01 of a date (Hinnant's `days_from_civil`).
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468 - EPOCH_DAYS
}

/// The date of a count of days since 2000-01-01.
pub(crate) fn date_parts(days: i64) -> (i64, i64, i64) {
    let shifted = days + EPOCH_DAYS + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted_month + 2) / 5 + 1)
}

pub(crate) fn parts(timestamp_us: i64) -> Parts {
    let (year, month, day) = date_parts(timestamp_us.div_euclid(DAY_US));
    Parts { year, month, day, time_us: timestamp_us.rem_euclid(DAY_US) }
}

fn month_length(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Adds an interval as PostgreSQL does: months first (the day is cut to the month's last), then days, then time.
pub(crate) fn add(timestamp_us: i64, months: i64, days_more: i64, us: i64) -> Option<i64> {
    if matches!(timestamp_us, INFINITY | MINUS_INFINITY) {
        return Some(timestamp_us);
    }
    let at = parts(timestamp_us);
    let month = at.year * 12 + at.month - 1 + months;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    let day = at.day.min(month_length(year, month));
    let midnight = days(year, month, day).checked_add(days_more)?.checked_mul(DAY_US)?;
    midnight.checked_add(at.time_us)?.checked_add(us)
}

fn put_date(out: &mut String, (year, month, day): (i64, i64, i64)) {
    let shown = if year > 0 { year } else { 1 - year };
    let _ = write!(out, "{shown:04}-{month:02}-{day:02}");
}

pub(crate) fn date_text(days: i64) -> String {
    match days {
        DATE_INFINITY => return "infinity".to_owned(),
        DATE_MINUS_INFINITY => return "-infinity".to_owned(),
        _ => {}
    }
    let date = date_parts(days);
    let mut out = String::with_capacity(10);
    put_date(&mut out, date);
    if date.0 <= 0 {
        out.push_str(" BC");
    }
    out
}

/// The text of a timestamp; with the zone `+00` if it has one.
pub(crate) fn timestamp_text(timestamp_us: i64, has_zone: bool) -> String {
    match timestamp_us {
        INFINITY => return "infinity".to_owned(),
        MINUS_INFINITY => return "-infinity".to_owned(),
        _ => {}
    }
    let at = parts(timestamp_us);
    let mut out = String::with_capacity(29);
    put_date(&mut out, (at.year, at.month, at.day));
    let seconds = at.time_us / 1_000_000;
    let _ = write!(out, " {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = at.time_us % 1_000_000;
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
    if has_zone {
        out.push_str("+00");
    }
    if at.year <= 0 {
        out.push_str(" BC");
    }
    out
}

/// Converts a date to a timestamp at midnight.
pub(crate) fn date_to_timestamp(days: i64) -> Option<i64> {
    match days {
        DATE_INFINITY => Some(INFINITY),
        DATE_MINUS_INFINITY => Some(MINUS_INFINITY),
        _ => days.checked_mul(DAY_US),
    }
}

/// The date that a timestamp falls on.
pub(crate) fn timestamp_to_date(timestamp_us: i64) -> i64 {
    match timestamp_us {
        INFINITY => DATE_INFINITY,
        MINUS_INFINITY => DATE_MINUS_INFINITY,
        _ => timestamp_us.div_euclid(DAY_US),
    }
}

fn number(text: &str, lengths: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let is_number = lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Reads `infinity`, `epoch` or an ISO date with or without a time and a zone. `of` is the type's name in errors.
pub(crate) fn parse(text: &str, of: &str, keeps_zone: bool) -> Result<i64, Problem> {
    let word = text.trim();
    match word.to_ascii_lowercase().as_str() {
        "infinity" => return Ok(INFINITY),
        "-infinity" => return Ok(MINUS_INFINITY),
        "epoch" => return Ok(-EPOCH_DAYS * DAY_US),
        _ => {}
    }
    let invalid = || {
        if word.bytes().any(|byte| byte.is_ascii_digit())
            || matches!(word, "now" | "today" | "tomorrow" | "yesterday")
        {
            return Problem::unsupported(format!("the form \"{text}\" of type {of}"))
                .hint("Write dates and times as 2026-01-31 12:34:56.789+00.");
        }
        Problem::new("22007", format!("invalid input syntax for type {of}: \"{text}\""))
    };
    let range = || Problem::new("22008", format!("date/time field value out of range: \"{text}\""));
    let (date, time) = word.split_once([' ', 'T', 't']).unwrap_or((word, ""));
    let mut fields = date.split('-');
    let (Some(year), Some(month), Some(day), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(invalid());
    };
    let year = number(year, 4..=4).ok_or_else(invalid)?;
    let month = number(month, 1..=2).ok_or_else(invalid)?;
    let day = number(day, 1..=2).ok_or_else(invalid)?;
    if year == 0 || !(1..=12).contains(&month) || !(1..=month_length(year, month)).contains(&day) {
        return Err(range());
    }
    let (time_us, offset_us) = parse_time(time.trim()).ok_or_else(invalid)?.ok_or_else(range)?;
    let offset_us = if keeps_zone { offset_us } else { 0 };
    Ok(days(year, month, day) * DAY_US + time_us - offset_us)
}

/// Microseconds since midnight and east of UTC. The outer `None` is another form, the inner one a field out of range.
fn parse_time(text: &str) -> Option<Option<(i64, i64)>> {
    if text.is_empty() {
        return Some(Some((0, 0)));
    }
    let end = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != ':' && letter != '.')
        .unwrap_or(text.len());
    let (clock, zone) = text.split_at(end);
    let mut fields = clock.splitn(3, ':');
    let hour = number(fields.next()?, 1..=2)?;
    let minute = number(fields.next()?, 2..=2)?;
    let (second, fraction) = match fields.next() {
        Some(seconds) => seconds.split_once('.').unwrap_or((seconds, "")),
        None => ("00", ""),
    };
    let second = number(second, 2..=2)?;
    let fraction_us = if fraction.is_empty() { 0 } else { number(&format!("{fraction:0<6}"), 6..=6)? };
    let offset_us = zone_offset(zone.trim())?;
    let time_us = ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction_us;
    let is_valid = minute < 60 && second <= 60 && time_us <= DAY_US;
    Some(is_valid.then_some((time_us, offset_us)))
}

fn zone_offset(zone: &str) -> Option<i64> {
    match zone {
        "" | "Z" | "z" | "UTC" | "utc" | "GMT" => return Some(0),
        _ => {}
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits = zone.strip_prefix(['+', '-'])?;
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (number(hours, 2..=2)?, number(minutes, 2..=2)?),
        None if digits.len() == 4 => (number(&digits[..2], 2..=2)?, number(&digits[2..], 2..=2)?),
        None => (number(digits, 1..=2)?, 0),
    };
    (hours < 16 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000_000)
}

/// Months, days and microseconds of an interval such as `1 day 02:00:00` or `90 minutes`.
pub(crate) fn parse_interval(text: &str) -> Result<(i64, i64, i64), Problem> {
    let refused = || {
        Problem::unsupported(format!("the form \"{text}\" of type interval"))
            .hint("Write an interval as a list of whole numbers and units, for example '1 day 2 hours'.")
    };
    let (mut months, mut days, mut us) = (0_i64, 0_i64, 0_i64);
    let mut words = text.split_whitespace().peekable();
    if words.peek().is_none() {
        return Err(Problem::new("22007", format!("invalid input syntax for type interval: \"{text}\"")));
    }
    while let Some(word) = words.next() {
        let (word, sign) = word.strip_prefix('-').map_or((word, 1), |word| (word, -1));
        if word.contains(':') {
            let (time_us, offset) = parse_time(word).flatten().ok_or_else(refused)?;
            us = us.checked_add(sign * (time_us + offset)).ok_or_else(refused)?;
            continue;
        }
        let count = sign * number(word, 1..=12).ok_or_else(refused)?;
        let unit = words.next().ok_or_else(refused)?;
        match unit.to_ascii_lowercase().trim_end_matches('s') {
            "year" | "yr" => months += count * 12,
            "month" | "mon" => months += count,
            "week" => days += count * 7,
            "day" => days += count,
            "hour" | "hr" => us += count * 3_600_000_000,
            "minute" | "min" => us += count * 60_000_000,
            "second" | "sec" => us += count * 1_000_000,
            "millisecond" => us += count * 1_000,
            "microsecond" => us += count,
            _ => return Err(refused()),
        }
    }
    Ok((months, days, us))
}
