//! Values of other products, converted for Consort's file.

use toml::Value;

/// A value as our file writes it, and what an operator should know of it.
pub(super) struct Converted {
    pub(super) written: String,
    pub(super) note: Option<&'static str>,
}

/// The value in our file's words, or why there is none.
pub(super) type Convert = fn(&str) -> Result<Converted, String>;

fn plain(written: String) -> Result<Converted, String> {
    Ok(Converted { written, note: None })
}

/// A text as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Several texts as TOML writes them.
pub(super) fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// A text.
pub(super) fn text(value: &str) -> Result<Converted, String> {
    plain(quoted(value))
}

/// Names with commas between them.
pub(super) fn names(value: &str) -> Result<Converted, String> {
    plain(list(&parts(value)))
}

/// The parts between commas.
pub(super) fn parts(value: &str) -> Vec<String> {
    value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// A whole number.
pub(super) fn number(value: &str) -> Result<Converted, String> {
    let number: u64 = value.trim().parse().map_err(|_| format!("{value} is not a whole number"))?;
    plain(number.to_string())
}

/// `0` or `1`, `true` or `false`.
pub(super) fn flag(value: &str) -> Result<Converted, String> {
    match value {
        "0" | "false" | "off" => plain("false".to_owned()),
        "1" | "true" | "on" => plain("true".to_owned()),
        _ => Err(format!("{value} is neither on nor off")),
    }
}

/// A path, from the root on: a relative one started where the other product was started.
pub(super) fn path(value: &str) -> Result<Converted, String> {
    match value {
        "" => text(""),
        _ if value.starts_with('~') => Err("~ is not expanded; write the full path".to_owned()),
        _ => match std::path::absolute(value) {
            Ok(path) => plain(quoted(&path.display().to_string())),
            Err(error) => Err(format!("{value}: {error}")),
        },
    }
}

/// A folder for a socket.
pub(super) fn socket_folder(value: &str) -> Result<Converted, String> {
    match value.starts_with('@') {
        true => Err("abstract sockets are not supported; name a directory".to_owned()),
        false => path(value),
    }
}

/// Seconds, with a fraction.
pub(super) fn seconds(value: &str) -> Result<Converted, String> {
    let seconds: f64 = value.trim().parse().map_err(|_| format!("{value} is not a number of seconds"))?;
    if !(0.0..=MOST_SECONDS).contains(&seconds) {
        return Err(format!("{value} is not a supported number of seconds"));
    }
    match seconds.fract() == 0.0 {
        true => plain(format!("\"{seconds:.0}s\"")),
        false => plain(format!("\"{:.0}ms\"", seconds * 1000.0)),
    }
}

/// Ten years, and then some.
const MOST_SECONDS: f64 = 4e8;

/// The same where 0 stands for "never".
pub(super) fn seconds_or_never(value: &str) -> Result<Converted, String> {
    match value.trim().parse() == Ok(0.0) {
        true => never(),
        false => seconds(value),
    }
}

/// Milliseconds.
pub(super) fn millis(value: &str) -> Result<Converted, String> {
    let millis: u64 = value.trim().parse().map_err(|_| format!("{value} is not a number of milliseconds"))?;
    match millis {
        // PgDog writes "without limit" as the greatest number that TOML has.
        LIMITLESS.. => never(),
        _ if millis.is_multiple_of(1000) => plain(format!("\"{}s\"", millis / 1000)),
        _ => plain(format!("\"{millis}ms\"")),
    }
}

/// Milliseconds from which on a timeout counts as unlimited.
const LIMITLESS: u64 = 315_360_000_000;

/// The same where 0 stands for "never".
pub(super) fn millis_or_never(value: &str) -> Result<Converted, String> {
    match value.trim() == "0" {
        true => never(),
        false => millis(value),
    }
}

fn never() -> Result<Converted, String> {
    Ok(Converted {
        written: "\"3650d\"".to_owned(),
        note: Some("the value means never there; Consort uses ten years"),
    })
}

/// A port for metrics, at all addresses.
pub(super) fn metrics_port(value: &str) -> Result<Converted, String> {
    plain(quoted(&format!("0.0.0.0:{value}")))
}

/// PgBouncer's log levels.
pub(super) fn log_level(value: &str) -> Result<Converted, String> {
    let level = match value {
        "0" => "info",
        "1" => "debug",
        _ => "trace",
    };
    plain(quoted(level))
}

/// The pool mode.
pub(super) fn pool_mode(value: &str) -> Result<Converted, String> {
    plain(quoted(&value.to_lowercase()))
}

/// The authentication method.
pub(super) fn auth_type(value: &str) -> Result<Converted, String> {
    match value {
        "plain" => plain(quoted("password")),
        "scram" => plain(quoted("scram-sha-256")),
        "trust" => Ok(Converted {
            written: quoted("trust"),
            note: Some("trust applies to clients of this machine only; other clients authenticate by SCRAM"),
        }),
        other => plain(quoted(other)),
    }
}

/// The TLS mode for clients.
pub(super) fn client_tls(value: &str) -> Result<Converted, String> {
    match value {
        "disable" | "allow" | "prefer" => plain("false".to_owned()),
        "require" => plain("true".to_owned()),
        "verify-ca" | "verify-full" => Ok(Converted {
            written: "true".to_owned(),
            note: Some(
                "TLS is required, but no client certificate; to require one, use auth_type = \"hba\" with hostssl .. clientcert=verify-ca, or the method cert",
            ),
        }),
        _ => Err(format!("{value} is not a libpq sslmode")),
    }
}

/// TLS towards the servers.
pub(super) fn server_tls(value: &str) -> Result<Converted, String> {
    match value {
        "disabled" | "false" => plain(quoted("disable")),
        // PgBouncer asks for it first then, too, and PgCat goes on in the clear where there is none.
        "allow" | "true" => plain(quoted("prefer")),
        other => plain(quoted(&other.replace('_', "-"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(convert: Convert, value: &str) -> Option<String> {
        convert(value).ok().map(|converted| converted.written)
    }

    #[test]
    fn durations_keep_their_length() {
        for (convert, value, wanted) in [
            (seconds as Convert, "600", "\"600s\""),
            (seconds, "0.25", "\"250ms\""),
            (seconds, "0", "\"0s\""),
            (seconds_or_never, "0.0", "\"3650d\""),
            (millis, "1500", "\"1500ms\""),
            (millis, "60000", "\"60s\""),
            (millis, "9223372036854775807", "\"3650d\""),
            (millis_or_never, "0", "\"3650d\""),
        ] {
            assert_eq!(written(convert, value).as_deref(), Some(wanted), "{value}");
        }
        for bad in ["-1", "soon", "1e300", "NaN", ""] {
            assert_eq!(written(seconds, bad), None, "{bad}");
            assert_eq!(written(millis, bad), None, "{bad}");
        }
    }

    #[test]
    fn texts_are_toml() {
        assert_eq!(written(names, " a, b\"c ,,").as_deref(), Some("[\"a\", 'b\"c']"));
        assert_eq!(written(auth_type, "plain").as_deref(), Some("\"password\""));
        assert_eq!(written(client_tls, "sometimes"), None);
        for (value, wanted) in [
            ("disabled", "\"disable\""),
            ("false", "\"disable\""),
            ("allow", "\"prefer\""),
            ("true", "\"prefer\""),
            ("prefer", "\"prefer\""),
            ("verify_full", "\"verify-full\""),
        ] {
            assert_eq!(written(server_tls, value).as_deref(), Some(wanted), "{value}");
        }
        assert_eq!(written(socket_folder, "@abstract"), None);
    }
}
