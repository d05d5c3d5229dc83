//! Syntax and meaning of commands that change state or take time.

use super::{Change, Command, Shutdown};

/// Returns the command that a text contains, if any.
pub(super) fn read(text: &str) -> Option<Command> {
    if text.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("SET")) {
        return setting(text);
    }
    let (words, is_quoted): (Vec<String>, Vec<bool>) = words(text)?.into_iter().unzip();
    // A name in quotes is no keyword.
    let key = |(word, is_quoted): (&String, &bool)| match is_quoted {
        true => String::new(),
        false => word.to_ascii_uppercase(),
    };
    let upper: Vec<String> = words.iter().zip(&is_quoted).map(key).collect();
    let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
    let name = || words[1].clone();
    let database = || words.get(1).cloned();
    let replica = |change| Command::Replica(change, words[2..].join(" "));
    Some(match upper[..] {
        ["RELOAD"] => Command::Reload,
        ["PAUSE", "REPLICA", _, ..] => replica(Change::Pause),
        ["RESUME", "REPLICA", _, ..] => replica(Change::Resume),
        ["REBUILD", "REPLICA", _, ..] => replica(Change::Rebuild),
        ["ADD", "REPLICA", _, "FROM", _] => {
            Command::AddReplica { name: words[2].clone(), source: words[4].clone() }
        }
        ["PAUSE"] | ["PAUSE", _] => Command::Pause(database()),
        ["RESUME"] | ["RESUME", _] => Command::Resume(database()),
        ["SUSPEND"] => Command::Suspend,
        ["DISABLE", _] => Command::Disable(name()),
        ["ENABLE", _] => Command::Enable(name()),
        ["KILL"] | ["KILL", _] => Command::Kill(database()),
        ["KILL_CLIENT", id] => Command::KillClient(id.parse().ok()?),
        ["RECONNECT"] | ["RECONNECT", _] => Command::Reconnect(database()),
        ["WAIT_CLOSE"] | ["WAIT_CLOSE", _] => Command::WaitClose(database()),
        ["VERIFY"] => Command::Verify { database: None, repair: false },
        ["VERIFY", "REPAIR"] => Command::Verify { database: None, repair: true },
        ["VERIFY", _] => Command::Verify { database: database(), repair: false },
        ["VERIFY", _, "REPAIR"] => Command::Verify { database: database(), repair: true },
        ["SHUTDOWN"] => Command::Shutdown(Shutdown::Now),
        ["SHUTDOWN", "WAIT_FOR_SERVERS"] => Command::Shutdown(Shutdown::WaitForServers),
        ["SHUTDOWN", "WAIT_FOR_CLIENTS"] => Command::Shutdown(Shutdown::WaitForClients),
        _ => return None,
    })
}

/// `SET key = value`, or with TO.
fn setting(text: &str) -> Option<Command> {
    let rest = text.get(3..)?.trim();
    let end = rest.find(|c: char| c == '=' || c.is_whitespace())?;
    let (key, rest) = (rest[..end].trim_matches('"'), rest[end..].trim_start());
    let written = rest.strip_prefix('=').or_else(|| {
        let to = rest.get(..2).is_some_and(|to| to.eq_ignore_ascii_case("to"));
        rest.get(2..).filter(|rest| to && rest.starts_with(char::is_whitespace))
    })?;
    let value = written.trim();
    let inner = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
    let value = inner.map_or_else(|| value.to_owned(), |inner| inner.replace("''", "'"));
    (!key.is_empty()).then(|| Command::Set { key: key.to_owned(), value })
}

/// Returns the words of a command, and whether each stood in double quotes. `None`: a quote is not closed.
fn words(text: &str) -> Option<Vec<(String, bool)>> {
    let (mut words, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"');
        let (word, behind) = match quoted {
            Some(quoted) => until_quote(quoted)?,
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        words.push((word, quoted.is_some()));
        rest = behind.trim_start();
    }
    Some(words)
}

/// Splits the text at the closing quote, if there is one; a doubled quote is part of the name.
fn until_quote(text: &str) -> Option<(String, &str)> {
    let (mut name, mut rest) = (String::new(), text);
    while let Some(end) = rest.find('"') {
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(behind) => {
                name.push('"');
                rest = behind;
            }
            None => return Some((name, rest)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_double_quotes() {
        let kill = |name: &str| Some(Command::Kill(Some(name.to_owned())));
        assert_eq!(read("kill \"My Shop\""), kill("My Shop"));
        assert_eq!(read("KILL \"a\"\"b\""), kill("a\"b"));
        assert_eq!(read("KILL \"open"), None);
        assert_eq!(
            read("VERIFY \"repair\""),
            Some(Command::Verify { database: Some("repair".to_owned()), repair: false })
        );
        let all: Vec<&str> = super::super::commands("KILL \"a;b\"; SET x = 'c;d' ;; RELOAD").collect();
        assert_eq!(all, ["KILL \"a;b\"", "SET x = 'c;d'", "RELOAD"]);
        assert_eq!(read("KILL a b"), None);
        assert_eq!(read("KILL_CLIENT 7"), Some(Command::KillClient(7)));
        assert_eq!(read("KILL_CLIENT me"), None);
        assert_eq!(read("DISABLE"), None);
    }

    #[test]
    fn a_value_is_set_with_an_equals_sign_or_to() {
        let set =
            |key: &str, value: &str| Some(Command::Set { key: key.to_owned(), value: value.to_owned() });
        assert_eq!(read("SET max_clients=5"), set("max_clients", "5"));
        assert_eq!(read("set login_time = '5s'"), set("login_time", "5s"));
        assert_eq!(read("SET stats_users TO 'it''s me, you'"), set("stats_users", "it's me, you"));
        for wrong in ["SET", "SET a", "SET a 5", "SET a total", "SET = 5"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
