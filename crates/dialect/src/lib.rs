//! PostgreSQL's SQL over SQLite: typed translation, catalogue, values, functions.
//!
//! [`split`] parses a text, [`plan`] translates a statement against a [`Catalog`], [`Plan::execute`] runs it on a
//! connection that [`install`] has prepared. A statement has PostgreSQL's meaning or is refused with SQLSTATE 0A000 and a
//! hint. The crate knows no pages and no network.

mod array;
mod catalog;
mod context;
mod copy;
mod data_types;
mod datetime;
mod ddl;
mod dump;
mod execute;
mod functions;
mod install;
mod json;
mod literal;
mod numeric;
mod parse;
mod planner;
mod problem;
mod settings;
mod statement;
mod statement_plan;
mod system;
mod translate;
mod value;

pub use catalog::{
    Catalog, Constraint, FIRST_OID, Index, IndexKey, Rule, Sequence, Table, TableColumn, View,
};
pub use context::{Context, Draw, Draws};
pub use copy::{CopyLines, CopyPlan};
pub use data_types::{Element, Type, TypeWithModifier};
pub use dump::{Dump, sequence_position, value_text};
pub use execute::{Done, Parameter};
pub use install::install;
pub use numeric::MAX_DIGITS;
pub use parse::MAX_STATEMENT_BYTES;
pub use planner::plan;
pub use problem::{Problem, UNSUPPORTED};
pub use settings::Settings;
pub use statement::{Class, Copy, Isolation, Statement, split};
pub use statement_plan::{Column, Effect, Plan};
