//! `consort bench overhead`: what proxies cost. The same work runs through each proxy, through PgBouncer in two modes, and
//! directly, in turns, so that whatever else the machine does falls on all of them; the CPU time of the proxy and of the
//! servers is read from `/proc` around each run, and the proxy's system calls are counted in a short run of its own.

mod calls;
mod copy;
mod cpu;
pub mod pgbench;
mod pgbouncer;
mod report;
mod script;
mod ways;

pub(crate) use cpu::tree;
pub use report::{Cell, Report};
pub use script::{Run, Said, Script};
pub use ways::Addresses;
pub(crate) use ways::{Pooling, Way};

use crate::{Error, Verdict};
use calls::Counting;
use clap::Args;
use load_clients::pause;
use load_clients::progress::Progress;
use load_clients::result_files::ResultFiles;
use load_clients::session::{Protocol, Session};
use load_clients::share::Server;
use load_clients::stop::Stop;
use report::Sample;
use std::time::Duration;

/// Arguments of `overhead`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Compared addresses.
    #[command(flatten)]
    pub addresses: Addresses,
    /// Additional server on this machine whose CPU time is measured, as that of the direct one (repeatable)
    #[arg(long = "server", value_name = "NAME=URL")]
    pub servers: Vec<Server>,
    /// Scripts to run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "select-only")]
    pub script: Vec<Script>,
    /// Protocols to run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "simple,extended,prepared")]
    pub protocol: Vec<Protocol>,
    /// Number of clients
    #[arg(long, default_value_t = 8)]
    pub clients: u32,
    /// Duration of each run
    #[arg(long, value_parser = pause::parse, default_value = "5s")]
    pub time: Duration,
    /// Number of rounds, each with one run of everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Create pgbench's tables first, with this scale
    #[arg(long, value_name = "SCALE")]
    pub initialize: Option<u32>,
    /// Skip counting system calls
    #[arg(long)]
    pub no_calls: bool,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub files: ResultFiles,
}

/// Runs the subcommand and prints its results.
///
/// # Errors
/// A program or an address cannot be used, or a file cannot be written.
pub async fn run(options: &Options) -> Result<Verdict, Error> {
    let report = measure(options, &Stop::at_ctrl_c(), &mut Progress::new()).await?;
    let table = report.table();
    print!("{table}");
    for (way, problem) in &report.problems {
        println!("{way}: {problem}");
    }
    options.files.write(&table, &report)?;
    Ok(Verdict::Clean)
}

/// Runs all rounds, or as many as are done when it is stopped.
///
/// # Errors
/// A program or an address cannot be used at all; one kind of run that fails is only noted.
pub async fn measure(options: &Options, stop: &Stop, progress: &mut Progress) -> Result<Report, Error> {
    if let Some(scale) = options.initialize {
        pgbench::initialize(&options.addresses.direct, scale).await?;
    }
    let ways = options.addresses.open(options.clients, &[Pooling::Session, Pooling::Transaction]).await?;
    let servers = postmasters(options).await?;
    let mut report = Report::default();
    let kinds: Vec<(Script, Protocol)> = options
        .script
        .iter()
        .flat_map(|&script| {
            script.protocols(&options.protocol).iter().map(move |&protocol| (script, protocol))
        })
        .collect();
    let all = options.rounds as usize * kinds.len() * ways.len();
    let mut done = 0;
    for round in 0..options.rounds as usize {
        for &(script, protocol) in &kinds {
            for place in 0..ways.len() {
                if stop.was_asked() {
                    return Ok(report);
                }
                progress.say(|| format!("overhead: run {} of {all}", done + 1));
                // Each round begins with another way, so that none always follows the same.
                let way = &ways[(place + round) % ways.len()];
                let run = Run { script, protocol, clients: options.clients, time: options.time };
                report.add(&way.name, script, protocol, sample(way, &run, &servers).await);
                done += 1;
            }
        }
    }
    if !options.no_calls {
        for &(script, protocol) in &kinds {
            for way in ways.iter().filter(|way| way.pid.is_some()) {
                progress.say(|| format!("overhead: counting the system calls of {}", way.name));
                let run = Run { script, protocol, clients: options.clients, time: Duration::from_secs(1) };
                if let Some(calls) = calls_per_transaction(way, &run).await {
                    report.set_calls(&way.name, script, protocol, calls);
                }
            }
        }
    }
    Ok(report)
}

/// The postmasters of the servers that run here: the parents of the backends that answer us. A server elsewhere gives
/// nothing.
async fn postmasters(options: &Options) -> Result<Vec<u32>, Error> {
    let mut postmasters = Vec::new();
    let urls =
        std::iter::once(&options.addresses.direct).chain(options.servers.iter().map(|server| &server.url));
    for url in urls {
        let session = Session::open(url, Protocol::Simple).await?;
        let rows = session.texts("SELECT pg_backend_pid() AS pid").await?;
        let pid = rows.first().and_then(|row| row.get("pid")?.parse().ok());
        let is_backend = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "postgres")
        };
        if let Some(postmaster) = pid.filter(is_backend).and_then(cpu::parent)
            && !postmasters.contains(&postmaster)
        {
            postmasters.push(postmaster);
        }
        session.close().await;
    }
    Ok(postmasters)
}

async fn sample(way: &Way, run: &Run, servers: &[u32]) -> Result<Sample, Error> {
    let proxy: Vec<u32> = way.pid.into_iter().collect();
    let before = (cpu::used(&proxy), cpu::used(servers));
    let said = script::run(&way.url, run).await?;
    let proxy_cpu = cpu::used(&proxy) - before.0;
    let server_cpu = cpu::used(servers) - before.1;
    Ok(Sample::new(said, way.pid.map(|_| proxy_cpu), (!servers.is_empty()).then_some(server_cpu)))
}

async fn calls_per_transaction(way: &Way, run: &Run) -> Option<f64> {
    let counting = Counting::start(way.pid?).await?;
    let said = script::run(&way.url, run).await.ok()?;
    let calls = counting.finish().await?;
    (said.transactions > 0).then(|| load_clients::share::ratio(calls, said.transactions))
}
