//! Any text as a configuration of PgBouncer, PgCat and PgDog: it becomes one of Consort's, or words say why not.

use config::Config;
use config::auth_file::AuthFile;
use config_import::{Product, import};
use std::cell::Cell;
use std::io;
use std::path::Path;

/// Consort can read the converted files, roles and all. No other file exists, nor the same once more: the
/// number of files that files include is the administrator's choice.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (file, name) = (Path::new("/etc/other.conf"), Path::new("/etc/consort.toml"));
    for product in Product::ALL {
        let is_read = Cell::new(false);
        let reads = |path: &Path| match path == file && !is_read.replace(true) {
            true => Ok(text.to_owned()),
            false => Err(io::ErrorKind::NotFound.into()),
        };
        let imported = match import(product, file, name, &reads) {
            Ok(imported) => imported,
            Err(wrong) => {
                assert!(!wrong.to_string().is_empty());
                continue;
            }
        };
        assert!(imported.report.lines().iter().all(|line| line.contains(": ")));
        assert!(AuthFile::parse(&imported.users()).is_ok(), "{product}: a line for each role");
        match &imported.made {
            Ok(made) => assert!(Config::parse(&made.text, name).is_ok(), "{product}: {}", made.text),
            Err(wrong) => assert!(!wrong.to_string().is_empty()),
        }
    }
}
