//! The catalogs of one database as plain data: facts that the analysis needs beyond a statement's own tree.
//! Children, foreign keys, triggers and generated columns are in no query tree. Keys, publication and
//! persistence decide whether a read may be offloaded, and at which grain.
//!
//! This module asks no server: [`load`] has the queries and builds this from their rows.

pub mod builtin;
mod closure;
pub mod extensions;
pub mod load;
mod procedure;
mod replica_safe_functions;

use history::{ColumnSet, DatabaseId, RelationId};
use std::collections::{BTreeMap, BTreeSet};

pub use builtin::{Builtin, Class};
pub use extensions::Member;
pub use procedure::{Procedure, Touches};
pub use replica_safe_functions::{Harmless, Volatility};

/// One database's catalogs, as far as they decide what a statement touches.
///
/// The catalogs are the committed state at the time of loading. The owner replaces them when the decoder
/// reports DDL.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The database.
    pub database: DatabaseId,
    /// Every relation that is not PostgreSQL's own.
    pub relations: BTreeMap<RelationId, Relation>,
    /// Every foreign key, by the table that is referred to.
    pub foreign_keys: BTreeMap<RelationId, Vec<ForeignKey>>,
    /// Functions, aggregates and window functions that are not in the table of built-ins.
    pub functions: BTreeMap<u32, Function>,
    /// Operators that are not PostgreSQL's own, with the function that each calls.
    pub operators: BTreeMap<u32, u32>,
    /// Types, PostgreSQL's own included.
    pub types: BTreeMap<u32, Type>,
    /// Equality operators of B-tree operator families: (family, operator).
    pub equalities: BTreeSet<(u32, u32)>,
    /// Collations in which strings of different bytes may be equal.
    pub nondeterministic_collations: BTreeSet<u32>,
    /// Relations, functions, types and operators that are dropped, unheard, when a session ends or discards what is
    /// temporary: they are in its temporary schema, or depend on what is there.
    pub fleeting: BTreeSet<u32>,
    /// Footprints go by what functions are declared to touch. Else that says no more than whether a statement may be executed
    /// again.
    pub trusts_declarations: bool,
    /// Classification of PostgreSQL's own functions.
    pub builtin: Builtin,
    /// Functions that belong to extensions, by OID.
    pub members: BTreeMap<u32, Member>,
    /// Tables that functions of extensions read by their reviewed tables.
    pub extension_tables: BTreeSet<RelationId>,
    /// Transactions that created the tables of extensions, by the lower half of their numbers.
    pub extension_table_creators: BTreeMap<RelationId, u32>,
    /// True if a function whose class is not known may set what no probe of the session shows.
    pub may_hide_state: bool,
    /// Names of operators that belong to no extension.
    pub operator_names: BTreeSet<String>,
}

/// A table or something that can stand where a table stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Its schema's name.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Kind of the relation.
    pub kind: RelationKind,
    /// Persistence: decides whether the rows survive a crash.
    pub persistence: Persistence,
    /// Changes of it come out of the decoder.
    pub published: bool,
    /// Replica identity: the part of an old row that the decoder gives for an UPDATE or DELETE.
    pub identity: Identity,
    /// Columns that a logical replica of Consort lacks or holds with other values. All columns: nothing of
    /// the relation is alike.
    pub unlike: ColumnSet,
    /// Its columns by attribute number; dropped ones are left out.
    pub columns: BTreeMap<i16, Column>,
    /// The primary key, if it identifies rows: all column types have one canonical form, the constraint is
    /// checked immediately, and the decoder gives the old key when the key changes.
    pub key: Option<PrimaryKey>,
    /// Tables that inherit from it directly, partitions included.
    pub children: Vec<RelationId>,
    /// Tables that it inherits from directly.
    pub parents: Vec<RelationId>,
    /// Triggers that are not PostgreSQL's own checks of keys, enabled ones only.
    pub triggers: Vec<Trigger>,
    /// True if the relation has a rule other than a view's own.
    pub rules: bool,
    /// Functions that run when a row is written: checks, indexes, generated columns, partition keys.
    pub write_functions: Vec<u32>,
}

/// `pg_class.relkind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// An ordinary table.
    Table,
    /// A table whose rows lie in its partitions.
    Partitioned,
    /// A view.
    View,
    /// A materialized view.
    Materialized,
    /// A foreign table.
    Foreign,
    /// A sequence.
    Sequence,
    /// Anything else: indexes, TOAST tables, composite types.
    Other,
}

/// `pg_class.relpersistence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Logged.
    Permanent,
    /// Not in the log, so on no standby.
    Unlogged,
    /// Temporary: belongs to one session.
    Temporary,
}

/// `pg_class.relreplident`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The old primary key, when it changed.
    Default,
    /// The whole old row.
    Full,
    /// The old value of another unique index.
    Index,
    /// Nothing.
    Nothing,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type's OID.
    pub type_id: u32,
    /// For a generated column the columns it is computed from, else empty. The decoder leaves generated columns out.
    pub generated_from: ColumnSet,
    /// True if the value is computed when it is read. A read through another table of the family computes it by that table's
    /// expression.
    pub is_virtual: bool,
}

/// A primary key whose values have one canonical form each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// Its columns in the order of the index; never empty.
    pub columns: Vec<KeyColumn>,
    /// Another unique index has one of them under another collation or operator class: to it the key may equal another.
    pub rivals: bool,
}

/// One column of a primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its attribute number in this table.
    pub attribute: i16,
    /// The form of its values.
    pub form: KeyForm,
    /// The B-tree operator family of the index column: only its equality identifies a row.
    pub family: u32,
}

/// The types whose equal values have one canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyForm {
    /// int2, int4, int8.
    Integer,
    /// uuid.
    Uuid,
    /// text and varchar under a deterministic collation.
    Text,
    /// bytea.
    Bytes,
    /// date.
    Date,
}

/// A foreign key, seen from the table that is referred to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// The table that refers.
    pub child: RelationId,
    /// Its columns, in the order of `parent_columns`.
    pub child_columns: Vec<i16>,
    /// The columns referred to.
    pub parent_columns: Vec<i16>,
    /// Action on the child when the parent is deleted.
    pub on_delete: ForeignAction,
    /// Action on the child when the parent's columns are updated.
    pub on_update: ForeignAction,
}

/// Action of a foreign key on the child's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignAction {
    /// Nothing but a check.
    Check,
    /// Deletes the row, or follows the parent's new value.
    Cascade,
    /// Sets the child's columns to NULL or to their defaults.
    Set,
}

/// A user's trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The function it calls.
    pub function: u32,
    /// Fires on INSERT.
    pub insert: bool,
    /// Fires on UPDATE.
    pub update: bool,
    /// Fires on DELETE.
    pub delete: bool,
    /// True if the trigger fires for every writer (ENABLE ALWAYS) or only where rows are applied (ENABLE
    /// REPLICA). Replicas do not have it.
    pub not_at_copies: bool,
    /// True if the trigger fires at the end of the transaction.
    pub deferred: bool,
    /// Functions that the trigger's WHEN calls. `u32::MAX` stands for calls that cannot be determined.
    pub condition: Vec<u32>,
}

/// A function that is not in the table of built-ins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its schema's name.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The extension it belongs to.
    pub extension: Option<String>,
    /// For an aggregate, the functions it is made of.
    pub parts: Option<Vec<u32>>,
    /// `pg_proc.provolatile`. PostgreSQL has IMMUTABLE for every aggregate: its parts decide.
    pub volatility: Volatility,
    /// The language is C or internal: nothing keeps it from changing the session.
    pub is_native: bool,
    /// The setting `replica_safe_functions` names it, and this is what makes that credible.
    pub harmless: Harmless,
    /// Tables that the function touches, if the operator has declared that it does the same at every server.
    pub declared: Option<Touches>,
    /// True if it may set what no probe of the session shows, by its language and its text.
    pub hides: bool,
    /// Class by the reviewed table of its extension. With [`Class::Declared`], `declared` has the tables that it reads.
    pub reviewed: Option<Class>,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Its schema's name.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Composition of the type.
    pub kind: TypeKind,
    /// The functions that make and print its values, where they are not PostgreSQL's own; also a domain's checks.
    pub functions: Vec<u32>,
    /// Casts to json, which functions that make json run.
    pub casts: Vec<u32>,
}

/// Composition of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// A base or pseudo type.
    Base,
    /// An enumeration.
    Enum,
    /// An array of this type.
    Array(u32),
    /// A domain over this type.
    Domain(u32),
    /// A range, or a multirange, over this type.
    Range(u32),
    /// A row with columns of these types.
    Composite(Vec<u32>),
}

impl Catalog {
    /// Counts every table as published, where no commits are followed and no read is proven by them.
    pub fn publish_all(&mut self) {
        self.relations.values_mut().for_each(|relation| relation.published = true);
    }

    /// `schema.name` for people, the OID if it is unknown.
    pub fn relation_name(&self, relation: RelationId) -> String {
        match self.relations.get(&relation) {
            Some(known) if known.schema == "public" => known.name.clone(),
            Some(known) => format!("{}.{}", known.schema, known.name),
            None => relation.to_string(),
        }
    }

    /// The tables that foreign keys bind to this one, in either direction.
    pub fn bound_by_keys(&self, table: RelationId) -> impl Iterator<Item = RelationId> {
        let bound = self.foreign_keys.iter().flat_map(move |(parent, keys)| {
            let of_this = move |child: RelationId| child == table || *parent == table;
            keys.iter().filter(move |key| of_this(key.child)).flat_map(|key| [*parent, key.child])
        });
        bound.filter(move |other| *other != table)
    }
}
