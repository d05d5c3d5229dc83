//! Errors of the driver, by what the caller does about them.

use std::fmt::Display;

use scylla::errors::{BadQuery, DbError, ExecutionError, NewSessionError, PrepareError, RequestAttemptError};

use crate::StoreError;

/// The error of a statement.
pub(super) fn of_statement(error: ExecutionError) -> StoreError {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, reason)) => {
            of_server(&error, &reason)
        }
        ExecutionError::BadQuery(error @ BadQuery::SerializationError(_)) => StoreError::refused(error),
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => StoreError::unavailable(error),
        error => StoreError::unknown(error),
    }
}

/// The error of a read, which changes nothing: no outcome is unknown.
pub(super) fn of_read(error: ExecutionError) -> StoreError {
    match of_statement(error) {
        StoreError::Unknown { reason } => StoreError::unavailable(reason),
        other => other,
    }
}

pub(super) fn of_prepare(error: PrepareError) -> StoreError {
    of_read(ExecutionError::PrepareError(error))
}

pub(super) fn of_connect(error: NewSessionError) -> StoreError {
    match error {
        NewSessionError::EmptyKnownNodesList | NewSessionError::IllegalConfig(_) => {
            StoreError::refused(error)
        }
        error => StoreError::unavailable(error),
    }
}

/// The answer does not have the form of the table.
pub(super) fn of_answer(error: impl Display) -> StoreError {
    StoreError::refused(format!("the tables are not this store's: {error}"))
}

fn of_server(error: &DbError, reason: &str) -> StoreError {
    let text = format!("{error}: {reason}");
    match error {
        DbError::Unavailable { .. }
        | DbError::Overloaded
        | DbError::IsBootstrapping
        | DbError::ReadTimeout { .. }
        | DbError::ReadFailure { .. }
        | DbError::TruncateError
        | DbError::RateLimitReached { .. } => StoreError::unavailable(text),
        DbError::WriteTimeout { .. } | DbError::WriteFailure { .. } | DbError::ServerError => {
            StoreError::unknown(text)
        }
        _ => StoreError::refused(text),
    }
}
