//! Values of the configuration: texts, numbers, durations as `2ms`, sizes as `64kB`, as PostgreSQL writes
//! them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use replica_apply::clone::Chosen;
use statement_analysis::declared_tables::Declared;
use toml::Spanned;
use toml::de::DeValue;

/// A value, or the expected form.
pub(super) type Read<T> = Result<T, String>;

const DURATIONS: &[(&str, u64)] = &[
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

const SIZES: &[(&str, u64)] = &[("B", 1), ("kB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("TB", 1 << 40)];

/// A text.
pub(super) fn text(value: &DeValue<'_>) -> Read<String> {
    value.as_str().map(str::to_owned).ok_or_else(|| wanted("a quoted string", value))
}

/// A list of texts.
pub(super) fn texts(value: &DeValue<'_>) -> Read<Vec<String>> {
    let list = value.as_array().ok_or_else(|| wanted("a list of strings such as [\"a\", \"b\"]", value))?;
    list.iter().map(|item| text(item.get_ref())).collect()
}

/// Addresses with their ports, as a list.
pub(super) fn addresses(value: &DeValue<'_>) -> Read<Vec<String>> {
    let addresses = texts(value)?;
    addresses.iter().try_for_each(|address| check_address(address))?;
    Ok(addresses)
}

/// Tables, as a list of their names.
pub(super) fn tables(value: &DeValue<'_>) -> Read<Chosen> {
    Chosen::read(&texts(value)?).map_err(|wrong| {
        format!("expected table names such as \"orders\", \"shop.orders\" or \"shop.*\", found {wrong:?}")
    })
}

/// Addresses and networks.
pub(super) fn networks(value: &DeValue<'_>) -> Read<Vec<IpNet>> {
    let network = |text: &String| {
        let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
        text.parse().ok().or_else(address)
    };
    let read: Option<Vec<IpNet>> = texts(value)?.iter().map(network).collect();
    read.ok_or_else(|| wanted("addresses or networks such as [\"10.0.0.7\", \"10.1.0.0/16\"]", value))
}

/// `true` or `false`.
pub(super) fn flag(value: &DeValue<'_>) -> Read<bool> {
    value.as_bool().ok_or_else(|| wanted("true or false", value))
}

/// A whole number between two bounds.
pub(super) fn number<T>(value: &DeValue<'_>, least: T, most: T) -> Read<T>
where
    T: Copy + fmt::Display + PartialOrd + TryFrom<u64>,
{
    let number = match value {
        DeValue::Integer(number) => {
            u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
        }
        _ => None,
    };
    let number = number.and_then(|number| T::try_from(number).ok());
    let number = number.filter(|number| *number >= least && *number <= most);
    number.ok_or_else(|| wanted(&format!("a whole number from {least} to {most}"), value))
}

/// A duration such as `2ms`.
pub(super) fn duration(value: &DeValue<'_>) -> Read<Duration> {
    let micros = value.as_str().and_then(|text| with_unit(text, DURATIONS));
    micros
        .map(Duration::from_micros)
        .ok_or_else(|| wanted("a duration such as \"2ms\" (us, ms, s, min, h, d)", value))
}

/// A duration, or a number of milliseconds; none if that is -1.
pub(super) fn least_duration(value: &DeValue<'_>) -> Read<Option<Duration>> {
    let number = match value {
        DeValue::Integer(number) => {
            i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
        }
        _ => return duration(value).map(Some),
    };
    match number {
        Some(-1) => Ok(None),
        number => number
            .and_then(|number| u64::try_from(number).ok())
            .map(|number| Some(Duration::from_millis(number)))
            .ok_or_else(|| wanted("milliseconds, a duration such as \"250ms\", or -1", value)),
    }
}

/// A number from 0 to 1.
pub(super) fn share(value: &DeValue<'_>) -> Read<f64> {
    let text = match value {
        DeValue::Integer(number) => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => "",
    };
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| wanted("a number from 0 to 1", value))
}

/// A size such as `64kB`, in bytes.
pub(super) fn size(value: &DeValue<'_>, least: u64) -> Read<usize> {
    let bytes = value.as_str().and_then(|text| with_unit(text, SIZES));
    let bytes = bytes.filter(|bytes| *bytes >= least).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| {
        wanted(&format!("a size such as \"64kB\" (B, kB, MB, GB, TB), at least {least}B"), value)
    })
}

/// A list of tables, as the setting `consort.tables_read` takes it.
pub(super) fn declared(value: &DeValue<'_>) -> Read<Declared> {
    let list = value.as_str().and_then(Declared::read);
    list.ok_or_else(|| wanted("a list of tables such as \"orders, shop.items\", or \"*\" for all", value))
}

/// One of several words.
pub(super) fn one_of<T: Copy>(value: &DeValue<'_>, words: &[(&str, T)]) -> Read<T> {
    let found = value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
    let names: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    found.map(|(_, meaning)| *meaning).ok_or_else(|| wanted(&names.join(" or "), value))
}

/// The value as a person would write it without quotes: for `SHOW CONFIG`.
pub(super) fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(list) => list.iter().map(|item| shown(item.get_ref())).collect::<Vec<_>>().join(","),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Possible meanings of a value that stands in no file, each as a file would write it, the likeliest first:
/// itself, a number of seconds, a text, a list with commas.
pub(super) fn meanings(written: &str) -> Vec<String> {
    let seconds = written.parse::<f64>().ok().map(|_| format!("\"{written}s\""));
    let list: Vec<String> = written.split(',').map(|item| format!("{:?}", item.trim())).collect();
    let all = [
        Some(written.to_owned()),
        seconds,
        Some(format!("{written:?}")),
        Some(format!("[{}]", list.join(","))),
    ];
    all.into_iter().flatten().collect()
}

/// A default of the table of keys: written as in the file.
pub(super) fn default(written: &'static str) -> DeValue<'static> {
    DeValue::parse(written).map(Spanned::into_inner).expect("defaults are written as in the file")
}

fn wanted(what: &str, value: &DeValue<'_>) -> String {
    let found = match value {
        // A number in quotes is no number.
        DeValue::String(text) => format!("{text:?}"),
        other => shown(other),
    };
    format!("expected {what}, found {found}")
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    if text == "0" {
        return Some(0);
    }
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}
/// Checks `host:port`, with an IPv6 address in brackets.
pub(super) fn check_address(address: &str) -> Read<()> {
    let port = address
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty())
        .and_then(|(_, port)| port.parse::<u16>().ok());
    port.map(drop).ok_or_else(|| format!("expected an address such as \"127.0.0.1:6432\", found {address:?}"))
}
