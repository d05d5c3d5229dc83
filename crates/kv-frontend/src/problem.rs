//! Errors of commands: a first word that programs compare, the reason, and what to do.

use crate::command::shown;
use crate::reply::Reply;
use bytes::Bytes;

/// An error of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem(String);

impl Problem {
    /// An error with a code of its own, such as `CONFLICT`.
    pub(crate) fn coded(code: &str, why: impl AsRef<str>) -> Problem {
        Problem(format!("{code} {}", why.as_ref()))
    }

    /// An error with the general code.
    pub(crate) fn new(why: impl AsRef<str>) -> Problem {
        Problem::coded("ERR", why)
    }

    pub(crate) fn syntax() -> Problem {
        Problem::new("syntax error")
    }

    pub(crate) fn no_integer() -> Problem {
        Problem::new("value is not an integer or out of range")
    }

    pub(crate) fn arity(name: &str) -> Problem {
        Problem::new(format!("wrong number of arguments for '{name}' command"))
    }

    /// The command is not in the table. The hint names a command that does something alike.
    pub(crate) fn unknown(words: &[Bytes]) -> Problem {
        let name = words.first().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
        let hint = match name.unwrap_or_default().as_str() {
            "expire" | "pexpire" | "expireat" | "setex" | "psetex" | "getex" | "persist" => {
                "no key expires here: delete it when its time is over"
            }
            "flushall" | "flushdb" => "delete keys by DEL, in portions that SCAN returns",
            "eval" | "evalsha" | "fcall" => "scripts do not run here: use BEGIN, GET, SET and COMMIT",
            "subscribe" | "psubscribe" | "publish" => "channels do not exist here",
            "save" | "bgsave" | "lastsave" | "config" | "shutdown" => {
                "the command consort operates the server"
            }
            _ => "values are strings; COMMAND lists the commands",
        };
        let (name, rest) = words.split_at(words.len().min(1));
        let rest = if rest.is_empty() {
            String::new()
        } else {
            format!(", with args beginning with: {}", shown(rest))
        };
        Problem::new(format!("unknown command {}{rest}; {hint}", shown(name)))
    }

    pub(crate) fn reply(self) -> Reply {
        Reply::Error(self.0)
    }
}
