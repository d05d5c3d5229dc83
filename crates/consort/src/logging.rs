//! Log lines: level and format as the configuration says, to the standard error.

use node::config::{Config, LogFormat};
use tracing_subscriber::EnvFilter;

/// Begins to log. A second call in one process changes nothing.
pub(crate) fn start(config: &Config) {
    // The replication client calls every reconnect an error; what it means for us is said where it is handled.
    let filter = EnvFilter::new(format!("{},pgwire_replication=off", config.log_level));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only if somebody logs already.
    let _ = match config.log_format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
}
