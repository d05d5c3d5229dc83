//! `consort bench idle`: the memory of a proxy without clients, and with many that have asked one thing and wait.

use crate::overhead::{Addresses, Pooling, Way, tree};
use crate::{Error, Verdict};
use clap::Args;
use load_clients::progress::Progress;
use load_clients::result_files::ResultFiles;
use load_clients::session::{Protocol, Session};
use load_clients::stop::Stop;
use load_clients::table::Table;
use serde::Serialize;
use std::fs;

/// Log-ins that are on their way at the same time.
const AT_ONCE: u32 = 20;

/// Arguments of `idle`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Compared addresses.
    #[command(flatten)]
    pub addresses: Addresses,
    /// Number of clients
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub files: ResultFiles,
}

/// The memory of one proxy and its children: resident, in KiB (`VmRSS` of `/proc/PID/status`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Name of the proxy.
    pub way: String,
    /// Before the first client of this run.
    pub before_kib: u64,
    /// While all of them wait.
    pub with_clients_kib: u64,
    /// Number of clients.
    pub clients: u32,
    /// Reason why there are no figures.
    pub problem: Option<String>,
}

impl Memory {
    /// Memory that one client adds, in KiB.
    #[must_use]
    pub fn per_client_kib(&self) -> f64 {
        load_clients::share::ratio(
            self.with_clients_kib.saturating_sub(self.before_kib),
            u64::from(self.clients),
        )
    }
}

/// Runs the subcommand and prints its results.
///
/// # Errors
/// A program or an address cannot be used, or a file cannot be written.
pub async fn run(options: &Options) -> Result<Verdict, Error> {
    let figures = measure(options, &Stop::at_ctrl_c(), &mut Progress::new()).await?;
    let table = table(&figures);
    print!("{table}");
    for memory in &figures {
        memory.problem.iter().for_each(|problem| println!("{}: {problem}", memory.way));
    }
    options.files.write(&table, &figures)?;
    Ok(Verdict::Clean)
}

/// Measures one proxy after the other.
///
/// # Errors
/// A program or an address cannot be used at all; a proxy that cannot take the clients is only noted.
pub async fn measure(options: &Options, stop: &Stop, progress: &mut Progress) -> Result<Vec<Memory>, Error> {
    let mut figures = Vec::new();
    // With a server connection for each client, the servers bound the number of clients.
    for way in options.addresses.open(options.clients, &[Pooling::Transaction]).await? {
        let Some(pid) = way.pid else { continue };
        if stop.was_asked() {
            break;
        }
        progress.say(|| format!("idle: {} clients of {}", options.clients, way.name));
        let before_kib = resident_kib(pid);
        let mut memory = Memory {
            way: way.name.clone(),
            before_kib,
            with_clients_kib: 0,
            clients: options.clients,
            problem: None,
        };
        match connect(&way, options.clients).await {
            Ok(sessions) => {
                memory.with_clients_kib = resident_kib(pid);
                futures_util::future::join_all(sessions.into_iter().map(Session::close)).await;
            }
            Err(error) => memory.problem = Some(error.to_string()),
        }
        figures.push(memory);
    }
    Ok(figures)
}

async fn connect(way: &Way, clients: u32) -> Result<Vec<Session>, Error> {
    let mut sessions = Vec::new();
    while sessions.len() < clients as usize {
        let missing = u32::try_from(clients as usize - sessions.len()).unwrap_or(AT_ONCE);
        let some = (0..missing.min(AT_ONCE)).map(|_| async {
            let session = Session::open(&way.url, Protocol::Simple).await?;
            session.execute("SELECT 1").await?;
            Ok::<_, Error>(session)
        });
        sessions.extend(futures_util::future::try_join_all(some).await?);
    }
    Ok(sessions)
}

/// A line per proxy.
#[must_use]
pub fn table(figures: &[Memory]) -> Table {
    let mut table = Table::new(&["through", "clients", "before MiB", "with clients MiB", "KiB per client"]);
    for memory in figures {
        let mib = |kib: u64| format!("{:.1}", load_clients::share::ratio(kib, 1024));
        let measured = |text: String| if memory.problem.is_none() { text } else { "-".to_owned() };
        table.push(vec![
            memory.way.clone(),
            memory.clients.to_string(),
            mib(memory.before_kib),
            measured(mib(memory.with_clients_kib)),
            measured(format!("{:.2}", memory.per_client_kib())),
        ]);
    }
    table
}

fn resident_kib(root: u32) -> u64 {
    let status = |pid| fs::read_to_string(format!("/proc/{pid}/status")).ok();
    tree(root).into_iter().filter_map(|pid| resident(&status(pid)?)).sum()
}

fn resident(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read() {
        assert_eq!(resident("Name:\tx\nVmHWM:\t 99 kB\nVmRSS:\t    1234 kB\nThreads: 1\n"), Some(1234));
        assert!(resident_kib(std::process::id()) > 100);
    }
}
