//! The table of experiments, as rows: what `design::EXPERIMENTS` says, read and looked at for mistakes.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Parser;
use config::keys;
use config::keys::Place;
use serde::Deserialize;

/// With their quotas, servers have so long to come to what they will do.
const SETTLING: Duration = Duration::from_secs(2);

/// All of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    experiment: Vec<Experiment>,
}

/// One experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Experiment {
    /// By which it is asked for.
    pub(super) name: String,
    /// Whose it is, and where it stands there.
    pub(super) paper: String,
    /// The experiment, in a sentence.
    pub(super) about: String,
    /// Kind of the replicas.
    pub(super) replicas: Kind,
    /// The quota of each server, in hundredths of a core; without it only the machine's own limit.
    pub(super) node_percent: Option<u32>,
    /// The primary's, if it has another one.
    pub(super) primary_percent: Option<u32>,
    /// Consort's quota; without it only the machine's own limit.
    pub(super) consort_percent: Option<u32>,
    /// Time of each point's measurement.
    pub(super) time_s: u64,
    /// Time for which its clients run before that; servers have their quotas from `SETTLING` before its end
    /// on.
    pub(super) warm_up_s: u64,
    /// Number of measurements of each point.
    pub(super) rounds: u64,
    /// Label of the horizontal axis.
    pub(super) across: String,
    /// Parts of a load that are reported separately, each by the prefix of its transactions' names; without
    /// any, all are one.
    #[serde(default)]
    pub(super) parts: Vec<Part>,
    /// Runs whose course is plotted, second by second.
    #[serde(default)]
    pub(super) course: Vec<Course>,
    /// Fault of servers while clients run.
    pub(super) fault: Option<Fault>,
    /// Ways through which clients reach the data.
    pub(super) setup: Vec<Setup>,
    /// Statements of the clients.
    pub(super) load: Vec<Load>,
    /// Claims of the paper.
    pub(super) claim: Vec<Claim>,
}

/// Kind of the servers besides the primary.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// PostgreSQL's own standbys.
    Standbys,
    /// Servers that Consort feeds.
    Fed,
    /// Servers that all take writes; the first one stands for the primary.
    Peers,
}

/// A part of what clients do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// Its name.
    pub(super) name: String,
    /// The names of its transactions begin so.
    pub(super) begins: String,
}

/// The runs of a setup under a load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Course {
    /// Name of the setup.
    pub(super) setup: String,
    /// Name of the load.
    pub(super) load: String,
}

/// Kind of a fault.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Blow {
    /// Kills the server, and starts it again.
    #[default]
    Kill,
    /// Nothing that Consort feeds it is taken in; it answers reads all the same.
    Hold,
}

/// Fault of servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// Kind of the fault.
    #[serde(default)]
    pub(super) what: Blow,
    /// The server's name; without it all that Consort feeds in this setup.
    pub(super) node: Option<String>,
    /// Time of the fault after the clients began, the warm-up included.
    pub(super) at_s: u64,
    /// Duration of the fault; without it the fault lasts until the point is over.
    pub(super) back_after_s: Option<u64>,
    /// Time after the fault's begin, and after its end, in which measurements do not count as settled.
    #[serde(default = "three")]
    pub(super) settles_s: u64,
}

fn three() -> u64 {
    3
}

impl Fault {
    /// End of the fault, after the clients began.
    pub(super) fn over_s(&self) -> u64 {
        self.at_s + self.back_after_s.unwrap_or(0)
    }
}

/// Another project's proxy.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Relay {
    /// Pgpool-II.
    Pgpool,
}

/// A way through which clients reach the data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Setup {
    /// Its name.
    pub(super) name: String,
    /// The line of the plot that it belongs to, where there are several of one load.
    #[serde(default)]
    pub(super) series: String,
    /// Its position in the plot.
    pub(super) x: f64,
    /// The design; without it, and without a relay, the primary itself, past Consort.
    pub(super) design: Option<String>,
    /// Another proxy in Consort's place.
    pub(super) relay: Option<Relay>,
    /// Keys of Consort's configuration, besides those that every setup has.
    #[serde(default)]
    pub(super) settings: BTreeMap<String, toml::Value>,
    /// Name with which the programs begin whose disks are slow; without it all are.
    pub(super) slow: Option<String>,
    /// Number of clients, in place of the load's.
    pub(super) clients: Option<u64>,
    /// Number of replicas besides the primary.
    #[serde(default)]
    pub(super) replicas: usize,
    /// Spares of a tier in memory, besides its master and its slaves.
    #[serde(default)]
    pub(super) spares: usize,
    /// The nodes of a tier in memory keep a single version of each page.
    #[serde(default)]
    pub(super) single_version: bool,
    /// `shared_buffers` of the primary, if the data do not fit into it.
    pub(super) buffers: Option<String>,
    /// Milliseconds of each read of a page from the disk that does not follow the one before in its file.
    #[serde(default)]
    pub(super) read_ms: u64,
    /// True if the quick form contains it.
    #[serde(default)]
    pub(super) quick: bool,
}

/// Statements of the clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    /// Its name.
    pub(super) name: String,
    /// A workload of `consort bench`, with its arguments; in them `{url}` is where clients log in.
    pub(super) run: String,
    /// Milliseconds by which every sync of a file takes longer meanwhile, at the servers and in Consort.
    #[serde(default)]
    pub(super) disk_ms: u64,
    /// True if the quick form contains it.
    #[serde(default)]
    pub(super) quick: bool,
}

/// Claim of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    /// In words.
    pub(super) says: String,
    /// Under which load.
    pub(super) load: String,
    /// Part that the claim is about; without it all parts.
    pub(super) part: Option<String>,
    /// Setup that the claim is about.
    pub(super) setup: String,
    /// In proportion to which other one.
    pub(super) against: Option<String>,
    /// The figure.
    pub(super) of: Figure,
    /// Lower bound.
    pub(super) least: Option<f64>,
    /// Upper bound.
    pub(super) most: Option<f64>,
    /// Reason why the claim cannot be shown here, with any result.
    pub(super) beyond: Option<String>,
}

impl Claim {
    /// Whether a figure lies within the bounds.
    pub(super) fn is_met_by(&self, figure: f64) -> bool {
        self.least.is_none_or(|least| figure >= least) && self.most.is_none_or(|most| figure <= most)
    }
}

/// A figure of a point.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Figure {
    /// Transactions a second.
    Throughput,
    /// The average time of a transaction, in milliseconds.
    Response,
    /// Transactions that were given up.
    Failed,
    /// Transactions that failed, and were then started again or given up.
    Aborted,
    /// Their part of all.
    AbortedShare,
    /// Throughput after the fault in proportion to that before.
    AfterFault,
    /// Throughput while the fault lasts in proportion to that before.
    DuringFault,
    /// The part of the reads that were answered by others than the primary.
    AtReplicas,
    /// The time from the fault's end until the server has answered a read, in seconds.
    FirstRead,
    /// The time from the fault's end until the server has all, in seconds.
    CaughtUp,
    /// First estimate of that time, in proportion to the time that it took.
    Estimate,
    /// The part of a tier's reads that nodes have aborted because of their version.
    ReadsAborted,
    /// The time from the end of a tier's master until there is another one, in seconds.
    NewMaster,
    /// The part of a tier's reads that spares have served.
    SpareReads,
    /// Versions that a node takes in after its return, a second.
    AppliedASecond,
    /// Commits that share a sync of the ledger.
    CommitsASync,
}

impl Figure {
    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Response => "response time",
            Self::Failed => "given up",
            Self::Aborted => "aborted",
            Self::AbortedShare => "part aborted",
            Self::AfterFault => "throughput after the fault to that before",
            Self::DuringFault => "throughput during the fault to that before",
            Self::AtReplicas => "part of the reads at replicas",
            Self::FirstRead => "seconds until the first read",
            Self::CaughtUp => "seconds until it has caught up",
            Self::Estimate => "estimate of the time to catch up, to the truth",
            Self::ReadsAborted => "part of the reads that were aborted for their version",
            Self::NewMaster => "seconds until another master",
            Self::SpareReads => "part of the reads at spares",
            Self::AppliedASecond => "versions that it takes in, a second",
            Self::CommitsASync => "commits a sync of the ledger",
        }
    }
}

impl Experiment {
    pub(super) fn time(&self) -> Duration {
        Duration::from_secs(self.time_s)
    }

    pub(super) fn warm_up(&self) -> Duration {
        Duration::from_secs(self.warm_up_s)
    }

    /// Part of the warm-up without quotas: connections, caches and plans are made meanwhile.
    pub(super) fn unlimited(&self) -> Duration {
        self.warm_up().saturating_sub(SETTLING)
    }

    /// Whether its servers need an extension that is not PostgreSQL's own.
    pub(super) fn needs_extension(&self) -> bool {
        let is_extension = |load: &Load| {
            matches!(load.command("postgres://nowhere/"), Ok(workloads::Command::Extensions(_)))
        };
        self.load.iter().any(is_extension)
    }

    /// Servers of its kind that are needed besides the primary.
    pub(super) fn most_replicas(&self) -> usize {
        let others = self.setup.iter().filter(|setup| !setup.is_memory_tier());
        others.map(|setup| setup.replicas).max().unwrap_or(0)
    }

    /// Nodes of the largest tier in memory.
    pub(super) fn most_tier_nodes(&self) -> usize {
        self.setup.iter().map(Setup::tier_nodes).max().unwrap_or(0)
    }

    /// A short form that shows that it runs, and nothing else: some of the setups and loads, once, for seconds.
    pub(super) fn quick(&self) -> Self {
        let mut quick = self.part(|setup| setup.quick, |load| load.quick);
        quick.rounds = 1;
        (quick.time_s, quick.warm_up_s) = if quick.fault.is_some() { (11, 1) } else { (4, 1) };
        if let Some(fault) = &mut quick.fault {
            (fault.at_s, fault.settles_s) = (4, 1);
            fault.back_after_s = fault.back_after_s.map(|_| 2);
        }
        quick
    }

    /// Only these setups and loads, by name; all, where none is named.
    ///
    /// Errors: a sentence that names what there is not, and what there is.
    pub(super) fn only(&self, setups: &[String], loads: &[String]) -> Result<Self, String> {
        let known = |what: &str, wanted: &[String], names: Vec<&str>| {
            let unknown = wanted.iter().find(|name| !names.contains(&name.as_str()));
            unknown.map_or(Ok(()), |name| {
                Err(format!("{} has no {what} {name:?}; it has: {}", self.name, names.join(", ")))
            })
        };
        known("setup", setups, self.setup.iter().map(|setup| setup.name.as_str()).collect())?;
        known("load", loads, self.load.iter().map(|load| load.name.as_str()).collect())?;
        let chosen = |wanted: &[String], name: &String| wanted.is_empty() || wanted.contains(name);
        Ok(self.part(|setup| chosen(setups, &setup.name), |load| chosen(loads, &load.name)))
    }

    /// A part of it, and the claims that need no more.
    fn part(&self, setup: impl Fn(&Setup) -> bool, load: impl Fn(&Load) -> bool) -> Self {
        let mut part = self.clone();
        part.setup.retain(setup);
        part.load.retain(load);
        let has_setup = |name: &String| part.setup.iter().any(|setup| setup.name == *name);
        let has_load = |name: &String| part.load.iter().any(|load| load.name == *name);
        let has_other = |claim: &Claim| claim.against.as_ref().is_none_or(has_setup);
        part.claim.retain(|claim| has_setup(&claim.setup) && has_load(&claim.load) && has_other(claim));
        part.course.retain(|course| has_setup(&course.setup) && has_load(&course.load));
        part
    }

    /// Mistake of the row, in a sentence.
    fn mistake(&self) -> Option<String> {
        let setup = |name: &str| self.setup.iter().any(|setup| setup.name == name);
        for setup in &self.setup {
            if let Some(why) = setup.mistake() {
                return Some(format!("setup {}: {why}", setup.name));
            }
        }
        for load in &self.load {
            if let Err(why) = load.command("postgres://nowhere/") {
                return Some(format!("load {}: {why}", load.name));
            }
        }
        let load = |name: &str| self.load.iter().any(|load| load.name == name);
        if self.course.iter().any(|course| !load(&course.load) || !setup(&course.setup)) {
            return Some("a course is of no such load or setup".to_owned());
        }
        for claim in &self.claim {
            let part = claim.part.as_ref();
            if !load(&claim.load)
                || !setup(&claim.setup)
                || claim.against.as_deref().is_some_and(|name| !setup(name))
                || part.is_some_and(|name| self.parts.iter().all(|part| part.name != *name))
            {
                return Some(format!("claim {:?}: no such load, part or setup", claim.says));
            }
        }
        let quick = self.quick();
        let nothing = quick.setup.is_empty() || quick.load.is_empty();
        nothing.then(|| "nothing of it is quick".to_owned())
    }
}

impl Setup {
    /// Consort does not lead data in by COPY there, or does not run at all: the tables are loaded at the primary.
    pub(super) fn loads_at_primary(&self) -> bool {
        self.orders_first() || self.relay.is_some()
    }

    /// Every server executes what writes.
    pub(super) fn orders_first(&self) -> bool {
        let design = self.design.as_deref().and_then(|name| design::chosen(name).ok());
        design.is_some_and(|design| design.orders_first())
    }

    /// Reads may show what one server would not show any more.
    pub(super) fn may_be_old(&self) -> bool {
        let design = self.design.as_deref().and_then(|name| design::chosen(name).ok());
        self.relay.is_some() || design.is_some_and(|design| design.reads == design::Reads::AnyAge)
    }

    /// Every node takes writes.
    pub(super) fn is_certified(&self) -> bool {
        let design = self.design.as_deref().and_then(|name| design::chosen(name).ok());
        design.is_some_and(|design| design.is_certified())
    }

    /// The data are in the memory of nodes.
    pub(super) fn is_memory_tier(&self) -> bool {
        let design = self.design.as_deref().and_then(|name| design::chosen(name).ok());
        design.is_some_and(|design| design.is_memory_tier())
    }

    /// Nodes of its tier in memory: master, slaves and spares.
    pub(super) fn tier_nodes(&self) -> usize {
        if self.is_memory_tier() { 1 + self.replicas + self.spares } else { 0 }
    }

    fn mistake(&self) -> Option<String> {
        if let Some(Err(refused)) = self.design.as_deref().map(design::chosen) {
            return Some(refused.to_string());
        }
        if self.design.is_some() && self.relay.is_some() {
            return Some("Consort and a relay exclude each other".to_owned());
        }
        let unknown = |key: &&String| match key.strip_prefix("debug.") {
            Some(key) => keys::find(Place::Debug, key).is_none(),
            None => keys::find(Place::Global, key).is_none(),
        };
        self.settings.keys().find(unknown).map(|key| format!("unknown configuration key {key}"))
    }
}

/// A line of the command, as a row has it.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    command: workloads::Command,
}

impl Load {
    /// The workload, for clients who log in there.
    pub(super) fn command(&self, url: &str) -> Result<workloads::Command, String> {
        let pieces = self.run.split_whitespace().chain(["--url", "{url}"]);
        let line = pieces.map(|piece| piece.replace("{url}", url));
        let mut command = Line::try_parse_from(line).map_err(|error| error.to_string())?.command;
        match command.workload() {
            Some(_) => Ok(command),
            None => Err("not a workload of a specification".to_owned()),
        }
    }
}

/// The experiments, the order being that of the file.
///
/// Errors: a sentence that names the row.
pub(super) fn all() -> Result<Vec<Experiment>, String> {
    read(design::EXPERIMENTS)
}

fn read(text: &str) -> Result<Vec<Experiment>, String> {
    let table: Table = toml::from_str(text).map_err(|error| error.to_string())?;
    for (place, row) in table.experiment.iter().enumerate() {
        if table.experiment[..place].iter().any(|other| other.name == row.name) {
            return Err(format!("duplicate experiment {}", row.name));
        }
        if let Some(mistake) = row.mistake() {
            return Err(format!("experiment {}: {mistake}", row.name));
        }
    }
    Ok(table.experiment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_run() {
        let all = all().unwrap();
        assert!(all.len() >= 4);
        for experiment in &all {
            let quick = experiment.quick();
            let size = quick.setup.len() * quick.load.len();
            assert!((1..=2).contains(&size), "{}", experiment.name);
            // Two cores are left two thirds of themselves for Consort and the clients: what was busiest so
            // far, with servers of 68 in all, kept 0.55 of the machine busy (hihooi-fig2-primary).
            let node = experiment.node_percent.unwrap_or(0);
            let replicas = node as usize * experiment.most_replicas();
            let primary = experiment.primary_percent.unwrap_or(node) as usize;
            assert!(primary + replicas <= 70, "{}", experiment.name);
            let tier = node as usize * experiment.most_tier_nodes();
            assert!(tier <= 70, "{}", experiment.name);
            assert!(experiment.warm_up() > SETTLING, "{}", experiment.name);
        }
    }

    #[test]
    fn a_part_has_the_claims_that_need_no_more() {
        let strong = all().unwrap().into_iter().find(|row| row.name == "strong-reads").unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let part = strong.only(&names(&["weak-4", "consort-4"]), &names(&["TPC-W browsing"])).unwrap();
        assert_eq!((part.setup.len(), part.load.len(), part.claim.len()), (2, 1, 1));
        let part = strong.only(&names(&["consort-4"]), &[]).unwrap();
        assert_eq!((part.setup.len(), part.load.len(), part.claim.len()), (1, strong.load.len(), 0));
        assert!(strong.only(&[], &names(&["TPC-X"])).unwrap_err().contains("TPC-W browsing"));
    }

    #[test]
    fn extensions_are_needed_by_their_loads_alone() {
        let all = all().unwrap();
        let needs = all.iter().filter(|experiment| experiment.needs_extension());
        let names: Vec<&str> = needs.map(|experiment| experiment.name.as_str()).collect();
        assert_eq!(names, ["extensions-postgis", "extensions-pgvector"]);
    }

    #[test]
    fn mistakes_in_a_row_are_named() {
        let change = |from: &str, to: &str| {
            assert!(design::EXPERIMENTS.contains(from));
            read(&design::EXPERIMENTS.replace(from, to)).unwrap_err()
        };
        assert!(
            change("design = \"weak\"", "design = \"week\"").contains("setup weak-2: there is no design")
        );
        assert!(change("ycsb --mix c", "ycsb --mix q").contains("load YCSB read-only"));
        assert!(change("ycsb --mix c", "mix").contains("load YCSB read-only"));
        assert!(
            change("against = \"weak-4\"", "against = \"weak-5\"").contains("no such load, part or setup")
        );
        assert!(change("name = \"strong-reads\"", "nome = \"strong-reads\"").contains("nome"));
    }
}
