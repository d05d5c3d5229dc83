//! Begins and ends a process: opens the frontend, follows the cluster, answers the console, obeys signals.

use crate::listen_addresses::Places;
use crate::process::{FAREWELL_LIMIT, Over, Process, Signals, door_options, lookup, secrets, setup};
use crate::start::Start;
use crate::start_error::StartError;
use crate::takeover::{self, Heir};
use crate::verify::Verification;
use crate::{console_access, key_value, open_files, peers, supervisor, tier, timeouts};
use backend::service::Service;
use cluster::Cluster;
use cluster::follow::slots;
use cluster::trouble::{RECONNECT_AFTER, answered};
use config::Config;
use conn::socket::Place;
use frontend::{Door, Memberships};
use postgres::address::Control;
use postgres::version;
use session_state::Own;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

/// Interval of the check that a period of averages is over.
const PERIOD_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Serves until a signal or the console ends the process.
pub fn serve(mut start: Start) -> Result<(), StartError> {
    open_files::raise();
    loop {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // A task of its own: what is blocked on is polled whenever any task is.
        let ended = LocalSet::new().block_on(&runtime, async {
            let ended = spawn_local(run(start)).await;
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
        });
        // Every task is gone, and every connection.
        runtime.shutdown_timeout(FAREWELL_LIMIT);
        match ended? {
            None => return Ok(()),
            Some(again) => start = again,
        }
    }
}

/// Runs a process once. Returns the options of a restart; `None`: the process was asked to end.
async fn run(mut start: Start) -> Result<Option<Start>, StartError> {
    let mut config = start.config.clone();
    open_files::bound(&mut config);
    let config = Rc::new(config);
    if config.design().is_certified() {
        return peers::run(&config, start).await.map(|()| None);
    }
    if config.design().is_memory_tier() {
        return tier::run(&config, start).await.map(|()| None);
    }
    if config.design().is_key_value() {
        return key_value::run(&config, start).await.map(|()| None);
    }
    let mut heir = start.takes_over_from.take();
    let process = process(&config, &mut start)?;
    let mut signals = Signals::listen()?;
    let next = heir.as_mut().map(Heir::next).unwrap_or_default();
    let taken = heir.as_mut().map(|heir| std::mem::take(&mut heir.sockets)).unwrap_or_default();
    let places = Places::open(&config, taken).await?;
    if heir.is_some() && !places.is_any_taken() {
        return Err(StartError::new(
            "the running process listens on none of the configured addresses".to_owned(),
        ));
    }
    // Clients that come before the process is ready are let in, and wait; but at the predecessor's sockets
    // the predecessor accepts them.
    let heir = match heir {
        None => {
            process.serve_at(places);
            None
        }
        Some(heir) => {
            process.cluster.lead().will_follow();
            Some((heir, places))
        }
    };
    // Databases that have a slot are followed before their first use.
    spawn_local(slots::run(process.cluster.clone()));
    spawn_local(end_periods(process.cluster.clone()));
    spawn_local(timeouts::look(Rc::downgrade(&process)));
    spawn_local(supervisor::lives());
    supervisor::waits();
    let begun = async {
        accept_version(&process.cluster).await?;
        first_gauge(&process.cluster).await;
        process.cluster.lead().until_known().await;
        Ok::<(), StartError>(())
    };
    tokio::select! {
        begun = begun => begun?,
        () = process.asked_to_end(&mut signals) => {
            process.end(&mut signals).await;
            return Ok(None);
        }
    }
    if let Some((heir, places)) = heir
        && !process.inherits(heir, places, &mut signals).await?
    {
        process.end(&mut signals).await;
        return Ok(None);
    }
    spawn_local(takeover::predecessor::wait(process.clone(), next));
    process.warn_of_room().await;
    process.warn_of_absent().await;
    (start.ready)();
    supervisor::serves();
    tokio::select! {
        () = process.asked_to_end(&mut signals) => process.end(&mut signals).await,
        () = process.cluster.lead().until_void() => return Ok(Some(begins_anew(&process).await)),
        () = process.until_taken_over() => process.remains(&mut signals).await,
    }
    Ok(None)
}

/// The parts of a process, of which none does anything yet.
fn process(config: &Rc<Config>, start: &mut Start) -> Result<Rc<Process>, StartError> {
    let secrets = secrets(config).map_err(StartError)?;
    let setup = setup(config).map_err(StartError)?;
    let door = Door::new(door_options(config)?, secrets, Some(Place::from(&setup.primary)));
    *door.memberships.borrow_mut() = Some(Rc::new(Memberships::new(setup.primary.clone())));
    let cluster = Cluster::start(setup);
    cluster.declare_procedures(&config.procedures);
    *door.lookup.borrow_mut() = lookup(config).map_err(StartError)?;
    let process = Rc::new(Process {
        door,
        cluster,
        verification: Verification::default(),
        config: RefCell::new(config.clone()),
        config_file: start.config_file.take(),
        log_level: start.log_level.clone(),
        ending: Notify::new(),
        shutdown: Cell::default(),
        pid_file: RefCell::new(start.pid_file.take()),
        starts_again: start.starts_again.clone(),
        over: Over::default(),
    });
    let defaults = Rc::downgrade(&process);
    let defaults = move |database: &str, user: &str| {
        defaults.upgrade().map_or_else(Own::default, |process| process.config().defaults(database, user))
    };
    let service = Service::new(process.cluster.clone(), Box::new(defaults));
    service.statement_log.set(config.statement_log);
    process.door.leads_to(service);
    console_access::open(&process);
    Ok(process)
}

/// Disconnects all clients at once: their answers stay valid, the state known here does not.
async fn begins_anew(process: &Process) -> Start {
    tracing::warn!(
        clients = process.door.registry.seats().len(),
        "lost leadership; restarting with empty state"
    );
    process.door.close(true);
    process.empty(FAREWELL_LIMIT).await;
    process.cluster.stop();
    process.keeps_no_socket();
    Start {
        config: (*process.config()).clone(),
        config_file: process.config_file.clone(),
        log_level: process.log_level.clone(),
        ready: Box::new(|| {}),
        pid_file: process.pid_file.take(),
        takes_over_from: None,
        starts_again: process.starts_again.clone(),
    }
}

/// Ends the periods of `SHOW STATS`' averages, for ever.
async fn end_periods(cluster: Cluster) {
    loop {
        sleep(PERIOD_LOOK_EVERY).await;
        let now = cluster.now();
        cluster.databases().iter().for_each(|database| database.traffic().roll(now));
    }
}

/// Waits until the primary answers, and refuses another major version of PostgreSQL. One that comes later is refused by each
/// connection of Consort's own, and its reads stay there.
async fn accept_version(cluster: &Cluster) -> Result<(), StartError> {
    let primary = &cluster.setup().primary;
    loop {
        if let Ok(control) = Control::connect(primary).await {
            match answered(version::demand(&control)).await {
                Ok(()) => return Ok(()),
                Err(error @ postgres::Error::Setup(_)) => {
                    return Err(StartError(format!("cannot use the primary {primary}: {error}")));
                }
                Err(_) => {}
            }
        }
        sleep(RECONNECT_AFTER).await;
    }
}

/// Waits until the primary has answered its first snapshot probe.
async fn first_gauge(cluster: &Cluster) {
    loop {
        let moved = cluster.next_move();
        if cluster.scheduler().order().newest_gauge().is_some() {
            return;
        }
        cluster.scheduler().order_mut().want_gauge();
        cluster.gauge_now();
        moved.await;
    }
}
