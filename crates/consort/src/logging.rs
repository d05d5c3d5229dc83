//! Log lines: level and format as the configuration says, to the standard error.

use config::{Config, LogFormat};
use tracing_subscriber::EnvFilter;

/// Begins to log. A second call in one process changes nothing. What is returned changes the level.
pub(crate) fn start(config: &Config) -> Box<dyn Fn(&str)> {
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter(&config.log_level)).with_writer(std::io::stderr);
    // Beginning fails only if somebody logs already, and a change of level only when nobody does any more.
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

/// The replication client calls every reconnect an error; what it means for us is said where it is handled.
fn filter(level: &str) -> EnvFilter {
    EnvFilter::new(format!("{level},pgwire_replication=off"))
}
