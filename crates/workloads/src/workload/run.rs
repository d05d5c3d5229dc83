//! The journey of a run: make and fill the tables, wait until every server has them, let the clients live, check.

use super::check::judge;
use super::client::{Client, Shared};
use super::report::{Report, Served, Times};
use super::tallies::{Ledger, Tallies};
use super::{Loader, Options, Workload};
use crate::{Error, Verdict};
use load_clients::console;
use load_clients::console::Watch;
use load_clients::ground;
use load_clients::progress::{Phase, Progress};
use load_clients::session::{Protocol, Session, Trouble};
use load_clients::stop::Stop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Time limit of a statement of loading and checking.
const LONG: Duration = Duration::from_hours(2);

/// Time limit of replicas until they have the loaded rows.
const LOADED_LIMIT: Duration = Duration::from_mins(30);

/// Interval of the progress reports.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Runs a workload and prints what came of it.
pub(crate) async fn run<W: Workload>(workload: W, options: &Options) -> Result<Verdict, Error> {
    let report = measure(workload, options, &Stop::at_ctrl_c(), &mut Progress::new()).await?;
    print!("{report}");
    options.files.write(&report.table(), &report)?;
    Ok(Verdict::clean_if(report.is_clean()))
}

/// Runs a workload.
pub(crate) async fn measure<W: Workload>(
    mut workload: W,
    options: &Options,
    stop: &Stop,
    progress: &mut Progress,
) -> Result<Report, Trouble> {
    let loaded_seconds = if options.keep {
        None
    } else {
        let since = Instant::now();
        load(&workload, options, stop, progress).await?;
        Some(since.elapsed().as_secs_f64())
    };
    if options.keep && !is_there(&workload, options).await? {
        let problem = "tables of that size do not exist; run without --keep to load them";
        return Err(Trouble::Unexpected(problem.to_owned()));
    }
    ground::wait_ready(&options.url, &workload.probe(), LOADED_LIMIT).await?;
    if let Some(console) = &options.console {
        console::wait_caught_up(console, options.load_url(), LOADED_LIMIT).await?;
    }
    let mut session = open(options.check_url(), options).await?.with_limit(LONG);
    workload.look(&mut session).await?;
    session.close().await;

    let runs = !options.time.is_zero();
    let watch = match &options.console {
        Some(console) if runs => Some(Watch::begin(console).await?),
        _ => None,
    };
    if runs {
        progress.enter(Phase::Clients);
    }
    let shared = Arc::new(Shared {
        stop: stop.after(options.warm_up + options.time),
        began: Instant::now(),
        begun: AtomicU64::new(0),
        done: AtomicU64::new(0),
        tallies: Mutex::new(Tallies::new(workload.transactions().len())),
        ledger: Mutex::new(Ledger::new(workload.transactions().len())),
        options: options.clone(),
        workload,
    });
    let (mut served, mut seconds) = (None, 0.0);
    if runs {
        live(&shared, progress).await;
        seconds = shared.began.elapsed().saturating_sub(options.warm_up).as_secs_f64();
        progress.enter(Phase::Checks);
        if let Some(watch) = watch {
            served = Some(Served::of(watch.finish().await?));
        }
    }

    let ledger = shared.ledger.lock().expect("no holder of the lock panics").clone();
    let session = open(options.check_url(), options).await?.with_limit(LONG);
    let mut checks = Vec::new();
    for check in shared.workload.checks(&ledger) {
        progress.say(|| format!("{}: checks {}", shared.workload.name(), check.number));
        checks.extend(judge(&[check], &session).await?);
    }
    session.close().await;
    let tallies = shared.tallies.lock().expect("no holder of the lock panics").clone();
    let times = Times { loaded_seconds, seconds };
    Ok(Report::new(&shared.workload, options, times, &tallies, served, checks))
}

async fn open(url: &str, options: &Options) -> Result<Session, Trouble> {
    Ok(Session::open(url, Protocol::Extended).await?.with_limit(options.statement_limit))
}

async fn is_there<W: Workload>(workload: &W, options: &Options) -> Result<bool, Trouble> {
    let session = open(options.check_url(), options).await?.with_limit(LONG);
    match session.texts(&workload.probe()).await {
        Ok(rows) => Ok(!rows.is_empty()),
        Err(Trouble::Refused { .. }) => Ok(false),
        Err(trouble) => Err(trouble),
    }
}

async fn load<W: Workload>(
    workload: &W,
    options: &Options,
    stop: &Stop,
    progress: &mut Progress,
) -> Result<(), Trouble> {
    let session = open(options.load_url(), options).await?.with_limit(LONG);
    session.execute(&workload.tables()).await?;
    let mut loader = Loader::new(workload.name(), &session, progress, stop);
    workload.fill(&mut loader).await?;
    for statement in workload.finish() {
        loader.finish(&statement).await?;
    }
    session.close().await;
    Ok(())
}

async fn live<W: Workload>(shared: &Arc<Shared<W>>, progress: &mut Progress) {
    let mut tasks = JoinSet::new();
    let mut seeds = fastrand::Rng::with_seed(shared.options.seed);
    for number in 0..shared.options.clients + shared.workload.more_clients() {
        tasks.spawn(Client::new(shared.clone(), number, seeds.fork()).live());
    }
    let mut look = tokio::time::interval(TELL_EVERY);
    while !tasks.is_empty() {
        tokio::select! {
            ended = tasks.join_next() => ended.into_iter().for_each(|ended| ended.expect("a client does not panic")),
            _ = look.tick() => progress.say(|| {
                let done = shared.done.load(Ordering::Relaxed);
                let whole = shared.options.time + shared.options.warm_up;
                let name = shared.workload.name();
                format!("{name}: {done} transactions, {} of {} s", shared.began.elapsed().as_secs(), whole.as_secs())
            }),
        }
    }
}
