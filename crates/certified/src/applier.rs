//! The applier of one database at one node, at PostgreSQL: what [`certified_flow::follow`] needs of a node. Its connection
//! fires no triggers.

use crate::blockers::{self, Failure};
use crate::database::{Database, Site};
use crate::install::{self, Installed};
use crate::node_connection::{Connections, SILENT, Trouble, answered, first, reach, said};
use crate::record::Record;
use crate::script::{Way, literal, transaction};
use crate::timer::Clock;
use crate::user_code::UserCode;
use certified_flow::{CommitOrder, Node, follow};
use history::Version;
use postgres::address::{Address, Control};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between two attempts to reach a node.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);
/// Log lines about a node that stays away come no more often.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// How often is looked whether an earlier applier has ended.
const GONE_EVERY: Duration = Duration::from_millis(10);

/// Ends backends of this database, and tells of each that is still there.
const END: &str = "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity \
     WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() \
     AND backend_type = 'client backend'";
/// Sessions of an earlier process whose commits may still be on the way: none of this one's is there yet.
const STRANGERS: &str = "backend_xid IS NOT NULL AND application_name <> 'consort applier'";
/// The server's life: its checkpointer is started by each recovery.
const INCARNATION: &str = "SELECT consort.incarnation()";

/// After a crash a node has lost positions of sequences, and a copy has those of another node.
const PASS: &str = "SELECT consort.pass_columns()";

/// Why the node is not served: VERIFY has found other rows there, or it is a copy of such a node.
const DIVERGED: &str = "SELECT coalesce((SELECT why FROM consort.diverged LIMIT 1), '')";

/// The epoch of the ledger that the node's versions are of; empty if it has none.
const EPOCH: &str =
    "SELECT coalesce((SELECT value FROM consort.epoch WHERE EXISTS (SELECT FROM consort.version)), '')";

/// Tables whose rows may call code of users.
const TABLES_WITH_CODE: &str = "SELECT consort.tables_with_code()";

/// Applies until the node leaves the cluster.
pub(crate) async fn run(database: Rc<Database>, site: Rc<Site>) {
    // The last life of the server in which it has caught up.
    let mut life = None;
    let mut said: Option<Instant> = None;
    loop {
        let why = tokio::select! {
            Err(why) = serve(&database, &site, &mut life) => why,
            () = site.removed() => return,
        };
        let node = &database.nodes.get(site.number).name;
        let is_new = said.is_none_or(|said| said.elapsed() > SAY_EVERY);
        if is_new || site.is_up() {
            said = Some(Instant::now());
            tracing::warn!(node, database = database.name, why, "a node does not follow; retrying");
        }
        if why == SILENT {
            site.falls_silent();
        }
        if !site.is_leaving() {
            site.goes_down(why);
        }
        sleep(RECONNECT_AFTER).await;
    }
}

async fn serve(
    database: &Rc<Database>,
    site: &Rc<Site>,
    life: &mut Option<String>,
) -> Result<Infallible, Trouble> {
    let address = database.nodes.get(site.number).address.with_database(&database.name);
    let connections = connect(&address, database).await?;
    if life.is_none() {
        end_all(&connections.looks, STRANGERS).await?;
    }
    let installed = install::install(&connections.applies, database, site).await?;
    let diverged = first(&connections.looks, DIVERGED).await?;
    if !diverged.is_empty() {
        return Err(diverged);
    }
    has_versions_of(&database.epoch, &connections).await?;
    let incarnation = first(&connections.looks, INCARNATION).await?;
    let user_code = UserCode::default();
    let mut node =
        FollowingNode { connections, database, site, incarnation, installed, user_code, caught_up: life };
    follow(&database.order, site, &mut node, database.options.engines.group()).await
}

/// The node's versions are of this ledger. A node without versions has its first ones of it.
async fn has_versions_of(epoch: &str, connections: &Connections) -> Result<(), Trouble> {
    let found = first(&connections.looks, EPOCH).await?;
    if found == epoch {
        return Ok(());
    }
    if !found.is_empty() {
        return Err(
            "the versions of the node are of another ledger. Make the node again from a copy of another one"
                .to_owned(),
        );
    }
    let adopt = format!(
        "BEGIN; DELETE FROM consort.epoch; INSERT INTO consort.epoch VALUES ({}); COMMIT",
        literal(epoch)
    );
    answered(async { connections.applies.batch_execute(&adopt).await.map_err(|error| said(&error)) }).await
}

/// A node with the connections of its applier.
struct FollowingNode<'a> {
    connections: Connections,
    database: &'a Database,
    site: &'a Site,
    incarnation: String,
    /// The capture that it has installed.
    installed: Installed,
    /// Tables whose rows call code of users there.
    user_code: UserCode,
    /// The last life of the server in which it has caught up.
    caught_up: &'a mut Option<String>,
}

impl Node for FollowingNode<'_> {
    type WriteSet = Record;
    type Timer = Clock;

    fn timer(&self) -> Clock {
        Clock
    }

    fn life(&self) -> String {
        self.incarnation.clone()
    }

    async fn shown(&mut self) -> Result<Version, Trouble> {
        let shown =
            first(&self.connections.looks, "SELECT coalesce(max(version), 0) FROM consort.version").await?;
        let shown = shown.parse().map_err(|_| "the node reports no version".to_owned())?;
        if self.installed.commit_order == CommitOrder::Gate {
            // Sessions commit meanwhile, if the server's life is the same: the gate never moves back.
            let open = format!("SELECT consort.native_open_gate({shown})");
            answered(async {
                self.connections.looks.batch_execute(&open).await.map_err(|error| said(&error))
            })
            .await?;
        }
        Ok(Version::new(shown))
    }

    async fn caught_up(&mut self) -> Result<(), Trouble> {
        {
            let mut life = self.site.of_life.borrow_mut();
            life.functions = self.installed.functions.clone();
            life.capture = Some(self.installed.capture);
            life.commit_order = self.installed.commit_order;
        }
        if self.caught_up.as_ref() != Some(&self.incarnation) {
            self.connections.applies.batch_execute(PASS).await.map_err(|error| said(&error))?;
            *self.caught_up = Some(self.incarnation.clone());
        }
        let (node, version) = (&self.database.nodes.get(self.site.number).name, self.site.visible());
        let Installed { capture, commit_order, .. } = &self.installed;
        let (name, capture) = (&self.database.name, capture.name());
        tracing::info!(node, database = name, %version, capture, ?commit_order, "a node follows");
        Ok(())
    }

    async fn is_alive(&mut self) -> Result<(), Trouble> {
        first(&self.connections.looks, "SELECT 1").await.map(drop)
    }

    async fn end_suspects(&mut self) -> Result<(), Trouble> {
        end_suspects(&self.connections, self.site).await
    }

    async fn apply(&mut self, records: &[(Version, Rc<Record>)]) -> Result<(), Trouble> {
        self.look_for_code().await?;
        let borrowed: Vec<_> = records.iter().map(|(version, record)| (*version, &**record)).collect();
        self.apply_together(&borrowed).await
    }
}

impl FollowingNode<'_> {
    /// Looks again for tables that call code of users, once the node shows the newest command that changes the catalog.
    /// Before that nothing is known of any table.
    async fn look_for_code(&mut self) -> Result<(), Trouble> {
        let (order, shown) = (&self.database.order, self.site.visible());
        let changed = order.catalog_version();
        if self.user_code.is_known_at(changed) {
            return Ok(());
        }
        let mut found = UserCode::default();
        if shown >= changed {
            let looks = &self.connections.looks;
            let rows = async { looks.rows(TABLES_WITH_CODE).await.map_err(|error| error.to_string()) };
            found = UserCode::found(shown, answered(rows).await?.into_iter().flatten().flatten());
        }
        // Another command may have come meanwhile.
        if !found.is_known_at(order.catalog_version()) {
            found = UserCode::default();
        }
        self.user_code = found;
        Ok(())
    }

    /// Applies records in one transaction; where values of unique keys were exchanged each is applied alone, deleting first.
    async fn apply_together(&self, records: &[(Version, &Record)]) -> Result<(), Trouble> {
        let error = match self.commit(records, Way::InPlace).await {
            Ok(()) => return Ok(()),
            Err(Failure::Server(error)) => error,
            Err(failure) => return Err(failure.said()),
        };
        undo(&self.connections).await?;
        if records.len() == 1 && !is_exchange(&error) {
            return Err(said(&error));
        }
        for record in records {
            self.apply_alone(record).await?;
        }
        Ok(())
    }

    /// Applies one record; after an exchange of values of a unique key once more, deleting first.
    async fn apply_alone(&self, record: &(Version, &Record)) -> Result<(), Trouble> {
        let record = std::slice::from_ref(record);
        match self.commit(record, Way::InPlace).await {
            Err(Failure::Server(error)) if is_exchange(&error) => {
                undo(&self.connections).await?;
                self.commit(record, Way::Again).await.map_err(Failure::said)
            }
            done => done.map_err(Failure::said),
        }
    }

    /// Applies records in one transaction, which commits if the node has the rows that they change.
    async fn commit(&self, records: &[(Version, &Record)], way: Way) -> Result<(), Failure> {
        let texts = transaction(records, way, &self.user_code).texts;
        for text in texts {
            let said = blockers::run(&self.connections, self.site, &text.sql).await?;
            if let Some((at, rows, said)) = text.difference(&said) {
                let (first, last) = (records.first().map(|one| one.0), records.last().map(|one| one.0));
                let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
                return Err(Failure::Differs(format!(
                    "the node has other rows than the node that wrote {first} to {last}: statement {at} concerns \
                     {said} rows, {rows} there. Make the node again from a copy of another one"
                )));
            }
        }
        let has_gate = self.installed.commit_order == CommitOrder::Gate;
        let versions = records.first().zip(records.last()).filter(|_| has_gate);
        let turn = versions.map_or(String::new(), |((first, _), (last, _))| {
            let secret = literal(&self.database.secret);
            format!("SELECT consort.native_take_turn({secret}, '{}', '{}');", first.get(), last.get())
        });
        blockers::run(&self.connections, self.site, &format!("{turn}COMMIT")).await.map(drop)
    }
}

/// Whether values of a unique key may have been exchanged.
fn is_exchange(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| matches!(error.code().code(), "23505" | "23P01"))
}

async fn undo(connections: &Connections) -> Result<(), Trouble> {
    connections.applies.batch_execute("ROLLBACK").await.map_err(|error| said(&error))
}

async fn connect(address: &Address, database: &Database) -> Result<Connections, Trouble> {
    let looks = reach(address).await?;
    let commits = database.options.engines.synchronous_commit();
    // Code of users that runs here may set what every user may: RESET ALL takes that back.
    let settings = format!(
        "-c session_replication_role=replica -c synchronous_commit={commits} -c deadlock_timeout=10s \
         -c client_min_messages=error"
    );
    let applies = Control::with_settings(address, "consort applier", &settings);
    let applies = applies.await.map_err(|error| error.to_string())?;
    end_all(&applies, "application_name = 'consort applier'").await?;
    let pid = first(&applies, "SELECT pg_catalog.pg_backend_pid()").await?;
    let pid = pid.parse().map_err(|_| "the node reports no process number".to_owned())?;
    Ok(Connections { applies, looks: Rc::new(looks), pid })
}

/// Ends other backends of this database of which this holds, and waits until they are gone.
async fn end_all(control: &Control, condition: &str) -> Result<(), Trouble> {
    let sql = format!("{END} AND ({condition})");
    let ended = async {
        while !control.rows(&sql).await.map_err(|error| error.to_string())?.is_empty() {
            sleep(GONE_EVERY).await;
        }
        Ok(())
    };
    answered(ended).await
}

/// Ends backends whose sessions have given a commit up without knowing that it is undone.
async fn end_suspects(connections: &Connections, site: &Site) -> Result<(), Trouble> {
    let suspects = site.bringing.take_suspects();
    if suspects.is_empty() {
        return Ok(());
    }
    let pids: Vec<String> = suspects.iter().map(i32::to_string).collect();
    let ended = end_all(&connections.looks, &format!("pid IN ({})", pids.join(","))).await;
    if ended.is_err() {
        suspects.into_iter().for_each(|pid| site.bringing.suspects(pid));
    }
    ended
}

/// Brings what a node shows to its disk, and prunes the table of its versions: the ledger may forget what is there.
pub(crate) async fn flush(database: &Database, site: &Site) -> Result<(), Trouble> {
    let address = database.nodes.get(site.number).address.with_database(&database.name);
    let control = answered(reach(&address)).await?;
    let newest = answered(first(&control, "SELECT coalesce(max(version), 0) FROM consort.version")).await?;
    let newest = newest.parse().map_err(|_| "the node reports no version".to_owned())?;
    // A server that has lost its newest commits shows fewer than the site remembers.
    let shown = site.visible().min(Version::new(newest));
    let prune = format!(
        "SET session_replication_role = replica; SET synchronous_commit = on; \
         DELETE FROM consort.version WHERE version < {}; \
         SELECT pg_catalog.pg_logical_emit_message(true, 'consort', '')",
        site.bringing.prunable(shown).get()
    );
    answered(async { control.batch_execute(&prune).await.map_err(|error| said(&error)) }).await?;
    site.has_flushed(shown);
    Ok(())
}
