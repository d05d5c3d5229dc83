//! Messages to the client that tell of a node's answers, with PostgreSQL's types, details and positions.

use crate::message::{Column, Failure};
use wire::tag::back;

/// A failure with a hint, which may be empty.
pub(super) fn failure(sqlstate: &str, message: impl Into<String>, hint: &str) -> Failure {
    Failure {
        sqlstate: sqlstate.to_owned(),
        message: message.into(),
        detail: String::new(),
        hint: hint.to_owned(),
        position: 0,
    }
}

/// Severity of a message about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// The statement failed.
    Error,
    /// The session ends.
    Fatal,
    /// The statement did less than it says.
    Warning,
}

/// ErrorResponse or NoticeResponse.
pub(super) fn write_failure(out: &mut Vec<u8>, severity: Severity, failure: &Failure) {
    let (tag, word) = match severity {
        Severity::Error => (back::ERROR, "ERROR"),
        Severity::Fatal => (back::ERROR, "FATAL"),
        Severity::Warning => (back::NOTICE, "WARNING"),
    };
    let position = if failure.position > 0 { failure.position.to_string() } else { String::new() };
    let fields: [(u8, &str); 7] = [
        (b'S', word),
        (b'V', word),
        (b'C', &failure.sqlstate),
        (b'M', &failure.message),
        (b'D', &failure.detail),
        (b'H', &failure.hint),
        (b'P', &position),
    ];
    message(out, tag, |out| {
        for (field, value) in fields {
            if !value.is_empty() || field == b'M' {
                out.push(field);
                text(out, value);
            }
        }
        out.push(0);
    });
}

/// RowDescription with the formats of a Bind message: none, one for all, or one for each.
pub(super) fn write_columns(out: &mut Vec<u8>, columns: &[Column], formats: &[i16]) {
    message(out, back::ROW_DESCRIPTION, |out| {
        count(out, columns.len());
        for (at, column) in columns.iter().enumerate() {
            text(out, &column.name);
            out.extend_from_slice(&[0; 6]);
            out.extend_from_slice(&column.oid.to_be_bytes());
            out.extend_from_slice(&column.length.to_be_bytes());
            out.extend_from_slice(&column.modifier.to_be_bytes());
            out.extend_from_slice(&format_of(formats, at).to_be_bytes());
        }
    });
}

/// The format of a column or parameter: none stated is text, one stated is that of all.
pub(super) fn format_of(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        each => each.get(at).copied().unwrap_or_default(),
    }
}

/// PortalSuspended.
pub(super) fn write_suspended(out: &mut Vec<u8>) {
    message(out, back::PORTAL_SUSPENDED, |_| {});
}

/// CopyInResponse or CopyOutResponse: all columns as text.
pub(super) fn write_copy(out: &mut Vec<u8>, tag: u8, columns: usize) {
    message(out, tag, |out| {
        out.push(0);
        count(out, columns);
        out.extend(std::iter::repeat_n(0, columns * 2));
    });
}

/// CopyData.
pub(super) fn write_copy_data(out: &mut Vec<u8>, data: &[u8]) {
    message(out, back::COPY_DATA, |out| out.extend_from_slice(data));
}

/// CopyDone.
pub(super) fn write_copy_done(out: &mut Vec<u8>) {
    message(out, back::COPY_DONE, |_| {});
}

fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = u32::try_from(out.len() - at).expect("a message is shorter than a frame");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// A string up to its first zero byte, and a zero byte.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().take_while(|byte| *byte != 0));
    out.push(0);
}

fn count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}
