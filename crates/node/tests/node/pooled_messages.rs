//! Messages of pooled sessions that leave something at their connection: a long statement, a batch with BEGIN, half a message.

use crate::pooled::sharing;
use crate::rung::wait;
use crate::session::query;
use crate::stage::{Raw, database, message};
use wire::{Asks, Target};

/// An unnamed statement that is too long to be followed stays at its connection until it is replaced.
#[test]
fn long_unnamed_statement_is_pinned() {
    database("long_unnamed");
    let open = sharing(1);
    let (mut raw, mut other) = (Raw::ready(&open, "long_unnamed"), Raw::ready(&open, "long_unnamed"));
    let long = format!("SELECT count(pg_backend_pid()) + $1 /* {} */", "x".repeat(100_000));
    raw.ask(|out| {
        out.parse(b"", long.as_bytes(), &[]);
        out.describe(Target::Statement, b"");
        out.sync();
    });
    assert_eq!(raw.until_ready(), "1tTZ");
    other.ask(|out| out.query(b"SELECT count(pg_backend_pid())"));
    wait(&open, 1);
    raw.ask(|out| {
        out.bind(b"", b"", b"\0\0\0\x01\0\0\0\x011\0\0");
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!(raw.until_ready(), "2DCZ");
    query(&mut raw, "SELECT 1");
    assert_eq!(other.until_ready(), "TDCZ");
}

/// SQL's EXECUTE finds a statement of the protocol also in a block whose BEGIN came in one batch with a read.
#[test]
fn statement_is_executed_by_sql_after_begin_in_batch() {
    database("executed_after_batch");
    let open = sharing(1);
    let (mut raw, mut other) =
        (Raw::ready(&open, "executed_after_batch"), Raw::ready(&open, "executed_after_batch"));
    raw.ask(|out| {
        out.parse(b"s1", b"SELECT 41 + 1", &[]);
        out.sync();
    });
    assert_eq!(raw.until_ready(), "1Z");
    for statement in ["PREPARE s1 AS SELECT 1", "BEGIN", "COMMIT", "DEALLOCATE ALL"] {
        query(&mut other, statement);
    }
    raw.ask(|out| {
        for text in ["BEGIN", "SELECT count(*) FROM items"] {
            out.parse(b"", text.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
        }
        out.sync();
    });
    assert_eq!(raw.until_ready(), "12C12DCZ");
    assert_eq!(query(&mut raw, "EXECUTE s1"), ["42"]);
    assert_eq!(raw.status_after("COMMIT"), 'I');
}

/// A COPY fails while the client is in the middle of a large message: the primary reads that to its end.
#[test]
fn copy_that_fails_inside_a_message_goes_on() {
    database("copy_fails_inside");
    let open = sharing(1);
    let mut raw = Raw::ready(&open, "copy_fails_inside");
    for in_block in [false, true] {
        if in_block {
            query(&mut raw, "BEGIN");
        }
        raw.ask(|out| out.query(b"COPY items FROM STDIN"));
        assert_eq!(raw.message().expect("an answer")[0], b'G');
        let large = message(b'd', &vec![b'x'; 600_000]);
        raw.ask(|out| {
            out.extend_from_slice(&message(b'd', b"no number\tnothing\n"));
            out.extend_from_slice(&large[..400_000]);
        });
        assert_eq!(raw.until_ready(), "EZ");
        raw.ask(|out| out.extend_from_slice(&large[400_000..]));
        if in_block {
            assert_eq!(raw.status_after("ROLLBACK"), 'I');
        }
        assert_eq!(query(&mut raw, "SELECT count(*) + 0 * pg_backend_pid() FROM items"), ["100"]);
    }
}
