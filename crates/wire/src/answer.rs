//! Consort's own answers to clients: the log-in, our own errors, the console's results. Text for users is
//! made here and nowhere deeper.

use crate::ask::{frame, string};
use crate::tag::back;
use crate::{Notification, Status};

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// Fatal: the connection is closed afterwards.
    Fatal,
    /// Nothing failed.
    Notice,
    /// Nothing failed, but a user should know.
    Warning,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }
}

/// An error or a notice of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Severity of the problem.
    pub severity: Severity,
    /// Five characters (PostgreSQL's documentation, Appendix A).
    pub sqlstate: &'static str,
    /// Message: the problem in words.
    pub message: String,
    /// Hint: what to do about it.
    pub hint: Option<String>,
    /// PostgreSQL's function that says the same, where clients go by it.
    pub routine: Option<&'static str>,
}

impl Problem {
    /// The statement failed.
    pub fn error(sqlstate: &'static str, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Error, sqlstate, message: message.into(), hint: None, routine: None }
    }

    /// A fatal problem: the connection is closed afterwards.
    pub fn fatal(sqlstate: &'static str, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Fatal, ..Problem::error(sqlstate, message) }
    }

    /// Adds a hint: what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// PostgreSQL's function that says the same.
    #[must_use]
    pub fn routine(mut self, routine: &'static str) -> Problem {
        self.routine = Some(routine);
        self
    }
}

/// A column of a result of our own; its values are text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// Its name.
    pub name: &'a str,
    /// The type's object identifier (25 is text, 20 is bigint).
    pub type_oid: u32,
    /// The type's size in bytes; -1 for a varying one.
    pub size: i16,
}

impl<'a> Column<'a> {
    /// A column of texts.
    pub fn text(name: &'a str) -> Column<'a> {
        Column { name, type_oid: 25, size: -1 }
    }

    /// A column of whole numbers.
    pub fn bigint(name: &'a str) -> Column<'a> {
        Column { name, type_oid: 20, size: 8 }
    }
}

/// A buffer to which answers are written.
pub trait Answers {
    /// AuthenticationOk.
    fn authentication_ok(&mut self);
    /// AuthenticationCleartextPassword.
    fn authentication_cleartext(&mut self);
    /// AuthenticationMD5Password.
    fn authentication_md5(&mut self, salt: [u8; 4]);
    /// AuthenticationSASL with these mechanisms.
    fn authentication_sasl(&mut self, mechanisms: &[&str]);
    /// AuthenticationSASLContinue.
    fn sasl_continue(&mut self, message: &[u8]);
    /// AuthenticationSASLFinal.
    fn sasl_final(&mut self, message: &[u8]);
    /// NegotiateProtocolVersion: this minor version of protocol 3 is spoken, and these options are not known. Servers send the
    /// whole version, and libpq wants it, though the documentation speaks of the minor one.
    fn negotiate(&mut self, minor: u16, unknown: &[String]);
    /// BackendKeyData.
    fn key_data(&mut self, pid: i32, secret: &[u8]);
    /// ParameterStatus.
    fn parameter_status(&mut self, name: &[u8], value: &[u8]);
    /// NotificationResponse.
    fn notification(&mut self, notification: &Notification<'_>);
    /// ReadyForQuery.
    fn ready(&mut self, status: Status);
    /// ErrorResponse or NoticeResponse.
    fn problem(&mut self, problem: &Problem);
    /// CommandComplete.
    fn complete(&mut self, tag: &str);
    /// EmptyQueryResponse.
    fn empty_query(&mut self);
    /// ParseComplete.
    fn parse_complete(&mut self);
    /// BindComplete.
    fn bind_complete(&mut self);
    /// CloseComplete.
    fn close_complete(&mut self);
    /// NoData.
    fn no_data(&mut self);
    /// ParameterDescription.
    fn parameter_description(&mut self, types: &[u32]);
    /// RowDescription, all columns as text.
    fn row_description(&mut self, columns: &[Column<'_>]);
    /// DataRow; `None` is NULL.
    fn data_row(&mut self, values: &[Option<&[u8]>]);
}

fn authentication(out: &mut Vec<u8>, kind: u32, rest: &[u8]) {
    frame(out, back::AUTHENTICATION, |out| {
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(rest);
    });
}

fn count16(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u16::try_from(count).expect("few columns").to_be_bytes());
}

fn count32(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).expect("a short value").to_be_bytes());
}

impl Answers for Vec<u8> {
    fn authentication_ok(&mut self) {
        authentication(self, 0, &[]);
    }

    fn authentication_cleartext(&mut self) {
        authentication(self, 3, &[]);
    }

    fn authentication_md5(&mut self, salt: [u8; 4]) {
        authentication(self, 5, &salt);
    }

    fn authentication_sasl(&mut self, mechanisms: &[&str]) {
        let mut list = Vec::new();
        mechanisms.iter().for_each(|mechanism| string(&mut list, mechanism.as_bytes()));
        list.push(0);
        authentication(self, 10, &list);
    }

    fn sasl_continue(&mut self, message: &[u8]) {
        authentication(self, 11, message);
    }

    fn sasl_final(&mut self, message: &[u8]) {
        authentication(self, 12, message);
    }

    fn negotiate(&mut self, minor: u16, unknown: &[String]) {
        frame(self, back::NEGOTIATE_PROTOCOL_VERSION, |out| {
            out.extend_from_slice(&(3_u32 << 16 | u32::from(minor)).to_be_bytes());
            count32(out, unknown.len());
            unknown.iter().for_each(|name| string(out, name.as_bytes()));
        });
    }

    fn key_data(&mut self, pid: i32, secret: &[u8]) {
        frame(self, back::BACKEND_KEY_DATA, |out| {
            out.extend_from_slice(&pid.to_be_bytes());
            out.extend_from_slice(secret);
        });
    }

    fn parameter_status(&mut self, name: &[u8], value: &[u8]) {
        frame(self, back::PARAMETER_STATUS, |out| {
            string(out, name);
            string(out, value);
        });
    }

    fn notification(&mut self, notification: &Notification<'_>) {
        frame(self, back::NOTIFICATION, |out| {
            out.extend_from_slice(&notification.pid.to_be_bytes());
            string(out, notification.channel);
            string(out, notification.payload);
        });
    }

    fn ready(&mut self, status: Status) {
        frame(self, back::READY_FOR_QUERY, |out| out.push(status.byte()));
    }

    fn problem(&mut self, problem: &Problem) {
        let tag = match problem.severity {
            Severity::Error | Severity::Fatal => back::ERROR,
            Severity::Notice | Severity::Warning => back::NOTICE,
        };
        let word = problem.severity.word();
        let fields = [
            (b'S', Some(word)),
            (b'V', Some(word)),
            (b'C', Some(problem.sqlstate)),
            (b'M', Some(problem.message.as_str())),
            (b'H', problem.hint.as_deref()),
            (b'R', problem.routine),
        ];
        frame(self, tag, |out| {
            for (field, value) in fields {
                if let Some(value) = value {
                    out.push(field);
                    string(out, value.as_bytes());
                }
            }
            out.push(0);
        });
    }

    fn complete(&mut self, tag: &str) {
        frame(self, back::COMMAND_COMPLETE, |out| string(out, tag.as_bytes()));
    }

    fn empty_query(&mut self) {
        frame(self, back::EMPTY_QUERY, |_| {});
    }

    fn parse_complete(&mut self) {
        frame(self, back::PARSE_COMPLETE, |_| {});
    }

    fn bind_complete(&mut self) {
        frame(self, back::BIND_COMPLETE, |_| {});
    }

    fn close_complete(&mut self) {
        frame(self, back::CLOSE_COMPLETE, |_| {});
    }

    fn no_data(&mut self) {
        frame(self, back::NO_DATA, |_| {});
    }

    fn parameter_description(&mut self, types: &[u32]) {
        frame(self, back::PARAMETER_DESCRIPTION, |out| {
            count16(out, types.len());
            types.iter().for_each(|oid| out.extend_from_slice(&oid.to_be_bytes()));
        });
    }

    fn row_description(&mut self, columns: &[Column<'_>]) {
        frame(self, back::ROW_DESCRIPTION, |out| {
            count16(out, columns.len());
            for column in columns {
                string(out, column.name.as_bytes());
                out.extend_from_slice(&[0; 6]);
                out.extend_from_slice(&column.type_oid.to_be_bytes());
                out.extend_from_slice(&column.size.to_be_bytes());
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                out.extend_from_slice(&[0; 2]);
            }
        });
    }

    fn data_row(&mut self, values: &[Option<&[u8]>]) {
        frame(self, back::DATA_ROW, |out| {
            count16(out, values.len());
            for value in values {
                match value {
                    None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
                    Some(value) => {
                        count32(out, value.len());
                        out.extend_from_slice(value);
                    }
                }
            }
        });
    }
}
