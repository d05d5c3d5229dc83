//! PostgreSQL's SQL over SQLite: typed translation, catalogue, values, functions.
