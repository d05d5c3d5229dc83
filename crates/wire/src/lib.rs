//! The PostgreSQL protocol: raw frames, headers looked at.
