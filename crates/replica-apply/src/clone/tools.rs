//! `pg_dump` and `pg_restore` between two servers: definitions by a file, rows by a pipe.

use super::copy_exceptions::Apart;
use postgres::Error;
use postgres::address::{Address, Host};
use postgres::objects::{CONTROL_DATABASE, SCHEMA};
use postgres::own_settings::OWN_DEFAULTS;
use postgres::programs::Programs;
use postgres::sql::conninfo_value;
use postgres::unique_name;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

/// Entries of an archive's list that make the database itself.
const OF_THE_DATABASE: &[&str] =
    &["DATABASE ", "DATABASE PROPERTIES ", "ACL - DATABASE ", "COMMENT - DATABASE "];
/// Objects that a replica does not need.
const LEFT_OUT: &[&str] = &[
    "EVENT TRIGGER ",
    "COMMENT - EVENT TRIGGER ",
    "PUBLICATION ",
    "COMMENT - PUBLICATION ",
    "SUBSCRIPTION ",
    "COMMENT - SUBSCRIPTION ",
    "SECURITY LABEL - EVENT TRIGGER ",
    "SECURITY LABEL - PUBLICATION ",
    "SECURITY LABEL - SUBSCRIPTION ",
];
/// Settings of these programs' sessions, in addition to those of all our connections: user settings do not
/// apply.
const OPTIONS: &str =
    "-c synchronous_commit=off -c client_min_messages=error -c session_replication_role=origin";

/// The programs, and the two servers that they run between.
pub(super) struct Tools<'a> {
    programs: &'a Programs,
    primary: &'a Address,
    replica: &'a Address,
    snapshot: &'a str,
    apart: &'a Apart,
    folder: Folder,
}

/// The definitions of everything in the database, and which of them a replica gets.
pub(super) struct Definitions {
    archive: PathBuf,
    /// Statements that make the database.
    database: PathBuf,
    /// All else.
    rest: PathBuf,
}

impl<'a> Tools<'a> {
    pub(super) fn new(
        programs: &'a Programs,
        primary: &'a Address,
        replica: &'a Address,
        (snapshot, apart): (&'a str, &'a Apart),
    ) -> Result<Tools<'a>, Error> {
        Ok(Tools { programs, primary, replica, snapshot, apart, folder: Folder::make(programs)? })
    }

    pub(super) async fn dump_definitions(&self) -> Result<Definitions, Error> {
        let archive = self.folder.0.join("definitions");
        let mut dump = self.dump();
        dump.args(["--schema-only", "--no-tablespaces", "--file"]).arg(&archive);
        finished("pg_dump", dump.spawn()).await?;
        let list = self.folder.0.join("list");
        let mut look = self.program("pg_restore", self.replica);
        look.args(["--list", "--file"]).arg(&list).arg(&archive);
        finished("pg_restore", look.spawn()).await?;
        let text = std::fs::read_to_string(&list).map_err(|error| unusable(&list, &error))?;
        let (database, rest) = sorted(&text, self.apart);
        let write = |name: &str, lines: &str| {
            let file = self.folder.0.join(name);
            self.programs.account().write(&file, lines, false)?;
            Ok::<_, Error>(file)
        };
        Ok(Definitions { database: write("database", &database)?, rest: write("rest", &rest)?, archive })
    }

    /// The database itself: encoding, locale, owner, grants, settings.
    pub(super) async fn make_database(&self, definitions: &Definitions) -> Result<(), Error> {
        let server = self.replica.with_database(CONTROL_DATABASE);
        let mut restore = self.restore_into(&server);
        restore.args(["--create", "--use-list"]).arg(&definitions.database).arg(&definitions.archive);
        finished("pg_restore", restore.spawn()).await
    }

    /// Restores the objects that come before the rows, or after them.
    pub(super) async fn restore(&self, definitions: &Definitions, section: &str) -> Result<(), Error> {
        let mut restore = self.restore_into(self.replica);
        restore.args(["--section", section, "--use-list"]).arg(&definitions.rest).arg(&definitions.archive);
        finished("pg_restore", restore.spawn()).await
    }

    /// The rows, and where sequences stand.
    pub(super) async fn copy_rows(&self) -> Result<(), Error> {
        let mut dump = self.dump();
        dump.args(["--section=data", "--compress=0", "--no-blobs", "--no-unlogged-table-data"]);
        dump.args(self.apart.without_rows().map(|table| format!("--exclude-table-data={table}")));
        let mut dump = started("pg_dump", dump.stdout(Stdio::piped()).spawn())?;
        let rows = dump.stdout.take().expect("the output is piped");
        let rows: Stdio =
            rows.try_into().map_err(|error| unusable(Path::new("the pipe of pg_dump"), &error))?;
        // Drops our copy of the pipe's end: otherwise a writer to the pipe would wait for ever.
        let restore = self.restore_into(self.replica).arg("--section=data").stdin(rows).spawn();
        // The program that fails first ends the other, which reports that: the first one's error comes first.
        let (dumped, restored) = tokio::join!(finished("pg_dump", Ok(dump)), finished("pg_restore", restore));
        match (dumped, restored) {
            (Err(dumped), Err(restored)) => Err(Error::Setup(format!("{restored}; {dumped}"))),
            (dumped, restored) => dumped.and(restored),
        }
    }

    fn dump(&self) -> Command {
        let mut dump = self.program("pg_dump", self.primary);
        dump.args(["--format=custom", "--lock-wait-timeout=2s", "--snapshot", self.snapshot]);
        dump.args(["--exclude-schema", SCHEMA]);
        dump
    }

    fn restore_into(&self, server: &Address) -> Command {
        let mut restore = self.program("pg_restore", server);
        restore.args(["--exit-on-error", "--no-tablespaces", "--dbname"]);
        restore.arg(format!("dbname={}", conninfo_value(&server.database)));
        restore
    }

    fn program(&self, name: &str, server: &Address) -> Command {
        let mut command = self.programs.command(name);
        command.env("PGPORT", server.port.to_string()).env("PGUSER", &server.user);
        command
            .env("PGDATABASE", &server.database)
            .env("PGOPTIONS", format!("{OWN_DEFAULTS} {OPTIONS}"))
            .env("PGCLIENTENCODING", "UTF8");
        command.env("PGAPPNAME", postgres::address::APPLICATION_NAME);
        let host: &OsStr = match &server.host {
            Host::Socket(folder) => folder.as_os_str(),
            Host::Name(name) => name.as_ref(),
        };
        command.env("PGHOST", host).env_remove("PGSERVICE").env_remove("PGHOSTADDR");
        match &server.password {
            Some(password) => command.env("PGPASSWORD", password),
            None => command.env_remove("PGPASSWORD"),
        };
        match server.encrypted() {
            Some((_, _, tls)) => command.envs(tls.for_libpq()),
            None => command.env("PGSSLMODE", "disable"),
        };
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        command
    }
}

/// The lines of an archive's list that make the database, and those that fill it.
fn sorted(list: &str, apart: &Apart) -> (String, String) {
    let (mut database, mut rest) = (String::new(), String::new());
    for line in list.lines() {
        // 3191; 1262 16388 DATABASE - shop postgres
        let mut parts = line.splitn(4, ' ').skip(1).filter(|_| !line.starts_with(';'));
        let (Some(catalog), Some(number), Some(what)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let number_of = |text: &str| text.parse().unwrap_or(0);
        let begins = |with: &&str| what.starts_with(*with);
        if OF_THE_DATABASE.iter().any(begins) {
            database += line;
            database.push('\n');
        } else if !LEFT_OUT.iter().any(begins) && !apart.has(number_of(catalog), number_of(number), what) {
            rest += line;
            rest.push('\n');
        }
    }
    (database, rest)
}

fn started(name: &str, child: std::io::Result<Child>) -> Result<Child, Error> {
    child.map_err(|error| Error::Setup(format!("cannot run {name}: {error}")))
}

/// Waits for the end of a program; what it complains of.
async fn finished(name: &str, child: std::io::Result<Child>) -> Result<(), Error> {
    let mut child = started(name, child)?;
    let mut said = Vec::new();
    if let Some(mut complaints) = child.stderr.take() {
        complaints.read_to_end(&mut said).await?;
    }
    let status = child.wait().await?;
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    Err(Error::Setup(format!("{name} failed: {}", said.trim())))
}

fn unusable(file: &Path, error: &std::io::Error) -> Error {
    Error::Setup(format!("cannot use {}: {error}", file.display()))
}

/// A folder for the definitions. A drop removes it.
struct Folder(PathBuf);

impl Folder {
    fn make(programs: &Programs) -> Result<Folder, Error> {
        let folder = std::env::temp_dir().join(unique_name("copy"));
        programs.account().make_new_folder(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_replica_gets() {
        let list = ";\n; Archive created at 2026-01-01\n;\n\
            3321; 1262 16388 DATABASE - shop owner\n\
            3322; 0 0 DATABASE PROPERTIES - shop owner\n\
            3323; 0 0 ACL - DATABASE shop owner\n\
            215; 1259 16389 TABLE public PUBLICATION owner\n\
            216; 1259 16390 MATERIALIZED VIEW public m owner\n\
            3190; 6104 16398 PUBLICATION - consort owner\n\
            3189; 3466 16400 EVENT TRIGGER - consort_sql_drop owner\n\
            3191; 0 0 COMMENT public TABLE t owner\n";
        let (database, rest) = sorted(list, &Apart::default());
        assert_eq!(database.lines().count(), 3);
        assert_eq!(
            rest,
            "215; 1259 16389 TABLE public PUBLICATION owner\n\
             216; 1259 16390 MATERIALIZED VIEW public m owner\n\
             3191; 0 0 COMMENT public TABLE t owner\n"
        );
    }
}
