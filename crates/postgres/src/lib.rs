//! The PostgreSQL engine: gauge, decoder, watchers, analysis connections, local servers.
