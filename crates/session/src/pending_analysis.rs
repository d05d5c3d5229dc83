//! Statements that ran in a session before their trees were known, kept until the trees are there. If none of
//! them changed the session, its state counts as known, and so do the settings under which statements were
//! prepared meanwhile.

use super::Session;
use super::request_analysis::Todo;
use backend::prepared_statements::{SettingsAt, Under};
use cluster::understanding::{NoTree, Statement as Asked, Understanding};
use cluster::{Cluster, Database, NamesAt};
use order::GaugeNumber;
use session_state::{Dirt, Settings};
use statement_analysis::shape::Shape;

/// Maximum number of different statements kept. With more, only a probe shows their effects.
const KEPT: usize = 64;
/// Maximum total length of the kept texts, in bytes.
const TEXTS_KEPT_BYTES: usize = 64 * 1024;

/// The statements that wait for their analysis.
#[derive(Default)]
pub(super) struct Unjudged {
    ran: Vec<Ran>,
    text_bytes: usize,
    /// Version of the catalog when the first of them ran, and the meaning of names then.
    catalog: u64,
    names: NamesAt,
    /// The snapshot probe after which it is known if names have changed since.
    wanted: Option<GaugeNumber>,
}

struct Ran {
    shape: Shape,
    text: String,
    types: Vec<u32>,
    settings: Settings,
    /// Version of the catalog under which the tree was requested.
    asked_under: Option<u64>,
}

impl Unjudged {
    /// Keeps a statement that is about to run. `false`: the statement cannot be judged later.
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

    /// The effect of all kept statements on the session, once it is known; they are dropped then.
    pub(super) fn verdict(&mut self, cluster: &Cluster, database: &Database) -> Option<Result<(), Dirt>> {
        if self.ran.is_empty() {
            return None;
        }
        let verdict = if database.names().are_those_of(&self.names) {
            let by = cluster.understanding();
            // All are looked up: unknown trees are requested.
            let known: Vec<_> = self.ran.iter_mut().map(|ran| ran.dirties(by, database)).collect();
            match () {
                () if known.contains(&Ok(Some(Some(Dirt::Function)))) => Err(Dirt::Function),
                () if known.contains(&Err(NoTree)) => Err(Dirt::Unknown),
                () if known.contains(&Ok(Some(Some(Dirt::Code)))) => Err(Dirt::Code),
                () if known.contains(&Ok(None)) => return None,
                () if !self.is_catalog_of_then(cluster, database) => return None,
                () => Ok(()),
            }
        } else {
            // The names may have meant other objects.
            Err(Dirt::Unknown)
        };
        self.ran = Vec::new();
        Some(verdict)
    }

    /// True if the catalog of today shows the meaning of names at the time when all statements ran. A catalog
    /// that was read later, because the database was not followed for a while, does so once all changes up to
    /// its reading have arrived.
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

    /// The change that the statement may have made to the session; `None` while its tree is not known.
    fn dirties(&mut self, by: &Understanding, database: &Database) -> Result<Option<Option<Dirt>>, NoTree> {
        let Ran { shape, text, types, settings, asked_under } = self;
        let statement = Asked { shape, text, parameters: types, settings };
        Ok(by.look_once(database, statement, asked_under)?.map(|template| cluster::plan::dirt(&template)))
    }
}

impl Session {
    /// Judges statements that ran before their trees were known, if all trees are there by now.
    pub(super) fn judge(&mut self) {
        if let Some(verdict) = self.unjudged.verdict(&self.service.cluster, &self.database) {
            self.state.judged(verdict.err());
            self.line.statements.judged(verdict.is_ok());
        }
    }

    /// Settings and names under which the statements of the request are parsed.
    pub(super) fn parses_under(&mut self, todo: &Todo) -> Under {
        let names = self.database.names().now(self.current.meant.shown.take());
        let name_changes = self.state.name_changes();
        if !todo.keeps_settings() {
            let is_one = match todo {
                Todo::Several(several) if several.runs_its_only_parse => {
                    matches!(&*several.statements, [one] if one.what == session_state::utility::What::Tree)
                }
                _ => false,
            };
            let known = is_one && self.state.knows_names_if_judged();
            let before = known.then(|| SettingsAt::of(self.state.settings()));
            return Under { names, name_changes, before, ..Under::default() };
        }
        // Names and settings that hold for this block alone are gone when the statement is used.
        let now = SettingsAt::of(self.state.settings());
        let settings = self.state.knows_names().then_some(now);
        let if_judged = self.state.knows_names_if_judged().then_some(now);
        let known = if_judged.map(|_| self.state.settings().clone());
        Under { settings, if_judged, before: None, known, names, name_changes }
    }
}
