//! What a statement touches and whether it may leave the primary.
