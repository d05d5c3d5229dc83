//! Figures and cycles of the tree that the laws of structure forbid. Each list only shrinks: a figure larger than the tree's fails too.

use super::Exception;

/// Import cycles: crate, and the sorted names of the modules.
pub(super) const CYCLES: &[(&str, &str)] = &[
    (
        "node",
        "barrier cluster console_access door follow listening log_in members overdue places plan pool process room scheduled servers service session shown standby takeover understanding verify",
    ),
    ("node", "config console hba"),
];

/// Lines of `src` of a crate.
pub(super) const LINES: &[Exception] =
    &[("crates/node/src", "src", 40_000), ("crates/workloads/src", "src", 13_000)];

/// Fields of a struct.
pub(super) const FIELDS: &[Exception] = &[
    ("crates/experiments/src/experiment/table.rs", "Experiment", 17),
    ("crates/node/src/cluster/database.rs", "Database", 22),
    ("crates/node/src/cluster/mod.rs", "Setup", 24),
    ("crates/node/src/cluster/mod.rs", "Shared", 27),
    ("crates/node/src/config.rs", "Config", 63),
    ("crates/node/src/console/view.rs", "Feed", 18),
    ("crates/node/src/door/mod.rs", "Door", 29),
    ("crates/node/src/door/seat.rs", "Seat", 29),
    ("crates/node/src/metrics.rs", "Metrics", 19),
    ("crates/node/src/pooling.rs", "Pooling", 18),
    ("crates/node/src/session/flows.rs", "Current", 23),
    ("crates/node/src/session/mod.rs", "Session", 39),
    ("crates/scheduler/src/scheduler.rs", "Scheduler", 17),
    ("crates/sim/src/model/server.rs", "Server", 20),
    ("crates/sim/src/model/standby.rs", "Standby", 18),
    ("crates/sim/src/world.rs", "World", 20),
    ("crates/workloads/src/histories/report.rs", "Options", 23),
    ("crates/workloads/src/stale/report.rs", "Options", 19),
    ("crates/workloads/src/workload/options.rs", "Options", 21),
];

/// Methods of a type.
pub(super) const METHODS: &[Exception] = &[
    ("crates/session-state/src/state.rs", "SessionState", 69),
    ("crates/node/src/cluster/mod.rs", "Cluster", 129),
    ("crates/node/src/door/mod.rs", "Door", 50),
    ("crates/node/src/session/mod.rs", "Session", 321),
    ("crates/node/src/session/primary.rs", "Primary", 56),
    ("crates/node/src/session/statements.rs", "Statements", 61),
    ("crates/order/src/order.rs", "Order", 67),
    ("crates/scheduler/src/scheduler.rs", "Scheduler", 102),
    ("crates/sim/src/model/primary.rs", "Primary", 47),
];

/// Files with `impl` blocks of a type.
pub(super) const FILES: &[Exception] = &[
    ("crates/node/src/cluster/mod.rs", "Cluster", 7),
    ("crates/node/src/follow/fed.rs", "Line", 5),
    ("crates/node/src/session/mod.rs", "Session", 34),
    ("crates/scheduler/src/scheduler.rs", "Scheduler", 6),
    ("crates/workloads/src/tpcw/mod.rs", "Page", 6),
];

/// Path and name of each `static` with state.
pub(super) const STATICS: &[(&str, &str)] = &[
    ("crates/node/src/door/admit.rs", "PROVING"),
    ("crates/testkit/src/scratch.rs", "TEMPLATES"),
    ("crates/testkit/src/scratch.rs", "OTHER_TEMPLATES"),
];
