//! A batch split into parts, for a block that runs at a standby while prepared statements are the primary's.
//! A Sync in the middle of a block has no effect except after an error, so the parts may run one by one.

use crate::batch;
use wire::tag::front;
use wire::{Bind, Close, Describe, Malformed, Splitter, Step, Target};

/// A part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The Sync at the end of the batch.
    End,
    /// Parse, Describe and Close messages of statements.
    Control,
    /// One statement, bound and executed.
    Statement,
    /// Anything else: named portals, a part of a result.
    Odd,
}

/// The first part of a batch, and its length.
pub fn first(bytes: &[u8], splitter: Splitter) -> Result<(Part, usize), Malformed> {
    let mut at = 0;
    loop {
        let Step::Whole(frame) = { splitter }.next(&bytes[at..])? else {
            // Its Sync has not come yet.
            return Ok(if at > 0 { (Part::Control, at) } else { (Part::Odd, bytes.len()) });
        };
        let controls = match frame.tag() {
            front::SYNC if at == 0 => return Ok((Part::End, frame.bytes().len())),
            front::PARSE => true,
            front::CLOSE => Close::read(&frame).is_ok(),
            front::DESCRIBE => Describe::read(&frame)?.target == Target::Statement,
            _ => false,
        };
        let length = frame.bytes().len();
        let part = match statement(&bytes[at..], splitter)? {
            Some(length) if at == 0 => return Ok((Part::Statement, length)),
            Some(_) => Part::Control,
            None if controls => {
                at += length;
                continue;
            }
            None if at > 0 => Part::Control,
            None => return Ok((Part::Odd, bytes.len())),
        };
        return Ok((part, at));
    }
}

/// Name of the first statement that the batch binds.
pub fn bound(bytes: &[u8], mut splitter: Splitter) -> Result<Option<Box<[u8]>>, Malformed> {
    let mut at = 0;
    while let Step::Whole(frame) = splitter.next(&bytes[at..])? {
        at += frame.bytes().len();
        if frame.tag() == front::BIND {
            return Ok(Some(Bind::read(&frame)?.statement.into()));
        }
    }
    Ok(None)
}

/// Length of the one statement at the beginning, up to its Execute.
fn statement(bytes: &[u8], splitter: Splitter) -> Result<Option<usize>, Malformed> {
    let mut at = 0;
    loop {
        let Step::Whole(frame) = { splitter }.next(&bytes[at..])? else { return Ok(None) };
        at += frame.bytes().len();
        match frame.tag() {
            front::EXECUTE => return Ok(batch::read(&bytes[..at], splitter)?.map(|_| at)),
            front::SYNC => return Ok(None),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Asks, Side};

    fn parts(write: impl FnOnce(&mut Vec<u8>)) -> Vec<Part> {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes.sync();
        let (mut at, mut parts) = (0, Vec::new());
        while at < bytes.len() {
            let (part, length) = first(&bytes[at..], Splitter::new(Side::Client, 1 << 16)).unwrap();
            at += length;
            parts.push(part);
        }
        parts
    }

    #[test]
    fn a_batch_falls_into_its_statements() {
        use Part::{Control, End, Odd, Statement};
        let one = |b: &mut Vec<u8>| {
            b.parse(b"", b"SELECT 1", &[]);
            b.describe(Target::Statement, b"");
            b.bind_plain(b"");
            b.execute(b"", 0);
        };
        assert_eq!(parts(one), [Statement, End]);
        assert_eq!(parts(|_| {}), [End]);
        assert_eq!(
            parts(|b| {
                Asks::close(b, Target::Statement, b"old");
                b.parse(b"named", b"SELECT 1", &[]);
                b.describe(Target::Statement, b"named");
                b.bind_plain(b"named");
                b.describe(Target::Portal, b"");
                b.execute(b"", 0);
                one(b);
            }),
            [Control, Statement, Statement, End]
        );
        assert_eq!(
            parts(|b| {
                b.parse(b"", b"SELECT 1", &[]);
                b.describe(Target::Statement, b"");
            }),
            [Control, End]
        );
        assert_eq!(
            parts(|b| {
                one(b);
                b.bind(b"portal", b"a", &[0; 6]);
                b.execute(b"portal", 0);
            }),
            [Statement, Odd]
        );
    }
}
