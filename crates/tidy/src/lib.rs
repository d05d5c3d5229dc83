//! Checks of the code itself.
