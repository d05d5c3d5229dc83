//! Rules that are right and rules that are refused. The test `the_same_rules_let_the_same_clients_in` in
//! crate consort compares the admitted clients with a PostgreSQL server.

use super::*;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A folder with these files, removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Folder {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("consort-hba-{}-{number}", std::process::id()));
        for (name, text) in files {
            let file = path.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        Folder(path)
    }

    fn rules(&self) -> Result<Rules, Vec<String>> {
        let ident = self.0.join("pg_ident.conf");
        let read = Rules::read(&self.0.join("pg_hba.conf"), ident.exists().then_some(&ident));
        let bare = |mistake: &Mistake| mistake.to_string().replace(&format!("{}/", self.0.display()), "");
        read.map_err(|mistakes| mistakes.iter().map(bare).collect())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(text: &str) -> Rules {
    Folder::with(&[("pg_hba.conf", text)]).rules().unwrap()
}

/// Proof that a client from this origin must give (`local`, an address, or an address with TLS as
/// `address+`).
fn method(rules: &Rules, from: &str, database: &str, user: &str) -> Option<Method> {
    let origin = match from.trim_end_matches('+') {
        "local" => Origin::Local,
        address => Origin::Machine(address.parse::<IpAddr>().unwrap()),
    };
    let caller =
        Caller { origin, encrypted: from.ends_with('+'), database, replicates: false, user, roles: None };
    rules.rule(&caller).unwrap().map(|rule| rule.method)
}

#[test]
fn the_first_rule_that_fits_counts() {
    let rules = read(
        "local all all trust\n\
         hostssl shop ann 10.0.0.0/8 cert\n\
         hostnossl shop ann 10.0.0.0/8 reject\n\
         host sameuser,\"all\" all ::1/128 md5\n\
         host shop,store \"bob\",eve 192.168.1.7 255.255.255.0 password\n\
         host replication all all trust\n",
    );
    for (from, database, user, wanted) in [
        ("local", "any", "any", Some(Method::Trust)),
        ("10.1.2.3+", "shop", "ann", Some(Method::Cert)),
        ("10.1.2.3", "shop", "ann", Some(Method::Reject)),
        ("::ffff:10.1.2.3", "shop", "ann", Some(Method::Reject)),
        ("11.1.2.3", "shop", "ann", None),
        ("::1", "ann", "ann", Some(Method::Md5)),
        ("::1", "all", "ann", Some(Method::Md5)),
        ("::1", "shop", "ann", None),
        ("192.168.1.200", "store", "eve", Some(Method::Password)),
        ("192.168.2.200", "store", "eve", None),
        ("192.168.1.200", "store", "all", None),
        ("192.168.1.200", "replication", "ann", None),
    ] {
        assert_eq!(method(&rules, from, database, user), wanted, "{from} {database} {user}");
    }
}

#[test]
fn replication_is_no_database() {
    let rules = read(
        "host all,postgres all 10.0.0.1/32 trust\n\
         host replication all 10.0.0.2/32 md5\n\
         host \"replication\" all 10.0.0.3/32 reject\n",
    );
    let method = |from: &str, replicates| {
        let origin = Origin::Machine(from.parse().unwrap());
        let (database, user) = (if replicates { "postgres" } else { "replication" }, "postgres");
        let caller = Caller { origin, encrypted: false, database, replicates, user, roles: None };
        rules.rule(&caller).unwrap().map(|rule| rule.method)
    };
    assert_eq!((method("10.0.0.1", true), method("10.0.0.1", false)), (None, Some(Method::Trust)));
    assert_eq!((method("10.0.0.2", true), method("10.0.0.2", false)), (Some(Method::Md5), None));
    assert_eq!((method("10.0.0.3", true), method("10.0.0.3", false)), (None, Some(Method::Reject)));
}

#[test]
fn patterns_are_found_anywhere_in_the_name() {
    let rules = read(
        "host \"/^db\\d{2,4}$\" all all trust\n\
         host \"/^a,b$\" /adm all reject\n",
    );
    assert_eq!(method(&rules, "127.0.0.1", "db42", "x"), Some(Method::Trust));
    assert_eq!(method(&rules, "127.0.0.1", "db4", "x"), None);
    assert_eq!(method(&rules, "127.0.0.1", "a,b", "the_admin"), Some(Method::Reject));
    assert_eq!(method(&rules, "127.0.0.1", "a,b", "else"), None);
}

#[test]
fn files_stand_for_words_and_lines() {
    let folder = Folder::with(&[
        (
            "pg_hba.conf",
            "include more/one.conf\ninclude_if_exists nowhere\ninclude_dir more\nlocal x x peer\n",
        ),
        ("more/one.conf", "host @names all all trust\n"),
        ("more/.hidden.conf", "nonsense"),
        ("more/names", "a, b # and so on\n\"all\"\n@others\n"),
        ("more/others", "c"),
        ("more/two.conf", "host b,d all all reject\n"),
    ]);
    let rules = folder.rules().unwrap();
    for (database, wanted) in [
        ("a", Some(Method::Trust)),
        ("all", Some(Method::Trust)),
        ("b", Some(Method::Trust)),
        ("c", Some(Method::Trust)),
        ("d", Some(Method::Reject)),
        ("e", None),
    ] {
        assert_eq!(method(&rules, "127.0.0.1", database, "x"), wanted, "{database}");
    }
    let caller = Caller {
        origin: Origin::Machine([127, 0, 0, 1].into()),
        encrypted: false,
        database: "d",
        replicates: false,
        user: "x",
        roles: None,
    };
    assert!(rules.rule(&caller).unwrap().unwrap().at.ends_with("more/two.conf:1"));
    let deep = Folder::with(&[("pg_hba.conf", "include pg_hba.conf\n")]);
    let said = deep.rules().unwrap_err();
    assert_eq!(said, ["pg_hba.conf:1: pg_hba.conf: included files are nested more than 10 deep"]);
}

/// Only missing files may be left out.
#[test]
fn what_cannot_be_looked_at_is_no_absence() {
    let rules = |line: &str| {
        let text = format!("{line}\nlocal all all trust\n");
        let folder = Folder::with(&[("pg_hba.conf", &text), ("more/one.conf", "host all all all reject\n")]);
        std::fs::create_dir(folder.0.join("more/folder.conf")).unwrap();
        std::fs::create_dir(folder.0.join("broken")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.0.join("broken/gone.conf")).unwrap();
        folder.rules().map(|rules| method(&rules, "127.0.0.1", "a", "x"))
    };
    assert_eq!(rules("include_if_exists none"), Ok(None));
    assert_eq!(rules("include_if_exists broken/gone.conf"), Ok(None));
    assert_eq!(rules("include_dir more"), Ok(Some(Method::Reject)));
    let refused = |why: &str| Err(vec![format!("pg_hba.conf:1: {why}")]);
    let below = "include_if_exists more/one.conf/below";
    assert_eq!(rules(below), refused("more/one.conf/below: Not a directory (os error 20)"));
    let gone = "broken/gone.conf: No such file or directory (os error 2)";
    assert_eq!(rules("include_dir broken"), refused(gone));
}

#[test]
fn every_mistake_is_named_with_its_file_and_line() {
    for (line, said) in [
        ("hst all all all trust", "invalid connection type \"hst\""),
        ("host", "end-of-line before database specification"),
        ("host all", "end-of-line before role specification"),
        ("host all all", "end-of-line before IP address specification"),
        ("host all all 10.0.0.1", "end-of-line before netmask specification"),
        ("host all all 10.0.0.1/33 trust", "invalid CIDR mask in address \"10.0.0.1/33\""),
        ("host all all 10.0.0.1 ::1 trust", "IP address and mask do not match"),
        (
            "host all all 10.0.0.1 255.0.255.0 trust",
            "invalid IP mask \"255.0.255.0\": mask bits are not contiguous",
        ),
        (
            "host all all db.example.com trust",
            "\"db.example.com\" is not an IP address; host names are not supported, write addresses or networks",
        ),
        ("host all all all,samenet trust", "multiple values specified for IP address"),
        ("host all all all", "end-of-line before authentication method specification"),
        (
            "host all all all ldap",
            "authentication method \"ldap\" is not supported; supported methods: trust, reject, scram-sha-256, md5, password, cert, peer",
        ),
        ("host all all all peer", "peer authentication is only supported on local sockets"),
        ("host all all all cert", "cert authentication is only supported on hostssl connections"),
        (
            "host all all all md5 clientcert=verify-ca",
            "clientcert can only be configured for \"hostssl\" rows",
        ),
        (
            "hostssl all all all cert clientcert=verify-ca",
            "clientcert only accepts \"verify-full\" when using \"cert\" authentication",
        ),
        ("hostssl all all all md5 clientcert=1", "invalid value for clientcert: \"1\""),
        (
            "host all all all md5 map=m",
            "authentication option \"map\" is only valid for authentication methods peer and cert",
        ),
        ("local all all peer map=m", "auth_ident_file has no line for map \"m\""),
        ("local all all peer mapped", "authentication option not in name=value format: mapped"),
        ("local all all peer a=b", "unrecognized authentication option name: \"a\""),
        ("hostgssenc all all all trust", "hostgssenc record cannot match: GSSAPI is not supported"),
        ("host @none all all trust", "none: No such file or directory (os error 2)"),
        ("include none", "none: No such file or directory (os error 2)"),
        ("host /( all all trust", "invalid regular expression \"(\": unclosed group"),
    ] {
        let text = format!("# first\nlocal all \\\n all trust\n{line}\n");
        let told = Folder::with(&[("pg_hba.conf", &text)]).rules().expect_err(line);
        assert_eq!(told, [format!("pg_hba.conf:4: {said}")]);
    }
    let none = Folder::with(&[("pg_hba.conf", "# nothing\n")]).rules().unwrap_err();
    assert_eq!(none, ["pg_hba.conf: contains no rules; every connection would be rejected"]);
    let both = Folder::with(&[
        ("pg_hba.conf", "local\nhost all all samehost trust\nx\n"),
        ("pg_ident.conf", "m a\n"),
    ]);
    assert_eq!(
        both.rules().unwrap_err(),
        [
            "pg_hba.conf:1: end-of-line before database specification",
            "pg_hba.conf:3: invalid connection type \"x\"",
            "pg_ident.conf:1: end-of-line before database role specification"
        ]
    );
}

#[test]
fn memberships_are_wanted_where_nothing_else_decides() {
    let rules = read(
        "host all eve all reject\n\
         host shop ann,+staff all trust\n\
         host samerole all 10.0.0.0/8 md5\n\
         host all \"+staff\" all password\n",
    );
    let none = BTreeSet::new();
    let staff = BTreeSet::from(["bob".to_owned(), "staff".to_owned(), "store".to_owned()]);
    let method = |from: [u8; 4], database, user, roles| {
        let caller = Caller {
            origin: Origin::Machine(from.into()),
            encrypted: false,
            database,
            replicates: false,
            user,
            roles,
        };
        rules.rule(&caller).map(|rule| rule.map(|rule| rule.method))
    };
    let (near, far) = ([10, 0, 0, 1], [127, 0, 0, 1]);
    assert_eq!(method(far, "shop", "eve", None), Ok(Some(Method::Reject)));
    assert_eq!(method(far, "shop", "ann", None), Ok(Some(Method::Trust)));
    assert_eq!(method(far, "store", "bob", None), Ok(None));
    for (from, database, user) in [(far, "shop", "bob"), (near, "store", "bob")] {
        assert_eq!(method(from, database, user, None), Err(RolesWanted));
    }
    assert_eq!(method(far, "shop", "bob", Some(&staff)), Ok(Some(Method::Trust)));
    assert_eq!(method(near, "store", "bob", Some(&staff)), Ok(Some(Method::Md5)));
    assert_eq!(method(near, "else", "bob", Some(&staff)), Ok(None));
    assert_eq!(method(far, "shop", "bob", Some(&none)), Ok(None));
    assert_eq!(method(far, "shop", "+staff", Some(&none)), Ok(Some(Method::Password)));
}

#[test]
fn maps_say_who_may_be_whom() {
    let folder = Folder::with(&[
        ("pg_hba.conf", "local a all peer map=m\nlocal all all peer\n"),
        (
            "pg_ident.conf",
            "m root all\nm ann shop\nm /^(.*)@x$ \\1_r\nm carl /^c\nm dora \"all\"\nother eve eve\n",
        ),
    ]);
    let rules = folder.rules().unwrap();
    let may = |database: &str, system: &str, role: &str| {
        let caller = Caller {
            origin: Origin::Local,
            encrypted: false,
            database,
            replicates: false,
            user: role,
            roles: None,
        };
        rules.allow(rules.rule(&caller).unwrap().unwrap(), system, role)
    };
    for (system, role, wanted) in [
        ("root", "any", true),
        ("ann", "shop", true),
        ("ann", "ann", false),
        ("bob@x", "bob_r", true),
        ("bob@x", "bob", false),
        ("bob@y", "bob_r", false),
        ("carl", "cook", true),
        ("carl", "book", false),
        ("dora", "dora", false),
        ("dora", "all", true),
        ("eve", "eve", false),
    ] {
        assert_eq!(may("a", system, role), wanted, "{system} {role}");
    }
    assert!(may("b", "eve", "eve") && !may("b", "eve", "ann"));
    let group = Folder::with(&[("pg_hba.conf", "local a a trust"), ("pg_ident.conf", "m a +g\n")]);
    assert_eq!(
        group.rules().unwrap_err(),
        ["pg_ident.conf:1: +g: mapping to the members of a role is not supported; use /pattern"]
    );
    let caught = Folder::with(&[("pg_hba.conf", "local a a trust"), ("pg_ident.conf", "m /^x$ \\1\n")]);
    let told = "pg_ident.conf:1: regular expression \"^x$\" has no subexpressions as requested by backreference in \"\\1\"";
    assert_eq!(caught.rules().unwrap_err(), [told]);
}

#[test]
fn this_machine_is_known_by_its_addresses() {
    let rules = read("host all all samehost trust\nhost all all samenet reject\n");
    assert_eq!(method(&rules, "127.0.0.1", "x", "x"), Some(Method::Trust));
    assert_eq!(method(&rules, "127.9.9.9", "x", "x"), Some(Method::Reject));
    assert_eq!(method(&rules, "203.0.113.9", "x", "x"), None);
}
