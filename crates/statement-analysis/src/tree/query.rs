//! The range table of one query: the relations that its columns refer to.

use super::{NodeId, Tree, Value};
use history::{ColumnSet, RelationId};

/// Command of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// SELECT, VALUES, TABLE.
    Select,
    /// UPDATE.
    Update,
    /// INSERT, with or without ON CONFLICT.
    Insert,
    /// DELETE.
    Delete,
    /// MERGE.
    Merge,
    /// Everything that has no plan.
    Utility,
    /// A rule's DO INSTEAD NOTHING.
    Nothing,
    /// Not a number that PostgreSQL uses.
    Unknown,
}

/// One query of the tree: the statement itself, a sub-query, a CTE, the body of a view.
#[derive(Debug)]
pub struct Query {
    /// Its node.
    pub node: NodeId,
    /// The query around it.
    pub outer: Option<usize>,
    /// Command of the query.
    pub command: Command,
    /// Its range table; number 1 comes first.
    pub entries: Vec<Entry>,
    /// The place in `entries` of the table it writes.
    pub target: Option<usize>,
    /// FOR UPDATE and its kin.
    pub row_locks: bool,
}

/// An entry of a range table.
#[derive(Debug)]
pub enum Entry {
    /// A table or what stands for one.
    Relation(Relation),
    /// A sub-query or a view's body, with its node.
    Subquery(NodeId),
    /// A join, whose columns stand for others, with the entry's node.
    Join(NodeId),
    /// Rows of expressions, with the entry's node.
    Values(NodeId),
    /// Functions, CTEs and the rest: their reads are walked in place.
    Other,
}

/// A relation in a range table.
#[derive(Clone, Copy, Debug)]
pub struct Relation {
    /// The relation.
    pub id: RelationId,
    /// True for a view: its rows come from elsewhere, the entry only carries permissions.
    pub view: bool,
    /// Tables that inherit from it are meant, too.
    pub children: bool,
    /// True if it stands in FROM or is what an UPDATE or DELETE goes through.
    pub joined: bool,
    /// The columns read.
    pub columns: ColumnSet,
    /// The columns that an UPDATE names, and those computed from them.
    pub updated: ColumnSet,
}

impl Relation {
    /// Takes note of one column: 0 is the whole row, negative ones are the system's.
    pub fn read(&mut self, attribute: i64) {
        self.columns = self.columns.with(i16::try_from(attribute).unwrap_or(0));
    }
}

/// `FirstLowInvalidHeapAttributeNumber`: bit 0 of a column set stands for attribute -7.
const FIRST_ATTRIBUTE: i64 = -7;

impl Query {
    /// Reads a `QUERY` node's frame.
    pub fn read(tree: &Tree<'_>, node: NodeId, outer: Option<usize>) -> Query {
        let joined = joined(tree, node);
        let permissions: Vec<NodeId> = tree.nodes(node, "rteperminfos").collect();
        let entries = tree.list(node, "rtable").iter().enumerate();
        let entries = entries
            .map(|(place, entry)| read_entry(tree, &permissions, *entry, joined.contains(&(place + 1))))
            .collect();
        let target = tree.number(node, "resultRelation").and_then(|number| usize::try_from(number - 1).ok());
        Query {
            node,
            outer,
            command: command(tree.number(node, "commandType")),
            entries,
            target,
            row_locks: tree.flag(node, "hasForUpdate") || !tree.list(node, "rowMarks").is_empty(),
        }
    }

    /// The view whose body this is, on PostgreSQL 15. Such a body begins with two entries that stand for the view and are never joined;
    /// they carry its permissions.
    pub fn view(&self) -> Option<RelationId> {
        match self.entries.as_slice() {
            [Entry::Relation(old), Entry::Relation(new), ..]
                if old.view && new.view && old.id == new.id && !old.joined && !new.joined =>
            {
                Some(old.id)
            }
            _ => None,
        }
    }

    /// The relations of its range table with their places.
    pub fn relations(&self) -> impl Iterator<Item = (usize, &Relation)> {
        self.entries.iter().enumerate().filter_map(|(place, entry)| match entry {
            Entry::Relation(relation) => Some((place, relation)),
            _ => None,
        })
    }

    /// The table it writes.
    pub fn target(&self) -> Option<&Relation> {
        match self.entries.get(self.target?)? {
            Entry::Relation(relation) => Some(relation),
            _ => None,
        }
    }
}

fn command(number: Option<i64>) -> Command {
    match number {
        Some(1) => Command::Select,
        Some(2) => Command::Update,
        Some(3) => Command::Insert,
        Some(4) => Command::Delete,
        Some(5) => Command::Merge,
        Some(6) => Command::Utility,
        Some(7) => Command::Nothing,
        _ => Command::Unknown,
    }
}

fn read_entry(tree: &Tree<'_>, permissions: &[NodeId], entry: Value<'_>, joined: bool) -> Entry {
    let Value::Node(node) = entry else { return Entry::Other };
    match tree.number(node, "rtekind") {
        Some(0) => {
            let holder = column_sets(tree, permissions, node);
            let set = |label| match holder {
                ColumnSets::Of(holder) => columns(tree, holder, label),
                ColumnSets::None => ColumnSet::NONE,
                ColumnSets::Unknown => ColumnSet::All,
            };
            Entry::Relation(Relation {
                id: RelationId::new(tree.oid(node, "relid")),
                view: tree.field(node, "relkind") == Value::Atom("v"),
                children: tree.flag(node, "inh"),
                joined,
                columns: set("selectedCols"),
                // Since 16 the executor alone finds the columns computed from others: see `Catalog::with_generated`.
                updated: match tree.has(node, "extraUpdatedCols") {
                    true => set("updatedCols").union(columns(tree, node, "extraUpdatedCols")),
                    false => set("updatedCols"),
                },
            })
        }
        Some(1) => tree.node(node, "subquery").map_or(Entry::Other, Entry::Subquery),
        Some(2) => Entry::Join(node),
        Some(5) => Entry::Values(node),
        _ => Entry::Other,
    }
}

/// The node with the column sets of a relation's entry.
#[derive(Clone, Copy)]
enum ColumnSets {
    Of(NodeId),
    /// The entry carries no permissions, and so no sets.
    None,
    Unknown,
}

/// On 15 the entry has the sets itself. Since 16 the query's `rteperminfos` have them, and the entry has the place among these,
/// from 1 on; 0 is none.
fn column_sets(tree: &Tree<'_>, permissions: &[NodeId], entry: NodeId) -> ColumnSets {
    if tree.has(entry, "selectedCols") {
        return ColumnSets::Of(entry);
    }
    match tree.number(entry, "perminfoindex").and_then(|number| usize::try_from(number).ok()) {
        Some(0) => ColumnSets::None,
        Some(number) => permissions
            .get(number - 1)
            .filter(|info| tree.oid(**info, "relid") == tree.oid(entry, "relid"))
            .map_or(ColumnSets::Unknown, |info| ColumnSets::Of(*info)),
        None => ColumnSets::Unknown,
    }
}

/// A set that is not there is every column.
fn columns(tree: &Tree<'_>, node: NodeId, label: &str) -> ColumnSet {
    if !tree.has(node, label) {
        return ColumnSet::All;
    }
    match tree.numbers(tree.field(node, label)) {
        Some(bits) => ColumnSet::of(bits.iter().map(|bit| i16::try_from(bit + FIRST_ATTRIBUTE).unwrap_or(0))),
        None => ColumnSet::All,
    }
}

/// The numbers of the entries that stand in the join tree.
fn joined(tree: &Tree<'_>, query: NodeId) -> Vec<usize> {
    let mut found = Vec::new();
    let mut open = vec![tree.field(query, "jointree")];
    while let Some(value) = open.pop() {
        match value {
            Value::List(_) => open.extend(tree.items(value)),
            Value::Node(node) => match tree.name(node) {
                "RANGETBLREF" => {
                    let number = tree.number(node, "rtindex").and_then(|number| usize::try_from(number).ok());
                    found.extend(number);
                }
                "FROMEXPR" => open.push(tree.field(node, "fromlist")),
                "JOINEXPR" => open.extend([tree.field(node, "larg"), tree.field(node, "rarg")]),
                _ => {}
            },
            _ => {}
        }
    }
    found
}
