//! A whole cluster in one thread under one seed; checkers; planted bugs.
