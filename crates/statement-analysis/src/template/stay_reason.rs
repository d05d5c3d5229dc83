//! Why a statement must stay at the primary.

/// A class of statements that no standby may answer. The order is the order of telling: the first one is *the* reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stay {
    /// It has no plan.
    Utility,
    /// Its tree could not be read, or holds something unknown.
    UnreadableTree,
    /// It inserts, updates, deletes or merges.
    Writes,
    /// It locks rows: FOR UPDATE and its kin.
    LocksRows,
    /// It has an effect that is in no table: a notification, a message in the log.
    Effect,
    /// It reads or moves a sequence.
    Sequence,
    /// It reads or changes what belongs to the session.
    Session,
    /// It asks for the time.
    Clock,
    /// It tells or compares transactions.
    Transaction,
    /// It reads a system column: which transaction wrote a row, where it lies.
    SystemColumn,
    /// It tells or changes what belongs to one server.
    Node,
    /// It has the server load its configuration anew.
    Reload,
    /// It reads PostgreSQL's own catalogs.
    Catalog,
    /// It takes or gives OIDs of objects by name, or asks about objects.
    ObjectIdentifier,
    /// It runs SQL that it is given as text.
    RunsText,
    /// It reads or writes large objects.
    LargeObject,
    /// It reads a foreign table.
    ForeignTable,
    /// It reads a relation whose changes do not come out of the decoder: unlogged, temporary, materialized, outside the
    /// publication.
    NotInStream,
    /// It reads a relation that is not in the catalog that was loaded.
    UnknownRelation,
    /// It calls a function, operator, cast or type of which nothing is known.
    UnknownFunction,
    /// Its result depends on where rows lie: TABLESAMPLE, WHERE CURRENT OF.
    ByPlace,
    /// It uses something that is dropped when a session ends, and nobody hears of it: its names may stand for something else
    /// then.
    Fleeting,
    /// To parse it gives a notice or a warning, each time.
    Warns,
}

impl Stay {
    /// Every reason.
    pub const ALL: [Stay; 23] = [
        Stay::Utility,
        Stay::UnreadableTree,
        Stay::Writes,
        Stay::LocksRows,
        Stay::Effect,
        Stay::Sequence,
        Stay::Session,
        Stay::Clock,
        Stay::Transaction,
        Stay::SystemColumn,
        Stay::Node,
        Stay::Reload,
        Stay::Catalog,
        Stay::ObjectIdentifier,
        Stay::RunsText,
        Stay::LargeObject,
        Stay::ForeignTable,
        Stay::NotInStream,
        Stay::UnknownRelation,
        Stay::UnknownFunction,
        Stay::ByPlace,
        Stay::Fleeting,
        Stay::Warns,
    ];

    /// Its name in metrics, in `SHOW ROUTES` and in explanations.
    pub fn name(self) -> &'static str {
        match self {
            Stay::Utility => "utility",
            Stay::UnreadableTree => "unreadable_tree",
            Stay::Writes => "writes",
            Stay::LocksRows => "locks_rows",
            Stay::Effect => "effect",
            Stay::Sequence => "sequence",
            Stay::Session => "session",
            Stay::Clock => "clock",
            Stay::Transaction => "transaction",
            Stay::SystemColumn => "system_column",
            Stay::Node => "node",
            Stay::Reload => "reload",
            Stay::Catalog => "catalog",
            Stay::ObjectIdentifier => "object_identifier",
            Stay::RunsText => "runs_text",
            Stay::LargeObject => "large_object",
            Stay::ForeignTable => "foreign_table",
            Stay::NotInStream => "not_in_stream",
            Stay::UnknownRelation => "unknown_relation",
            Stay::UnknownFunction => "unknown_function",
            Stay::ByPlace => "by_place",
            Stay::Fleeting => "fleeting",
            Stay::Warns => "warns",
        }
    }

    /// What a person reads.
    pub fn sentence(self) -> &'static str {
        match self {
            Stay::Utility => "it is a utility statement",
            Stay::UnreadableTree => "its query tree could not be read",
            Stay::Writes => "it writes",
            Stay::LocksRows => "it locks rows",
            Stay::Effect => "it has an effect outside of tables",
            Stay::Sequence => "it reads or moves a sequence",
            Stay::Session => "it reads or changes what belongs to the session",
            Stay::Clock => "its result depends on the time",
            Stay::Transaction => "it tells or compares transactions",
            Stay::SystemColumn => "it reads a system column",
            Stay::Node => "it asks about one server",
            Stay::Reload => "it has the server load its configuration anew",
            Stay::Catalog => "it reads PostgreSQL's catalogs",
            Stay::ObjectIdentifier => "it names objects of the database by their OIDs",
            Stay::RunsText => "it runs SQL that it is given as text",
            Stay::LargeObject => "it uses large objects",
            Stay::ForeignTable => "it reads a foreign table",
            Stay::NotInStream => "it reads a relation whose changes are not in the stream",
            Stay::UnknownRelation => "it reads a relation that is not known yet",
            Stay::UnknownFunction => {
                "it calls a function, an operator or a type that is not known to be harmless"
            }
            Stay::ByPlace => "its result depends on where rows lie",
            Stay::Fleeting => "it uses something that depends on what is temporary, and goes with it",
            Stay::Warns => "PostgreSQL warns of it whenever it is parsed",
        }
    }
}
