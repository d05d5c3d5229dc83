//! The log of what runs inside a test's own process: `CONSORT_LOG=debug` writes it into the test's output.

use tracing_subscriber::EnvFilter;

/// Environment variable with the level, or directives as `cluster=debug,info`.
const VARIABLE: &str = "CONSORT_LOG";

/// The directives of `CONSORT_LOG`, if it is set.
pub fn wished() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|directives| !directives.is_empty())
}

/// Writes the log from now on, if `CONSORT_LOG` is set.
pub(crate) fn start() {
    if let Some(directives) = wished() {
        let log = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(directives)).with_test_writer();
        // Another server of this process has started the log already.
        let _ = log.try_init();
    }
}
