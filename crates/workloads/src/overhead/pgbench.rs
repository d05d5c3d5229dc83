//! Runs PostgreSQL's own `pgbench` against an address and reads what it says.

use super::script::{Run, Said, Script};
use crate::Error;
use load_clients::session::without_password;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::Command;

/// Makes pgbench's tables.
///
/// # Errors
/// pgbench is not there, or what it says.
pub async fn initialize(url: &str, scale: u32) -> Result<(), Error> {
    let mut command = pgbench();
    command.args(["-i", "-q", "-s", &scale.to_string(), url]);
    output(command, url).await.map(drop)
}

/// Runs pgbench to its end.
///
/// # Errors
/// pgbench is not there, or what it says.
pub async fn run(url: &str, run: &Run) -> Result<Said, Error> {
    let mut command = pgbench();
    command.args(["-n", "-M", &run.protocol.to_string()]).args(script(run.script));
    command.args(["-c", &run.clients.to_string(), "-T", &run.time.as_secs().max(1).to_string(), url]);
    let text = output(command, url).await?;
    parse(&text).ok_or_else(|| Error::Program {
        name: "pgbench".to_owned(),
        problem: format!("unexpected output {text:?}"),
    })
}

/// The arguments that choose the work.
fn script(script: Script) -> Vec<String> {
    let builtin = |name: &str| vec!["-b".to_owned(), name.to_owned()];
    match script {
        Script::Mix => [builtin("select-only@9"), builtin("simple-update@1")].concat(),
        Script::Connect => [builtin("select-only"), vec!["-C".to_owned()]].concat(),
        named => builtin(&named.to_string()),
    }
}

fn pgbench() -> Command {
    let mut command = Command::new(find());
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// In Debian the newest one's folder is not in the search path, but a wrapper is.
fn find() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|entry| entry.path().join("bin/pgbench")).filter(|path| path.is_file()).max();
    newest.unwrap_or_else(|| PathBuf::from("pgbench"))
}

async fn output(mut command: Command, url: &str) -> Result<String, Error> {
    let failed = |problem: String| Error::Program { name: "pgbench".to_owned(), problem };
    let output = command.output().await.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let first =
        complaint.lines().find(|line| line.contains("error") || line.contains("fatal")).unwrap_or(&complaint);
    Err(failed(format!("{} at {}", first.trim(), without_password(url))))
}

fn parse(text: &str) -> Option<Said> {
    let after = |label: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
        rest.split([' ', '/']).find(|word| !word.is_empty()).map(str::to_owned)
    };
    Some(Said {
        transactions: after("number of transactions actually processed:")?.parse().ok()?,
        per_second: after("tps =")?.parse().ok()?,
        latency_ms: after("latency average =")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let text = "pgbench (15.18)\nnumber of transactions actually processed: 1234\nnumber of failed transactions: 0 (0.000%)\n\
                    latency average = 0.405 ms\ninitial connection time = 3.1 ms\ntps = 2469.7 (without initial connection time)\n";
        assert_eq!(parse(text), Some(Said { transactions: 1234, per_second: 2469.7, latency_ms: 0.405 }));
        assert_eq!(parse("nothing"), None);
    }
}
