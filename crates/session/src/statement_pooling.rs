//! Statement pooling: each statement of a session stands alone, so that it may not begin a transaction block.
//! A BEGIN is refused before it runs; any other statement that leaves a block open ends the session with the
//! block.

use super::Session;
use super::request_analysis::Todo;
use config::pooling::PoolMode;
use session_state::utility::{Statement, Utility, What};

impl Session {
    /// True if the session's statements stand alone.
    pub(super) fn stands_alone(&self) -> bool {
        self.who.pool.pooling().mode == PoolMode::Statement
    }
}

impl Todo {
    /// True if the statement is a BEGIN, and nothing else.
    pub(super) fn is_begin(&self) -> bool {
        let Todo::Utility(statements) = self else { return false };
        matches!(&**statements, [Statement { what: What::Utility(Utility::Begin(_)), .. }])
    }
}
