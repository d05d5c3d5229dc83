//! The plan of a statement: if it may be offloaded, its footprint, and its possible commits. Planning reads
//! known state and decides, without messages or waits.

use crate::understanding::Statement;
use crate::{Cluster, Database};
use history::{Consistency, Footprint, RelationId, Rows};
use scheduler::{Question, Reason, SessionMarks, StandbyId};
use session_state::utility::Utility;
use session_state::{Dirt, SessionState, SessionStay, may_have_extension_state};
use statement_analysis::shape::{Hint, Strings};
use statement_analysis::{Kind, Stay, Template, Values};
use std::rc::Rc;
use std::sync::Arc;

/// Plan of one statement.
#[derive(Debug)]
pub enum Plan {
    /// A statement that is proven read-only, and may be offloaded if its answer can be proven.
    Leaves(Leaving),
    /// A statement that is proven to write nothing, and stays at the primary.
    Stays(Reason),
    /// A statement that may write. Outside a block it may commit: its write set is in flight before its first
    /// byte leaves.
    Writes(Writing),
}

/// A read that may be offloaded.
#[derive(Debug)]
pub struct Leaving {
    /// Question to the scheduler.
    pub question: Question,
    /// Known properties of the statement.
    pub template: Rc<Template>,
    /// Version of the catalog under which the statement was understood.
    pub catalog: u64,
}

/// A statement that may write.
#[derive(Debug)]
pub struct Writing {
    /// Footprint of all possible writes.
    pub footprint: Footprint,
    /// True if readers elsewhere must wait from now on (LOCK, TRUNCATE, DDL): in flight from the statement,
    /// not from COMMIT.
    pub locks_out_readers: bool,
    /// True if the statement's tree is not known yet: the write set can be narrowed when the tree arrives.
    pub unknown: bool,
    /// Untracked change that the statement may make to the session.
    pub dirties: Option<Dirt>,
    /// Reason why it runs at the primary.
    pub reason: Reason,
    /// Version of the catalog under which the footprint was understood. Under another version the possible
    /// writes are unknown; that is of no matter if the footprint is everything anyway.
    pub catalog: u64,
    /// Footprint of a statement that may be executed again elsewhere, or else the reason against it, in
    /// designs that replicate statements.
    pub again: Result<Again, &'static str>,
}

/// Properties of a statement that writes the same when it is executed again on the same rows.
#[derive(Clone, Debug)]
pub struct Again {
    /// The table that the statement writes.
    pub writes: RelationId,
    /// Footprint of its reads and writes.
    pub touched: Footprint,
    /// Tables that its triggers may write. `None`: it fires none.
    pub fires: Option<Arc<[RelationId]>>,
    /// Maximum number of rows that it writes. `None`: unknown.
    pub most_rows: Option<u64>,
    /// Known properties that hold for any values.
    pub template: Rc<Template>,
}

impl Writing {
    /// Returns a plan that touches everything.
    pub fn everything(reason: Reason) -> Writing {
        Writing {
            footprint: Footprint::Everything,
            locks_out_readers: true,
            unknown: false,
            dirties: Some(Dirt::Function),
            reason,
            catalog: 0,
            again: Err("not_understood"),
        }
    }
}

/// The session that asks, and its database.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The session's database.
    pub database: &'a Database,
    /// Known state of the session.
    pub session: &'a SessionState,
    /// Positions that the session has reached.
    pub marks: SessionMarks,
    /// Standby that executes this session's statements with random results.
    pub home: Option<StandbyId>,
    /// True if its block runs at a standby.
    pub in_snapshot: bool,
}

impl Asker<'_> {
    /// Returns true if the session is as the analysis of the statement assumed. A write must touch nothing
    /// unknown.
    pub fn understands(&self, template: &Template) -> bool {
        match template.kind {
            Kind::Read => self.session.knows_settings(),
            Kind::Write | Kind::Utility => self.session.knows_names(),
        }
    }

    /// Returns an error if the session's state keeps its next statement, alone or in a whole block, at the
    /// primary.
    fn may_leave(&self) -> Result<(), SessionStay> {
        match self.session.may_leave() {
            Err(SessionStay::Isolation) if self.in_snapshot || self.session.read_only_snapshot() => Ok(()),
            said => said,
        }
    }
}

/// Plans a statement whose tree shows its effects (SELECT, INSERT, ..). `template` holds its known
/// properties, if any.
pub fn tree(
    asker: Asker<'_>,
    statement: Statement<'_>,
    values: &Values<'_>,
    template: Option<Rc<Template>>,
) -> Plan {
    let Some(template) = template.filter(|template| asker.understands(template)) else {
        return not_understood(asker, statement);
    };
    let writes = template.writes.fill(values);
    let stay = template.stay_with(values);
    // A change of the session (`set_config`) writes nothing, and still must be noted before it runs.
    if template.kind != Kind::Read || !writes.is_nothing() || template.dirties {
        let reason = stay.map_or(Reason::Stay("write"), |stay| Reason::Stay(stay.name()));
        let again = match asker.cluster.statements_travel() {
            true => again(&template, values),
            false => Err("not_asked"),
        };
        return Plan::Writes(Writing {
            again,
            footprint: writes,
            locks_out_readers: false,
            unknown: false,
            dirties: dirt(&template),
            reason,
            catalog: asker.database.version(),
        });
    }
    if asker.session.may_hide() {
        // A temporary view, or one of another search_path, may stand where a table was meant, and call a
        // function that writes. So may a function, an operator, a domain. The probe that precedes the
        // session's known state reports its effects on the session.
        let reason = asker.may_leave().err().map_or("write", SessionStay::name);
        return Plan::Writes(Writing {
            locks_out_readers: false,
            dirties: None,
            ..Writing::everything(Reason::Stay(reason))
        });
    }
    let warns = || asker.session.strings() == Strings::Escaping && values.literals.iter().any(warned_of);
    let stay = stay.or_else(|| warns().then_some(Stay::Warns));
    // In a transaction that runs elsewhere, a missing notice of Parse is better than an error.
    if let Some(stay) = stay.filter(|stay| !(asker.in_snapshot && *stay == Stay::Warns)) {
        return Plan::Stays(Reason::Stay(stay.name()));
    }
    if let Err(stays) = asker.may_leave() {
        return Plan::Stays(Reason::Stay(stays.name()));
    }
    let hidden = may_have_extension_state(asker.session, &template.depends_on);
    if hidden || template.random && asker.session.is_seeded() {
        // The seed's sequence goes on at the primary, and would lack a number drawn elsewhere. Code may have set a parameter of
        // an extension, which no probe reads.
        return Plan::Stays(Reason::Stay(Stay::Session.name()));
    }
    if !asker.database.reads_may_leave() {
        return Plan::Stays(asker.database.stays());
    }
    let Some(database) = asker.database.id() else {
        return Plan::Stays(Reason::DatabaseNotFollowed);
    };
    let question = Question {
        database,
        footprint: Arc::new(template.reads.fill(values).at(asker.cluster.setup().footprint_grain)),
        consistency: consistency(asker, statement),
        session: asker.marks,
        prefer: template.chance.as_ref().and(asker.home),
        now: asker.cluster.now(),
        at_copies: !template.at_copies.never,
    };
    Plan::Leaves(Leaving { question, template, catalog: asker.database.version() })
}

/// Change that the statement may make to the session.
pub fn dirt(template: &Template) -> Option<Dirt> {
    let hides = if template.depends_on.may_hide_state { Dirt::Function } else { Dirt::Code };
    template.dirties.then_some(hides)
}

/// Returns the properties of a statement that may be executed again elsewhere, or else the reason against it.
fn again(template: &Rc<Template>, values: &Values<'_>) -> Result<Again, &'static str> {
    let target = template.again_with(values).map_err(|why| why.name())?;
    let (reads, writes) = template.touched_again();
    let (mut touched, writes) = (reads.fill(values), writes.fill(values));
    touched.union(&writes);
    let mut accesses = writes.tables().into_iter().flatten().map(|(_, access)| &access.rows);
    let most_rows = accesses.try_fold(0, |most, rows| match rows {
        Rows::Keys(keys) => Some(most + keys.len() as u64),
        Rows::All => None,
    });
    let fires = template.fires_again().map(|tables| tables.iter().copied().collect());
    Ok(Again { writes: target, touched, fires, most_rows, template: template.clone() })
}

/// Returns true if PostgreSQL warns of a backslash in this literal: in plain strings where it is an escape.
fn warned_of(literal: &&str) -> bool {
    literal.starts_with('\'') && literal.contains('\\')
}

/// Plans a statement that a tree does not describe: the utility statements that are not the session's own
/// matter.
pub fn utility(asker: Asker<'_>, utility: &Utility) -> Plan {
    let block = asker.session.block();
    let reason = Reason::Stay(utility.name());
    if !utility.may_commit(block) && !utility.doubt_at_statement() && !utility.may_write() {
        return Plan::Stays(reason);
    }
    Plan::Writes(Writing {
        footprint: Footprint::Everything,
        locks_out_readers: utility.doubt_at_statement(),
        unknown: false,
        dirties: None,
        reason,
        catalog: 0,
        again: Err("utility"),
    })
}

/// Plans a statement without any knowledge, which may do anything.
fn not_understood(asker: Asker<'_>, statement: Statement<'_>) -> Plan {
    let reason = match statement.shape.sure() {
        Err(unsure) => Reason::Stay(unsure.name()),
        Ok(()) if asker.database.not_serving().is_some() => asker.database.stays(),
        Ok(()) if !asker.session.knows_names() => {
            Reason::Stay(asker.session.may_leave().err().map_or("write", SessionStay::name))
        }
        Ok(()) => Reason::Stay("not_analysed_yet"),
    };
    let dirties = Some(Dirt::Unknown);
    let again = Err("not_analysed_yet");
    Plan::Writes(Writing {
        unknown: true,
        dirties,
        locks_out_readers: false,
        again,
        ..Writing::everything(reason)
    })
}

/// Required freshness of the statement's answer: its own hint, else the session's.
fn consistency(asker: Asker<'_>, statement: Statement<'_>) -> Consistency {
    match statement.shape.hint() {
        Some(Hint::Level(level)) => level,
        Some(Hint::Unknown) => Consistency::Primary,
        Some(Hint::Declares) | None => asker.session.consistency(),
    }
}
