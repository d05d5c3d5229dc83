//! Cycles: which nodes lie on one (strongly connected components), and the shortest one through an edge of interest.

use super::graph::{Edge, View};
use std::collections::{BTreeMap, VecDeque};

/// A cycle: each edge ends where the next begins, the last where the first begins.
pub(crate) type Cycle = Vec<Edge>;

/// Number of edges that the searches for one class may look at before they settle for the shortest cycle
/// found so far.
pub(crate) const SEARCH_BUDGET: usize = 20_000_000;

/// The strongly connected components of more than one state.
pub(crate) struct Components {
    /// The component of each state; `None` if it lies on no cycle.
    of: Vec<Option<u32>>,
    /// The states of each component.
    pub(crate) members: Vec<Vec<usize>>,
}

impl Components {
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn same(&self, one: usize, other: usize) -> bool {
        self.of[one].is_some() && self.of[one] == self.of[other]
    }
}

/// Tarjan's algorithm with an explicit stack, for histories are deeper than any thread's.
pub(crate) fn components(view: &View<'_>) -> Components {
    let mut tarjan = Tarjan {
        view,
        index: vec![u32::MAX; view.states()],
        low: vec![0; view.states()],
        on_stack: vec![false; view.states()],
        stack: Vec::new(),
        next_index: 0,
        found: Components { of: vec![None; view.states()], members: Vec::new() },
    };
    for state in 0..view.states() {
        if tarjan.index[state] == u32::MAX {
            tarjan.visit(state);
        }
    }
    tarjan.found
}

struct Tarjan<'a> {
    view: &'a View<'a>,
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    next_index: u32,
    found: Components,
}

impl Tarjan<'_> {
    fn visit(&mut self, root: usize) {
        let mut path = vec![(root, 0)];
        self.enter(root);
        while let Some((state, number)) = path.last_mut() {
            let (here, edge) = (*state, *number);
            if edge == self.view.degree(here) {
                path.pop();
                if let Some((parent, _)) = path.last() {
                    self.low[*parent] = self.low[*parent].min(self.low[here]);
                }
                self.leave(here);
                continue;
            }
            *number += 1;
            let Some((to, _)) = self.view.step(here, edge) else { continue };
            if self.index[to] == u32::MAX {
                self.enter(to);
                path.push((to, 0));
            } else if self.on_stack[to] {
                self.low[here] = self.low[here].min(self.index[to]);
            }
        }
    }

    fn enter(&mut self, state: usize) {
        self.index[state] = self.next_index;
        self.low[state] = self.next_index;
        self.next_index += 1;
        self.stack.push(state);
        self.on_stack[state] = true;
    }

    fn leave(&mut self, state: usize) {
        if self.low[state] != self.index[state] {
            return;
        }
        let mut members = Vec::new();
        loop {
            let member = self.stack.pop().expect("a state leaves after it has entered");
            self.on_stack[member] = false;
            members.push(member);
            if member == state {
                break;
            }
        }
        if members.len() > 1 {
            let number = u32::try_from(self.found.members.len()).expect("fewer components than nodes");
            for &member in &members {
                self.found.of[member] = Some(number);
            }
            self.found.members.push(members);
        }
    }
}

/// The shortest cycle that starts with an edge that `starts` accepts (in the graph of `first`) and returns by edges that
/// `back` shows. Looks through the smallest components first and stops when the budget is spent.
pub(crate) fn shortest(
    first: &View<'_>,
    back: &View<'_>,
    components: &Components,
    starts: impl Fn(&Edge) -> bool,
) -> Option<Cycle> {
    let mut by_size: Vec<&Vec<usize>> = components.members.iter().collect();
    by_size.sort_by_key(|members| members.len());
    let mut best: Option<Cycle> = None;
    let mut budget = SEARCH_BUDGET;
    for members in by_size {
        for &state in members {
            for number in 0..first.degree(state) {
                let Some((to, edge)) = first.step(state, number) else { continue };
                if !starts(edge) || !components.same(state, to) {
                    continue;
                }
                let limit = best.as_ref().map_or(usize::MAX, |cycle| cycle.len() - 1);
                if let Some(path) = path(back, (to, state), components, limit, &mut budget) {
                    best = Some(std::iter::once(*edge).chain(path).collect());
                }
                if budget == 0 || best.as_ref().is_some_and(|cycle| cycle.len() == 2) {
                    return best;
                }
            }
        }
    }
    best
}

/// Breadth first, within one component, for a path of fewer than `limit` edges. Both ends are states of a view with the
/// same states as the one that the components were made of, or plain nodes when `view` has only those.
fn path(
    view: &View<'_>,
    (from, to): (usize, usize),
    components: &Components,
    limit: usize,
    budget: &mut usize,
) -> Option<Cycle> {
    let mut reached = BTreeMap::<usize, Option<Edge>>::from([(from, None)]);
    let mut origin = BTreeMap::<usize, usize>::new();
    let mut queue = VecDeque::from([(from, 0)]);
    while let Some((state, length)) = queue.pop_front() {
        if state == to {
            return Some(trace(&reached, &origin, to));
        }
        if length + 1 >= limit {
            return None;
        }
        for number in 0..view.degree(state) {
            *budget = budget.saturating_sub(1);
            let Some((next, edge)) = view.step(state, number) else { continue };
            if components.same(state, next) && !reached.contains_key(&next) {
                reached.insert(next, Some(*edge));
                origin.insert(next, state);
                queue.push_back((next, length + 1));
            }
        }
        if *budget == 0 {
            return None;
        }
    }
    None
}

fn trace(reached: &BTreeMap<usize, Option<Edge>>, origin: &BTreeMap<usize, usize>, end: usize) -> Cycle {
    let mut cycle = Vec::new();
    let mut state = end;
    while let Some(Some(edge)) = reached.get(&state) {
        cycle.push(*edge);
        state = origin[&state];
    }
    cycle.reverse();
    cycle
}
