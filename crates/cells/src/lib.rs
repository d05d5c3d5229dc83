//! Transactions.
