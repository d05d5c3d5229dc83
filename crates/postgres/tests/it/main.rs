//! The engine against real servers. Every test has its own, in a temporary folder.

mod local;
