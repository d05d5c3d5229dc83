//! From the graph to verdicts: which classes of cycles exist with which order, and so which models hold.
//!
//! The verdicts are exact and cost time in proportion to the history: each model is a question about strongly connected
//! components (for snapshot isolation of a graph in which every node stands twice, so that two rw edges are never taken
//! one after the other). Only the search for *short* cycles to print is bounded.

use super::anomaly::{Anomaly, Class, Order};
use super::edges::draw;
use super::graph::{Follow, Graph, View};
use super::history::{History, Key};
use super::observed::Observed;
use super::search::{Components, Cycle, components, shortest};
use super::words::tell;
use std::fmt;

/// A promise that a history keeps or breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of the literature; the module's table defines them")]
pub enum Model {
    ReadCommitted,
    SnapshotIsolation,
    StrongSessionSnapshotIsolation,
    StrongSnapshotIsolation,
    Serializable,
    StrongSessionSerializable,
    StrictSerializable,
}

impl Model {
    /// All of them, weaker before stronger.
    pub const ALL: [Model; 7] = [
        Model::ReadCommitted,
        Model::SnapshotIsolation,
        Model::StrongSessionSnapshotIsolation,
        Model::StrongSnapshotIsolation,
        Model::Serializable,
        Model::StrongSessionSerializable,
        Model::StrictSerializable,
    ];

    fn forbids(self) -> (Follow, Order) {
        match self {
            Model::ReadCommitted => (Follow::Dependencies, Order::Data),
            Model::SnapshotIsolation => (Follow::NoAdjacentReadWrite, Order::Data),
            Model::StrongSessionSnapshotIsolation => (Follow::NoAdjacentReadWrite, Order::Session),
            Model::StrongSnapshotIsolation => (Follow::NoAdjacentReadWrite, Order::RealTime),
            Model::Serializable => (Follow::Everything, Order::Data),
            Model::StrongSessionSerializable => (Follow::Everything, Order::Session),
            Model::StrictSerializable => (Follow::Everything, Order::RealTime),
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Model::ReadCommitted => "read committed",
            Model::SnapshotIsolation => "snapshot isolation",
            Model::StrongSessionSnapshotIsolation => "strong session snapshot isolation",
            Model::StrongSnapshotIsolation => "strong snapshot isolation",
            Model::Serializable => "serializable",
            Model::StrongSessionSerializable => "strong session serializable",
            Model::StrictSerializable => "strict serializable",
        })
    }
}

/// The checker's findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// One example per kind of anomaly; of what is seen at single reads, all.
    pub anomalies: Vec<Anomaly>,
    /// Number of transactions that count as committed.
    pub living: usize,
    /// The models that the history breaks.
    pub broken: Vec<Model>,
}

impl Findings {
    /// True if the history keeps the model.
    #[must_use]
    pub fn holds(&self, model: Model) -> bool {
        !self.broken.contains(&model)
    }

    /// True if an anomaly of that name (`G-single-realtime`) was found.
    #[must_use]
    pub fn found(&self, name: &str) -> bool {
        self.anomalies.iter().any(|anomaly| anomaly.name() == name)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for anomaly in &self.anomalies {
            writeln!(f, "{}:\n{}", anomaly.name(), anomaly.words)?;
        }
        for model in Model::ALL {
            let verdict = if self.holds(model) { "valid" } else { "INVALID" };
            writeln!(f, "{:<36}{verdict}", model.to_string())?;
        }
        Ok(())
    }
}

/// Judges a history under every model.
#[must_use]
pub fn check(history: &History) -> Findings {
    let observed = Observed::of(history);
    let graph = draw(history, &observed);
    let living = observed.lives.iter().filter(|&&lives| lives).count();
    let mut anomalies = observed.faults;
    let mut broken = Vec::new();
    for model in Model::ALL {
        let (follow, order) = model.forbids();
        if !anomalies.iter().any(|anomaly| anomaly.class.is_direct())
            && components(&View { graph: &graph, follow, order }).is_empty()
        {
            continue;
        }
        broken.push(model);
    }
    for order in [Order::Data, Order::Session, Order::RealTime] {
        for (class, cycle) in Search::new(&graph, order).cycles() {
            let order = cycle.iter().map(|edge| edge.reason.order()).max().unwrap_or(Order::Data);
            if !anomalies.iter().any(|known| known.class == class && known.order <= order) {
                let transactions = cycle.iter().map(|edge| edge.from as usize).collect();
                anomalies.push(Anomaly { class, order, transactions, words: tell(history, &cycle) });
            }
        }
    }
    Findings { anomalies, living, broken }
}

/// Judges each key alone: what single-key operations owe even where transactions owe nothing across keys. Returns the
/// keys at which something is wrong under the model.
#[must_use]
pub fn check_each_key(history: &History, model: Model) -> Vec<(Key, Findings)> {
    let judged = history.by_key().into_iter().map(|(key, part)| (key, check(&part)));
    judged.filter(|(_, findings)| !findings.holds(model)).collect()
}

/// The search for one short cycle of each class, with one order.
struct Search<'a> {
    graph: &'a Graph,
    order: Order,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, order: Order) -> Search<'a> {
        Search { graph, order }
    }

    fn view(&self, follow: Follow) -> View<'a> {
        View { graph: self.graph, follow, order: self.order }
    }

    fn cycles(&self) -> Vec<(Class, Cycle)> {
        let everything = self.view(Follow::Everything);
        let cyclic = components(&everything);
        if cyclic.is_empty() {
            return Vec::new();
        }
        let found =
            [self.g0(), self.g1c(), self.g_single(&cyclic), self.g_nonadjacent(), self.g2_item(&cyclic)];
        found.into_iter().flatten().collect()
    }

    fn g0(&self) -> Option<(Class, Cycle)> {
        let view = self.view(Follow::Writes);
        let cycle = shortest(&view, &view, &components(&view), |_| true)?;
        Some((Class::G0, cycle))
    }

    fn g1c(&self) -> Option<(Class, Cycle)> {
        let view = self.view(Follow::Dependencies);
        let cycle = shortest(&view, &view, &components(&view), |edge| edge.reason.is_write_read())?;
        Some((Class::G1c, cycle))
    }

    fn g_single(&self, cyclic: &Components) -> Option<(Class, Cycle)> {
        if components(&self.view(Follow::NoAdjacentReadWrite)).is_empty() {
            return None;
        }
        let back = self.view(Follow::Dependencies);
        let cycle =
            shortest(&self.view(Follow::Everything), &back, cyclic, |edge| edge.reason.is_read_write())?;
        Some((Class::GSingle, cycle))
    }

    fn g_nonadjacent(&self) -> Option<(Class, Cycle)> {
        let view = self.view(Follow::NoAdjacentReadWrite);
        let cycle = shortest(&view, &view, &components(&view), |edge| edge.reason.is_read_write())?;
        (read_writes(&cycle) > 1).then_some((Class::GNonadjacent, cycle))
    }

    fn g2_item(&self, cyclic: &Components) -> Option<(Class, Cycle)> {
        let view = self.view(Follow::Everything);
        let cycle = shortest(&view, &view, cyclic, |edge| edge.reason.is_read_write())?;
        has_adjacent_read_writes(&cycle).then_some((Class::G2Item, cycle))
    }
}

fn read_writes(cycle: &Cycle) -> usize {
    cycle.iter().filter(|edge| edge.reason.is_read_write()).count()
}

fn has_adjacent_read_writes(cycle: &Cycle) -> bool {
    let following = cycle.iter().cycle().skip(1);
    read_writes(cycle) > 1
        && cycle
            .iter()
            .zip(following)
            .any(|(one, other)| one.reason.is_read_write() && other.reason.is_read_write())
}
