//! Planning: a statement, the catalogue and declared parameter types in, a plan out.

use std::sync::Arc;

use pg_query::NodeEnum;

use crate::catalog::Catalog;
use crate::ddl;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::statement::{Class, Statement, split};
use crate::statement_plan::{Action, Effect, Plan, change, finish};
use crate::system::fixed;
use crate::translate::{Translator, delete_statement, insert_statement, update_statement};

/// Translates a statement. `parameter_types` are the OIDs that the client declares, 0 for unknown. Errors have PostgreSQL's
/// SQLSTATE, or 0A000 if the statement is valid and not supported.
pub fn plan(
    statement: &Statement,
    catalog: &Catalog,
    parameter_types: &[u32],
    _settings: &Settings,
) -> Result<Plan, Problem> {
    if let Class::Refused(problem) = &statement.class {
        return Err(problem.clone());
    }
    if let Some(text) = fixed(&statement.text) {
        let mut other = split(&text)?;
        return match other.pop() {
            Some(other) if other.text != statement.text => plan(&other, catalog, parameter_types, _settings),
            _ => Err(Problem::unsupported("this query of the system catalogue")),
        };
    }
    let Some(tree) = statement.tree.as_deref() else {
        return Err(Problem::unsupported("a plan of this statement"));
    };
    let mut translator = Translator::new(catalog, &statement.text, parameter_types)?;
    let (columns, action, effect) = match tree {
        NodeEnum::SelectStmt(select) => {
            let query = translator.query(select)?;
            let writes = matches!(statement.class, Class::Write);
            (query.columns, Action::Query(query.sql), if writes { Effect::Write } else { Effect::Read })
        }
        NodeEnum::InsertStmt(insert) => change("INSERT", insert_statement(&mut translator, insert)?, catalog),
        NodeEnum::UpdateStmt(update) => change("UPDATE", update_statement(&mut translator, update)?, catalog),
        NodeEnum::DeleteStmt(delete) => change("DELETE", delete_statement(&mut translator, delete)?, catalog),
        NodeEnum::CopyStmt(copy) => {
            let query = crate::copy::query(copy, &mut translator)?;
            (query.columns, Action::Query(query.sql), Effect::Read)
        }
        _ => {
            let script = ddl::script(tree, &mut translator)?;
            let names = Arc::new(script.names);
            let is_ddl = matches!(statement.class, Class::Ddl);
            let (restarts, computes) = (script.restarts, script.computes);
            let action = Action::Script { steps: script.steps, tag: script.tag, names, restarts, computes };
            (Vec::new(), action, if is_ddl { Effect::Ddl } else { Effect::Write })
        }
    };
    finish(translator, columns, action, effect)
}
