//! What an administrator sees: the console, the page for Prometheus, and the HTTP that serves it.

pub mod console;
pub mod http;
pub mod metrics;
