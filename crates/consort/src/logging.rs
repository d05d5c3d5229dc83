//! Log lines: level and format as the configuration says, to the standard error.

use config::{Config, LogFormat};
use tracing_subscriber::EnvFilter;

/// Begins to log. A second call in one process changes nothing. The returned closure changes the level.
pub(crate) fn start(config: &Config) -> Box<dyn Fn(&str)> {
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter(&config.log_level)).with_writer(std::io::stderr);
    // The start fails only if a logger exists already, and a change of level only after the logger's end.
    match config.log_format {
        LogFormat::Text => {
            let lines = lines.with_ansi(false).with_filter_reloading();
            let handle = lines.reload_handle();
            let _ = lines.try_init();
            Box::new(move |level| drop(handle.reload(filter(level))))
        }
        LogFormat::Json => {
            let lines = lines.json().with_filter_reloading();
            let handle = lines.reload_handle();
            let _ = lines.try_init();
            Box::new(move |level| drop(handle.reload(filter(level))))
        }
    }
}

/// Begins to log at level `info`, as text.
pub(crate) fn to_standard_error() {
    let lines = tracing_subscriber::fmt().with_env_filter(filter("info")).with_writer(std::io::stderr);
    let _ = lines.with_ansi(false).try_init();
}

/// The replication client reports every reconnect as an error; its caller decides the meaning.
fn filter(level: &str) -> EnvFilter {
    EnvFilter::new(format!("{level},pgwire_replication=off"))
}
