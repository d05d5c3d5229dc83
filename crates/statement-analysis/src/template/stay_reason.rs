//! Why a statement must stay at the primary.

/// A class of statements that no standby may answer. The order is the order of telling: the first one is *the* reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stay {
    /// Has no plan.
    Utility,
    /// Its tree could not be read, or holds something unknown.
    UnreadableTree,
    /// PostgreSQL was not asked: Consort's role may not become the session's role.
    RoleNotAnalysed,
    /// Inserts, updates, deletes or merges.
    Writes,
    /// Locks rows: FOR UPDATE and its kin.
    LocksRows,
    /// Has an effect that is in no table: a notification, a message in the log.
    Effect,
    /// Reads or moves a sequence.
    Sequence,
    /// Reads or changes state of the session.
    Session,
    /// Asks for the time.
    Clock,
    /// Reads or compares transaction identifiers.
    Transaction,
    /// Reads a system column: a row's transaction, or its physical position.
    SystemColumn,
    /// Reads or changes state of one server.
    Node,
    /// Makes the server reload its configuration.
    Reload,
    /// Reads PostgreSQL's own catalogs.
    Catalog,
    /// Takes or gives OIDs of objects by name, or asks about objects.
    ObjectIdentifier,
    /// Runs SQL that it is given as text.
    RunsText,
    /// Reads or writes large objects.
    LargeObject,
    /// Reads a foreign table.
    ForeignTable,
    /// Reads a relation whose changes do not come out of the decoder: unlogged, temporary, materialized,
    /// outside the publication.
    NotInStream,
    /// Reads a relation that is not in the catalog that was loaded.
    UnknownRelation,
    /// Calls an unknown function, operator, cast or type.
    UnknownFunction,
    /// Its result depends on where rows lie: TABLESAMPLE, WHERE CURRENT OF.
    ByPlace,
    /// Uses an object that is dropped silently when a session ends: its names may stand for something else
    /// then.
    Fleeting,
    /// To parse it gives a notice or a warning, each time.
    Warns,
}

impl Stay {
    /// Every reason.
    pub const ALL: [Stay; 24] = [
        Stay::Utility,
        Stay::UnreadableTree,
        Stay::RoleNotAnalysed,
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
            Stay::RoleNotAnalysed => "role_not_analysed",
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

    /// Text for users.
    pub fn sentence(self) -> &'static str {
        match self {
            Stay::Utility => "the statement is a utility statement",
            Stay::UnreadableTree => "the query tree of the statement could not be read",
            Stay::RoleNotAnalysed => "Consort's role may not become the session's role",
            Stay::Writes => "the statement writes",
            Stay::LocksRows => "the statement locks rows",
            Stay::Effect => "the statement has an effect outside of tables",
            Stay::Sequence => "the statement reads or advances a sequence",
            Stay::Session => "the statement reads or changes session state",
            Stay::Clock => "the statement depends on the current time",
            Stay::Transaction => "the statement reads or compares transaction identities",
            Stay::SystemColumn => "the statement reads a system column",
            Stay::Node => "the statement asks about one server",
            Stay::Reload => "the statement makes the server reload its configuration",
            Stay::Catalog => "the statement reads PostgreSQL's catalogs",
            Stay::ObjectIdentifier => "the statement names objects of the database by their OIDs",
            Stay::RunsText => "the statement runs SQL that is passed as text",
            Stay::LargeObject => "the statement uses large objects",
            Stay::ForeignTable => "the statement reads a foreign table",
            Stay::NotInStream => "the statement reads a relation whose changes are not in the stream",
            Stay::UnknownRelation => "the statement reads a relation that is not known yet",
            Stay::UnknownFunction => {
                "the statement uses a function, an operator or a type that is not known to be replica-safe"
            }
            Stay::ByPlace => "the result depends on the physical order of rows",
            Stay::Fleeting => "the statement depends on a temporary object",
            Stay::Warns => "PostgreSQL warns whenever the statement is parsed",
        }
    }
}
