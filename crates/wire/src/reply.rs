//! Server answers, as far as Consort reads them: readiness, completed commands, errors, and the log-in.

use crate::scan::Scan;
use crate::{Frame, Malformed};

/// State of a session, by ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Outside a transaction block.
    Idle,
    /// Inside one.
    InBlock,
    /// Inside one that has failed.
    Failed,
}

impl Status {
    /// The byte that stands for it.
    pub fn byte(self) -> u8 {
        match self {
            Status::Idle => b'I',
            Status::InBlock => b'T',
            Status::Failed => b'E',
        }
    }
}

/// The status in a ReadyForQuery message.
pub fn status(frame: &Frame<'_>) -> Result<Status, Malformed> {
    match frame.body() {
        [b'I'] => Ok(Status::Idle),
        [b'T'] => Ok(Status::InBlock),
        [b'E'] => Ok(Status::Failed),
        _ => Err(Malformed::Body),
    }
}

/// The tag in a CommandComplete message, without its closing zero byte: `SELECT 5`, `COMMIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTag<'a>(pub &'a [u8]);

impl<'a> CommandTag<'a> {
    /// Reads the message.
    pub fn read(frame: &Frame<'a>) -> Result<CommandTag<'a>, Malformed> {
        Scan::new(frame.body()).string().map(CommandTag)
    }

    /// The number of rows that it ends in: `UPDATE 5`, `INSERT 0 5`.
    pub fn rows(self) -> Option<u64> {
        let last = self.0.rsplit(|byte| *byte == b' ').next()?;
        std::str::from_utf8(last).ok()?.parse().ok()
    }
}

/// Process and secret of a BackendKeyData message. The secret has four bytes in protocol 3.0, up to 256 in 3.2.
pub fn key_data<'a>(frame: &Frame<'a>) -> Result<(i32, &'a [u8]), Malformed> {
    let mut scan = Scan::new(frame.body());
    let pid = scan.i32()?;
    match scan.rest().len() {
        4..=256 => Ok((pid, scan.rest())),
        _ => Err(Malformed::Body),
    }
}

/// Name and value of a ParameterStatus message.
pub fn parameter_status<'a>(frame: &Frame<'a>) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    let mut scan = Scan::new(frame.body());
    Ok((scan.string()?, scan.string()?))
}

/// A NotificationResponse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    /// The process that has notified.
    pub pid: i32,
    /// The channel's name.
    pub channel: &'a [u8],
    /// Payload of the notification.
    pub payload: &'a [u8],
}

impl<'a> Notification<'a> {
    /// Reads the message.
    ///
    /// # Errors
    /// It is none.
    pub fn read(frame: &Frame<'a>) -> Result<Notification<'a>, Malformed> {
        let mut scan = Scan::new(frame.body());
        Ok(Notification { pid: scan.i32()?, channel: scan.string()?, payload: scan.string()? })
    }
}

/// The values of a DataRow, for answers to questions of our own: text, which must be UTF-8.
pub fn row_texts(frame: &Frame<'_>) -> Result<Vec<Option<String>>, Malformed> {
    let mut scan = Scan::new(frame.body());
    let count = scan.count()?;
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).map_err(|_| Malformed::Body);
    (0..count).map(|_| scan.value()?.map(text).transpose()).collect()
}

/// The text of a FunctionCallResponse; `None` is NULL.
///
/// # Errors
/// It is not one, or no UTF-8.
pub fn function_result(frame: &Frame<'_>) -> Result<Option<String>, Malformed> {
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).map_err(|_| Malformed::Body);
    Scan::new(frame.body()).value()?.map(text).transpose()
}

/// An ErrorResponse or NoticeResponse: fields, each with a byte that says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complaint<'a> {
    fields: &'a [u8],
}

impl<'a> Complaint<'a> {
    /// Looks at the message.
    pub fn read(frame: &Frame<'a>) -> Complaint<'a> {
        Complaint { fields: frame.body() }
    }

    /// The field with this byte: `C` the SQLSTATE, `V` the severity in English, `M` the message, `D` its detail.
    pub fn field(&self, wanted: u8) -> Option<&'a [u8]> {
        let mut scan = Scan::new(self.fields);
        loop {
            match scan.byte().ok()? {
                0 => return None,
                field => {
                    let value = scan.string().ok()?;
                    if field == wanted {
                        return Some(value);
                    }
                }
            }
        }
    }

    /// The SQLSTATE; empty if there is none.
    pub fn sqlstate(&self) -> &'a [u8] {
        self.field(b'C').unwrap_or_default()
    }

    /// The message; empty if there is none.
    pub fn message(&self) -> &'a [u8] {
        self.field(b'M').unwrap_or_default()
    }

    /// True if the server closes the connection afterwards.
    pub fn is_fatal(&self) -> bool {
        matches!(self.field(b'V').or(self.field(b'S')), Some(b"FATAL" | b"PANIC"))
    }
}

/// Authentication that a server demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// Nothing (more).
    Ok,
    /// The password as it is.
    Cleartext,
    /// The password hashed with this salt.
    Md5([u8; 4]),
    /// A SASL exchange by one of these mechanisms, each closed by a zero byte.
    Sasl(&'a [u8]),
    /// The exchange goes on.
    SaslContinue(&'a [u8]),
    /// The exchange is over.
    SaslFinal(&'a [u8]),
    /// Something that is not spoken here: GSSAPI, SSPI, Kerberos.
    Other(i32),
}

impl Authentication<'_> {
    /// The mechanism is offered.
    pub fn offers(&self, mechanism: &str) -> bool {
        matches!(self, Authentication::Sasl(list) if list.split(|&b| b == 0).any(|m| m == mechanism.as_bytes()))
    }
}

/// Reads an Authentication message.
pub fn authentication<'a>(frame: &Frame<'a>) -> Result<Authentication<'a>, Malformed> {
    let mut scan = Scan::new(frame.body());
    Ok(match scan.i32()? {
        0 => Authentication::Ok,
        3 => Authentication::Cleartext,
        5 => Authentication::Md5(scan.take(4)?.try_into().expect("four bytes")),
        10 => Authentication::Sasl(scan.rest()),
        11 => Authentication::SaslContinue(scan.rest()),
        12 => Authentication::SaslFinal(scan.rest()),
        other => Authentication::Other(other),
    })
}
