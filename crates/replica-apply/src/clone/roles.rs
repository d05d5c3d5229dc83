//! Brings the roles of a replica in step with the primary's: roles belong to the whole server, and no dump of
//! a database has them.
//!
//! Roles that the primary does not have are left alone: no session that has come through the primary becomes
//! one of them. A renamed role gets its new name here and keeps its identity, with all its objects and
//! privileges: the copy matches roles by their numbers.

use super::shared_objects::SharedWriter;
use postgres::Error;
use postgres::address::{Address, Control};
use postgres::majors::Major;
use postgres::sql::{literal, quoted};
use postgres::version;
use postgres::write_guard;
use std::collections::{BTreeMap, BTreeSet};

/// Every role of its own, with what its definition says of it.
const ROLES: &str = "\
    SELECT rolname::text, concat_ws(' ', \
        CASE WHEN rolsuper THEN 'SUPERUSER' ELSE 'NOSUPERUSER' END, \
        CASE WHEN rolinherit THEN 'INHERIT' ELSE 'NOINHERIT' END, \
        CASE WHEN rolcreaterole THEN 'CREATEROLE' ELSE 'NOCREATEROLE' END, \
        CASE WHEN rolcreatedb THEN 'CREATEDB' ELSE 'NOCREATEDB' END, \
        CASE WHEN rolcanlogin THEN 'LOGIN' ELSE 'NOLOGIN' END, \
        CASE WHEN rolreplication THEN 'REPLICATION' ELSE 'NOREPLICATION' END, \
        CASE WHEN rolbypassrls THEN 'BYPASSRLS' ELSE 'NOBYPASSRLS' END, \
        'CONNECTION LIMIT', rolconnlimit, 'PASSWORD', quote_nullable(rolpassword), \
        'VALID UNTIL', quote_literal(coalesce(rolvaliduntil, 'infinity'))), oid \
    FROM pg_authid WHERE rolname !~ '^pg_'";

/// Memberships of roles, with the value of each option. Since 16 several roles may have granted one, each with options of its
/// own: what one of them allows is allowed. Predefined roles are there everywhere.
const MEMBERS: &str = "\
    SELECT r.rolname::text, m.rolname::text, ARRAY[{options}] FROM pg_auth_members a \
    JOIN pg_authid r ON r.oid = a.roleid JOIN pg_authid m ON m.oid = a.member WHERE m.rolname !~ '^pg_' GROUP BY 1, 2";

/// Memberships that another role than the bootstrap superuser has granted: role, member, grantor. Since 16 such a grant is one
/// of its own, and only `GRANTED BY` takes it back. A server from a base backup has those of the primary.
const GRANTED: &str = "\
    SELECT r.rolname::text, m.rolname::text, g.rolname::text FROM pg_auth_members a JOIN pg_authid r ON r.oid = a.roleid \
    JOIN pg_authid m ON m.oid = a.member JOIN pg_authid g ON g.oid = a.grantor WHERE a.grantor <> 10 AND m.rolname !~ '^pg_'";

/// Settings of roles and of the databases that are here: role, database, name, value.
const SETTINGS: &str = "\
    SELECT coalesce(r.rolname::text, ''), coalesce(d.datname::text, ''), \
      split_part(s.setting, '=', 1), substr(s.setting, strpos(s.setting, '=') + 1) \
    FROM pg_db_role_setting c LEFT JOIN pg_authid r ON r.oid = c.setrole LEFT JOIN pg_database d ON d.oid = c.setdatabase \
    CROSS JOIN LATERAL unnest(c.setconfig) AS s (setting)";

/// The roles of the primary that are there, by their numbers at both.
const NUMBERS: &str = "CREATE TABLE IF NOT EXISTS consort.roles (source oid PRIMARY KEY, here oid NOT NULL)";

/// Known roles, with the names that they have here.
const KNOWN: &str =
    "SELECT k.source, r.rolname::text FROM consort.roles k JOIN pg_authid r ON r.oid = k.here";

/// Writes down who is who, once the names are the same.
const NOTE: &str = "\
    INSERT INTO consort.roles SELECT p.source, r.oid \
    FROM unnest($1::oid[], $2::text[]) AS p (source, name), pg_authid r WHERE r.rolname = p.name \
    ON CONFLICT (source) DO UPDATE SET here = excluded.here";

/// Settings whose value is a list of names, kept as it is written (GUC_LIST_QUOTE).
const LISTS: &[&str] = &[
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
];

/// Roles and settings that are to be equal.
pub(super) struct Roles {
    definitions: BTreeMap<String, String>,
    /// By number.
    names: BTreeMap<u32, String>,
    major: &'static Major,
    /// By role and member: the value of each option of the major's.
    members: BTreeMap<(String, String), Vec<bool>>,
    /// Role, member and grantor of each membership that the bootstrap superuser has not granted.
    granted: Vec<[String; 3]>,
    /// By role, database and name; without a role it is every role's, without a database every database's.
    settings: BTreeMap<(String, String, String), String>,
    databases: BTreeSet<String>,
}

impl Roles {
    async fn read(control: &Control) -> Result<Roles, Error> {
        let major = version::of_server(control).await?;
        let options = major.membership_options.iter().map(|(_, column)| format!("bool_or(a.{column})"));
        let members = MEMBERS.replace("{options}", &options.collect::<Vec<_>>().join(", "));
        let (roles, members) = (control.query(ROLES, &[]).await?, control.query(&members, &[]).await?);
        let settings = control.query(SETTINGS, &[]).await?;
        let granted = match major.membership_options {
            [_] => Vec::new(),
            _ => control.query(GRANTED, &[]).await?,
        };
        let databases = control.query("SELECT datname::text FROM pg_database", &[]).await?;
        Ok(Roles {
            major,
            definitions: roles.iter().map(|row| (row.get(0), row.get(1))).collect(),
            names: roles.iter().map(|row| (row.get(2), row.get(0))).collect(),
            members: members.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect(),
            granted: granted.iter().map(|row| [row.get(0), row.get(1), row.get(2)]).collect(),
            settings: settings.iter().map(|row| ((row.get(0), row.get(1), row.get(2)), row.get(3))).collect(),
            databases: databases.iter().map(|row| row.get(0)).collect(),
        })
    }

    /// True if a role belongs to these, or is predefined.
    fn have(&self, role: &str) -> bool {
        role.is_empty() || role.starts_with("pg_") || self.definitions.contains_key(role)
    }
}

/// Brings the roles of a replica that has a copy in step with the primary's, by what both say now; those that have other names by
/// now get these. `there` is the copy.
///
/// # Errors
/// As [`copy`].
pub(super) async fn in_step(primary: &Control, there: &Control, replica: &Address) -> Result<(), Error> {
    there.batch_execute(NUMBERS).await?;
    let wanted = Roles::read(primary).await?;
    if lacks(&wanted, there).await?.is_empty() {
        return note(&wanted, there).await;
    }
    // Another database of the replica may have brought them in step meanwhile.
    let writer = SharedWriter::take(replica).await?;
    let renames = renames_at(&Roles::read(primary).await?, there).await?;
    match writer.batch_execute(&renames.join("; ")).await.map_err(Error::from) {
        // As if it were a new role: what belongs to it there, or may be done by it, is found not to be the same.
        Ok(()) | Err(Error::Refused { .. }) => {}
        Err(error) => return Err(error),
    }
    let wanted = copy(primary, &writer).await?;
    note(&wanted, there).await
}

/// Statements to be run at a replica that has a copy.
async fn lacks(wanted: &Roles, there: &Control) -> Result<Vec<String>, Error> {
    let mut all = renames_at(wanted, there).await?;
    all.extend(steps(wanted, &Roles::read(there).await?));
    Ok(all)
}

async fn renames_at(wanted: &Roles, there: &Control) -> Result<Vec<String>, Error> {
    let known = there.query(KNOWN, &[]).await?;
    let known: BTreeMap<u32, String> = known.iter().map(|row| (row.get(0), row.get(1))).collect();
    let taken = there.query("SELECT rolname::text FROM pg_authid", &[]).await?;
    let taken: BTreeSet<String> = taken.iter().map(|row| row.get(0)).collect();
    Ok(renames(&wanted.names, &known, &taken))
}

/// Writes down at a replica which role is which, of those that were brought in step.
///
/// # Errors
/// As every query.
pub(super) async fn note(wanted: &Roles, replica: &Control) -> Result<(), Error> {
    let (numbers, names): (Vec<u32>, Vec<&str>) =
        wanted.names.iter().map(|(number, name)| (*number, name.as_str())).unzip();
    replica.batch_execute(NUMBERS).await?;
    replica.execute(NOTE, &[&numbers, &names]).await?;
    Ok(())
}

/// Statements that rename the roles that are known by their numbers, unless another role has the name and
/// keeps it. All go through unused names, for two roles may have exchanged theirs.
fn renames(
    wanted: &BTreeMap<u32, String>,
    known: &BTreeMap<u32, String>,
    taken: &BTreeSet<String>,
) -> Vec<String> {
    let mut moves: Vec<(&u32, &String, &String)> =
        wanted.iter().filter_map(|(number, name)| Some((number, known.get(number)?, name))).collect();
    moves.retain(|(_, was, name)| was != name);
    loop {
        let leaving: BTreeSet<&String> = moves.iter().map(|(_, was, _)| *was).collect();
        let before = moves.len();
        moves.retain(|(_, _, name)| !taken.contains(*name) || leaving.contains(name));
        if moves.len() == before {
            break;
        }
    }
    let rename = |from: &str, to: &str| format!("ALTER ROLE {} RENAME TO {}", quoted(from), quoted(to));
    let between = |number: &u32| format!("consort renames {number}");
    let away = moves.iter().map(|(number, was, _)| rename(was, &between(number)));
    let back = moves.iter().map(|(number, _, name)| rename(&between(number), name));
    away.chain(back).collect()
}

/// Brings the replica's roles in step with the primary's, by what both say now. Returns the primary's.
///
/// # Errors
/// As every query; [`Error::Refused`] with 42501 if the role at either may not.
pub(super) async fn copy(primary: &Control, replica: &SharedWriter) -> Result<Roles, Error> {
    let (wanted, there) = (Roles::read(primary).await?, Roles::read(replica).await?);
    for sql in steps(&wanted, &there) {
        replica.batch_execute(&sql).await.map_err(|error| match Error::from(error) {
            Error::Refused { sqlstate, message } => Error::Refused {
                sqlstate,
                message: format!("cannot synchronize roles at the replica: {message}"),
            },
            error => error,
        })?;
    }
    Ok(wanted)
}

/// Statements that make `there` equal to `wanted`, each to be run separately.
fn steps(wanted: &Roles, there: &Roles) -> Vec<String> {
    let mut steps = Vec::new();
    for (role, definition) in &wanted.definitions {
        let known = there.definitions.get(role);
        if known.is_none() {
            steps.push(format!("CREATE ROLE {}", quoted(role)));
        }
        if known != Some(definition) {
            steps.push(format!("ALTER ROLE {} {definition}", quoted(role)));
        }
    }
    let begin_again = regranted(wanted, there);
    for [role, member, grantor] in
        there.granted.iter().filter(|[role, ..]| begin_again.contains(role.as_str()))
    {
        let (role, member, grantor) = (quoted(role), quoted(member), quoted(grantor));
        // What the member has granted on goes too, and is granted again below.
        steps.push(format!("REVOKE {role} FROM {member} GRANTED BY {grantor} CASCADE"));
    }
    for (role, member) in there.members.keys() {
        let ours = wanted.have(role) && wanted.have(member);
        if ours && !wanted.members.contains_key(&(role.clone(), member.clone())) {
            steps.push(format!("REVOKE {} FROM {}", quoted(role), quoted(member)));
        }
    }
    for (key @ (role, member), options) in &wanted.members {
        let known = there.members.get(key).filter(|_| !begin_again.contains(role.as_str()));
        if known != Some(options) {
            steps.push(membership(wanted.major, (&quoted(role), &quoted(member)), options, known));
        }
    }
    settings(wanted, there, &mut steps);
    steps
}

/// Roles one of whose memberships differs, where others than the bootstrap superuser have granted some: all of these are granted
/// again.
fn regranted<'a>(wanted: &Roles, there: &'a Roles) -> BTreeSet<&'a str> {
    let differs = |key: &(String, String)| {
        wanted.have(&key.0) && wanted.have(&key.1) && wanted.members.get(key) != there.members.get(key)
    };
    let differing: BTreeSet<&String> = there
        .members
        .keys()
        .chain(wanted.members.keys())
        .filter(|key| differs(key))
        .map(|(role, _)| role)
        .collect();
    there
        .granted
        .iter()
        .map(|[role, ..]| role)
        .filter(|role| differing.contains(role))
        .map(String::as_str)
        .collect()
}

/// Statement that gives a membership these options. `known` are those that it has.
fn membership(
    major: &Major,
    (role, member): (&str, &str),
    options: &[bool],
    known: Option<&Vec<bool>>,
) -> String {
    // With ADMIN alone there are two words for it, and none for FALSE.
    if let [is_admin] = options {
        return match (known, is_admin) {
            (Some(_), false) => format!("REVOKE ADMIN OPTION FOR {role} FROM {member}"),
            (_, true) => format!("GRANT {role} TO {member} WITH ADMIN OPTION"),
            (None, false) => format!("GRANT {role} TO {member}"),
        };
    }
    let words = major.membership_options.iter().zip(options);
    let words: Vec<String> = words.map(|((word, _), value)| format!("{word} {value}")).collect();
    format!("GRANT {role} TO {member} WITH {}", words.join(", "))
}

fn settings(wanted: &Roles, there: &Roles, steps: &mut Vec<String>) {
    for key @ (role, database, name) in there.settings.keys() {
        let known = wanted.have(role) && (database.is_empty() || wanted.databases.contains(database));
        let stays = match is_the_guards(key) {
            // The line of a whole database is the guard itself.
            true => role.is_empty(),
            false => wanted.settings.contains_key(key),
        };
        if known && !stays {
            steps.push(format!("{} RESET {}", whose(role, database), quoted(name)));
        }
    }
    for (key @ (role, database, name), value) in &wanted.settings {
        if is_the_guards(key)
            || there.settings.get(key) == Some(value)
            || !(database.is_empty() || there.databases.contains(database))
        {
            continue;
        }
        let whose = whose(role, database);
        let (text, quoted) = (literal(value), quoted(name));
        steps.push(if name == "temp_tablespaces" {
            // Tablespaces of the primary are not there, which ALTER ROLE only notes.
            let names: Vec<String> = listed(value).iter().map(|name| literal(name)).collect();
            format!("{whose} SET {quoted} TO {}", names.join(", "))
        } else if LISTS.contains(&name.as_str()) {
            format!(
                "BEGIN; SELECT set_config({}, {text}, true); {whose} SET {quoted} FROM CURRENT; COMMIT",
                literal(name)
            )
        } else {
            format!("{whose} SET {quoted} TO {text}")
        });
    }
}

/// The names of a list, as PostgreSQL keeps it: with commas between, and quotes where one needs them.
fn listed(value: &str) -> Vec<String> {
    let (mut names, mut is_quoted) = (vec![String::new()], false);
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        let name = names.last_mut().expect("there is one at least");
        match letter {
            '"' if is_quoted && letters.next_if_eq(&'"').is_some() => name.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => names.push(String::new()),
            ' ' if !is_quoted => {}
            letter => name.push(letter),
        }
    }
    names
}

/// True if a line sets whether transactions are read-only by default. In a copy the guard sets that, and the
/// primary's value for a role would take precedence. The primary's value for every role in every database
/// ranks lower, and is brought over.
fn is_the_guards((role, database, name): &(String, String, String)) -> bool {
    name == write_guard::SETTING && !(role.is_empty() && database.is_empty())
}

fn whose(role: &str, database: &str) -> String {
    match (role, database) {
        ("", "") => "ALTER ROLE ALL".to_owned(),
        ("", database) => format!("ALTER DATABASE {}", quoted(database)),
        (role, "") => format!("ALTER ROLE {}", quoted(role)),
        (role, database) => format!("ALTER ROLE {} IN DATABASE {}", quoted(role), quoted(database)),
    }
}

/// Whom everything belongs to in the database of this connection, who may use it, and for whom policies count, as a digest.
///
/// # Errors
/// As every query.
pub(super) async fn owners(control: &Control) -> Result<String, Error> {
    Ok(control.query_one(OWNERS, &[]).await?.get(0))
}

/// By the names of roles: to rename one changes the digest too.
const OWNERS: &str = "\
    SELECT coalesce(md5(string_agg(concat_ws(' ', kind, id, pg_get_userbyid(owner), acl), ',' ORDER BY kind, id)), '') \
    FROM (SELECT 'c' AS kind, oid AS id, relowner AS owner, relacl::text AS acl FROM pg_class \
        WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND relpersistence <> 't' \
      UNION ALL SELECT 'f', oid, proowner, proacl::text FROM pg_proc \
      UNION ALL SELECT 'n', oid, nspowner, nspacl::text FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_' \
      UNION ALL SELECT 't', oid, typowner, typacl::text FROM pg_type WHERE typrelid = 0 AND typelem = 0 \
      UNION ALL SELECT 'p', oid, 0::oid, \
        (SELECT string_agg(pg_get_userbyid(r)::text, ',') FROM unnest(polroles) AS r) FROM pg_policy \
    ) AS of WHERE id >= 16384";

#[cfg(test)]
mod tests {
    use super::*;
    use postgres::majors::MAJORS;

    fn names(of: &[(u32, &str)]) -> BTreeMap<u32, String> {
        of.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
    }

    fn renamed(wanted: &[(u32, &str)], known: &[(u32, &str)], others: &[&str]) -> Vec<String> {
        let known = names(known);
        let taken = known.values().cloned().chain(others.iter().map(|name| (*name).to_owned())).collect();
        renames(&names(wanted), &known, &taken)
    }

    /// The role `clerk` and the database `shop`, with these settings: role, database, name, value.
    fn having(settings: &[(&str, &str, &str, &str)]) -> Roles {
        let owned = |text: &&str| (*text).to_owned();
        Roles {
            major: &MAJORS[0],
            definitions: BTreeMap::from([("clerk".to_owned(), String::new())]),
            names: BTreeMap::new(),
            members: BTreeMap::new(),
            granted: Vec::new(),
            settings: settings
                .iter()
                .map(|(role, database, name, value)| {
                    ((owned(role), owned(database), owned(name)), owned(value))
                })
                .collect(),
            databases: BTreeSet::from(["shop".to_owned()]),
        }
    }

    #[test]
    fn whether_transactions_are_read_only_by_default_is_a_copys_own() {
        let read_only = |role, database, value| (role, database, write_guard::SETTING, value);
        let guarded = [read_only("", "shop", "on")];
        let own = [
            read_only("", "shop", "off"),
            read_only("clerk", "", "off"),
            read_only("clerk", "shop", "off"),
            ("clerk", "shop", "work_mem", "5MB"),
        ];
        assert_eq!(
            steps(&having(&own), &having(&guarded)),
            [r#"ALTER ROLE "clerk" IN DATABASE "shop" SET "work_mem" TO '5MB'"#]
        );
        assert!(steps(&having(&[]), &having(&guarded)).is_empty(), "the guard stays");
        assert!(steps(&having(&own[..1]), &having(&[])).is_empty(), "it is not made here");
        // Roles that came along with a base backup.
        assert_eq!(
            steps(&having(&own[..3]), &having(&[guarded[0], own[1], own[2]])),
            [
                r#"ALTER ROLE "clerk" RESET "default_transaction_read_only""#,
                r#"ALTER ROLE "clerk" IN DATABASE "shop" RESET "default_transaction_read_only""#
            ]
        );
        let everywhere = [read_only("", "", "on")];
        assert_eq!(
            steps(&having(&everywhere), &having(&guarded)),
            [r#"ALTER ROLE ALL SET "default_transaction_read_only" TO 'on'"#]
        );
    }

    /// A membership without INHERIT or SET must not get them at a replica: policies for the role would count there.
    #[test]
    fn membership_has_the_options_of_the_major() {
        let members = |number: u32, options: &[bool]| {
            let key = ("group".to_owned(), "clerk".to_owned());
            let definitions = ["group", "clerk"].map(|name| (name.to_owned(), String::new()));
            Roles {
                major: MAJORS.iter().find(|major| major.number == number).unwrap(),
                definitions: BTreeMap::from(definitions),
                members: if options.is_empty() {
                    BTreeMap::new()
                } else {
                    BTreeMap::from([(key, options.to_owned())])
                },
                ..having(&[])
            }
        };
        let change = |number, wanted: &[bool], there: &[bool]| {
            steps(&members(number, wanted), &members(number, there))
        };
        assert_eq!(change(15, &[false], &[]), [r#"GRANT "group" TO "clerk""#]);
        assert_eq!(change(15, &[true], &[false]), [r#"GRANT "group" TO "clerk" WITH ADMIN OPTION"#]);
        assert_eq!(change(15, &[false], &[true]), [r#"REVOKE ADMIN OPTION FOR "group" FROM "clerk""#]);
        let without_inherit = [false, false, true];
        let grant = [r#"GRANT "group" TO "clerk" WITH ADMIN false, INHERIT false, SET true"#];
        assert_eq!(change(16, &without_inherit, &[]), grant);
        assert_eq!(change(16, &without_inherit, &[true, true, true]), grant);
        assert!(change(16, &without_inherit, &without_inherit).is_empty());
        assert_eq!(change(16, &[], &without_inherit), [r#"REVOKE "group" FROM "clerk""#]);
    }

    /// A replica from a base backup has the primary's grants, which a plain REVOKE of a superuser leaves there.
    #[test]
    fn membership_that_another_role_has_granted_is_taken_back() {
        let membership =
            |role: &str, member: &str| ((role.to_owned(), member.to_owned()), vec![false, true, true]);
        let definitions = ["group", "boss", "clerk"].map(|name| (name.to_owned(), String::new()));
        let all = |members: &[(&str, &str)]| Roles {
            major: MAJORS.iter().find(|major| major.number == 16).unwrap(),
            definitions: BTreeMap::from(definitions.clone()),
            members: members.iter().map(|(role, member)| membership(role, member)).collect(),
            ..having(&[])
        };
        let there = Roles {
            granted: vec![["group", "clerk", "boss"].map(str::to_owned)],
            ..all(&[("group", "boss"), ("group", "clerk")])
        };
        assert_eq!(
            steps(&all(&[("group", "boss")]), &there),
            [
                r#"REVOKE "group" FROM "clerk" GRANTED BY "boss" CASCADE"#,
                r#"REVOKE "group" FROM "clerk""#,
                r#"GRANT "group" TO "boss" WITH ADMIN false, INHERIT true, SET true"#
            ]
        );
        assert!(
            steps(&all(&[("group", "boss"), ("group", "clerk")]), &there).is_empty(),
            "they are the same"
        );
    }

    /// Tablespaces of the primary are not at a replica, and a role's setting that names one must not end the feed.
    #[test]
    fn tablespaces_for_temporary_files_are_set_without_a_look_at_them() {
        let wanted = having(&[("clerk", "", "temp_tablespaces", "fast, \"Slow, old\"")]);
        let settings = steps(&wanted, &having(&[]));
        assert_eq!(settings, [r#"ALTER ROLE "clerk" SET "temp_tablespaces" TO 'fast', 'Slow, old'"#]);
    }

    #[test]
    fn roles_get_their_names_unless_somebody_keeps_these() {
        assert!(renamed(&[(1, "a"), (2, "b")], &[(1, "a")], &[]).is_empty());
        assert_eq!(
            renamed(&[(1, "b"), (2, "a")], &[(1, "a")], &[]),
            [
                r#"ALTER ROLE "a" RENAME TO "consort renames 1""#,
                r#"ALTER ROLE "consort renames 1" RENAME TO "b""#
            ]
        );
        assert_eq!(renamed(&[(1, "b"), (2, "a")], &[(1, "a"), (2, "b")], &[]).len(), 4, "exchanged");
        assert!(renamed(&[(1, "b")], &[(1, "a")], &["b"]).is_empty(), "it is somebody else's");
        assert!(
            renamed(&[(1, "b"), (2, "c")], &[(1, "a"), (2, "b")], &["c"]).is_empty(),
            "so it stays taken"
        );
    }
}
