//! Tests of the order through its public functions: stories with reviewed answers, and a random primary.

mod random;
mod stories;
