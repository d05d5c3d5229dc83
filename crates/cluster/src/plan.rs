//! What is to be done with a statement: may it leave, what does it touch, what may it commit. Looks at what is known and
//! decides; sends nothing and waits for nothing.

use crate::understanding::Statement;
use crate::{Cluster, Database};
use history::{Consistency, Footprint, RelationId, Rows};
use scheduler::{Question, Reason, SessionMarks, StandbyId};
use session_state::utility::Utility;
use session_state::{Dirt, SessionState, SessionStay};
use statement_analysis::shape::{Hint, Strings};
use statement_analysis::{Kind, Stay, Template, Values};
use std::rc::Rc;
use std::sync::Arc;

/// What is to be done with one statement.
#[derive(Debug)]
pub enum Plan {
    /// It is proven read-only and may leave the primary, if its answer can be proven.
    Leaves(Leaving),
    /// It is proven to write nothing, and stays at the primary.
    Stays(Reason),
    /// It may write. Outside a block it may commit: this is in doubt before its first byte leaves.
    Writes(Writing),
}

/// A read that may leave.
#[derive(Debug)]
pub struct Leaving {
    /// What is asked of the scheduler.
    pub question: Question,
    /// What is known of the statement.
    pub template: Rc<Template>,
    /// The catalog's version under which it was understood.
    pub catalog: u64,
}

/// Something that may write.
#[derive(Debug)]
pub struct Writing {
    /// All that it may write.
    pub footprint: Footprint,
    /// It makes readers elsewhere wait from now on (LOCK, TRUNCATE, DDL): in doubt from the statement, not from COMMIT.
    pub locks_out_readers: bool,
    /// Its tree is not known yet: the doubt can be narrowed when it arrives.
    pub unknown: bool,
    /// What it may do to the session that nobody can follow.
    pub dirties: Option<Dirt>,
    /// Why it is at the primary.
    pub reason: Reason,
    /// The catalog's version under which the footprint was understood. Once there is another one, nobody knows what it
    /// may write; of no matter if that is everything anyway.
    pub catalog: u64,
    /// Where statements travel: what it touches, if it may be executed again elsewhere; else why not.
    pub again: Result<Again, &'static str>,
}

/// What is known of a statement that writes the same when it is executed again on the same rows.
#[derive(Clone, Debug)]
pub struct Again {
    /// The table that it writes.
    pub writes: RelationId,
    /// What it reads and writes.
    pub touched: Footprint,
    /// It fires triggers, which may write these tables; `None`: it fires none.
    pub fires: Option<Arc<[RelationId]>>,
    /// It writes no more rows than this; `None`: nobody knows.
    pub most_rows: Option<u64>,
    /// What is known of it whatever its values.
    pub template: Rc<Template>,
}

impl Writing {
    /// Touches everything.
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

/// Who asks, and where.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The session's database.
    pub database: &'a Database,
    /// What is known of the session.
    pub session: &'a SessionState,
    /// How far the session has come.
    pub marks: SessionMarks,
    /// The standby that this session's results with a chance in them come from.
    pub home: Option<StandbyId>,
    /// Its block runs at a standby.
    pub in_snapshot: bool,
}

impl Asker<'_> {
    /// The session is as it was taken for when the statement was analysed. A write must touch nothing that is not known.
    pub fn understands(&self, template: &Template) -> bool {
        match template.kind {
            Kind::Read => self.session.knows_settings(),
            Kind::Write | Kind::Utility => self.session.knows_names(),
        }
    }

    /// As far as the session goes, may its next statement leave the primary, by itself or with its whole block?
    fn may_leave(&self) -> Result<(), SessionStay> {
        match self.session.may_leave() {
            Err(SessionStay::Isolation) if self.in_snapshot || self.session.read_only_snapshot() => Ok(()),
            said => said,
        }
    }
}

/// The plan for a statement whose tree tells what it does (SELECT, INSERT, ..). `template`: what is known of it, if
/// anything is.
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
    // What changes the session (`set_config`) writes nothing, and still must be noted before it runs.
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
            dirties: template.dirties.then_some(Dirt::Function),
            reason,
            catalog: asker.database.version(),
        });
    }
    if asker.session.may_hide() {
        // A temporary view, or one of another search_path, may stand where a table was meant, and call what writes; so may
        // a function, an operator, a domain. What it does to the session is told by the probe that comes before the session
        // counts as known again.
        let reason = asker.may_leave().err().map_or("write", SessionStay::name);
        return Plan::Writes(Writing {
            locks_out_readers: false,
            dirties: None,
            ..Writing::everything(Reason::Stay(reason))
        });
    }
    let warns = || asker.session.strings() == Strings::Escaping && values.literals.iter().any(warned_of);
    let stay = stay.or_else(|| warns().then_some(Stay::Warns));
    // Where its transaction runs elsewhere, a notice of Parse that is missing is better than an error.
    if let Some(stay) = stay.filter(|stay| !(asker.in_snapshot && *stay == Stay::Warns)) {
        return Plan::Stays(Reason::Stay(stay.name()));
    }
    if let Err(stays) = asker.may_leave() {
        return Plan::Stays(Reason::Stay(stays.name()));
    }
    if template.random && asker.session.is_seeded() {
        // The seed's sequence goes on at the primary, and a number drawn elsewhere would be missing in it.
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

/// What is known of a statement if it may be executed again elsewhere; else why not.
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

/// PostgreSQL warns of backslashes in plain strings where they are escapes.
fn warned_of(literal: &&str) -> bool {
    literal.starts_with('\'') && literal.contains('\\')
}

/// The plan for what a tree does not tell: the utility statements that are not the session's own matter.
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

/// A statement of which nothing is known may do anything.
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

/// How fresh the statement's answer must be: its own hint, else the session's.
fn consistency(asker: Asker<'_>, statement: Statement<'_>) -> Consistency {
    match statement.shape.hint() {
        Some(Hint::Level(level)) => level,
        Some(Hint::Unknown) => Consistency::Primary,
        Some(Hint::Declares) | None => asker.session.consistency(),
    }
}
