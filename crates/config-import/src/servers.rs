//! Choice of the primary, the standbys and the followed databases among the servers of a foreign file.

use super::draft::{Draft, Server};
use super::foreign::{Entry, Foreign, Role};
use super::report::Report;

/// Gives the draft its servers and databases. Settings of none of them are reported. Returns for each entry
/// of the file if it was taken.
pub(super) fn place(foreign: &Foreign, draft: &mut Draft, report: &mut Report) -> Vec<bool> {
    let entries = &foreign.entries;
    let primary = entries.iter().find(|entry| entry.shard == "0" && entry.role == Role::Primary);
    let Some(primary) = primary.or_else(|| entries.iter().find(|entry| entry.shard == "0")) else {
        return vec![false; entries.len()];
    };
    let hosts: Vec<&str> = primary.host.split(',').map(str::trim).collect();
    if hosts.len() > 1 {
        let others = hosts[1..].join(", ");
        report.note(
            &primary.at,
            &format!(
                "{} becomes the primary; add a [[standby]] each for {others}, if they are its standbys",
                hosts[0]
            ),
        );
    }
    if matches!(primary.role, Role::Found | Role::Replica) {
        report.note(
            &primary.at,
            &format!("{} becomes the primary; Consort does not detect the primary", hosts[0]),
        );
    }
    draft.primary = Some(Server::of(primary, hosts[0]));
    let taken: Vec<bool> = entries.iter().map(|entry| one(entry, primary, draft, report)).collect();
    databases(entries, &taken, draft, report);
    taken
}

/// Takes one of them, or says why not.
fn one(entry: &Entry, primary: &Entry, draft: &mut Draft, report: &mut Report) -> bool {
    if entry.shard != "0" {
        let what = format!(
            "{} at {}:{} is another shard of {}; Consort does not shard databases",
            entry.database, entry.host, entry.port, entry.name
        );
        report.missing_at(&entry.at, &what);
        return false;
    }
    if entry.host == primary.host && entry.port == primary.port {
        return true;
    }
    match entry.role {
        Role::Replica | Role::Found => {
            draft.standby(Server::of(entry, &entry.host));
            true
        }
        Role::Primary | Role::Unsaid => {
            let what = format!(
                "{} is at another server, {}:{}, and a Consort serves one primary; start another Consort for it. \
                 If that server is a standby of {}:{}, add it as a [[standby]], and let clients connect to the database there",
                entry.name, entry.host, entry.port, primary.host, primary.port
            );
            report.missing_at(&entry.at, &what);
            false
        }
    }
}

/// The databases by their own names; Consort has no other ones.
fn databases(entries: &[Entry], taken: &[bool], draft: &mut Draft, report: &mut Report) {
    let mut names: Vec<String> = Vec::new();
    for (entry, _) in entries.iter().zip(taken).filter(|(_, taken)| **taken) {
        if entry.is_alias() {
            let what = format!(
                "{} is an alias of {} there; clients of Consort must connect to {}",
                entry.name, entry.database, entry.database
            );
            report.missing_at(&entry.at, &what);
        }
        if !names.contains(&entry.database) {
            names.push(entry.database.clone());
        }
    }
    if names.iter().any(|name| name == "*") {
        draft.databases = vec!["*".to_owned()];
        return;
    }
    if let Some(first) = entries.first() {
        report.note(
            &first.at,
            "reads of the databases named here can be offloaded; other databases of that server are served by the primary, \
             REVOKE CONNECT keeps roles out of them",
        );
    }
    draft.databases = names;
}
