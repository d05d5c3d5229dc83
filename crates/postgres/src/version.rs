//! Refusal of servers whose major version is not among [`crate::majors`].

use crate::Error;
use crate::address::Control;
use crate::majors::{self, Major};

/// Returns true if a server of this `server_version` is supported: `15.18 (Debian 15.18-0+deb12u1)`,
/// `16beta1`.
pub fn is_supported(server_version: &str) -> bool {
    majors::of_version(server_version).is_some()
}

/// Remedy, as a sentence for the operator.
pub(crate) fn remedy() -> String {
    format!("use PostgreSQL {}: other major versions are not supported yet", majors::in_words())
}

/// The major of a server that reports this version.
///
/// # Errors
/// [`Error::Setup`] if it is not supported.
pub(crate) fn accept(server_version: &str) -> Result<&'static Major, Error> {
    majors::of_version(server_version)
        .ok_or_else(|| Error::Setup(format!("the server is PostgreSQL {server_version}: {}", remedy())))
}

/// The major of this connection's server.
///
/// # Errors
/// [`Error::Setup`] if it is not supported; otherwise as every query.
pub async fn of_server(control: &Control) -> Result<&'static Major, Error> {
    let row = control.query_one("SELECT current_setting('server_version')", &[]).await?;
    accept(row.get(0))
}

/// Refuses the server of this connection if its major version is not supported.
///
/// # Errors
/// [`Error::Setup`] if it is not; otherwise as every query.
pub async fn demand(control: &Control) -> Result<(), Error> {
    of_server(control).await.map(drop)
}
