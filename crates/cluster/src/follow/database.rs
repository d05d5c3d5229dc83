//! Life cycle of one served database: attached, decoded, its catalog read again after each DDL command.

use super::sequences::Watch;
use super::{FIRST_EPOCH, catalog_changes, extensions, foreign_sessions};
use crate::barrier::Upkeep;
use crate::trouble::{RECONNECT_AFTER, Task, Trouble, answered};
use crate::understanding;
use crate::{Cluster, Database, Rows, Standing};
use history::DatabaseId;
use postgres::Error;
use postgres::address::Control;
use postgres::attach::{self, Attached, Patience, State};
use postgres::catalogs;
use postgres::decoder::{Decoded, Decoder};
use replica_apply::apply::Part;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Pause before a catalog that does not yet show a decoded DDL command is read again.
const CATALOG_ROUND: Duration = Duration::from_millis(2);

/// Interval between attempts to set the replica identity of a locked table.
const LOCKED_ROUND: Duration = Duration::from_secs(1);

/// Interval between checks that the objects that report DDL still exist: a role that may create event
/// triggers may drop them.
const ATTACHED_ROUND: Duration = Duration::from_secs(1);

/// Bytes that a commit kept for replicas costs in addition to its rows.
const COMMIT_BYTES: u64 = 512;

/// Follows the database until it is dropped.
pub(crate) async fn run(cluster: Cluster, database: Rc<Database>) {
    let mut trouble = Trouble::default();
    while !cluster.stopping() {
        lead(&cluster, &database).await;
        database.left_to_us().await;
        database.set_following(true);
        let began = Instant::now();
        let followed = tokio::select! {
            followed = follow(&cluster, &database) => Some(followed),
            () = database.wanted_alone() => None,
            why = database.unmarked() => Some(Err(why)),
            () = cluster.lead().until_waits() => Some(Err(Error::NotReady("another Consort leads".to_owned()))),
        };
        database.set_following(false);
        let pause = match followed {
            Some(Ok(())) => return,
            Some(Err(error)) if is_gone(&error) => {
                tracing::info!(database = database.name(), "database dropped");
                cluster.forget_database(&database);
                return;
            }
            Some(Err(error)) => {
                let why = said(&error);
                let (is_new, pause) = trouble.met(&why, &error, began.elapsed());
                if is_new {
                    tracing::warn!(database = database.name(), error = why, "reads stay at the primary");
                }
                match error {
                    Error::Unreachable(_) | Error::NotReady(_) => database.set_away(why),
                    _ => database.set_trouble(Some(why.into())),
                }
                pause
            }
            None => {
                tracing::info!(
                    database = database.name(),
                    "reads stay at the primary: a command needs exclusive access to the database"
                );
                database.set_trouble(Some("a command needs exclusive access to the database".into()));
                RECONNECT_AFTER
            }
        };
        if let Some(id) = database.id() {
            cluster.scheduler().order_mut().slot_closed(id);
            cluster.moved();
        }
        tokio::time::sleep(pause).await;
    }
}

/// Waits until this Consort leads. No work is done in the database before: another one follows it.
async fn lead(cluster: &Cluster, database: &Database) {
    loop {
        tokio::select! {
            () = cluster.lead().until_leads() => return,
            () = cluster.lead().until_waits() => {}
        }
        if let Standing::Waits(holder) = cluster.lead().standing() {
            database.set_trouble(Some(format!("another Consort leads: {holder}").into()));
            cluster.moved();
        }
        tokio::select! {
            () = cluster.lead().until_leads() => {}
            () = cluster.lead().until_changed() => {}
        }
    }
}

/// Text of a failure for the operator, with a remedy where PostgreSQL names none.
fn said(error: &Error) -> String {
    if error.is("22021") {
        return format!(
            "{error}: names, definitions and rows are read as UTF8, but the database has another \
             encoding (SQL_ASCII) and contains invalid UTF8; restore a dump of it into a database with \
             the right encoding, or remove it from the setting databases"
        );
    }
    error.to_string()
}

/// The slot is open: versions of the database's commits come out of it.
fn begin(cluster: &Cluster, database: &Database, attached: &Attached, decoder: &Decoder) {
    let id = attached.database;
    if attached.created {
        // The meaning of names before this moment is unknown.
        database.names().changed(None);
        cluster.scheduler().slot_created(id, decoder.from());
    } else {
        cluster.scheduler().slot_opened(id, decoder.from());
    }
    cluster.follow_run(id);
    cluster.understanding().forget(id);
    database.catalog_changed(None);
    database.set_trouble(None);
    cluster.moved();
}

/// Returns true for SQLSTATE 3D000: no such database.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Refused { sqlstate, .. } if sqlstate == "3D000")
}

async fn follow(cluster: &Cluster, database: &Rc<Database>) -> Result<(), Error> {
    if !cluster.lead().is_sure(cluster.now()) {
        return Err(Error::NotReady("another Consort may have taken over".to_owned()));
    }
    let address = cluster.setup().primary.with_database(database.name());
    if !cluster.setup().design.follows_commits() {
        return catalog_changes::follow(cluster, database, &address).await;
    }
    let control = Control::connect(&address).await?;
    // Attaching commits, and no session's in-flight write set explains that commit.
    let upkeep = Upkeep::begin(cluster, database);
    let attached = attach(cluster, database, &control).await?;
    drop(upkeep);
    let id = attached.database;
    // From here on, a change of roles is marked in this database too, whichever session finds it.
    cluster.identified(database, id);
    let upkeep = Upkeep::begin(cluster, database);
    // Roles may have changed unobserved. No read is offloaded before a snapshot probe that sees the mark has
    // settled.
    let mark = attach::mark(&control, true).await?;
    for ours in attached.made_by.iter().copied().chain([mark]) {
        database.names().marked(ours);
    }
    drop(control);
    drop(upkeep);
    // This precedes the slot's opening, so that its commits have versions from the first one on.
    let mut fed = cluster.feed_all(id);
    let mut decoder = Decoder::open(&address, &attached.slot, id, FIRST_EPOCH).await?;
    decoder.keep_rows(fed);
    let life = Some(decoder.sighting().incarnation);
    if cluster.scheduler().order().incarnation() != life {
        return Err(Error::NotReady("no snapshot probe of the primary since its restart".to_owned()));
    }
    begin(cluster, database, &attached, &decoder);
    let _locked = give_later(cluster, database, &attached.locked);
    let _analysts = understanding::serve(cluster, database, &address);
    let catalogs = read_catalogs(cluster.clone(), database.clone(), Control::connect(&address).await?);
    let _catalogs = Task(tokio::task::spawn_local(catalogs));
    let _extensions = Task(tokio::task::spawn_local(extensions::compare(cluster.clone(), database.clone())));
    let unattached = unattached(cluster, database);
    tokio::pin!(unattached);
    tracing::info!(database = database.name(), slot = attached.slot, "following the database");
    while !cluster.stopping() {
        if !cluster.scheduler().order().followed(id) {
            return Err(Error::NotReady("the primary has restarted".to_owned()));
        }
        tokio::select! {
            decoded = decoder.next() => take_in(cluster, database, decoded?),
            error = &mut unattached => return Err(error),
            () = database.catalog_arrived() => {
                if let Some(loaded) = database.loaded() {
                    decoder.know(loaded);
                }
                // The first replica may have joined, or the last one left.
                fed = cluster.fed_ids().next().is_some();
                decoder.keep_rows(fed);
            }
        }
        if fed {
            demand_a_run(cluster, id)?;
        }
        if let Some(position) = cluster.scheduler().confirmable(id) {
            decoder.confirm(position);
        }
        cluster.moved();
    }
    Ok(())
}

/// Requests a new run, because too many commits waited for a probe and have no versions: the slot repeats
/// them.
fn demand_a_run(cluster: &Cluster, id: DatabaseId) -> Result<(), Error> {
    let has_run = cluster.scheduler().order().run(id).is_some();
    if has_run || !cluster.is_fed(id) {
        return Ok(());
    }
    cluster.scheduler().forget_slot(id);
    cluster.follow_run(id);
    Err(Error::NotReady("too many commits wait to become visible at the primary".to_owned()))
}

/// Takes in output of the slot. DDL is a barrier: knowledge from before it is void.
fn take_in(cluster: &Cluster, database: &Database, decoded: Decoded) {
    match decoded {
        Decoded::Commit { commit, ddl, rows: beyond_ddl, locked_out, changes } => {
            let (of, end, xid) = (commit.database, commit.end, commit.xid);
            let wrote = cluster.statements_travel().then(|| Arc::new(commit.wrote.clone()));
            let rows = changes.map(|changes| {
                let bytes = changes.bytes() + COMMIT_BYTES;
                Rows { part: Part::new(&commit, changes), ddl, bytes }
            });
            if !locked_out.is_nothing() {
                cluster.scheduler().lock_marks.mark(of, &locked_out);
            }
            let touched = if ddl { &beyond_ddl } else { &commit.wrote };
            // Reads that run now may use rows that their connection has kept from before.
            let is_kept = database.extension_table_written(touched, xid);
            let decoded = if ddl || is_kept {
                cluster.understanding().forget(commit.database);
                if ddl {
                    database.catalog_changed(Some(xid));
                    database.names().changed(Some(xid));
                }
                cluster.scheduler().ddl(commit)
            } else {
                cluster.scheduler().decoded(commit)
            };
            if let Some(wrote) = wrote.filter(|_| decoded.fresh) {
                cluster.rerun_came_out(of, end, wrote);
            }
            if let Some(rows) = rows.filter(|_| decoded.fresh) {
                cluster.feeds().came_out(of, end, rows);
            }
            if let Some(commit) = decoded.switched {
                let loaded = database.loaded();
                let name = |table| match &loaded {
                    Some(loaded) => loaded.catalog.relation_name(table),
                    None => table.to_string(),
                };
                foreign_sessions::committed(
                    cluster,
                    database.name(),
                    foreign_sessions::tables(&commit.wrote, name),
                );
            }
            cluster.wake_watchers();
        }
        Decoded::Position(position) => {
            if let Some(id) = database.id() {
                cluster.scheduler().decoded_to(id, position);
            }
        }
    }
}

/// Attaches the database if the configuration says so; otherwise it must be attached already.
async fn attach(cluster: &Cluster, database: &Database, control: &Control) -> Result<Attached, Error> {
    if cluster.setup().attach {
        let report = |waits: &str| reads_wait(cluster, database, waits);
        let patience = Patience { limit: None, report: &report };
        let attached = attach::attach_patiently(control, &patience).await?;
        if cluster.fed_ids().next().is_some() {
            attach::keep_logging_commands(control, cluster.setup().unreplicable_ddl, &patience).await?;
        }
        return Ok(attached);
    }
    match attach::attached(control).await? {
        State::Attached(attached) => Ok(attached),
        State::Missing(what) => {
            Err(Error::Setup(format!("the database is not attached (missing: {what}): run `consort attach`")))
        }
    }
}

/// Reports that attaching waits for transactions. The wait goes on, because a limit would begin each time
/// with newer ones.
fn reads_wait(cluster: &Cluster, database: &Database, waits: &str) {
    tracing::warn!(database = database.name(), "reads stay at the primary: {waits}");
    database.set_trouble(Some(waits.to_owned().into()));
    cluster.moved();
}

/// Completes when an object that reports DDL was removed. Returns an error that names the missing object. The
/// meaning of names is unknown from then on. The same connection also reads the positions of sequences.
async fn unattached(cluster: &Cluster, database: &Database) -> Error {
    let address = cluster.setup().primary.with_database(database.name());
    let mut sequences = Watch::begin();
    loop {
        let looked = async {
            let control = Control::connect(&address).await?;
            tokio::select! {
                missing = until_missing(&control) => missing,
                error = sequences.look(cluster, database, &control) => Err(error),
            }
        };
        match looked.await {
            Ok(missing) => {
                database.names().changed(None);
                return Error::Setup(format!(
                    "the database is no longer attached (missing: {missing}): run `consort attach`"
                ));
            }
            Err(error) => {
                tracing::debug!(database = database.name(), %error, "cannot check whether the database is attached")
            }
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

/// Completes when an object that reports DDL is missing. Returns its name.
async fn until_missing(control: &Control) -> Result<String, Error> {
    loop {
        tokio::time::sleep(ATTACHED_ROUND).await;
        let missing = answered(attach::missing(control)).await?;
        if !missing.is_empty() {
            return Ok(missing.join(", "));
        }
    }
}

/// Handles the tables that were locked when the database was attached, if there are any.
fn give_later(cluster: &Cluster, database: &Rc<Database>, locked: &[String]) -> Option<Task> {
    if locked.is_empty() {
        return None;
    }
    let tables = locked.join(", ");
    tracing::warn!(
        database = database.name(),
        tables,
        "tables are locked: their UPDATE and DELETE fail until REPLICA IDENTITY FULL can be set"
    );
    Some(Task(tokio::task::spawn_local(attach_locked(cluster.clone(), database.clone()))))
}

/// Sets the replica identity of the tables that were locked, as soon as possible.
async fn attach_locked(cluster: Cluster, database: Rc<Database>) {
    let address = cluster.setup().primary.with_database(database.name());
    while !cluster.stopping() {
        tokio::time::sleep(LOCKED_ROUND).await;
        let tried = async {
            let control = Control::connect(&address).await?;
            let _upkeep = Upkeep::begin(&cluster, &database);
            attach::attach_locked(&control).await
        };
        match tried.await {
            Ok((given, locked)) => {
                if !given.is_empty() {
                    let tables = given.join(", ");
                    tracing::info!(
                        database = database.name(),
                        tables,
                        "set REPLICA IDENTITY FULL on tables that were locked"
                    );
                }
                if locked.is_empty() {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(database = database.name(), %error, "cannot set REPLICA IDENTITY FULL on locked tables")
            }
        }
    }
}

/// Reads the catalog after each change.
pub(super) async fn read_catalogs(cluster: Cluster, database: Rc<Database>, mut control: Control) {
    let mut trouble = Trouble::default();
    // Each catalog is read again after DDL. The log names a declaration once.
    let mut passed_over: Vec<String> = Vec::new();
    let mut known = BTreeSet::new();
    while !cluster.stopping() {
        if database.loaded().is_some() {
            database.reload_asked().await;
            continue;
        }
        let version = database.version();
        match catalogs::load(&control).await {
            Ok(mut loaded) if database.owed().iter().all(|xid| loaded.snapshot.sees(*xid)) => {
                loaded.catalog.trusts_declarations = cluster.orders_first();
                extensions::tell(&database, &loaded.catalog, &mut known);
                if !cluster.setup().design.follows_commits() {
                    loaded.catalog.publish_all();
                }
                let wrong = loaded.catalog.declare(&cluster.procedures(), &cluster.setup().harmless);
                for why in wrong.iter().filter(|why| !passed_over.contains(*why)) {
                    tracing::warn!(database = database.name(), wrong = why, "ignoring a declaration");
                }
                passed_over = wrong;
                trouble = Trouble::default();
                if database.set_catalog(version, loaded) {
                    cluster.understanding().catalog_loaded();
                    cluster.moved();
                }
            }
            Ok(_) => tokio::time::sleep(CATALOG_ROUND).await,
            Err(error) => {
                let why = said(&error);
                let (is_new, pause) = trouble.met(&why, &error, Duration::ZERO);
                if is_new {
                    tracing::warn!(database = database.name(), error = why, "cannot read the catalog");
                }
                database.set_catalog_trouble(why);
                // Another change may fix it.
                let _ = tokio::time::timeout(pause, database.reload_asked()).await;
                if let Ok(anew) =
                    Control::connect(&cluster.setup().primary.with_database(database.name())).await
                {
                    control = anew;
                }
            }
        }
    }
}
