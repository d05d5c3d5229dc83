//! CALL of a declared procedure: every server executes it under the locks of the tables in its declaration.

use super::statement_tables::{Does, Form, No, Use, behind_ddl, common, not_executed, session_not_known};
use crate::Session;
use crate::primary::Seen;
use backend::prepared_statements::types;
use cluster::scheduled::writing;
use history::RelationId;
use session_state::utility::call_arguments::{Arguments, called, may_mean_clock};
use session_state::utility::{Statement, What};
use statement_analysis::{Kind, Parameter, Values};
use wire::{Answers, Bind, Problem, Severity};

/// SQLSTATE of a procedure that ends transactions and was executed in Consort's own block.
const ENDS_TRANSACTIONS: [u8; 5] = *b"2D000";

const DECLARE: &str = "If it does the same at every server, declare it in the configuration \
                       ([procedure.\"schema.name\"] with tables_read and tables_written). Otherwise send \
                       its statements one by one.";
const VALUES: &str = "Send the values themselves: literals, parameters, or expressions of these alone.";

impl Session {
    /// The use of a CALL, if its procedure is declared.
    pub(super) async fn use_of_call(&mut self, piece: &str) -> Result<Use, No> {
        let not_known = || not_executed("call", "the procedure is not declared", DECLARE);
        let call = called(piece, self.state.strings()).ok_or_else(not_known)?;
        let loaded = self.catalog().await.map_err(|problem| No::Refused("catalog", problem))?;
        let catalog = &loaded.catalog;
        let name = &call.name;
        let touches = catalog.touched_if_called(name.schema.as_deref(), &name.name).ok_or_else(not_known)?;
        let alike = match &call.arguments {
            Arguments::Values => true,
            Arguments::Computed(query) => self.computes_alike(query).await?,
            Arguments::Unknown => false,
        };
        if !alike {
            return Err(computed());
        }
        if !self.state.knows_names() {
            return Err(session_not_known());
        }
        if self.state.block_has_ddl() {
            return Err(behind_ddl());
        }
        let bound: Vec<RelationId> =
            touches.writes.iter().flat_map(|table| catalog.bound_by_keys(*table)).collect();
        let draws = catalog.any_sequence(&touches.writes);
        let locks = writing(touches.reads.into_iter().chain(bound), touches.writes, draws);
        // The CALL leaves the session as it was, and its known state stays known.
        let tree = Statement { range: 0..0, what: What::Tree };
        let mut used = Use::new(Does::Writes, Some(locks), piece, tree);
        (used.moves_sequences, used.calls) = (draws, true);
        Ok(used)
    }

    /// True if a query, whose columns are the arguments of a CALL, computes the same at every server: from
    /// its literals and parameters alone, without the current time, random values, sequences, reads or
    /// writes.
    async fn computes_alike(&mut self, query: &str) -> Result<bool, No> {
        let Some(words) = self.words_of(query.as_bytes()) else { return Ok(false) };
        let types =
            self.current.statement.as_ref().map(|statement| types(&statement.types)).unwrap_or_default();
        let template = self.understood(&words, &types).await?;
        let mut literals = Vec::new();
        words.shape.texts(&words.text, &mut literals);
        // A text parameter that may mean the current time is refused when it is bound.
        let parameters = vec![Parameter::Null; template.parameters.len().max(types.len())];
        let values = Values { literals: &literals, parameters: &parameters, utf8: false };
        let touches_nothing = template.reads.is_nothing() && template.writes.is_nothing();
        let changes_nothing = !template.dirties && !template.replay.moves_sequences;
        Ok(template.kind == Kind::Read
            && touches_nothing
            && changes_nothing
            && template.stays.is_empty()
            && !template.random
            && !template.at_copies.never
            && template.differs_with(&values).is_none())
    }
}

/// Form in which replicas receive the parameters of a CALL.
pub(super) fn with(bind: &Bind<'_>, types: &[u8]) -> Result<Form, No> {
    let clock = |(binary, value): (bool, Option<&[u8]>)| !binary && value.is_some_and(may_mean_clock);
    if bind.parameters().any(clock) {
        return Err(computed());
    }
    Ok(Form::Bound(common(types), bind.rest.into()))
}

/// Adds a hint for the client after the error of a procedure that failed because it ends transactions.
pub(super) fn explained(uses: &[Use], seen: &Seen, out: &mut Vec<u8>) {
    if seen.sqlstate == Some(ENDS_TRANSACTIONS) && uses.iter().any(|used| used.calls) {
        let message = "the procedure cannot end its transaction: every server executes it in one";
        let hint = "Remove COMMIT and ROLLBACK from it, and call it once for each transaction.";
        let notice = Problem { severity: Severity::Notice, ..Problem::error("01000", message) };
        out.problem(&notice.hint(hint));
    }
}

fn computed() -> No {
    not_executed("call_arguments", "its arguments may have other values on other servers", VALUES)
}
