//! Any text as rules in the format of `pg_hba.conf`, with any as the maps that they name after a zero byte.

use config::hba::{Caller, Rules};
use config::origin::Origin;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// A mistake has words, and a line that its text has. Rules decide for every role once the roles are known,
/// and the same as before if they had decided without.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if names_files(text) || has_costly_patterns(text) {
        return;
    }
    let (rules, maps) = text.split_once('\0').unwrap_or((text, ""));
    let read = Rules::parse(rules, Path::new("hba"), Some((maps, Path::new("ident"))));
    let rules = match read {
        Ok(rules) => rules,
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            let (of_rules, of_maps) = (rules.lines().count(), maps.lines().count());
            for mistake in mistakes {
                let lines = if mistake.file == "hba" { of_rules } else { of_maps };
                assert!(!mistake.message.is_empty() && mistake.line <= lines, "{mistake}");
            }
            return;
        }
    };
    let _ = rules.wants_certificates();
    let roles = BTreeSet::from(["ann".to_owned(), "staff".to_owned()]);
    let (four, six) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv6Addr::LOCALHOST.into());
    for origin in [Origin::Local, Origin::Machine(four), Origin::Machine(six)] {
        for (database, encrypted, replicates) in
            [("ann", false, false), ("shop", true, false), ("", false, true)]
        {
            let caller = Caller { origin, encrypted, database, replicates, user: "ann", roles: None };
            let found = rules.rule(&Caller { roles: Some(&roles), ..caller });
            let found = found.expect("nothing more is wanted").map(|rule| {
                let _ = rules.allow(rule, "ann@x", "ann");
                rule.at.as_str()
            });
            if let Ok(before) = rules.rule(&caller) {
                assert_eq!(before.map(|rule| rule.at.as_str()), found);
            }
        }
    }
}

/// More regular expressions than these, or others than plain ones: to compile them would take nearly all of the time, and is the
/// library's work. They may be written with quotes in between.
fn has_costly_patterns(text: &str) -> bool {
    let bare = text.replace('"', "");
    let words = bare.split(|c: char| c.is_whitespace() || matches!(c, ',' | '\0'));
    let patterns = words.filter(|word| word.starts_with('/')).count();
    let is_plain = || {
        let mut escaped = bare.split('\\').skip(1);
        let escapes = escaped.any(|rest| !rest.starts_with(|c: char| c.is_ascii_digit() || c == '\n'));
        !escapes && !bare.contains(['[', '{', '?'])
    };
    patterns > 4 || patterns > 0 && !is_plain()
}

/// Words of files, or their lines, may stand in it: any file of this machine. They may be written with quotes in between, and over
/// several lines.
fn names_files(text: &str) -> bool {
    let bare: String = text.chars().filter(|c| !matches!(c, '"' | '\\' | '\r' | '\n')).collect();
    bare.contains('@') || bare.contains("include")
}
