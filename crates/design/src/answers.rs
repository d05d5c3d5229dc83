//! The six questions, and the answers that are known.

/// Component that makes the order of commits, and finds conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orderer {
    /// The primary, all commits at once; the order in which it shows them is read back from it.
    Primary,
    /// The primary, one commit at a time.
    PrimaryOneByOne,
    /// The scheduler, by table locks, before anything is executed.
    Scheduler,
    /// The certifier, when a transaction commits: of two that conflict the first to be certified.
    Certifier,
    /// The master of a tier in memory, by its one writer: statements run again at their commit, and must do the same.
    Master,
    /// The scheduler, by versions of the tables that a transaction declares before it begins.
    SchedulerByTable,
}

impl Orderer {
    /// True if the order is made before anything is executed.
    pub(crate) fn is_scheduler(self) -> bool {
        matches!(self, Orderer::Scheduler | Orderer::SchedulerByTable)
    }
}

/// Form in which effects travel to the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effects {
    /// The primary's log to standbys, rows to replicas that Consort feeds.
    LogOrRows,
    /// Rows.
    Rows,
    /// Differences of pages.
    Pages,
    /// Cells: the value of a key, with the timestamp of its commit.
    Cells,
    /// The statements themselves; the rows where a statement would do something else at a replica.
    Statements,
}

impl Effects {
    /// True if statements travel.
    pub fn are_statements(self) -> bool {
        self == Effects::Statements
    }
}

/// Source of a commit's durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The primary's disk.
    Primary,
    /// The disk of every engine.
    EveryEngine,
    /// The ledger, one sync for all that wait.
    Ledger,
    /// The ledger, and every engine one commit after the other.
    LedgerAndEachEngine,
    /// The ledger, and engines which are told the order and flush together.
    LedgerAndEnginesInGroups,
}

/// Event that the client's "committed" waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The primary's own answer, under the session's `synchronous_commit`.
    Primary,
    /// All replicas have applied it.
    AppliedByAll,
    /// The commit is durable, and committed at the node where it ran.
    DurableAndOrigin,
    /// The commit is durable, and all replicas have received it.
    DurableAndReceivedByAll,
    /// The commit is durable, and transactions that start from now on see it.
    DurableAndStarted,
}

/// How a replica takes in the effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// A standby by PostgreSQL's own replay; a logical replica several commits in one step, from boundary to
    /// boundary.
    ByBoundary,
    /// One boundary after the other, none together: as a rule each has one commit.
    OneByOne,
    /// One commit after the other, while nothing reads there.
    OneByOneLocking,
    /// Independent transactions in parallel, shown in order.
    ParallelByFootprint,
    /// As a part of the transaction itself.
    InsideTheTransaction,
    /// In the order of the declared tables' versions.
    InTableOrder,
    /// A page when a read needs it, up to the version of the read.
    OnDemand,
    /// In any order: a cell takes the place of an older one alone.
    IfNewer,
    /// However it comes.
    AsItComes,
}

impl Intake {
    /// Boundaries are taken in one after the other, none together.
    pub fn is_one_by_one(self) -> bool {
        matches!(self, Intake::OneByOne | Intake::OneByOneLocking)
    }

    /// Every replica executes what the scheduler has ordered.
    pub(crate) fn executes(self) -> bool {
        matches!(self, Intake::InsideTheTransaction | Intake::InTableOrder)
    }

    /// Nothing reads at a replica while it takes something in.
    pub fn locks(self) -> bool {
        self == Intake::OneByOneLocking
    }
}

/// State that a read may see, if the session did not ask for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The latest for what the statement touches, per statement, proven; else the primary.
    LatestProven,
    /// The whole latest version, at a replica, which the read waits for.
    LatestWaiting,
    /// The latest version, which is made at the replica as it is read.
    LatestMade,
    /// Its tables at the versions that were handed out before it.
    TableVersions,
    /// State of any replica: all show the same.
    AnyReplica,
    /// The snapshot of the session's own node (generalized snapshot isolation).
    OwnSnapshot,
    /// The snapshot at the start of the transaction: newest versions are in the store, older ones in memory.
    StartSnapshot,
    /// A standby's snapshot whose WAL position is late enough for the session or the bound; else the primary.
    ByPosition,
    /// State of any replica, of any age: as proxies without knowledge of the order do.
    AnyAge,
}
