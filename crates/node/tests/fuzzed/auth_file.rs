//! Any text as an `auth_file`, and what it says as roles' secrets.

use config::auth_file::AuthFile;
use conn::secrets::{Secret, Secrets};

/// A file that was read says the same when it is written again; a line that cannot be read is one of the
/// text.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = match AuthFile::parse(text) {
        Ok(file) => file,
        Err(bad) => return assert!((1..=text.lines().count()).contains(&bad.line)),
    };
    let quoted = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
    let lines = file.pairs().map(|(role, secret)| format!("{} {}\n", quoted(role), quoted(secret)));
    let again = AuthFile::parse(&lines.collect::<String>()).expect("what was read can be written");
    assert!(again.pairs().eq(file.pairs()));
    let mut secrets = Secrets::gather(file.pairs());
    for (role, _) in file.pairs() {
        // To make a verifier of a password takes milliseconds, and nothing is read there.
        if !matches!(secrets.of(role), Some(Secret::Plain(_))) {
            let _ = (secrets.verifier(role), file.password(role));
        }
    }
}
