//! One database that all nodes have: its order, and how its commands tell that they are Consort's own.

use crate::capture_kind::Capture;
use crate::engine::Functions;
use crate::nodes::{Nodes, make_folder};
use crate::notes::Shapes;
use crate::options::Options;
use crate::record::Record;
use certified_flow::{CommitOrder, Order};
use ledger::Ledger;
use std::rc::Rc;

/// Records that the certifier remembers.
const WINDOW: usize = 100_000;

/// One database at one node.
pub(crate) type Site = certified_flow::Site<Life>;

/// Knowledge of one life of a node's server.
#[derive(Default)]
pub(crate) struct Life {
    /// The functions that Consort has installed there.
    pub(crate) functions: Rc<Functions>,
    /// Capture of write sets there; `None` until the node has caught up.
    pub(crate) capture: Option<Capture>,
    /// The keeper of the order of `COMMIT`s there.
    pub(crate) commit_order: CommitOrder,
    /// Tables as notes of this life name them.
    pub(crate) shapes: Shapes,
}

/// One database.
pub(crate) struct Database {
    /// Its name.
    pub(crate) name: String,
    /// How the cluster behaves.
    pub(crate) options: Rc<Options>,
    /// Nodes of the database.
    pub(crate) nodes: Rc<Nodes>,
    /// Epoch of the ledger: nodes whose versions are of another one are not served.
    pub(crate) epoch: String,
    /// Commits of the database, and the database at each node.
    pub(crate) order: Order<Record, Life>,
    /// Held shared by commits, alone by a command that changes the catalog.
    pub(crate) catalog: tokio::sync::RwLock<()>,
    /// Parameter of Consort's own commands at the nodes. Each process has its own: one that was replaced commits nothing.
    pub(crate) secret: Rc<str>,
}

impl Database {
    /// The database with what its ledger holds.
    ///
    /// # Errors
    /// The ledger cannot be opened, or holds something else: a sentence for a person.
    pub(crate) fn open(name: &str, options: Rc<Options>, nodes: Rc<Nodes>) -> Result<Database, String> {
        let folder = options.ledger_dir.join(ledger::folder_of(name));
        make_folder(&options.ledger_dir)
            .map_err(|error| format!("cannot make {} (ledger_dir): {error}", options.ledger_dir.display()))?;
        let disk = disk::Disk::new();
        let (ledger, reader) = Ledger::open(&folder, &disk).map_err(|error| error.to_string())?;
        let epoch = ledger::epoch(&folder, &disk, &random_word()).map_err(|error| error.to_string())?;
        let of_order = certified_flow::Options {
            nodes: nodes.members().into_iter().map(|(number, _)| number).collect(),
            window: WINDOW,
            bugs: certified_flow::Bugs::default(),
        };
        let order = Order::open(of_order, ledger, reader)?;
        order.refuses_by_force(options.abort_percent);
        Ok(Database {
            name: name.to_owned(),
            options,
            nodes,
            epoch,
            order,
            catalog: tokio::sync::RwLock::new(()),
            secret: random_word().into(),
        })
    }
}

fn random_word() -> String {
    conn::random::secret().iter().map(|byte| format!("{byte:02x}")).collect()
}
