//! Versioned pages of an in-memory SQLite database.
