//! Errors of a store, by what the caller does about them.

use std::fmt;

/// An error of a store. Texts carry the store's own reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The store does not answer, or answers that it cannot serve now. Nothing was done; the caller may try again.
    Unavailable {
        /// The store's reason.
        reason: String,
    },
    /// The store refuses the operation. A repetition is refused too.
    Refused {
        /// The store's reason.
        reason: String,
    },
    /// The store has failed: no operation works before it is opened again.
    Failed {
        /// The store's reason.
        reason: String,
    },
    /// The connection broke or a limit of time passed after the operation was sent. Each part of it may be done, may be
    /// done later, or never. Puts may be repeated.
    Unknown {
        /// The store's reason.
        reason: String,
    },
}

impl StoreError {
    /// The store cannot serve now.
    pub fn unavailable(reason: impl fmt::Display) -> StoreError {
        StoreError::Unavailable { reason: reason.to_string() }
    }

    /// The store refuses.
    pub fn refused(reason: impl fmt::Display) -> StoreError {
        StoreError::Refused { reason: reason.to_string() }
    }

    /// The outcome is unknown.
    pub fn unknown(reason: impl fmt::Display) -> StoreError {
        StoreError::Unknown { reason: reason.to_string() }
    }

    /// Whether a repetition of the operation may succeed.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        !matches!(self, StoreError::Refused { .. } | StoreError::Failed { .. })
    }

    /// A hint for the operator.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            StoreError::Unavailable { .. } => {
                "check that the store runs and can be reached; the operation may be repeated"
            }
            StoreError::Failed { .. } => "check the store's disk, and start Consort again",
            StoreError::Refused { .. } => "check the store's own limits, rights and configuration",
            StoreError::Unknown { .. } => {
                "the operation may have been done; reads tell, and puts may be repeated"
            }
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unavailable { reason } => write!(f, "the store is unavailable: {reason}"),
            StoreError::Refused { reason } => write!(f, "the store refuses: {reason}"),
            StoreError::Failed { reason } => write!(f, "the store has failed: {reason}"),
            StoreError::Unknown { reason } => write!(f, "the store's outcome is unknown: {reason}"),
        }
    }
}

impl std::error::Error for StoreError {}
