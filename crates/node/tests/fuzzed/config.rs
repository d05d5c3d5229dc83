//! Any text as a configuration: it counts as a whole, or every mistake in it is named.

use config::Config;
use std::path::Path;

/// A mistake has words, and a line that the text has.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::parse(text, Path::new("/etc/consort.toml")) {
        Ok(mut config) => {
            let own = config.defaults("postgres", "ann");
            assert_eq!(own, config.defaults("postgres", "ann"));
            assert!(config.shown().count() > 0 && config.pools().of("postgres", "ann").size > 0);
            let _ = (config.rules(), config.writers(), config.tls(), config.read_nodes().count());
            assert!(config.changed_until_start(&config).is_empty());
            let same = config.clone();
            config.until_start(&same).expect("the same has no contradiction");
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            for mistake in mistakes {
                assert!(!mistake.message.is_empty(), "{mistake}");
                assert!(mistake.line <= 1 + text.matches('\n').count(), "{mistake}");
            }
        }
    }
}
