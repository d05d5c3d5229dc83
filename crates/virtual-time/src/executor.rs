//! A single-thread executor with virtual time: the same seed gives the same run. Nothing here asks a real clock; when no
//! task can go on, time jumps to the next timer.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};

/// Microseconds since the run's beginning.
pub type Micros = u64;

type Task = (u32, Pin<Box<dyn Future<Output = ()>>>);

/// Wakes a task for futures that are not this executor's own.
struct Bell {
    task: u64,
    woken: Sender<u64>,
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        // A task of a run that is over needs no waking.
        let _ = self.woken.send(self.task);
    }
}

struct Inner {
    now: Cell<Micros>,
    next: Cell<u64>,
    current: Cell<u64>,
    ready: RefCell<VecDeque<u64>>,
    timers: RefCell<BinaryHeap<Reverse<(Micros, u64, u64)>>>,
    tasks: RefCell<BTreeMap<u64, Task>>,
    /// Tasks that others have woken.
    woken: Receiver<u64>,
    wakes: Sender<u64>,
    wakers: RefCell<BTreeMap<u64, Waker>>,
}

impl Default for Inner {
    fn default() -> Inner {
        let (wakes, woken) = channel();
        Inner {
            now: Cell::default(),
            next: Cell::default(),
            current: Cell::default(),
            ready: RefCell::default(),
            timers: RefCell::default(),
            tasks: RefCell::default(),
            woken,
            wakes,
            wakers: RefCell::default(),
        }
    }
}

/// A handle to the executor.
#[derive(Clone, Default)]
pub struct Executor(Rc<Inner>);

impl Executor {
    /// The virtual time.
    pub fn now(&self) -> Micros {
        self.0.now.get()
    }

    /// Starts a task. `group` names those that are killed together.
    pub fn spawn(&self, group: u32, future: impl Future<Output = ()> + 'static) {
        let id = self.number();
        self.0.tasks.borrow_mut().insert(id, (group, Box::pin(future)));
        self.0.ready.borrow_mut().push_back(id);
    }

    /// Drops every task of a group where it stands: what a SIGKILL does to a process. Not for one's own group.
    pub fn kill(&self, group: u32) {
        let mut tasks = self.0.tasks.borrow_mut();
        let dead: Vec<u64> = tasks.iter().filter(|(_, task)| task.0 == group).map(|(id, _)| *id).collect();
        let dropped: Vec<Task> = dead.iter().filter_map(|id| tasks.remove(id)).collect();
        drop(tasks);
        self.0.wakers.borrow_mut().retain(|id, _| !dead.contains(id));
        drop(dropped);
    }

    /// Drops every task: the end of the run.
    pub fn end(&self) {
        let all = std::mem::take(&mut *self.0.tasks.borrow_mut());
        drop(all);
    }

    /// Runs until `until`, or until nothing can move any more.
    pub fn run(&self, until: Micros) {
        loop {
            while let Some(id) = self.pop() {
                self.poll(id);
            }
            let next = self.0.timers.borrow_mut().pop();
            match next {
                Some(Reverse((at, ..))) if at > until => {
                    self.0.timers.borrow_mut().extend(next);
                    break;
                }
                Some(Reverse((at, _, id))) => {
                    self.0.now.set(self.now().max(at));
                    self.0.ready.borrow_mut().push_back(id);
                }
                None => break,
            }
        }
        self.0.now.set(self.now().max(until));
    }

    fn pop(&self) -> Option<u64> {
        let mut ready = self.0.ready.borrow_mut();
        if ready.is_empty() {
            // Others may wake in any order: the order here is that of the tasks.
            let woken: BTreeSet<u64> = self.0.woken.try_iter().collect();
            ready.extend(woken);
        }
        ready.pop_front()
    }

    /// The waker of a task, the same each time.
    fn waker(&self, task: u64) -> Waker {
        let new = || Waker::from(Arc::new(Bell { task, woken: self.0.wakes.clone() }));
        self.0.wakers.borrow_mut().entry(task).or_insert_with(new).clone()
    }

    fn poll(&self, id: u64) {
        let Some((group, mut future)) = self.0.tasks.borrow_mut().remove(&id) else { return };
        self.0.current.set(id);
        let done = future.as_mut().poll(&mut Context::from_waker(&self.waker(id))).is_ready();
        if done {
            self.0.wakers.borrow_mut().remove(&id);
        } else {
            self.0.tasks.borrow_mut().insert(id, (group, future));
        }
    }

    fn number(&self) -> u64 {
        let number = self.0.next.get();
        self.0.next.set(number + 1);
        number
    }

    fn wake_at(&self, at: Micros) {
        let entry = Reverse((at, self.number(), self.0.current.get()));
        self.0.timers.borrow_mut().push(entry);
    }

    /// Waits for this long.
    pub fn sleep(&self, micros: Micros) -> Sleep {
        Sleep { executor: self.clone(), until: self.now() + micros, armed: false }
    }

    /// Something that tasks of this executor can wait for.
    pub fn signal(&self) -> Signal {
        Signal(Rc::new(SignalInner {
            executor: self.clone(),
            epoch: Cell::new(0),
            waiting: RefCell::new(Vec::new()),
        }))
    }
}

/// See [`Executor::sleep`].
pub struct Sleep {
    executor: Executor,
    until: Micros,
    armed: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.executor.now() >= self.until {
            return Poll::Ready(());
        }
        if !self.armed {
            self.armed = true;
            self.executor.wake_at(self.until);
        }
        Poll::Pending
    }
}

struct SignalInner {
    executor: Executor,
    epoch: Cell<u64>,
    waiting: RefCell<Vec<u64>>,
}

/// Wakes all that wait for it. A wait that was begun before a notification sees it.
#[derive(Clone)]
pub struct Signal(Rc<SignalInner>);

impl Signal {
    /// Something happened.
    pub fn notify(&self) {
        self.0.epoch.set(self.0.epoch.get() + 1);
        let woken = std::mem::take(&mut *self.0.waiting.borrow_mut());
        self.0.executor.0.ready.borrow_mut().extend(woken);
    }

    /// Waits for the next notification.
    pub fn wait(&self) -> Wait {
        Wait { signal: self.clone(), epoch: self.0.epoch.get(), sleep: None }
    }

    /// Waits for the next notification, at most this long: what is left, or `None`.
    pub async fn wait_within(&self, micros: Micros) -> Option<Micros> {
        let executor = self.0.executor.clone();
        let end = executor.now() + micros;
        let wait =
            Wait { signal: self.clone(), epoch: self.0.epoch.get(), sleep: Some(executor.sleep(micros)) };
        wait.await.then(|| end - executor.now())
    }
}

/// See [`Signal::wait`]. Returns whether it was notified (and not too late).
pub struct Wait {
    signal: Signal,
    epoch: u64,
    sleep: Option<Sleep>,
}

impl Future for Wait {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        if self.signal.0.epoch.get() != self.epoch {
            return Poll::Ready(true);
        }
        if let Some(sleep) = &mut self.sleep
            && Pin::new(sleep).poll(context).is_ready()
        {
            return Poll::Ready(false);
        }
        let inner = &self.signal.0;
        let current = inner.executor.0.current.get();
        let mut waiting = inner.waiting.borrow_mut();
        if !waiting.contains(&current) {
            waiting.push(current);
        }
        Poll::Pending
    }
}

/// Waits for whichever comes first.
pub async fn either(first: impl Future, second: impl Future) {
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    std::future::poll_fn(|context| {
        let done = first.as_mut().poll(context).is_ready() | second.as_mut().poll(context).is_ready();
        if done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

struct Slot<T> {
    value: RefCell<Option<T>>,
    closed: Cell<bool>,
    signal: Signal,
}

/// The side of a [`once`] that gives the value. Dropped without one, the other side gets `None`.
pub struct Give<T>(Rc<Slot<T>>);

/// The side of a [`once`] that waits for the value.
pub struct Take<T>(Rc<Slot<T>>);

/// One value from one task to another.
pub fn once<T>(executor: &Executor) -> (Give<T>, Take<T>) {
    let slot =
        Rc::new(Slot { value: RefCell::new(None), closed: Cell::new(false), signal: executor.signal() });
    (Give(slot.clone()), Take(slot))
}

impl<T> Give<T> {
    /// Gives it.
    pub fn give(self, value: T) {
        *self.0.value.borrow_mut() = Some(value);
    }
}

impl<T> Drop for Give<T> {
    fn drop(&mut self) {
        self.0.closed.set(true);
        self.0.signal.notify();
    }
}

impl<T> Take<T> {
    /// The value; `None` if it was never given.
    pub async fn take(&self) -> Option<T> {
        loop {
            let wait = self.0.signal.wait();
            let value = self.0.value.borrow_mut().take();
            if value.is_some() || self.0.closed.get() {
                return value;
            }
            wait.await;
        }
    }

    /// The value, if it comes within this time.
    pub async fn take_within(&self, micros: Micros) -> Option<T> {
        let mut left = micros;
        loop {
            let value = self.0.value.borrow_mut().take();
            if value.is_some() || self.0.closed.get() {
                return value;
            }
            left = self.0.signal.wait_within(left).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_jumps_and_signals_are_not_lost() {
        let executor = Executor::default();
        let log = Rc::new(RefCell::new(Vec::new()));
        let signal = executor.signal();
        for (name, pause) in [("late", 30), ("soon", 10)] {
            let (executor_, log, signal) = (executor.clone(), log.clone(), signal.clone());
            executor.spawn(0, async move {
                executor_.sleep(pause).await;
                log.borrow_mut().push((name, executor_.now()));
                signal.notify();
            });
        }
        let (executor_, log_) = (executor.clone(), log.clone());
        executor.spawn(0, async move {
            signal.wait().await;
            let left = signal.wait_within(100).await;
            log_.borrow_mut().push(("heard", executor_.now()));
            assert_eq!(left, Some(80));
            assert_eq!(signal.wait_within(5).await, None);
        });
        executor.run(1000);
        assert_eq!(*log.borrow(), [("soon", 10), ("late", 30), ("heard", 30)]);
    }

    #[test]
    fn a_killed_group_gives_nothing_any_more() {
        let executor = Executor::default();
        let (give, take) = once::<u32>(&executor);
        let sleeper = executor.clone();
        executor.spawn(7, async move {
            sleeper.sleep(50).await;
            give.give(1);
        });
        let got = Rc::new(Cell::new(Some(9)));
        let result = got.clone();
        executor.spawn(0, async move { result.set(take.take().await) });
        executor.run(10);
        executor.kill(7);
        executor.run(100);
        assert_eq!(got.get(), None);
    }
}
