//! The certifier against an implementation that is too simple to be wrong, and the anomalies that it prevents.

mod oracle;
mod random;
mod stories;
mod window;
