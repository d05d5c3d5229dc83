//! The mark of a server that comes from a base backup of the primary, and is to become a logical replica: a
//! line of its own configuration.

use crate::Error;
use crate::address::Control;

/// Setting in a server's configuration that marks a base backup that is to become a logical replica.
pub const SETTING: &str = "consort.base_backup";

/// Query of the setting in the server's files, because a session could set any value.
const MARKED: &str = "\
    SELECT coalesce((SELECT setting = 'on' FROM pg_file_settings WHERE name = 'consort.base_backup' \
      ORDER BY seqno DESC LIMIT 1), false)";

/// Returns true if the configuration of this server marks it as a base backup that is to become a logical
/// replica.
///
/// # Errors
/// As every query.
pub async fn is_marked(control: &Control) -> Result<bool, Error> {
    match control.query_one(MARKED, &[]).await.map_err(Error::from) {
        // A role that may not see that may not be a superuser, and makes no replicas.
        Err(error) if error.is("42501") => Ok(false),
        row => Ok(row?.get(0)),
    }
}
