//! Figures and cycles of the tree that the laws of structure forbid. Each list only shrinks: a figure larger than the tree's fails too.

use super::Exception;

/// Import cycles: crate, and the sorted names of the modules.
pub(super) const CYCLES: &[(&str, &str)] = &[];

/// Lines of `src` of a crate.
pub(super) const LINES: &[Exception] = &[];

/// Fields of a struct.
pub(super) const FIELDS: &[Exception] = &[
    ("crates/experiments/src/experiment/table.rs", "Experiment", 17),
    ("crates/cluster/src/database.rs", "Database", 22),
    ("crates/cluster/src/lib.rs", "Setup", 24),
    ("crates/cluster/src/lib.rs", "Shared", 27),
    ("crates/config/src/lib.rs", "Config", 63),
    ("crates/admin/src/console/view.rs", "Feed", 18),
    ("crates/frontend/src/lib.rs", "Door", 21),
    ("crates/conn/src/registry/client_entry.rs", "Seat", 29),
    ("crates/counters/src/lib.rs", "Metrics", 19),
    ("crates/config/src/pooling.rs", "Pooling", 18),
    ("crates/scheduler/src/scheduler.rs", "Scheduler", 17),
    ("crates/sim/src/model/server.rs", "Server", 20),
    ("crates/sim/src/model/standby.rs", "Standby", 18),
    ("crates/sim/src/world.rs", "World", 20),
    ("crates/workloads/src/histories/report.rs", "Options", 22),
    ("crates/workloads/src/stale/report.rs", "Options", 18),
    ("crates/workloads/src/workload/options.rs", "Options", 17),
];

/// Methods of a type.
pub(super) const METHODS: &[Exception] = &[
    ("crates/session-state/src/state.rs", "SessionState", 69),
    ("crates/cluster/src/lib.rs", "Cluster", 129),
    ("crates/session/src/lib.rs", "Session", 320),
    ("crates/session/src/primary.rs", "Primary", 56),
    ("crates/backend/src/prepared_statements.rs", "Statements", 61),
    ("crates/order/src/order.rs", "Order", 67),
    ("crates/scheduler/src/scheduler.rs", "Scheduler", 102),
    ("crates/sim/src/model/primary.rs", "Primary", 47),
];

/// Files with `impl` blocks of a type.
pub(super) const FILES: &[Exception] = &[
    ("crates/cluster/src/lib.rs", "Cluster", 7),
    ("crates/cluster/src/follow/replica_feed.rs", "Line", 5),
    ("crates/session/src/lib.rs", "Session", 34),
    ("crates/scheduler/src/scheduler.rs", "Scheduler", 6),
    ("crates/workloads/src/tpcw/mod.rs", "Page", 6),
];

/// Path and name of each `static` with state.
pub(super) const STATICS: &[(&str, &str)] = &[
    ("crates/frontend/src/authentication.rs", "PROVING"),
    // A table, which never changes.
    ("crates/certified/src/statement.rs", "PLAIN_FUNCTIONS"),
    ("crates/testkit/src/scratch.rs", "TEMPLATES"),
    ("crates/testkit/src/scratch.rs", "OTHER_TEMPLATES"),
];
