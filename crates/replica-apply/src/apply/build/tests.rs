//! Every short history of a table: the net effect of its messages, applied to the table as it was before the
//! first of them, makes the table as it is after the last.

use super::super::table::tests::{found, relation, unique};
use super::*;

/// Maximum number of consecutive changes.
const LENGTH: usize = 4;

/// Values of messages are taken from these: two keys, and the one value that is not NULL.
const TEXTS: &[u8] = b"12x";

/// A table of two rows at most, by their keys: each holds `x`, or `-` for NULL.
type State = [Option<char>; 2];

/// Possible states before the first change.
const STARTS: [State; 4] = [[None, None], [Some('x'), None], [Some('-'), None], [Some('x'), Some('-')]];

/// Change of a table.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(usize, char),
    Delete(usize),
    /// From this key to that one, which may be the same. `None`: the value is large, did not change, and is not sent.
    Update(usize, usize, Option<char>),
}

/// Everything that can be done to it.
fn steps(state: State) -> Vec<Step> {
    let mut steps = Vec::new();
    for (key, held) in state.into_iter().enumerate() {
        let Some(held) = held else {
            steps.extend(['x', '-'].map(|new| Step::Insert(key, new)));
            continue;
        };
        steps.push(Step::Delete(key));
        for to in (0..2).filter(|to| *to == key || state[*to].is_none()) {
            steps.extend(['x', '-'].map(|new| Step::Update(key, to, Some(new))));
            // NULL is always sent.
            if held == 'x' {
                steps.push(Step::Update(key, to, None));
            }
        }
    }
    steps
}

fn behind(mut state: State, step: Step) -> State {
    match step {
        Step::Insert(key, new) => state[key] = Some(new),
        Step::Delete(key) => state[key] = None,
        Step::Update(from, to, new) => {
            let before = state[from].take();
            state[to] = new.or(before);
        }
    }
    state
}

fn key_value(key: usize) -> Value {
    Value::Text(key..key + 1)
}

fn value(held: char) -> Value {
    if held == 'x' { Value::Text(2..3) } else { Value::Null }
}

/// Messages that the primary sends for a step: the whole old row (FULL), or its key if that changes.
fn sent_of(step: Step, before: State, full: bool) -> (Message<'static>, Rows) {
    let kind = if full { Old::Row } else { Old::Key };
    let old_row = |key: usize| {
        let told = before[key].filter(|_| full);
        vec![key_value(key), told.map_or(Value::Null, value)]
    };
    match step {
        Step::Insert(key, new) => {
            let rows = Rows { old: Vec::new(), new: vec![key_value(key), value(new)] };
            (Message::Insert { relation: 1 }, rows)
        }
        Step::Delete(key) => {
            let rows = Rows { old: old_row(key), new: Vec::new() };
            (Message::Delete { relation: 1, old: kind }, rows)
        }
        Step::Update(from, to, new) => {
            let told = full || from != to;
            let old = if told { old_row(from) } else { Vec::new() };
            let new = vec![key_value(to), new.map_or(Value::Unchanged, value)];
            (Message::Update { relation: 1, old: told.then_some(kind) }, Rows { old, new })
        }
    }
}

fn table(identity: u8, keyed: bool) -> Table {
    let sent = relation(identity, &[("k", true), ("v", identity == b'f')]);
    let indexes = if keyed { vec![unique(false, &["k"])] } else { Vec::new() };
    Table::fit(1, &sent, &[found("k"), found("v")], &indexes).unwrap()
}

/// Place of the row.
fn place(cells: &Cells) -> Option<usize> {
    let key = cells[0].value()??;
    Some(usize::from(key[0] - b'1'))
}

fn held(cell: &Cell) -> Option<char> {
    Some(if cell.value()?.is_some() { 'x' } else { '-' })
}

/// The row is there, and what counts as its value from before is its value.
fn is_there(state: State, cells: &Cells) -> bool {
    let there = place(cells).and_then(|place| state[place]);
    there.is_some() && (!matches!(cells[1], Cell::Same(_)) || held(&cells[1]) == there)
}

/// By an UPDATE that finds the row by its old key and sets what is new.
fn updated(mut state: State, old: &Cells, new: &Cells) -> Option<State> {
    if !is_there(state, old) {
        return None;
    }
    let from = place(old)?;
    let to = if matches!(new[0], Cell::New(_)) { place(new)? } else { from };
    let before = state[from].take()?;
    let after = if matches!(new[1], Cell::New(_)) { held(&new[1])? } else { before };
    state[to].replace(after).is_none().then_some(state)
}

fn rows_of(net: &Keyed, fate: Fate) -> impl Iterator<Item = &Cells> {
    net.rows().iter().filter(move |row| row.fate == fate).map(|row| &row.cells)
}

/// Deletes, then updates, then inserts, as they are written. `None`: one of them does not touch one row, or knows something
/// else of it than what is there.
fn written(net: &Keyed, mut state: State) -> Option<State> {
    for cells in rows_of(net, Fate::Delete) {
        if !is_there(state, cells) {
            return None;
        }
        state[place(cells)?] = None;
    }
    for cells in rows_of(net, Fate::Update) {
        state = updated(state, cells, cells)?;
    }
    for cells in rows_of(net, Fate::Insert) {
        if state[place(cells)?].replace(held(&cells[1])?).is_some() {
            return None;
        }
    }
    Some(state)
}

/// A walk through all histories of a table with a key.
struct Histories<'a> {
    table: &'a Table,
    full: bool,
    texts: Bytes,
    start: State,
    steps: Vec<Step>,
}

impl Histories<'_> {
    /// All that begin with `steps`: these have made `here` at the primary; the replica has `there`, and `net` is to be written.
    fn go_on(&mut self, here: State, there: State, net: &Keyed) {
        assert_eq!(written(net, there), Some(here), "{:?} {:?}", self.start, self.steps);
        if self.steps.len() == LENGTH {
            return;
        }
        for step in steps(here) {
            self.steps.push(step);
            let (message, rows) = sent_of(step, here, self.full);
            let (mut net, mut there) = (net.clone(), there);
            let sent = Sent { bytes: &self.texts, rows: &rows, table: self.table };
            let alone = keyed(&mut net, &message, &sent)
                .unwrap_or_else(|Irregular| panic!("irregular: {:?} {:?}", self.start, self.steps));
            if let Some((old, new)) = alone {
                there = written(&net, there)
                    .and_then(|there| updated(there, &old, &new))
                    .unwrap_or_else(|| panic!("alone: {:?} {:?}", self.start, self.steps));
                net = Keyed::default();
            }
            self.go_on(behind(here, step), there, &net);
            self.steps.pop();
        }
    }
}

#[test]
fn every_short_history_of_rows_with_a_key_comes_to_the_same() {
    for identity in [b'd', b'f'] {
        let table = table(identity, true);
        assert_eq!(table.key, [0]);
        for start in STARTS {
            let (full, texts) = (identity == b'f', Bytes::from_static(TEXTS));
            let mut histories = Histories { table: &table, full, texts, start, steps: Vec::new() };
            histories.go_on(start, start, &Keyed::default());
        }
    }
}

/// Values of equal rows, where rows are counted.
const HELD: [char; 2] = ['x', '-'];

/// Changes of such a table: the row of which there is one less, the row of which there is one more, and
/// whether the change is sent.
const CHANGES: [(Option<usize>, Option<usize>, bool); 9] = [
    (None, Some(0), true),
    (None, Some(1), true),
    (Some(0), None, true),
    (Some(1), None, true),
    (Some(0), Some(0), true),
    (Some(0), Some(1), true),
    (Some(1), Some(0), true),
    (Some(1), Some(1), true),
    (Some(0), Some(0), false),
];

/// All histories of so many more changes, of a table with so many rows of each kind.
fn count_on(table: &Table, start: [i64; 2], here: [i64; 2], net: &Counted, more: usize) {
    let mut there = start;
    for (cells, count) in net.rows() {
        there[usize::from(held(&cells[1]) == Some('-'))] += count;
    }
    assert_eq!(there, here, "{start:?} {:?}", net.rows());
    if more == 0 {
        return;
    }
    for (old, new, is_sent) in CHANGES {
        if old.is_some_and(|old| here[old] == 0) {
            continue;
        }
        let mut here = here;
        let mut rows = Rows::default();
        if let Some(old) = old {
            here[old] -= 1;
            rows.old = vec![key_value(0), value(HELD[old])];
        }
        if let Some(new) = new {
            here[new] += 1;
            rows.new = vec![key_value(0), if is_sent { value(HELD[new]) } else { Value::Unchanged }];
        }
        let message = match (old, new) {
            (None, _) => Message::Insert { relation: 1 },
            (Some(_), None) => Message::Delete { relation: 1, old: Old::Row },
            (Some(_), Some(_)) => Message::Update { relation: 1, old: Some(Old::Row) },
        };
        let (mut net, bytes) = (net.clone(), Bytes::from_static(TEXTS));
        counted(&mut net, &message, &Sent { bytes: &bytes, rows: &rows, table }).unwrap();
        count_on(table, start, here, &net, more - 1);
    }
}

#[test]
fn every_short_history_of_rows_without_a_key_comes_to_the_same() {
    let table = table(b'f', false);
    assert!(table.key.is_empty());
    for start in [[0, 0], [1, 0], [2, 1]] {
        count_on(&table, start, start, &Counted::default(), LENGTH);
    }
}
