//! What ran in a session before its tree was known, kept until the trees are there. Then it is judged: if none of it
//! changed the session, the session is as known as it seemed, and so are the settings under which something was prepared
//! meanwhile.

use super::Session;
use super::request_analysis::Todo;
use backend::prepared_statements::{SettingsAt, Under};
use cluster::understanding::{NoTree, Statement as Asked, Understanding};
use cluster::{Cluster, Database, NamesAt};
use order::GaugeNumber;
use session_state::{Dirt, Settings};
use statement_analysis::shape::Shape;

/// So many different statements are kept; of more only a probe tells what they did.
const KEPT: usize = 64;
/// Texts of so many bytes are kept in all.
const TEXTS_KEPT_BYTES: usize = 64 * 1024;

/// The statements that wait to be judged.
#[derive(Default)]
pub(super) struct Unjudged {
    ran: Vec<Ran>,
    text_bytes: usize,
    /// The catalog when the first of them ran, and what names stood for.
    catalog: u64,
    names: NamesAt,
    /// The gauge behind which it is known whether names have changed since.
    wanted: Option<GaugeNumber>,
}

struct Ran {
    shape: Shape,
    text: String,
    types: Vec<u32>,
    settings: Settings,
    /// The catalog under which it was asked for.
    asked_under: Option<u64>,
}

impl Unjudged {
    /// Keeps a statement that is about to run; `false` if it cannot be judged later.
    pub(super) fn keep(&mut self, statement: Asked<'_>, database: &Database) -> bool {
        if self.ran.is_empty() {
            *self = Unjudged {
                catalog: database.version(),
                names: database.names().now(None),
                ..Unjudged::default()
            };
        }
        if !database.names().are_those_of(&self.names)
            || statement.shape.sure().is_err()
            || database.id().is_none()
        {
            return false;
        }
        self.wanted = None;
        if self.ran.iter().any(|ran| ran.is(statement)) {
            return true;
        }
        if self.ran.len() == KEPT || self.text_bytes + statement.text.len() > TEXTS_KEPT_BYTES {
            return false;
        }
        self.text_bytes += statement.text.len();
        self.ran.push(Ran {
            shape: statement.shape.clone(),
            text: statement.text.to_owned(),
            types: statement.parameters.to_vec(),
            settings: statement.settings.clone(),
            asked_under: None,
        });
        true
    }

    /// What all of it did to the session, once that can be said; it is kept no longer then.
    pub(super) fn verdict(&mut self, cluster: &Cluster, database: &Database) -> Option<Result<(), Dirt>> {
        if self.ran.is_empty() {
            return None;
        }
        let verdict = if database.names().are_those_of(&self.names) {
            let by = cluster.understanding();
            // All are looked for: what is not known is asked for.
            let known: Vec<_> = self.ran.iter_mut().map(|ran| ran.dirties(by, database)).collect();
            match () {
                () if known.contains(&Ok(Some(true))) => Err(Dirt::Function),
                // Only a probe tells.
                () if known.contains(&Err(NoTree)) => Err(Dirt::Unknown),
                () if known.contains(&Ok(None)) => return None,
                () if !self.is_catalog_of_then(cluster, database) => return None,
                () => Ok(()),
            }
        } else {
            // Its names may have meant something else.
            Err(Dirt::Unknown)
        };
        self.ran = Vec::new();
        Some(verdict)
    }

    /// Whether the catalog of today says what names stood for when all of it ran. One that was read later, because the
    /// database was not followed for a while, does once all has come out that had happened when it was read.
    fn is_catalog_of_then(&mut self, cluster: &Cluster, database: &Database) -> bool {
        if self.catalog == database.version() {
            return true;
        }
        let wanted = *self.wanted.get_or_insert_with(|| {
            let wanted = cluster.scheduler().order_mut().want_gauge();
            cluster.gauge_now();
            wanted
        });
        let scheduler = cluster.scheduler();
        let settled = database.id().and_then(|id| scheduler.order().settled(id));
        settled.is_some_and(|(number, _)| number >= wanted)
    }
}

impl Ran {
    fn is(&self, statement: Asked<'_>) -> bool {
        self.text == statement.text
            && self.types == statement.parameters
            && self.settings.id() == statement.settings.id()
    }

    /// Whether it may have changed the session, if that is known.
    fn dirties(&mut self, by: &Understanding, database: &Database) -> Result<Option<bool>, NoTree> {
        let Ran { shape, text, types, settings, asked_under } = self;
        let statement = Asked { shape, text, parameters: types, settings };
        Ok(by.look_once(database, statement, asked_under)?.map(|template| template.dirties))
    }
}

impl Session {
    /// Judges what ran before its tree was known, if all the trees are there by now.
    pub(super) fn judge(&mut self) {
        if let Some(verdict) = self.unjudged.verdict(&self.service.cluster, &self.database) {
            self.state.judged(verdict.err());
            self.line.statements.judged(verdict.is_ok());
        }
    }

    /// Under which what the request has parsed is parsed.
    pub(super) fn parses_under(&mut self, todo: &Todo) -> Under {
        let names = self.database.names().now(self.current.meant.shown.take());
        let name_changes = self.state.name_changes();
        if !todo.keeps_settings() {
            return Under { names, name_changes, ..Under::default() };
        }
        // What stands before a name, or holds, for this block alone is gone when the statement is used.
        let now = SettingsAt::of(self.state.settings());
        let settings = self.state.knows_names().then_some(now);
        let if_judged = self.state.knows_names_if_judged().then_some(now);
        let known = if_judged.map(|_| self.state.settings().clone());
        Under { settings, if_judged, known, names, name_changes }
    }
}
