//! Log of a transaction for the replicas that execute it after the primary, and the task that does so at one
//! of them.
//!
//! ```text
//!   session:  the primary executes --part--> the primary executes --part--> COMMIT, answered
//!   replica:              held until its tables have come --> part --> part --> COMMIT
//! ```
//!
//! A replica that fails, or returns another result than the primary, is taken out.

use super::replica_execution::{self, Ground};
use super::statement_tables::Use;
use cluster::scheduled::{Copy, Following};
use scheduler::scheduled::Step;
use session_state::Settings;
use session_state::instant::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::Notify;

/// One request that the primary has executed.
pub(super) struct Part {
    pub(super) uses: Vec<Use>,
    /// The session's settings when the request began.
    pub(super) settings: Settings,
    pub(super) instant: Option<Instant>,
    /// Tags of the commands that the primary completed.
    pub(super) tags: Vec<Box<[u8]>>,
    pub(super) failed: bool,
    /// SQLSTATE and message of the error.
    pub(super) complaint: Option<(String, String)>,
}

/// A transaction, part by part: one for each step that the order knows; `None`: the step has no effect at a
/// replica.
#[derive(Default)]
pub(super) struct Script {
    parts: RefCell<Vec<Option<Rc<Part>>>>,
    /// True once no more parts will come.
    closed: Cell<bool>,
    moved: Notify,
}

impl Script {
    fn add(&self, part: Option<Part>) {
        self.parts.borrow_mut().push(part.map(Rc::new));
        self.moved.notify_waiters();
    }

    /// Waits for the part of this number. `None`: the part has no effect, or will not come.
    async fn part(&self, number: usize) -> Option<Rc<Part>> {
        loop {
            let moved = self.moved.notified();
            if let Some(part) = self.parts.borrow().get(number) {
                return part.clone();
            }
            if self.closed.get() {
                return None;
            }
            moved.await;
        }
    }
}

/// The session's end of a script. Dropping it closes the script.
pub(super) struct Writes {
    script: Rc<Script>,
    /// The request that the primary has just executed.
    pub(super) next: Option<Part>,
}

impl Writes {
    pub(super) fn new(script: Rc<Script>) -> Writes {
        Writes { script, next: None }
    }

    /// Records that the primary has done a step.
    pub(super) fn step(&mut self) {
        self.script.add(self.next.take());
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        self.script.closed.set(true);
        self.script.moved.notify_waiters();
    }
}

/// Follows a transaction at a replica to its end.
pub(super) async fn follow(ground: Rc<Ground>, script: Rc<Script>, mut following: Following) {
    let mut copy = None;
    while let Some(step) = following.next().await {
        let replica = following.replica;
        let place = (replica, following.life);
        let cluster = ground.service.cluster.clone();
        let did = tokio::select! {
            did = take(&ground, &script, &mut copy, step, place) => did,
            () = cluster.standby_lost(replica) => Err("its server is unreachable".to_owned()),
            () = following.left() => return,
        };
        if let Err(why) = did {
            return ground.lose(replica, why);
        }
        following.done(step);
        if matches!(step, Step::Commit | Step::Rollback) {
            break;
        }
    }
    if let Some(mut copy) = copy {
        copy.has_set = false;
        ground.scheduled.give_back(copy, &ground.wish.user);
    }
}

/// Executes one step.
///
/// # Errors
/// The reason why the replica is unusable from now on.
async fn take(
    ground: &Ground,
    script: &Script,
    copy: &mut Option<Copy>,
    step: Step,
    place: (scheduler::StandbyId, history::Incarnation),
) -> Result<(), String> {
    match step {
        Step::Statement(number) => match script.part(number).await {
            Some(part) => execute(ground, copy, &part, place).await,
            None => Ok(()),
        },
        Step::Commit => match copy {
            Some(copy) => {
                replica_execution::committed(copy.run(&replica_execution::command("COMMIT")).await?)
            }
            None => Ok(()),
        },
        Step::Rollback => {
            if let Some(copy) = copy {
                copy.run(&replica_execution::command("ROLLBACK")).await?;
                copy.settings = copy.settings.take().filter(|_| !copy.has_set);
            }
            Ok(())
        }
    }
}

async fn execute(
    ground: &Ground,
    copy: &mut Option<Copy>,
    part: &Part,
    (replica, life): (scheduler::StandbyId, history::Incarnation),
) -> Result<(), String> {
    let Part { uses, settings, instant, tags, failed, complaint } = part;
    if *failed && !uses.iter().any(|used| used.moves_sequences) {
        // The part is rolled back at the primary, and not even begun here; but sequences stay advanced.
        return Ok(());
    }
    let begins = copy.is_none();
    let copy = match copy {
        Some(copy) => copy,
        None => copy.insert(ground.borrow(replica, life).await?),
    };
    let work = replica_execution::work_for(
        copy,
        (settings, uses, instant.as_ref()),
        begins,
        &ground.service.interner,
    )
    .await?;
    let did = copy.run(&work).await?;
    replica_execution::same(uses, (tags, *failed, complaint.as_ref()), &did)?;
    if uses.iter().any(Use::goes_back) {
        // Settings changed in between are back at their earlier values.
        copy.settings = copy.settings.take().filter(|_| !copy.has_set);
    }
    Ok(())
}
