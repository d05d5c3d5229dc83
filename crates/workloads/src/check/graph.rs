//! The graph of dependencies: transactions are nodes, and each edge says "comes before".

use super::anomaly::Order;
use super::history::{Key, Value};

/// Reason why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The one appended `before`, the other appended `after`, the next element.
    WriteWrite { key: Key, before: Value, after: Value },
    /// The one appended `value`, the last element that the other read.
    WriteRead { key: Key, value: Value },
    /// The one read the first `length` elements, the other appended `next`, the element after them.
    ReadWrite { key: Key, length: u32, next: Value },
    /// One session ran both, in this order.
    Session,
    /// The one ended before the other began.
    RealTime,
}

impl Reason {
    pub(crate) fn is_read_write(self) -> bool {
        matches!(self, Reason::ReadWrite { .. })
    }

    pub(crate) fn is_write_read(self) -> bool {
        matches!(self, Reason::WriteRead { .. })
    }

    pub(crate) fn order(self) -> Order {
        match self {
            Reason::Session => Order::Session,
            Reason::RealTime => Order::RealTime,
            _ => Order::Data,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) reason: Reason,
}

/// All edges, by the node that they leave.
pub(crate) struct Graph {
    pub(crate) leaving: Vec<Vec<Edge>>,
}

impl Graph {
    pub(crate) fn new(nodes: usize) -> Graph {
        Graph { leaving: vec![Vec::new(); nodes] }
    }

    /// Adds an edge; one from a transaction to itself says nothing and is left out.
    pub(crate) fn add(&mut self, from: usize, to: usize, reason: Reason) {
        if from == to {
            return;
        }
        let number = |node: usize| u32::try_from(node).expect("a history has fewer than 2^32 transactions");
        self.leaving[from].push(Edge { from: number(from), to: number(to), reason });
    }
}

/// Edges of the data that a search may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Writes,
    Dependencies,
    /// All, but never two rw edges one after the other.
    NoAdjacentReadWrite,
    Everything,
}

/// A graph as one search sees it. Its states are the nodes, twice: the upper half are the nodes just reached
/// by an rw edge, which only `NoAdjacentReadWrite` distinguishes.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) follow: Follow,
    pub(crate) order: Order,
}

impl<'a> View<'a> {
    pub(crate) fn states(&self) -> usize {
        let nodes = self.graph.leaving.len();
        if self.follow == Follow::NoAdjacentReadWrite { 2 * nodes } else { nodes }
    }

    pub(crate) fn node(&self, state: usize) -> usize {
        state % self.graph.leaving.len()
    }

    /// Number of edges that leave the state's node, those that the view hides included.
    pub(crate) fn degree(&self, state: usize) -> usize {
        self.graph.leaving[self.node(state)].len()
    }

    /// The state that the node's edge of that number leads to, unless the view hides it.
    pub(crate) fn step(&self, state: usize, number: usize) -> Option<(usize, &'a Edge)> {
        let edge = &self.graph.leaving[self.node(state)][number];
        if edge.reason.order() > self.order {
            return None;
        }
        let to = edge.to as usize;
        let nodes = self.graph.leaving.len();
        let allowed = match self.follow {
            Follow::Writes => !edge.reason.is_read_write() && !edge.reason.is_write_read(),
            Follow::Dependencies => !edge.reason.is_read_write(),
            Follow::Everything => true,
            Follow::NoAdjacentReadWrite if edge.reason.is_read_write() => {
                return (state < nodes).then_some((to + nodes, edge));
            }
            Follow::NoAdjacentReadWrite => true,
        };
        allowed.then_some((to, edge))
    }
}
