//! Takes the settings of a foreign file over, one after the other.

use std::path::Path;

use super::convert::{list, parts, quoted};
use super::draft::{Draft, Place, Refusal};
use super::foreign::{At, Foreign, Product, Setting};
use super::report::Report;
use super::table::{self, Becomes, Row};
use super::{Made, USERS, Wrong, servers};

/// Our configuration, named `file`, out of the foreign one. The report says what became of each setting.
pub(super) fn carry(foreign: &mut Foreign, file: &Path, report: &mut Report) -> Result<Made, Wrong> {
    if foreign.entries.is_empty() {
        report.notes_of(foreign);
    }
    defaults(foreign);
    let mut draft = Draft::new(file.to_owned());
    draft.set(&Place::Global, "control_user", "\"postgres\"", CONTROL).ok();
    let taken = servers::place(foreign, &mut draft, report);
    listen(foreign, &mut draft, report);
    differing_defaults(foreign, report);
    for setting in &foreign.settings {
        if setting.entry.is_none_or(|entry| taken[entry]) {
            one(foreign, setting, &mut draft, report);
        }
    }
    if !foreign.entries.is_empty() {
        report.notes_of(foreign);
    }
    if draft.primary.is_none() {
        return Err(Wrong::new(format!(
            "the {} file names no server that could become [primary]",
            foreign.product
        )));
    }
    let mut has_users = !foreign.secrets.is_empty();
    if has_users {
        users(foreign, &mut draft)?;
    }
    loop {
        let (text, mistakes) = draft.text();
        if mistakes.is_empty() {
            return Ok(Made { text, has_users });
        }
        // A mistake that shows in the whole file only: a key that needs another one.
        let key = mistakes[0].key.clone();
        if key == "auth_file" && !has_users {
            has_users = true;
            let what = format!(
                "{USERS} needs a line for each role; docs/operate/authentication.md has a query that prints them"
            );
            report.note(&At { file: file.display().to_string(), line: 0 }, &what);
            users(foreign, &mut draft)?;
        } else if let Some(from) = draft.take_back(&key) {
            report.missing_at(&At { file: from, line: 0 }, &format!("{key} {}", mistakes[0].message));
        } else {
            return Err(mistakes.into());
        }
    }
}

/// Note on `control_user`, which no other product has.
const CONTROL: &str = "superuser role for monitoring the nodes; its password stands in auth_file";

/// Adds the product's defaults that differ from Consort's.
fn defaults(foreign: &mut Foreign) {
    let file = format!("default of {}", foreign.product);
    for row in table::rows(foreign.product).iter().filter(|row| !row.default.is_empty()) {
        if foreign.said(row.section, row.key).is_none() {
            foreign.settings.push(Setting {
                at: At { file: file.clone(), line: 0 },
                section: row.section.to_owned(),
                of: String::new(),
                entry: None,
                key: row.key.to_owned(),
                value: row.default.to_owned(),
            });
        }
    }
}

/// Notes on defaults that no value of ours stands for.
fn differing_defaults(foreign: &Foreign, report: &mut Report) {
    const SECTION: &str = "pgbouncer";
    if foreign.product != Product::Pgbouncer {
        return;
    }
    if foreign.said(SECTION, "admin_users").is_none() {
        let what = "PgBouncer has no admin without admin_users; here that is the role postgres";
        report.note(&At { file: format!("default of {}", foreign.product), line: 0 }, what);
    }
    if let Some(asked) = foreign.said(SECTION, "auth_user").filter(|said| !said.value.is_empty())
        && foreign.said(SECTION, "auth_dbname").is_none_or(|said| said.value.is_empty())
    {
        let what = "PgBouncer runs auth_query in each client's database, Consort in auth_dbname (postgres): the function that it calls must exist there";
        report.note(&asked.at, what);
    }
}

/// Listen addresses: hosts and a port of all of them.
fn listen(foreign: &Foreign, draft: &mut Draft, report: &mut Report) {
    let (section, hosts, port) = match foreign.product {
        Product::Pgbouncer => ("pgbouncer", "listen_addr", "listen_port"),
        Product::Pgcat | Product::Pgdog => ("general", "host", "port"),
    };
    let nowhere = Setting {
        at: At::default(),
        section: section.to_owned(),
        of: String::new(),
        entry: None,
        key: hosts.to_owned(),
        value: String::new(),
    };
    let hosts = foreign.said(section, hosts).unwrap_or(&nowhere);
    let Some(port) = foreign.said(section, port) else { return };
    let address = |host: String| match host.as_str() {
        "*" => format!("0.0.0.0:{}", port.value),
        host if host.contains(':') => format!("[{host}]:{}", port.value),
        host => format!("{host}:{}", port.value),
    };
    let addresses: Vec<String> = parts(&hosts.value).into_iter().map(address).collect();
    if parts(&hosts.value).iter().any(|host| host == "*") {
        let what = format!("* becomes 0.0.0.0; add \"[::]:{}\" to listen for IPv6", port.value);
        report.note(&hosts.at, &what);
    }
    let from = format!("{}, {}", said_at(hosts), said_at(port));
    match draft.set(&Place::Global, "listen", &list(&addresses), &from) {
        Ok(()) => {}
        Err(Refusal::Unknown) => report.missing(hosts, "this Consort has no setting listen"),
        Err(Refusal::Other(why)) => report.missing(hosts, &why),
    }
    if addresses.is_empty() && port.value != SOCKET_PORT {
        report.missing(
            port,
            "without a TCP address the socket is named after port 6432; clients must use that port",
        );
    }
}

/// The port in the name of a Unix socket where Consort has no address.
const SOCKET_PORT: &str = "6432";

fn said_at(setting: &Setting) -> String {
    format!("{}: {}", setting.at, setting.key)
}

/// The file of the roles' secrets, in the folder of our configuration.
fn users(foreign: &Foreign, draft: &mut Draft) -> Result<(), Wrong> {
    let from = format!("roles of the {} file", foreign.product);
    draft
        .set(&Place::Global, "auth_file", &quoted(USERS), &from)
        .map_err(|refusal| Wrong::new(format!("auth_file cannot be set: {refusal:?}")))
}

fn one(foreign: &Foreign, setting: &Setting, draft: &mut Draft, report: &mut Report) {
    let Some(row) = table::row(foreign.product, &setting.section, &setting.key) else {
        let what = "unknown to `consort import`; docs/configuration.md lists the settings of Consort";
        return report.missing(setting, what);
    };
    if let Some((key, values)) = row.with {
        let said = foreign.said(row.section, key).map_or("", |said| said.value.as_str());
        if !(values.contains(&said) || values.is_empty() && !matches!(said, "" | "0")) {
            return report.unneeded(setting, &format!("has no effect there without {key}"));
        }
    }
    match row.becomes {
        Becomes::Elsewhere => report.carried(setting),
        Becomes::Nothing => report.unneeded(setting, row.why),
        Becomes::Missing => missing(setting, row, None, report),
        Becomes::Key { name, convert, common } => {
            let mut converted = match convert(&setting.value) {
                Ok(converted) => converted,
                Err(why) => return report.missing(setting, &why),
            };
            // PgCat's metrics listen where its clients connect.
            if let (Product::Pgcat, "metrics_listen", Some(host)) =
                (foreign.product, name, foreign.said("general", "host"))
            {
                converted.written = quoted(&format!("{}:{}", host.value, setting.value));
            }
            if let Some(own) = known_by_its_own_name(foreign, setting) {
                return report.missing(setting, &format!("{own} has its own entry, which takes precedence"));
            }
            if is_of_standby(foreign, setting, draft) {
                return report.missing(setting, "is of a replica; here it would limit connections to the primary; see standby_connections");
            }
            let (place, name) = match place(foreign, setting) {
                Place::Database(database) if database == "*" && !common.is_empty() => (Place::Global, common),
                place => (place, name),
            };
            let mut set = draft.set(&place, name, &converted.written, &said_at(setting));
            if set == Err(Refusal::Unknown) && !common.is_empty() && is_common(foreign, setting) {
                set = draft.set(&Place::Global, common, &converted.written, &said_at(setting));
            }
            match set {
                Ok(()) => {
                    report.carried(setting);
                    if let Some(note) = converted.note.filter(|_| !setting.is_default()) {
                        report.note(&setting.at, &format!("{}: {note}", setting.path()));
                    }
                }
                Err(Refusal::Unknown) => missing(setting, row, Some(name), report),
                Err(Refusal::Other(why)) if row.why.is_empty() => report.missing(setting, &why),
                Err(Refusal::Other(why)) => report.missing(setting, &format!("{why}: {}", row.why)),
            }
        }
    }
}

fn missing(setting: &Setting, row: &Row, key: Option<&str>, report: &mut Report) {
    if row.idle.contains(&setting.value.as_str()) {
        return report.unneeded(setting, "Consort already behaves like this");
    }
    match key {
        Some(key) if row.why.is_empty() => {
            report.missing(setting, &format!("this Consort has no setting {key} here"))
        }
        Some(key) => report.missing(setting, &format!("this Consort has no setting {key} here: {}", row.why)),
        None => report.missing(setting, row.why),
    }
}

/// Place of a setting in our file.
fn place(foreign: &Foreign, setting: &Setting) -> Place {
    match setting.section.as_str() {
        "databases" | "pools" => {
            let entry = foreign.entries.iter().find(|entry| entry.name == setting.of);
            Place::Database(entry.map_or_else(|| setting.of.clone(), |entry| entry.database.clone()))
        }
        "users" => Place::User(setting.of.clone()),
        _ => Place::Global,
    }
}

/// True if this is said of a server that becomes a standby: settings of a database are about the primary.
fn is_of_standby(foreign: &Foreign, setting: &Setting, draft: &Draft) -> bool {
    let entry = setting.entry.map(|entry| &foreign.entries[entry]);
    entry.zip(draft.primary.as_ref()).is_some_and(|(entry, primary)| !primary.is_of(entry))
}

/// The database, if this is said of another name of one that has an entry by its own.
fn known_by_its_own_name<'a>(foreign: &'a Foreign, setting: &Setting) -> Option<&'a str> {
    if !matches!(setting.section.as_str(), "databases" | "pools") {
        return None;
    }
    let alias = foreign.entries.iter().find(|entry| entry.name == setting.of && entry.is_alias())?;
    foreign.entries.iter().any(|entry| entry.name == alias.database).then_some(&alias.database)
}

/// True if every pool says it, and the same.
fn is_common(foreign: &Foreign, setting: &Setting) -> bool {
    if foreign.product != Product::Pgcat {
        return false;
    }
    let same: Vec<&Setting> = foreign
        .settings
        .iter()
        .filter(|other| other.section == setting.section && other.key == setting.key)
        .collect();
    let all = |section: &str| {
        let of =
            foreign.settings.iter().filter(|other| other.section == section).map(|other| other.of.as_str());
        of.collect::<std::collections::BTreeSet<_>>().len()
    };
    same.iter().all(|other| other.value == setting.value) && same.len() >= all(&setting.section)
}
