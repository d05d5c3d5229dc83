//! The transaction of a session: committed settings, settings now, and the block with its savepoints.

use super::{Answer, BlockStatus};
use crate::consort_settings::{Own, SettingError};
use crate::settings::Settings;
use crate::utility::{Assignment, Isolation, Modes, NewValue};

/// Maximum number of savepoints of one block for which ROLLBACK TO is followed.
const MAX_SAVEPOINTS: usize = 256;

/// State that a rollback restores.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) settings: Settings,
    pub(super) own: Own,
    /// SET LOCAL of Consort's own settings: `own` as it will be when the block ends.
    pub(super) own_after: Option<Own>,
    pub(super) modes: Modes,
}

/// One block, explicit or implicit.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// BEGIN was seen, so the isolation is known.
    pub(super) known: bool,
    pub(super) set_local: bool,
    /// A SET LOCAL of the block affects what names stand for, or which role reads.
    pub(super) names_set_local: bool,
    /// The block before had a SET LOCAL, and the server has not been ready since: its reports restore those
    /// settings.
    pub(super) puts_back: bool,
    pub(super) ddl: bool,
    pub(super) snapshot: bool,
    pub(super) savepoints: Vec<(String, Layer)>,
    /// ROLLBACK TO a savepoint cannot be followed any more.
    pub(super) lost_savepoints: bool,
}

/// The settings and the block of a session, as transactions change and restore them.
///
/// Invariant: outside a block, with the server ready, `now` is `committed`.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) committed: Layer,
    pub(super) now: Layer,
    pub(super) block: Block,
    pub(super) status: BlockStatus,
    /// An error came since the server was last ready.
    pub(super) failed: bool,
}

impl Transaction {
    /// Creates the state outside a block, with these settings.
    pub(super) fn new(settings: Settings, own: Own) -> Transaction {
        let layer = Layer { settings, own, own_after: None, modes: Modes::default() };
        Transaction {
            committed: layer.clone(),
            now: layer,
            block: Block::default(),
            status: BlockStatus::Idle,
            failed: false,
        }
    }

    /// The committed state with other values of Consort's own settings.
    pub(super) fn with_own(&self, own: Own) -> Transaction {
        let layer = Layer { own, own_after: None, ..self.committed.clone() };
        Transaction { committed: layer.clone(), now: layer, ..self.clone() }
    }

    /// Commits the settings at once: a rollback keeps them.
    pub(super) fn keep_settings(&mut self) {
        self.committed.settings = self.now.settings.clone();
    }

    /// `default_transaction_isolation`; SERIALIZABLE where it is not known.
    pub(super) fn default_isolation(&self) -> Isolation {
        self.now.settings.decided().isolation
    }

    /// True if the block has failed, or a statement since the server was last ready.
    pub(super) fn aborted(&self) -> bool {
        self.failed || self.status == BlockStatus::Failed
    }

    /// Begins a block, or continues the one that is open.
    pub(super) fn begin(&mut self, modes: &Modes) {
        if self.status == BlockStatus::Idle {
            // A block keeps the modes with which it begins, whatever happens to the defaults.
            let read_only = self.now.settings.get("default_transaction_read_only") == Some("on");
            self.block.known = true;
            let isolation = self.default_isolation();
            self.now.modes.isolation.get_or_insert(isolation);
            self.now.modes.read_only.get_or_insert(read_only);
        }
        self.status = BlockStatus::Open;
        self.set_transaction(modes);
    }

    /// Applies the modes of BEGIN or SET TRANSACTION.
    pub(super) fn set_transaction(&mut self, modes: &Modes) {
        let now = &mut self.now.modes;
        now.isolation = modes.isolation.or(now.isolation);
        now.read_only = modes.read_only.or(now.read_only);
        now.deferrable = modes.deferrable.or(now.deferrable);
        self.block.snapshot |= modes.snapshot;
    }

    /// Ends the transaction. Without `committed` the settings are rolled back; with `chain` the next block
    /// begins at once.
    pub(super) fn end(&mut self, committed: bool, chain: bool) {
        // A failed block has lost its isolation before it is chained (15.x: to the default; not documented).
        let lost = self.aborted();
        let modes = if lost { Modes::default() } else { self.now.modes };
        if committed {
            if let Some(own) = self.now.own_after.take() {
                self.now.own = own;
            }
            self.committed = self.now.clone();
        }
        self.now = self.committed.clone();
        self.now.modes = if chain { modes } else { Modes::default() };
        self.committed.modes = Modes::default();
        let known = chain && self.block.known && !lost;
        let puts_back = self.block.set_local || self.block.puts_back;
        self.block = Block { known, puts_back, ..Block::default() };
        self.status = if chain { BlockStatus::Open } else { BlockStatus::Idle };
        if chain {
            self.failed = false;
        }
    }

    /// Creates a savepoint.
    pub(super) fn savepoint(&mut self, name: &str) {
        if self.block.savepoints.len() == MAX_SAVEPOINTS {
            self.block.lost_savepoints = true;
            return;
        }
        self.block.savepoints.push((name.to_owned(), self.now.clone()));
    }

    /// Releases a savepoint and the later ones.
    pub(super) fn release(&mut self, name: &str) {
        if let Some(at) = self.block.savepoints.iter().rposition(|(savepoint, _)| savepoint == name) {
            self.block.savepoints.truncate(at);
        }
    }

    /// Rolls back to a savepoint. `false`: the savepoint is not known, and neither are the settings.
    pub(super) fn rollback_to(&mut self, name: &str) -> bool {
        let at = self.block.savepoints.iter().rposition(|(savepoint, _)| savepoint == name);
        let followed = at.filter(|_| !self.block.lost_savepoints);
        if let Some(at) = followed {
            self.block.savepoints.truncate(at + 1);
            self.now = self.block.savepoints[at].1.clone();
        }
        self.failed = false;
        self.status = BlockStatus::Open;
        followed.is_some()
    }

    /// Sets one of Consort's own settings; SET LOCAL does so for the block alone.
    pub(super) fn set_own(
        &mut self,
        assignment: &Assignment,
        defaults: &Own,
    ) -> Result<Answer, SettingError> {
        let value = match &assignment.value {
            NewValue::To(value) => Some(value.as_str()),
            NewValue::Default | NewValue::Reset => None,
            NewValue::Unknown => Some(""),
        };
        let mut own = self.now.own.clone();
        own.set(&assignment.name, value, defaults)?;
        let in_block = self.status == BlockStatus::Open;
        if assignment.local && !in_block {
            return Ok(Answer::TagWithWarning("SET", "SET LOCAL can only be used in transaction blocks"));
        }
        if assignment.local {
            self.now.own_after.get_or_insert_with(|| self.now.own.clone());
        } else if let Some(after) = &mut self.now.own_after {
            after.set(&assignment.name, value, defaults)?;
        }
        if !in_block {
            self.committed.own = own.clone();
        }
        self.now.own = own;
        Ok(Answer::Tag(if assignment.value == NewValue::Reset { "RESET" } else { "SET" }))
    }
}
