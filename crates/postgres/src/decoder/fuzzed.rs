//! Fuzzing of the stream's messages with any bytes (`make fuzz`, which has this file and the reader alone).

use super::message::{Message, Rows, Value, read};

/// Values lie in the message, one after the other. One message leaves nothing to the next.
pub(crate) fn check(bytes: &[u8]) {
    let mut rows = Rows::default();
    let _ = read(b"I\0\0\0\x07N\0\x01n", &mut rows);
    let message = read(bytes, &mut rows);
    let mut end = 0;
    for value in rows.old.iter().chain(&rows.new) {
        if let Value::Text(range) = value {
            assert!(end <= range.start && range.end <= bytes.len());
            end = range.end;
        }
    }
    let mut again = Rows::default();
    assert_eq!(read(bytes, &mut again), message);
    assert!(again.old == rows.old && again.new == rows.new);
    match message {
        Some(Message::Relation(relation)) => assert!(relation.columns.len() * 10 <= bytes.len()),
        Some(Message::Truncate { tables, .. }) => assert!(tables.ids().count() * 4 <= bytes.len()),
        _ => {}
    }
}
