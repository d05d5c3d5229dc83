//! The administrator's view: the console, the page for Prometheus, and the HTTP server of that page.

pub mod console;
pub mod http;
pub mod metrics;
