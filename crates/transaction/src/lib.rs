//! The flows: one statement, one commit, each in one place.
