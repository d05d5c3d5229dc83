//! Footprints of statements: templates from the cache, or requested from the primary's own parser over a few
//! analysis connections. A miss never delays a write. A read waits for it no longer than for its proof.

use crate::trouble::RECONNECT_AFTER;
use crate::trouble::Task;
use crate::{Cluster, Database};
use history::DatabaseId;
use postgres::Error;
use postgres::address::Address;
use postgres::analyst::Analyst;
use session_state::Settings;
use statement_analysis::cache::{Cache, CacheKey, Counters, Found, Outcome, Ticket};
use statement_analysis::shape::Shape;
use statement_analysis::{Input, Kind, Stay, Template};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::{Instant, timeout_at};

/// Analysis connections per database: one that waits for a lock must not stop the others.
pub const ANALYSTS: usize = 3;
/// Maximum statements that wait to be analysed, per database. One more is not understood and stays at the
/// primary.
const QUEUE: usize = 256;

/// One statement to be analysed.
pub struct Asked {
    ticket: Ticket,
    version: u64,
    text: String,
    literals: Vec<Range<usize>>,
    parameters: Vec<u32>,
    settings: Settings,
}

/// Known footprints of statements.
pub struct Understanding {
    cache: RefCell<Cache<Rc<Template>>>,
    queues: RefCell<BTreeMap<DatabaseId, mpsc::Sender<Asked>>>,
    arrived: Notify,
}

/// A statement as the session knows it.
#[derive(Clone, Copy)]
pub struct Statement<'a> {
    /// Shape of the statement, read from `text`.
    pub shape: &'a Shape,
    /// The text of the Query or Parse message.
    pub text: &'a str,
    /// The parameter types that the client declared; 0 where it left them open.
    pub parameters: &'a [u32],
    /// The session's settings.
    pub settings: &'a Settings,
}

/// Error: PostgreSQL was asked under the present catalog, and returned no tree. The statement's effects are
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTree;

/// Result of a look-up.
enum Looked {
    Known(Rc<Template>),
    /// Unknown, and just requested.
    Asked,
    /// Unknown: a request is in progress, or impossible now.
    Unknown,
    /// Unknown, and not requested.
    Absent,
}

impl Understanding {
    pub(crate) fn new(max_bytes: usize) -> Understanding {
        let cache = RefCell::new(Cache::new(max_bytes));
        Understanding { cache, queues: RefCell::default(), arrived: Notify::new() }
    }

    /// Returns the template, if it is known; otherwise requests it.
    pub fn look(&self, database: &Database, statement: Statement<'_>) -> Option<Rc<Template>> {
        match self.find(database, statement, true) {
            Looked::Known(template) => Some(template),
            Looked::Asked | Looked::Unknown | Looked::Absent => None,
        }
    }

    fn find(&self, database: &Database, statement: Statement<'_>, asks: bool) -> Looked {
        let Some(id) = database.id() else { return Looked::Unknown };
        let key = CacheKey {
            shape: statement.shape,
            text: statement.text,
            types: statement.parameters,
            settings: statement.settings.analysis_id(),
            database: id,
            catalog: database.version(),
        };
        let mut cache = self.cache.borrow_mut();
        match cache.get(&key) {
            Found::Ready(template) => return Looked::Known(template.clone()),
            Found::Pending => return Looked::Unknown,
            Found::Absent => {}
        }
        // Without a catalog nothing is requested. A DDL command can come out of the decoder before the
        // primary shows it: a tree fetched then is the old one, and would be kept. The catalog exists once it
        // sees every command that came out, and later parses see them too.
        if database.loaded().is_none() {
            return Looked::Unknown;
        }
        if !asks {
            return Looked::Absent;
        }
        let queues = self.queues.borrow();
        let Some(place) = queues.get(&id).and_then(|queue| queue.try_reserve().ok()) else {
            return Looked::Unknown;
        };
        let Some(ticket) = cache.begin(&key) else { return Looked::Unknown };
        place.send(Asked {
            ticket,
            version: database.version(),
            text: statement.text.to_owned(),
            literals: statement.shape.ranges(),
            parameters: statement.parameters.to_vec(),
            settings: statement.settings.clone(),
        });
        Looked::Asked
    }

    /// Returns the template, if it is known; otherwise requests it, but once under each catalog:
    /// `asked_under` is the last one. The error is that PostgreSQL had no answer.
    pub fn look_once(
        &self,
        database: &Database,
        statement: Statement<'_>,
        asked_under: &mut Option<u64>,
    ) -> Result<Option<Rc<Template>>, NoTree> {
        let version = database.version();
        match self.find(database, statement, *asked_under != Some(version)) {
            Looked::Known(template) => Ok(Some(template)),
            Looked::Asked => {
                *asked_under = Some(version);
                Ok(None)
            }
            Looked::Unknown => Ok(None),
            Looked::Absent => Err(NoTree),
        }
    }

    /// Returns the template, after a wait of at most until `limit`.
    pub async fn look_until(
        &self,
        limit: Instant,
        database: &Database,
        statement: Statement<'_>,
    ) -> Option<Rc<Template>> {
        let mut asked_under = None;
        loop {
            let arrived = self.arrived.notified();
            if let Some(template) = self.look_once(database, statement, &mut asked_under).ok()? {
                return Some(template);
            }
            timeout_at(limit, arrived).await.ok()?;
        }
    }

    /// Notes that a catalog is loaded: all waiters for a template request it now.
    pub(crate) fn catalog_loaded(&self) {
        self.arrived.notify_waiters();
    }

    /// Forgets the templates after a change of the database's catalog.
    pub(crate) fn forget(&self, database: DatabaseId) {
        self.cache.borrow_mut().forget_database(database);
    }

    /// The cache's counters.
    pub fn counters(&self) -> Counters {
        self.cache.borrow().counters()
    }

    fn finish(&self, ticket: Ticket, outcome: Outcome<Rc<Template>>) {
        self.cache.borrow_mut().finish(ticket, outcome);
        self.arrived.notify_waiters();
    }
}

/// Opens the analysis connections of a database. They close when the returned value is dropped.
pub(crate) fn serve(cluster: &Cluster, database: &Rc<Database>, address: &Address) -> Vec<Task> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let receiver = Rc::new(Mutex::new(receiver));
    if let Some(id) = database.id() {
        cluster.understanding().queues.borrow_mut().insert(id, sender);
    }
    let analyst = |_| {
        let work = analyse(cluster.clone(), database.clone(), address.clone(), receiver.clone());
        Task(tokio::task::spawn_local(work))
    };
    (0..ANALYSTS).map(analyst).collect()
}

async fn analyse(
    cluster: Cluster,
    database: Rc<Database>,
    address: Address,
    questions: Rc<Mutex<mpsc::Receiver<Asked>>>,
) {
    while !cluster.stopping() {
        let mut analyst = match Analyst::connect(&address).await {
            Ok(analyst) => analyst,
            Err(error) => {
                tracing::debug!(database = database.name(), %error, "cannot open an analysis connection");
                tokio::time::sleep(RECONNECT_AFTER).await;
                continue;
            }
        };
        loop {
            let Some(asked) = questions.lock().await.recv().await else { return };
            let answer = answer(&mut analyst, &database, &asked).await;
            let lost = matches!(answer, Err(Error::Unreachable(_) | Error::Protocol(_)));
            cluster.understanding().finish(asked.ticket, answer.unwrap_or(Outcome::Failed));
            if lost {
                break;
            }
        }
    }
}

/// Asks PostgreSQL for the statement's trees and judges them by the catalog of the same version.
async fn answer(
    analyst: &mut Analyst,
    database: &Database,
    asked: &Asked,
) -> Result<Outcome<Rc<Template>>, Error> {
    if database.version() != asked.version || database.loaded().is_none() {
        return Ok(Outcome::Failed);
    }
    analyst.under(asked.version);
    if !analyst.may_become(&asked.settings).await? {
        let template = Template::everything(Kind::Write, Stay::RoleNotAnalysed);
        return Ok(ready(template));
    }
    let analysed = analyst.analyse(&asked.settings, &asked.text, &asked.parameters).await?;
    let Some(loaded) = database.loaded() else { return Ok(Outcome::Failed) };
    if database.version() != asked.version {
        return Ok(Outcome::Failed);
    }
    let (text, literals) = (&*asked.text, &*asked.literals);
    let input = Input { trees: &analysed.trees, text, literals, parameters: &analysed.parameters };
    let mut template = statement_analysis::judge(&input, &loaded.catalog);
    if analysed.warns {
        template.stays.insert(Stay::Warns);
    }
    template.results.described = analysed.columns;
    Ok(ready(template))
}

fn ready(template: Template) -> Outcome<Rc<Template>> {
    let value = Rc::new(template);
    let bytes = value.bytes();
    match value.validity.exact {
        true => Outcome::Exact { value, bytes },
        false => Outcome::Ready { value, bytes },
    }
}

/// Narrows a write set that began as *everything* once the statement's template arrives.
pub fn narrow_when_known(
    cluster: &Cluster,
    database: &Rc<Database>,
    statement: Statement<'_>,
    within: Duration,
    narrow: impl FnOnce(&Cluster, &Template) + 'static,
) {
    let (cluster, database) = (cluster.clone(), database.clone());
    let text = statement.text.to_owned();
    let parameters = statement.parameters.to_vec();
    let settings = statement.settings.clone();
    let shape = statement.shape.clone();
    tokio::task::spawn_local(async move {
        let statement =
            Statement { shape: &shape, text: &text, parameters: &parameters, settings: &settings };
        let limit = Instant::now() + within;
        if let Some(template) = cluster.understanding().look_until(limit, &database, statement).await {
            narrow(&cluster, &template);
            cluster.moved();
        }
    });
}
