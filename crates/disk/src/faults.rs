//! Faults that a test plans at the points that operations name.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Point;
use crate::memory::{Memory, Storage};
use crate::power::Unsynced;

/// A fault: the effect on an operation at a point.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The operation is not done, and fails.
    Fail(io::ErrorKind),
    /// A write writes this many bytes, and fails. Other operations fail.
    Torn(usize),
    /// The operation takes so much longer.
    Delay(Duration),
    /// The operation begins when the hold is released.
    Hold(Hold),
    /// The process ends before the operation, as if it were killed.
    Abort,
}

impl Fault {
    /// The disk is full.
    #[must_use]
    pub const fn full() -> Fault {
        Fault::Fail(io::ErrorKind::StorageFull)
    }

    /// The disk does not work, as EIO says.
    #[must_use]
    pub const fn broken() -> Fault {
        Fault::Fail(io::ErrorKind::Other)
    }
}

/// Keeps operations from beginning until it is released. Clones are the same hold.
#[derive(Clone, Debug, Default)]
pub struct Hold {
    state: Arc<(Mutex<HoldState>, Condvar)>,
}

#[derive(Debug, Default)]
struct HoldState {
    released: bool,
    /// Operations that have come to it.
    arrived: usize,
}

impl Hold {
    /// A hold that nothing has come to.
    #[must_use]
    pub fn new() -> Hold {
        Hold::default()
    }

    /// Lets those that wait go on, and does not hold later ones.
    pub fn release(&self) {
        locked(&self.state.0).released = true;
        self.state.1.notify_all();
    }

    /// Waits until an operation has come to the hold. True if one has within the limit.
    #[must_use]
    pub fn wait_for_arrival(&self, limit: Duration) -> bool {
        let (state, changed) = &*self.state;
        let waited = changed.wait_timeout_while(locked(state), limit, |state| state.arrived == 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.arrived > 0
    }

    fn pass(&self) {
        let (state, changed) = &*self.state;
        let mut here = locked(state);
        here.arrived += 1;
        changed.notify_all();
        drop(changed.wait_while(here, |state| !state.released));
    }
}

/// The faults of a disk, and what it has not synced. Clones are the same faults.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    points: Arc<Mutex<HashMap<String, AtPoint>>>,
    unsynced: Arc<Mutex<Unsynced>>,
    /// Files of a disk in memory.
    memory: Option<Memory>,
}

#[derive(Debug, Default)]
struct AtPoint {
    hits: usize,
    /// Faults by the number of the operation that meets them, from 1.
    numbered: HashMap<usize, Fault>,
    planned: VecDeque<Fault>,
    always: Option<Fault>,
}

/// The part of an operation that its point allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    All,
    /// A write writes so many bytes at most, and fails.
    Part(usize),
}

impl Faults {
    /// No faults.
    #[must_use]
    pub fn new() -> Faults {
        Faults::default()
    }

    /// No faults, for a disk whose files are in memory and last as long as these faults do.
    #[must_use]
    pub fn in_memory() -> Faults {
        Faults { memory: Some(Memory::default()), ..Faults::default() }
    }

    /// The files of a disk in memory.
    pub(crate) fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// The next operation at this point that no earlier plan is for meets this fault, once.
    pub fn plan(&self, point: &str, fault: Fault) {
        self.at(point, |at| at.planned.push_back(fault));
    }

    /// The operation with this number, from 1, that comes to this point meets this fault. It goes before plans.
    pub fn plan_nth(&self, point: &str, number: usize, fault: Fault) {
        self.at(point, |at| at.numbered.insert(number, fault));
    }

    /// Every operation at this point meets this fault from now on, once the plans have been met.
    pub fn always(&self, point: &str, fault: Fault) {
        self.at(point, |at| at.always = Some(fault));
    }

    /// Operations at this point meet no fault any more.
    pub fn clear(&self, point: &str) {
        self.at(point, |at| *at = AtPoint { hits: at.hits, ..AtPoint::default() });
    }

    /// The number of operations that have come to this point.
    #[must_use]
    pub fn hits(&self, point: &str) -> usize {
        locked(&self.points).get(point).map_or(0, |at| at.hits)
    }

    /// Takes back an arbitrary part of what was written and not synced, in all files, as the seed says: each sector of 512
    /// bytes is as it was at the last sync or at one of the writes since, independently of the others. What was written
    /// before a failed sync, and not again since, counts as not synced, whatever was synced later. Nothing may be writing
    /// meanwhile. Names of files are not taken back.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn lose_power(&self, seed: u64) -> io::Result<()> {
        locked(&self.unsynced).lose(seed, |path| match &self.memory {
            Some(memory) => memory.open(path),
            None => Ok(Storage::File(fs::OpenOptions::new().read(true).write(true).open(path)?)),
        })
    }

    /// Meets what is planned at this point.
    pub(crate) fn meet(&self, point: Point, path: &Path) -> io::Result<Allowed> {
        let fault = self.at(point, |at| {
            at.hits += 1;
            at.numbered.remove(&at.hits).or_else(|| at.planned.pop_front()).or_else(|| at.always.clone())
        });
        let fail = |kind| Err(io::Error::new(kind, format!("fault at {point}: {}", path.display())));
        match fault {
            None => Ok(Allowed::All),
            Some(Fault::Fail(kind)) => fail(kind),
            Some(Fault::Torn(bytes)) => Ok(Allowed::Part(bytes)),
            Some(Fault::Delay(time)) => {
                std::thread::sleep(time);
                Ok(Allowed::All)
            }
            Some(Fault::Hold(hold)) => {
                hold.pass();
                Ok(Allowed::All)
            }
            Some(Fault::Abort) => std::process::abort(),
        }
    }

    fn at<T>(&self, point: &str, act: impl FnOnce(&mut AtPoint) -> T) -> T {
        act(locked(&self.points).entry(point.to_owned()).or_default())
    }

    pub(crate) fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        locked(&self.unsynced)
    }
}

/// A panic in a test that holds the lock is the test's own; the state is whole all the same.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
