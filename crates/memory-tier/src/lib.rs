//! A tier of in-memory databases: one master, and slaves that make the version which a read asks for.
//!
//! ```text
//!    clients --- front ------ master          commits, one after the other
//!                  |   `----- slaves          reads, at the version that the front says
//!              query log                      every write set, durable before its acknowledgement
//! ```
//!
//! `front` runs inside of Consort's process; each node is a process of its own. `message` is what they say to each other.

pub mod changes;
pub mod front;
pub mod links;
pub mod message;
pub mod node;

use std::path::Path;

/// The name under which the query log subscribes.
pub(crate) const LOG: &str = "log";
/// A secret has at least this many bytes.
const SECRET_MIN: usize = 16;

/// Reads the tier's secret.
///
/// # Errors
/// The file cannot be read, others can read it, or it is too short: a sentence for a person.
pub fn secret(file: &Path) -> Result<Vec<u8>, String> {
    use std::os::unix::fs::PermissionsExt;
    let name = file.display();
    let wrong = |error| format!("cannot read {name}: {error}");
    if std::fs::metadata(file).map_err(wrong)?.permissions().mode() & 0o077 != 0 {
        return Err(format!("other users can read {name}: chmod 600 {name}"));
    }
    let secret = std::fs::read(file).map_err(wrong)?;
    if secret.len() < SECRET_MIN {
        return Err(format!("{name} has fewer than {SECRET_MIN} bytes: write a longer secret"));
    }
    Ok(secret)
}
