//! Any text as rules in the format of `pg_hba.conf`, with any as the maps that they name behind a zero byte.

use node::hba::{Caller, Rules};
use node::socket::Origin;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// A mistake has words, and a line that its text has; rules decide of everybody once the roles are known, and the same as
/// before if they had decided without.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if names_files(text) {
        return;
    }
    let (rules, maps) = text.split_once('\0').unwrap_or((text, ""));
    let read = Rules::parse(rules, Path::new("hba"), Some((maps, Path::new("ident"))));
    let rules = match read {
        Ok(rules) => rules,
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            for mistake in mistakes {
                let text = if mistake.file == "hba" { rules } else { maps };
                assert!(!mistake.message.is_empty() && mistake.line <= text.lines().count(), "{mistake}");
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

/// Words of files, or their lines, may stand in it: any file of this machine. They may be written with quotes in between, and over
/// several lines.
fn names_files(text: &str) -> bool {
    let bare: String = text.chars().filter(|c| !matches!(c, '"' | '\\' | '\r' | '\n')).collect();
    bare.contains('@') || bare.contains("include")
}
