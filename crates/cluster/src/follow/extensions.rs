//! Extensions at the primary and at the other nodes. A read may use an extension only while all of them have the same files of it,
//! and logical replicas the same version: functions of an extension that is not known to agree stay at the primary.

use crate::trouble::answered;
use crate::{Cluster, Database};
use postgres::Error;
use postgres::address::{Address, Control};
use postgres::facts;
use scheduler::{Kind, StandbyId};
use statement_analysis::Catalog;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// Interval between looks for extensions and standbys that have come.
const ROUND: Duration = Duration::from_millis(500);
/// Interval between comparisons of the same files.
const COMPARE_EVERY: Duration = Duration::from_secs(60);

/// Extensions with their versions, and the nodes, of a comparison.
type Compared = (BTreeMap<String, String>, BTreeSet<StandbyId>);

/// Compares the files of the database's extensions at all nodes: when an extension or a standby has come, and repeatedly.
pub(super) async fn compare(cluster: Cluster, database: Rc<Database>) {
    let mut last: Option<(Compared, Instant)> = None;
    let mut told = BTreeSet::new();
    while !cluster.stopping() {
        let present =
            database.loaded().map(|loaded| (versions(&loaded.catalog), serving(&cluster, &database)));
        let is_new = |present: &Compared| {
            last.as_ref().is_none_or(|(of, at)| of != present || at.elapsed() >= COMPARE_EVERY)
        };
        if let Some(present) = present.filter(|present| !present.0.is_empty() && is_new(present)) {
            match agreed(&cluster, &database, &present).await {
                Ok((agreed, differences)) => {
                    for why in differences.difference(&told) {
                        tracing::warn!(
                            database = database.name(),
                            "reads with an extension stay at the primary: {why}"
                        );
                    }
                    // A standby that has not replayed CREATE EXTENSION yet is asked again.
                    let all = agreed == present.0;
                    let compared = |id| present.1.contains(&id) || !cluster.is_here(id);
                    if database.set_agreed(agreed, &differences, compared) {
                        void(&cluster, &database);
                    }
                    told = differences;
                    last = all.then(|| (present, Instant::now()));
                }
                Err(error) => {
                    tracing::debug!(database = database.name(), %error, "cannot compare extensions")
                }
            }
        }
        tokio::time::sleep(ROUND).await;
    }
}

/// Compares the extensions of a standby that joins, before it serves reads.
pub(super) async fn joins(cluster: &Cluster, id: StandbyId) -> Result<(), Error> {
    for database in cluster.databases() {
        joins_database(cluster, &database, id).await?;
    }
    Ok(())
}

/// Compares the extensions of a node before it serves reads of the database.
pub(super) async fn joins_database(
    cluster: &Cluster,
    database: &Database,
    id: StandbyId,
) -> Result<(), Error> {
    let present = database.loaded().map(|loaded| (versions(&loaded.catalog), BTreeSet::from([id])));
    let all = match present {
        Some(joining) if !joining.0.is_empty() => agreed(cluster, database, &joining).await?.0,
        _ => BTreeMap::new(),
    };
    if database.joined(id, all) {
        void(cluster, database);
    }
    Ok(())
}

/// Has the catalog read again.
fn void(cluster: &Cluster, database: &Database) {
    if let Some(id) = database.id() {
        cluster.understanding().forget(id);
    }
    database.catalog_changed(None);
    cluster.moved();
}

fn versions(catalog: &Catalog) -> BTreeMap<String, String> {
    let all = catalog.extensions();
    all.iter().map(|(name, (version, _))| ((*name).to_owned(), (*version).to_owned())).collect()
}

/// The standbys that are watched, and the logical replicas that show the database.
fn serving(cluster: &Cluster, database: &Database) -> BTreeSet<StandbyId> {
    let shows = |id| database.id().and_then(|of| cluster.scheduler().surely_shown(id, of)).is_some();
    let is_one = |id: &StandbyId| match cluster.standby(*id).kind {
        Kind::Standby => cluster.is_watched(*id),
        Kind::Fed => shows(*id),
    };
    cluster.standby_ids().filter(is_one).collect()
}

/// The extensions that are the same at all nodes, and the differences, a sentence each.
async fn agreed(
    cluster: &Cluster,
    database: &Database,
    (versions, nodes): &Compared,
) -> Result<(BTreeMap<String, String>, BTreeSet<String>), Error> {
    let ask = async |address: &Address| {
        let control = Control::connect(&address.with_database(database.name())).await?;
        Ok::<_, Error>((
            answered(facts::libraries(&control)).await?,
            answered(facts::extensions(&control)).await?,
        ))
    };
    let (primary, of_primary) = ask(&cluster.setup().primary).await?;
    let (mut agreed, mut differences) = (versions.clone(), BTreeSet::new());
    for id in nodes {
        let setup = cluster.standby(*id);
        let (files, of_node) = ask(&setup.address).await?;
        let at_node = |(name, why)| (name, format!("{why} at {}", setup.name));
        let mut others: BTreeMap<_, _> =
            facts::differing_libraries(&primary, &files).into_iter().map(at_node).collect();
        if setup.kind == Kind::Fed {
            others.extend(facts::differing_extensions(&of_primary, &of_node, &setup.name));
        }
        for (name, why) in others {
            agreed.remove(&name);
            differences.insert(why);
        }
    }
    Ok((agreed, differences))
}

/// Logs once each extension whose functions are not known.
pub(super) fn tell(database: &Database, catalog: &Catalog, told: &mut BTreeSet<String>) {
    for (name, (version, is_known)) in catalog.extensions() {
        if !is_known && told.insert(format!("{name} {version}")) {
            tracing::info!(
                database = database.name(),
                extension = name,
                version,
                "NOTICE: the functions of this version are not known, and stay at the primary ([extension.{name}] trust)"
            );
        }
    }
}
