//! The major version of PostgreSQL that is supported. Servers of another one are refused: what their catalogs, trees and
//! event triggers mean is not known.

use crate::Error;
use crate::address::Control;

/// The major version that this engine is tested with: what it reads (the text of query trees, the meaning of log
/// positions) changes with the major version.
pub const MAJOR: u32 = 15;

/// The parameter in which a server reports its version at a log-in.
pub(crate) const PARAMETER: &str = "server_version";

/// Whether a server of this `server_version` is supported: `15.18 (Debian 15.18-0+deb12u1)`, `16beta1`.
pub fn is_supported(server_version: &str) -> bool {
    let digits = server_version.split(|letter: char| !letter.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()) == Some(MAJOR)
}

/// The way out, for people.
pub(crate) fn remedy() -> String {
    format!("use PostgreSQL {MAJOR}: other major versions are not supported yet")
}

/// Refuses a server that reports another major version.
///
/// # Errors
/// [`Error::Setup`].
pub(crate) fn accept(server_version: &str) -> Result<(), Error> {
    if is_supported(server_version) {
        return Ok(());
    }
    Err(Error::Setup(format!("the server is PostgreSQL {server_version}: {}", remedy())))
}

/// Asks the server of this connection, and refuses another major version.
///
/// # Errors
/// [`Error::Setup`] if it is another one; otherwise as every query.
pub async fn demand(control: &Control) -> Result<(), Error> {
    let row = control.query_one("SELECT current_setting('server_version')", &[]).await?;
    accept(row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_another_major_is_refused() {
        for version in ["15.18 (Debian 15.18-0+deb12u1)", "15.1", "15beta2", "15devel", "15"] {
            assert!(is_supported(version), "{version}");
        }
        for version in ["16.14 (Debian 16.14-1)", "16beta1", "14.9", "9.6.24", "150.1", "1.5", "", "devel"] {
            assert!(!is_supported(version), "{version}");
        }
    }
}
