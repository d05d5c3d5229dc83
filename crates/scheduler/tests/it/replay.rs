//! Random transactions at a replica, against the same ones executed one after the other. The model knows nothing of classes
//! and counts: a transaction reads the replica when it starts, writes to it when it completes, and must have done there
//! what it did in the order.

use crate::chance::Chance;
use history::{Access, ColumnSet, Footprint, Key, RelationId, Rows, Version};
use scheduler::parallel::{
    Bug, Bugs, Class, ClassIndex, Combined, Compare, Executor, Options, Place, Refused, Sets,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const TABLES: usize = 3;
const KEYS: usize = 6;
const COLUMNS: usize = 4;

type Row = [i64; COLUMNS];
/// By table and key.
type Tables = BTreeMap<(usize, usize), Row>;

#[derive(Clone, Copy, Debug)]
enum Statement {
    /// `UPDATE t SET c = 3 * d + n WHERE key = k`
    UpdateRow { t: usize, k: usize, c: usize, d: usize, n: i64 },
    /// `UPDATE t SET c = c + n WHERE d > 20`
    UpdateWhere { t: usize, c: usize, d: usize, n: i64 },
    /// `INSERT INTO t ... ON CONFLICT DO NOTHING`
    Insert { t: usize, k: usize, n: i64 },
    /// `DELETE FROM t WHERE key = k`
    Delete { t: usize, k: usize },
    /// `DELETE FROM t WHERE d < 10`
    DeleteWhere { t: usize, d: usize },
    /// `UPDATE t SET c = (SELECT count(*) FROM u) WHERE key = k`
    Count { t: usize, k: usize, c: usize, u: usize },
    /// `UPDATE t SET c = (SELECT d FROM u WHERE key = l) WHERE key = k`
    Copy { t: usize, k: usize, c: usize, u: usize, l: usize, d: usize },
    /// `ALTER TABLE ..` that rewrites every row of every table.
    Rewrite,
}

#[derive(Clone, Debug, PartialEq)]
enum Effect {
    Set(usize, usize, usize, i64),
    Insert(usize, usize, Row),
    Delete(usize, usize),
}

fn apply(tables: &mut Tables, effect: &Effect) {
    match *effect {
        Effect::Set(t, k, c, value) => drop(tables.get_mut(&(t, k)).map(|row| row[c] = value)),
        Effect::Insert(t, k, row) => drop(tables.insert((t, k), row)),
        Effect::Delete(t, k) => drop(tables.remove(&(t, k))),
    }
}

impl Statement {
    fn any(chance: &mut Chance) -> Statement {
        let (t, u) = (chance.below(TABLES), chance.below(TABLES));
        let (k, l) = (chance.below(KEYS), chance.below(KEYS));
        let (c, d) = (chance.below(COLUMNS), chance.below(COLUMNS));
        let n = chance.below(30) as i64;
        match chance.below(25) {
            0..=6 => Statement::UpdateRow { t, k, c, d, n },
            7..=10 => Statement::UpdateWhere { t, c, d, n },
            11..=14 => Statement::Insert { t, k, n },
            15..=16 => Statement::Delete { t, k },
            17 => Statement::DeleteWhere { t, d },
            18..=20 => Statement::Count { t, k, c, u },
            21..=23 => Statement::Copy { t, k, c, u, l, d },
            _ if chance.one_in(3) => Statement::Rewrite,
            _ => Statement::Delete { t, k },
        }
    }

    /// Its effects on these tables.
    fn effects(self, tables: &Tables) -> Vec<Effect> {
        let of = |t: usize| tables.iter().filter(move |((table, _), _)| *table == t);
        match self {
            Statement::UpdateRow { t, k, c, d, n } => tables
                .get(&(t, k))
                .map(|row| Effect::Set(t, k, c, (3 * row[d] + n) % 40))
                .into_iter()
                .collect(),
            Statement::UpdateWhere { t, c, d, n } => of(t)
                .filter(|(_, row)| row[d] > 20)
                .map(|((_, k), row)| Effect::Set(t, *k, c, (row[c] + n) % 40))
                .collect(),
            Statement::Insert { t, k, .. } if tables.contains_key(&(t, k)) => Vec::new(),
            Statement::Insert { t, k, n } => vec![Effect::Insert(t, k, [n, n + 1, n + 2, n + 3])],
            Statement::Delete { t, k } => {
                tables.get(&(t, k)).map(|_| Effect::Delete(t, k)).into_iter().collect()
            }
            Statement::DeleteWhere { t, d } => {
                of(t).filter(|(_, row)| row[d] < 10).map(|((_, k), _)| Effect::Delete(t, *k)).collect()
            }
            Statement::Count { t, k, c, u } => {
                let count = of(u).count() as i64;
                tables.get(&(t, k)).map(|_| Effect::Set(t, k, c, count)).into_iter().collect()
            }
            Statement::Copy { t, k, c, u, l, d } => {
                let value = tables.get(&(u, l)).map_or(-1, |row| row[d]);
                tables.get(&(t, k)).map(|_| Effect::Set(t, k, c, value)).into_iter().collect()
            }
            Statement::Rewrite => tables
                .iter()
                .flat_map(|((t, k), row)| (0..COLUMNS).map(|c| Effect::Set(*t, *k, c, (row[c] + 1) % 40)))
                .collect(),
        }
    }

    /// Its reads and writes, by its text and as the docstring of the module asks.
    fn footprints(self) -> (Footprint, Footprint) {
        let one = |k: usize| Rows::keys([Key::new(k as u64)]);
        let column = |c: usize| ColumnSet::of([attribute(c)]);
        let read = |t, columns, rows| Footprint::of(relation(t), Access::read(columns, rows));
        let update = |t, c, rows| Footprint::of(relation(t), Access::update(column(c), rows));
        let existence = |t, rows| Footprint::of(relation(t), Access::existence(rows));
        // The row's existence is read too.
        let and_key = |t, k, mut reads: Footprint| {
            reads.add(relation(t), Access::read(ColumnSet::of([1]), one(k)));
            reads
        };
        match self {
            Statement::UpdateRow { t, k, c, d, .. } => {
                (and_key(t, k, read(t, column(d), one(k))), update(t, c, one(k)))
            }
            Statement::UpdateWhere { t, c, d, .. } => {
                (read(t, ColumnSet::of([attribute(c), attribute(d)]), Rows::All), update(t, c, Rows::All))
            }
            Statement::Insert { t, k, .. } | Statement::Delete { t, k } => {
                (read(t, ColumnSet::of([1]), one(k)), existence(t, one(k)))
            }
            Statement::DeleteWhere { t, d } => (read(t, column(d), Rows::All), existence(t, Rows::All)),
            Statement::Count { t, k, c, u } => {
                (and_key(t, k, read(u, ColumnSet::NONE, Rows::All)), update(t, c, one(k)))
            }
            Statement::Copy { t, k, c, u, l, d } => {
                (and_key(t, k, read(u, column(d), one(l))), update(t, c, one(k)))
            }
            Statement::Rewrite => (Footprint::Everything, Footprint::Everything),
        }
    }
}

fn relation(t: usize) -> RelationId {
    RelationId::new(100 + t as u32)
}

/// Column 1 is the key.
fn attribute(c: usize) -> i16 {
    c as i16 + 2
}

/// One transaction and what it does in the order.
struct Transaction {
    statements: Vec<Statement>,
    did: Vec<Effect>,
}

impl Transaction {
    fn execute(statements: &[Statement], tables: &Tables) -> Vec<Effect> {
        let (mut seen, mut effects) = (tables.clone(), Vec::new());
        for statement in statements {
            let more = statement.effects(&seen);
            more.iter().for_each(|effect| apply(&mut seen, effect));
            effects.extend(more);
        }
        effects
    }

    fn sets(&self, finest: Class) -> Sets {
        let mut sets = Sets::default();
        for (place, statement) in self.statements.iter().enumerate() {
            let (reads, writes) = statement.footprints();
            let one = Sets::of(&reads, &writes, |_| finest);
            if place == 0 { sets = one } else { sets.merge(&one) }
        }
        sets
    }
}

/// Events in a run that went well.
#[derive(Default)]
struct Seen {
    together: usize,
    passed: usize,
    refused: usize,
}

fn any_options(chance: &mut Chance, compare: Compare, bugs: Bugs) -> Options {
    let bounded =
        |chance: &mut Chance, small: usize| if chance.one_in(3) { 1 + chance.below(small) } else { 1000 };
    Options {
        compare,
        max_running: bounded(chance, 4),
        max_ahead: bounded(chance, 12),
        look: bounded(chance, 3),
        bugs,
    }
}

/// Index of a version among the transactions.
fn at(version: Version) -> usize {
    version.get() as usize - 1
}

/// One random run; an error if a transaction did something else than in the order, or a prefix was reported too early.
fn replay(seed: u64, compare: Compare, bugs: Bugs) -> Result<Seen, String> {
    let mut chance = Chance::new(seed);
    let finest = [Class::Row, Class::Row, Class::Column, Class::Table][chance.below(4)];
    let options = any_options(&mut chance, compare, bugs);
    let mut serial: Tables =
        (0..TABLES).flat_map(|t| (0..KEYS - 2).map(move |k| ((t, k), [5, 15, 25, 35]))).collect();
    let mut replica = serial.clone();
    let transactions: Vec<Transaction> = (0..40)
        .map(|_| {
            let statements: Vec<_> = (0..=chance.below(2)).map(|_| Statement::any(&mut chance)).collect();
            let did = Transaction::execute(&statements, &serial);
            did.iter().for_each(|effect| apply(&mut serial, effect));
            Transaction { statements, did }
        })
        .collect();
    let mut executor = Executor::new(options, Version::ZERO);
    let (mut next, mut seen) = (0, Seen::default());
    let mut running: BTreeMap<Version, Vec<Effect>> = BTreeMap::new();
    let mut done = vec![false; transactions.len()];
    let start = |version: Version, replica: &Tables| {
        Transaction::execute(&transactions[at(version)].statements, replica)
    };
    while next < transactions.len() || !running.is_empty() {
        if next < transactions.len() && (running.is_empty() || chance.one_in(2)) {
            let version = Version::new(next as u64 + 1);
            match executor.offer(version, Arc::new(transactions[next].sets(finest))) {
                Ok(Place::Running) => drop(running.insert(version, start(version, &replica))),
                Ok(Place::Waiting) => {}
                Err(Refused::Full) if !running.is_empty() => seen.refused += 1,
                Err(refused) => return Err(format!("{version}: {refused}")),
            }
            next = executor
                .running()
                .chain(executor.waiting())
                .map(|version| at(version) + 1)
                .fold(next, usize::max);
        } else if !running.is_empty() {
            let version = *running.keys().nth(chance.below(running.len())).expect("one of them");
            let effects = running.remove(&version).expect("it runs");
            if effects != transactions[at(version)].did {
                return Err(format!("{version} did {effects:?}"));
            }
            effects.iter().for_each(|effect| apply(&mut replica, effect));
            done[at(version)] = true;
            let before = executor.prefix();
            let completed = executor.completed(version).map_err(|refused| refused.to_string())?;
            for version in completed.started {
                running.insert(version, start(version, &replica));
            }
            let to = Version::new(done.iter().take_while(|done| **done).count() as u64);
            if completed.prefix != (to > before).then_some(to) || executor.prefix() != to {
                return Err(format!("{:?} is reported, the prefix is {to}", completed.prefix));
            }
        }
        seen.together += usize::from(running.len() > 1);
        seen.passed += usize::from(executor.done_ahead() > 0);
        if bugs.is_empty() {
            executor.audit();
        }
    }
    if replica == serial && done.iter().all(|done| *done) { Ok(seen) } else { Err("other rows".into()) }
}

#[test]
fn the_replica_does_what_the_order_did() {
    for compare in [Compare::Items, Compare::Classes] {
        let (mut together, mut passed, mut refused) = (0, 0, 0);
        for seed in 1..=1_000 {
            let seen =
                replay(seed, compare, Bugs::default()).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            together += seen.together;
            passed += seen.passed;
            refused += seen.refused;
        }
        assert!(
            together > 10_000 && passed > 4_000,
            "{compare:?}: {together} steps together, {passed} ahead"
        );
        assert!(refused > 100, "{compare:?}: {refused} refused");
    }
}

#[test]
fn every_planted_bug_is_noticed() {
    let planted = [
        ("waiting_not_asked", Bugs::only(Bug::WaitingNotAsked)),
        ("counts_not_kept", Bugs::only(Bug::CountsNotKept)),
        ("classes_not_compared", Bugs::only(Bug::ClassesNotCompared)),
        ("reads_not_compared", Bugs::only(Bug::ReadsNotCompared)),
        ("everything_not_compared", Bugs::only(Bug::EverythingNotCompared)),
        ("waiting_passed", Bugs::only(Bug::WaitingPassed)),
        ("prefix_with_gaps", Bugs::only(Bug::PrefixWithGaps)),
    ];
    for (name, bugs) in planted {
        for compare in [Compare::Items, Compare::Classes] {
            let noticed = (1..=500).any(|seed| replay(seed, compare, bugs).is_err());
            assert!(noticed, "{name} goes unnoticed with {compare:?}");
        }
    }
    // By classes, rows that come or go belong to a table's or a row's transaction; they are not asked for.
    let bugs = Bugs::only(Bug::ExistenceNotCompared);
    assert!((1..=500).any(|seed| replay(seed, Compare::Items, bugs).is_err()), "existence_not_compared");
}

fn any_sets(chance: &mut Chance) -> Sets {
    let statements = (0..=chance.below(2)).map(|_| Statement::any(chance)).collect();
    let finest = [Class::Row, Class::Row, Class::Column, Class::Table][chance.below(4)];
    Transaction { statements, did: Vec::new() }.sets(finest)
}

fn combined<'a>(all: impl IntoIterator<Item = &'a Sets>) -> Combined {
    all.into_iter().fold(Combined::default(), |mut state, sets| {
        state.merge(sets);
        state
    })
}

#[test]
fn what_is_removed_leaves_what_was_there_before() {
    for seed in 1..=300 {
        let mut chance = Chance::new(seed);
        let (mut state, mut inside) = (Combined::default(), Vec::new());
        for _ in 0..60 {
            if inside.is_empty() || chance.one_in(2) {
                let sets = any_sets(&mut chance);
                let before = state.clone();
                state.merge(&sets);
                state.remove(&sets);
                assert_eq!(state, before, "seed {seed}");
                state.merge(&sets);
                inside.push(sets);
            } else {
                let gone = inside.swap_remove(chance.below(inside.len()));
                state.remove(&gone);
            }
            assert_eq!(state, combined(&inside), "seed {seed}");
        }
        inside.drain(..).for_each(|sets| state.remove(&sets));
        assert_eq!(state, Combined::default(), "nothing is left");
    }
}

#[test]
fn a_combined_state_misses_no_dependence_and_two_are_compared_exactly() {
    let (mut apart, mut finer, mut coarser) = (0, 0, 0);
    for seed in 1..=2_000 {
        let mut chance = Chance::new(seed);
        let inside: Vec<Sets> = (0..1 + chance.below(3)).map(|_| any_sets(&mut chance)).collect();
        let one = any_sets(&mut chance);
        for compare in [Compare::Items, Compare::Classes] {
            let of_all = combined(&inside).independent(&one, compare);
            let of_each = inside.iter().all(|other| combined([other]).independent(&one, compare));
            assert!(of_each || !of_all, "seed {seed}: {compare:?}");
            coarser += usize::from(of_each && !of_all);
        }
        for other in &inside {
            let by_items = combined([other]).independent(&one, Compare::Items);
            let by_classes = combined([other]).independent(&one, Compare::Classes);
            assert_eq!(by_items, combined([&one]).independent(other, Compare::Items), "symmetric");
            assert_eq!(by_classes, combined([&one]).independent(other, Compare::Classes), "symmetric");
            assert!(by_items || !by_classes, "seed {seed}: what is apart by classes is apart by items");
            let overlap = other.writes().overlaps(one.writes())
                || other.writes().overlaps(one.reads())
                || other.reads().overlaps(one.writes());
            assert_eq!(by_items, !overlap, "seed {seed}: as their footprints say");
            apart += usize::from(by_items);
            finer += usize::from(by_items && !by_classes);
        }
    }
    assert!(
        apart > 500 && finer > 50 && coarser > 0,
        "{apart} apart, {finer} by items alone, {coarser} coarser"
    );
}

#[test]
fn the_index_by_classes_is_older_than_the_truth_for_counts_alone() {
    let (mut stale, mut exact, mut asked) = (0, 0, 0);
    for seed in 1..=400 {
        let mut chance = Chance::new(seed);
        let (mut index, mut commits) = (ClassIndex::default(), Vec::new());
        for version in (1..=30).map(Version::new) {
            let sets = any_sets(&mut chance);
            index.note(&sets, version);
            commits.push(sets);
            let (reads, _) = Statement::any(&mut chance).footprints();
            let said = index.consistent(&Sets::of(&reads, &Footprint::NOTHING, |_| Class::Row));
            let newest = commits.iter().rposition(|commit| commit.writes().overlaps(&reads));
            let truth = Version::new(newest.map_or(0, |place| place as u64 + 1));
            let mut tables = reads.tables().into_iter().flatten();
            let counts = tables.any(|(_, access)| access.columns == ColumnSet::NONE);
            assert!(said >= truth || counts, "seed {seed}: {reads} needs {truth}, not {said}");
            stale += usize::from(said < truth);
            exact += usize::from(said == truth);
            asked += 1;
        }
    }
    assert!(stale > 20 && exact * 2 > asked, "{stale} too old, {exact} exact of {asked}");
}

#[test]
fn a_transaction_of_too_many_keys_is_of_a_coarser_class() {
    let row = |k: u64| {
        let key = Rows::keys([Key::new(k)]);
        let reads = Footprint::of(relation(0), Access::read(ColumnSet::of([1]), key.clone()));
        let writes = Footprint::of(relation(0), Access::update(ColumnSet::of([2]), key));
        Sets::of(&reads, &writes, |_| Class::Row)
    };
    let mut sets = row(0);
    (1..128).for_each(|k| sets.merge(&row(k)));
    assert_eq!(sets.classes().collect::<Vec<_>>(), [(relation(0), Class::Row)]);
    sets.merge(&row(128));
    assert_eq!(sets.classes().collect::<Vec<_>>(), [(relation(0), Class::Column)]);
    assert!(!combined([&sets]).independent(&row(9_999), Compare::Items), "its rows are all rows now");
}

#[test]
fn nothing_depends_on_an_empty_state() {
    let everything = Sets::of(&Footprint::Everything, &Footprint::Everything, |_| Class::Row);
    let mut state = Combined::default();
    assert!(state.independent(&everything, Compare::Items));
    state.merge(&everything);
    assert!(!state.independent(&Sets::default(), Compare::Items), "the catalog is part of everything");
    state.remove(&everything);
    assert!(state.independent(&everything, Compare::Classes));
}
