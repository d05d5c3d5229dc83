//! Names of Consort's own objects inside a served database, and of the database for connections about a whole
//! replica.

/// The schema of the log table.
pub const SCHEMA: &str = "consort";
/// The log table.
pub const LOG_TABLE: &str = "log";
/// The log of commands, for replicas that run them ([`log_commands`](crate::attach::log_commands)).
pub const COMMAND_TABLE: &str = "command";
/// The entry of the log table for a change that has no event trigger.
pub const MARK: &str = "mark";
/// Name of the publication.
pub const PUBLICATION: &str = "consort";
/// The database at a logical replica for connections that concern the whole server: any other database may be
/// copied again.
pub const CONTROL_DATABASE: &str = "template1";
