//! What ran in a session before its tree was known, kept until the trees are there. Then it is judged: if none of it
//! changed the session, the session is as known as it seemed, and so are the settings under which something was prepared
//! meanwhile.

use super::Session;
use super::statements::{SettingsAt, Under};
use super::understand::Todo;
use crate::cluster::Database;
use crate::understanding::{Statement as Asked, Understanding};
use analysis::session::{Dirt, Settings};
use analysis::shape::Shape;

/// So many statements are kept; of more only a probe tells what they did.
const KEPT: usize = 16;
/// Longer texts are not kept.
const TEXT_KEPT_BYTES: usize = 64 * 1024;

/// The statements that wait to be judged, all of them run under one version of the catalog.
#[derive(Default)]
pub(super) struct Unjudged {
    ran: Vec<Ran>,
    catalog: u64,
}

struct Ran {
    shape: Shape,
    text: String,
    types: Vec<u32>,
    settings: Settings,
}

impl Unjudged {
    /// Keeps a statement that is about to run; `false` if it cannot be judged later.
    pub(super) fn keep(&mut self, statement: Asked<'_>, database: &Database) -> bool {
        if self.ran.is_empty() {
            self.catalog = database.version();
        }
        if self.ran.len() == KEPT
            || self.catalog != database.version()
            || statement.text.len() > TEXT_KEPT_BYTES
            || statement.shape.sure().is_err()
            || database.id().is_none()
        {
            return false;
        }
        self.ran.push(Ran {
            shape: statement.shape.clone(),
            text: statement.text.to_owned(),
            types: statement.parameters.to_vec(),
            settings: statement.settings.clone(),
        });
        true
    }

    /// What all of it did to the session, once that can be said; it is kept no longer then.
    pub(super) fn verdict(&mut self, by: &Understanding, database: &Database) -> Option<Result<(), Dirt>> {
        if self.ran.is_empty() {
            return None;
        }
        let verdict = if self.catalog == database.version() {
            // All are looked for: what is not known is asked for.
            let known: Vec<Option<bool>> = self.ran.iter().map(|ran| ran.dirties(by, database)).collect();
            match () {
                () if known.contains(&Some(true)) => Err(Dirt::Function),
                () if known.contains(&None) => return None,
                () => Ok(()),
            }
        } else {
            // Its names may have meant something else.
            Err(Dirt::Unknown)
        };
        self.ran = Vec::new();
        Some(verdict)
    }
}

impl Ran {
    /// Whether it may have changed the session, if that is known.
    fn dirties(&self, by: &Understanding, database: &Database) -> Option<bool> {
        let Ran { shape, text, types, settings } = self;
        let statement = Asked { shape, text, parameters: types, settings };
        by.look(database, statement).map(|template| template.dirties)
    }
}

impl Session {
    /// Judges what ran before its tree was known, if all the trees are there by now.
    pub(super) fn judge(&mut self) {
        let understanding = self.service.cluster.understanding();
        if let Some(verdict) = self.unjudged.verdict(understanding, &self.database) {
            self.state.judged(verdict.err());
            self.line.statements.judged(verdict.is_ok());
        }
    }

    /// Under which what the request has parsed is parsed.
    pub(super) fn parses_under(&mut self, todo: &Todo) -> Under {
        let names = self.database.names().now(self.shown.take());
        if !todo.keeps_settings() {
            return Under { names, ..Under::default() };
        }
        // What stands before a name, or holds, for this block alone is gone when the statement is used.
        let now = SettingsAt::of(self.state.settings());
        let settings = self.state.knows_names().then_some(now);
        let if_judged = self.state.knows_names_if_judged().then_some(now);
        Under { settings, if_judged, names }
    }
}
