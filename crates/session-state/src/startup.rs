//! A client's start-up packet, split into parameters for the primary and Consort's own settings.

use crate::consort_settings::{Own, SettingError};

/// Parameters of a start-up packet.
///
/// Invariant: no name in `forward` is a `consort.` setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup {
    /// The parameters for the primary.
    pub forward: Vec<(String, String)>,
    /// Consort's own settings, as they hold until the client sets others.
    pub own: Own,
}

impl Startup {
    /// Parses the parameters of a start-up packet. `defaults` hold for settings that it does not mention.
    /// Settings may be parameters of their own, or stand in `options` (`-c name=value`, `--name=value`,
    /// blanks and backslashes escaped by a backslash).
    pub fn of<'a>(
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
        defaults: Own,
    ) -> Result<Startup, SettingError> {
        let mut startup = Startup { forward: Vec::new(), own: defaults.clone() };
        for (name, value) in parameters {
            let lower = name.to_ascii_lowercase();
            if lower.starts_with("consort.") {
                startup.own.set(&lower, Some(value), &defaults)?;
            } else if name == "options" {
                let options = startup.options(value, &defaults)?;
                if !options.is_empty() {
                    startup.forward.push((name.to_owned(), options));
                }
            } else {
                startup.forward.push((name.to_owned(), value.to_owned()));
            }
        }
        Ok(startup)
    }

    /// True if the packet may set application settings (`app.user`).
    pub(crate) fn sets_for_applications(&self) -> bool {
        self.forward
            .iter()
            .any(|(name, value)| name.contains('.') || name == "options" && value.contains('.'))
    }

    /// Takes Consort's settings out of `options`. Returns the rest, unchanged except for blanks.
    fn options(&mut self, options: &str, defaults: &Own) -> Result<String, SettingError> {
        let words = words(options);
        let mut left: Vec<&str> = Vec::new();
        let mut at = 0;
        while let Some((raw, word)) = words.get(at) {
            let (taken, setting) = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
                (Some(setting), _) => (1, Some(setting)),
                (None, Some("")) => (2, words.get(at + 1).map(|(_, word)| word.as_str())),
                (None, Some(setting)) => (1, Some(setting)),
                (None, None) => (1, None),
            };
            let assignment = setting.and_then(|setting| setting.split_once('='));
            // PostgreSQL accepts a dash for an underscore in these names.
            let own = assignment.map(|(name, value)| (name.to_ascii_lowercase().replace('-', "_"), value));
            match own.filter(|(name, _)| name.starts_with("consort.")) {
                Some((name, value)) => self.own.set(&name, Some(value), defaults)?,
                None => {
                    left.push(raw);
                    left.extend((taken == 2).then(|| words.get(at + 1)).flatten().map(|(raw, _)| *raw));
                }
            }
            at += taken;
        }
        Ok(left.join(" "))
    }
}

/// The words of `options`, each in its written and its unescaped form (`pg_split_opts` in `postinit.c`).
fn words(options: &str) -> Vec<(&str, String)> {
    let mut words = Vec::new();
    let mut chars = options.char_indices().peekable();
    loop {
        while chars.next_if(|(_, c)| c.is_ascii_whitespace()).is_some() {}
        let Some(&(start, _)) = chars.peek() else { return words };
        let mut word = String::new();
        let mut end = options.len();
        while let Some((at, c)) = chars.next_if(|(_, c)| !c.is_ascii_whitespace()) {
            let meant = if c == '\\' { chars.next() } else { Some((at, c)) };
            word.extend(meant.map(|(_, c)| c));
        }
        if let Some(&(at, _)) = chars.peek() {
            end = at;
        }
        words.push((&options[start..end], word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::Consistency;

    fn startup(parameters: &[(&str, &str)]) -> Result<Startup, SettingError> {
        Startup::of(parameters.iter().copied(), Own::default())
    }

    fn forwarded(options: &str) -> String {
        startup(&[("options", options)]).unwrap().forward.into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn own_settings_never_reach_the_server() {
        let startup = startup(&[
            ("user", "u"),
            ("consort.read_only_snapshots", "on"),
            ("options", "-c consort.consistency=weak -c search_path=a"),
        ])
        .unwrap();
        let forward: Vec<(&str, &str)> =
            startup.forward.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(forward, [("user", "u"), ("options", "-c search_path=a")]);
        assert_eq!((startup.own.consistency, startup.own.read_only_snapshots), (Consistency::Weak, true));
    }

    #[test]
    fn options_are_read_as_the_server_reads_them() {
        assert_eq!(forwarded("--consort.consistency=bounded\\ 200ms --work-mem=1MB"), "--work-mem=1MB");
        assert_eq!(forwarded("-cconsort.consistency=weak -e -c  app.x=a\\ b"), "-e -c app.x=a\\ b");
        assert_eq!(forwarded("-c CONSORT.Consistency=primary"), "");
        assert_eq!(forwarded("-c"), "-c");
        assert_eq!(forwarded("\\"), "\\");
        let error = startup(&[("options", "-c consort.consistency=fresh")]).unwrap_err();
        assert_eq!(error.sqlstate, "22023");
    }
}
