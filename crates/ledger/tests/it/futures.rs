//! The futures of a ledger, polled by hand: no runtime is needed.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use disk::{Disk, Fault, Faults, Hold};
use history::Version;
use ledger::{Error, Options, points};

use crate::folder::{Folder, LIMIT, append};

/// Counts how often it is woken, and lets the test wait for it.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
    times: AtomicUsize,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.times.fetch_add(1, Ordering::SeqCst);
        *self.rung.lock().expect("no test panics with it") = true;
        self.changed.notify_all();
    }
}

impl Bell {
    fn wait(&self) {
        let rung = self.rung.lock().expect("no test panics with it");
        let waited = self.changed.wait_timeout_while(rung, LIMIT, |rung| !*rung);
        assert!(*waited.expect("no test panics with it").0, "the task was not woken");
    }
}

#[test]
fn polled_future_is_woken_once_when_durable() {
    let (folder, faults, hold, bell) = (Folder::new(), Faults::new(), Hold::new(), Arc::<Bell>::default());
    faults.plan(points::SYNC, Fault::Hold(hold.clone()));
    let (ledger, _) = folder.open_on(&Disk::with_faults(&faults), Options::default()).unwrap();
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    let mut reached = pin!(append(&ledger, 1));
    assert!(hold.wait_for_arrival(LIMIT));
    assert_eq!(reached.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(reached.as_mut().poll(&mut context), Poll::Pending, "polled twice, woken once");
    hold.release();
    bell.wait();
    assert_eq!(reached.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    assert_eq!(bell.times.load(Ordering::SeqCst), 1);
}

/// A session that ends while its record is on the way does not wait for it; the record stays.
#[test]
fn dropped_future_is_not_woken() {
    let (folder, faults, hold, bell) = (Folder::new(), Faults::new(), Hold::new(), Arc::<Bell>::default());
    faults.plan(points::SYNC, Fault::Hold(hold.clone()));
    let (ledger, _) = folder.open_on(&Disk::with_faults(&faults), Options::default()).unwrap();
    let waker = Waker::from(Arc::clone(&bell));
    {
        let mut reached = pin!(append(&ledger, 1));
        assert_eq!(reached.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    }
    hold.release();
    append(&ledger, 2).wait().unwrap();
    assert_eq!(ledger.newest_durable(), Version::new(2));
    assert_eq!(bell.times.load(Ordering::SeqCst), 0);
}

/// A replica waits for a version that is not there yet.
#[test]
fn durable_waits_for_a_later_append() {
    let (folder, bell) = (Folder::new(), Arc::<Bell>::default());
    let (ledger, _) = folder.open(Options::default()).unwrap();
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    let mut third = pin!(ledger.durable(Version::new(3)));
    assert_eq!(third.as_mut().poll(&mut context), Poll::Pending);
    for version in 1..=3 {
        assert_eq!(bell.times.load(Ordering::SeqCst), 0);
        append(&ledger, version).wait().unwrap();
    }
    bell.wait();
    assert_eq!(third.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    ledger.durable(Version::new(2)).wait().unwrap();
}

#[test]
fn failed_ends_when_the_ledger_fails() {
    let (folder, faults, bell) = (Folder::new(), Faults::new(), Arc::<Bell>::default());
    faults.plan(points::SYNC, Fault::broken());
    let (ledger, _) = folder.open_on(&Disk::with_faults(&faults), Options::default()).unwrap();
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    let mut failed = pin!(ledger.failed());
    assert!(failed.as_mut().poll(&mut context).is_pending());
    append(&ledger, 1).wait().unwrap_err();
    bell.wait();
    let Poll::Ready(error) = failed.as_mut().poll(&mut context) else { panic!("it has failed") };
    assert!(error.must_stop() && matches!(error, Error::Failed { .. }));
}
