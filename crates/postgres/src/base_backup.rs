//! The mark of a server that came of a base backup of the primary, to be fed: a line of its own configuration.

use crate::Error;
use crate::address::Control;

/// The line of a server's configuration that says that it came of a base backup to be fed.
pub const SETTING: &str = "consort.base_backup";

/// What the files of the server say; a session could say anything.
const MARKED: &str = "\
    SELECT coalesce((SELECT setting = 'on' FROM pg_file_settings WHERE name = 'consort.base_backup' \
      ORDER BY seqno DESC LIMIT 1), false)";

/// Whether the configuration of this server says that it came of a base backup to be fed.
///
/// # Errors
/// As every query.
pub async fn is_marked(control: &Control) -> Result<bool, Error> {
    match control.query_one(MARKED, &[]).await.map_err(Error::from) {
        // Who may not see that may not be a superuser, and makes no replicas.
        Err(error) if error.is("42501") => Ok(false),
        row => Ok(row?.get(0)),
    }
}
