//! The supported major version of PostgreSQL. Servers of another one are refused: the meaning of their
//! catalogs, trees and event triggers is not known.

use crate::Error;
use crate::address::Control;

/// The major version that this engine is tested with: the data that it reads (the text of query trees, the
/// meaning of WAL positions) change with the major version.
pub const MAJOR: u32 = 15;

/// The parameter in which a server reports its version at a log-in.
pub(crate) const PARAMETER: &str = "server_version";

/// Returns true if a server of this `server_version` is supported: `15.18 (Debian 15.18-0+deb12u1)`,
/// `16beta1`.
pub fn is_supported(server_version: &str) -> bool {
    let digits = server_version.split(|letter: char| !letter.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()) == Some(MAJOR)
}

/// Remedy, as a sentence for the operator.
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

/// Refuses the server of this connection if it has another major version.
///
/// # Errors
/// [`Error::Setup`] if it has; otherwise as every query.
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
