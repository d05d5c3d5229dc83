//! Settings of our own (`consort.*`) among a client's start-up parameters. They never reach a server: they are taken
//! out, whether they stand alone or inside `options`.

use wire::Startup;

/// The prefix of our own settings.
const PREFIX: &str = "consort.";

/// Takes our own settings out of a start-up packet: names without the prefix, and values.
pub(crate) fn take(startup: &mut Startup) -> Vec<(String, String)> {
    let mut own = Vec::new();
    let mut others = Vec::new();
    for (name, value) in std::mem::take(&mut startup.parameters) {
        if let Some(name) = name.strip_prefix(PREFIX) {
            own.push((name.to_owned(), value));
        } else if name == "options" {
            let rest = from_options(&value, &mut own);
            if !rest.is_empty() {
                others.push((name, rest));
            }
        } else {
            others.push((name, value));
        }
    }
    startup.parameters = others;
    own
}

/// Takes our own settings out of command-line options (`-c name=value`, `--name=value`); what is left.
fn from_options(options: &str, own: &mut Vec<(String, String)>) -> String {
    if !options.contains(PREFIX) {
        return options.to_owned();
    }
    let mut rest: Vec<String> = Vec::new();
    let mut words = words(options).into_iter();
    while let Some(word) = words.next() {
        let (flag, setting) = match word.as_str() {
            "-c" => (Some("-c".to_owned()), words.next().unwrap_or_default()),
            short if short.starts_with("-c") => (None, short[2..].to_owned()),
            long if long.starts_with("--") => (None, long[2..].to_owned()),
            _ => (None, String::new()),
        };
        match setting.strip_prefix(PREFIX).and_then(|setting| setting.split_once('=')) {
            Some((name, value)) => own.push((name.to_owned(), value.to_owned())),
            None => match flag {
                Some(flag) => rest.extend([flag, setting]),
                None => rest.push(word),
            },
        }
    }
    rest.iter().map(|word| escaped(word)).collect::<Vec<_>>().join(" ")
}

/// Words between white space; a backslash takes the next character as it is.
fn words(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = options.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

fn escaped(word: &str) -> String {
    let mut text = String::new();
    for c in word.chars() {
        if c == '\\' || c.is_ascii_whitespace() {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_taken_and_theirs_stay() {
        let parameters = [
            ("consort.consistency", "weak"),
            ("options", r"-c search_path=a\ b --consort.proof=x -cconsort.z=bounded\ 2s -e -c consort.y=1"),
            ("application_name", "consort.x"),
        ];
        let mut startup = Startup {
            parameters: parameters.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            ..Startup::default()
        };
        let own = take(&mut startup);
        let own: Vec<_> = own.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(own, [("consistency", "weak"), ("proof", "x"), ("z", "bounded 2s"), ("y", "1")]);
        let left: Vec<_> = startup.parameters.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(left, [("options", r"-c search_path=a\ b -e"), ("application_name", "consort.x")]);
    }

    #[test]
    fn options_without_ours_stay_as_they_are() {
        let mut own = Vec::new();
        assert_eq!(from_options("-c  a=b", &mut own), "-c  a=b");
        assert!(own.is_empty());
    }
}
