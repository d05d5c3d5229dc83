//! Groups what a client sends into requests: a Query, or a batch of the extended protocol up to its Sync. Nothing is
//! taken from the stream here; a request lies at the beginning of what is unread until it has been sent somewhere.

use wire::tag::front;
use wire::{Close, Describe, Malformed, Splitter, Step, Target};

/// A request longer than this is not held: it goes straight on to the primary.
pub const REQUEST_HELD_BYTES: usize = 256 * 1024;

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Query message.
    Query,
    /// Messages of the extended protocol that end in a Sync.
    Batch,
    /// Messages of the extended protocol that execute nothing, up to a Flush: drivers have statements parsed and described so,
    /// and wait. The Sync comes with what they execute then.
    Flushed,
    /// Messages of the extended protocol after which nothing has come for a while: neither their Sync nor a
    /// Flush.
    Begun,
    /// The beginning of something that goes on: another batch up to a Flush, or more than is held. The rest follows it to the
    /// primary as it comes.
    Open,
    /// A FunctionCall message.
    Function,
    /// Rest of COPY data without a reader; dropped, as a server does.
    Leftover,
    /// The client takes its leave.
    Terminate,
}

impl Kind {
    /// Its name in metrics and explanations.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Query => "query",
            Kind::Batch => "batch",
            Kind::Flushed => "flushed",
            Kind::Begun => "begun",
            Kind::Open => "open_pipeline",
            Kind::Function => "function_call",
            Kind::Leftover => "leftover",
            Kind::Terminate => "terminate",
        }
    }

    /// Its Sync is still to come.
    pub fn goes_on(self) -> bool {
        matches!(self, Kind::Flushed | Kind::Begun | Kind::Open)
    }

    /// Something is asked of a server.
    pub fn is_asked(self) -> bool {
        !matches!(self, Kind::Leftover | Kind::Terminate)
    }
}

/// A request at the beginning of what is unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Kind of the request.
    pub kind: Kind,
    /// Its length.
    pub bytes: usize,
}

/// Progress of the look at the unread bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookout {
    looked: usize,
    /// Bytes of a paused batch that were looked into already, and stay where they are.
    looked_into: usize,
}

impl Lookout {
    /// The request at the beginning of `unread`; `None` if it is not whole yet.
    pub fn look(&mut self, unread: &[u8], splitter: Splitter) -> Result<Option<Request>, Malformed> {
        if splitter.is_inside() {
            return self.found(Kind::Leftover, unread.len());
        }
        loop {
            // A copy looks ahead: the stream's own place moves only when bytes are taken.
            match { splitter }.next(&unread[self.looked..])? {
                Step::More(_) => return Ok(None),
                Step::Part(_) => return self.found(Kind::Open, self.looked),
                Step::Whole(frame) => {
                    let begun = self.looked > 0;
                    let length = frame.bytes().len();
                    match frame.tag() {
                        front::SYNC => return self.found(Kind::Batch, self.looked + length),
                        front::FLUSH => {
                            let executes = executes(&unread[..self.looked], splitter)?;
                            let kind = if executes { Kind::Open } else { Kind::Flushed };
                            return self.found(kind, self.looked + length);
                        }
                        front::PARSE | front::BIND | front::DESCRIBE | front::EXECUTE | front::CLOSE => {
                            self.looked += length;
                            if self.looked >= REQUEST_HELD_BYTES {
                                return self.found(Kind::Open, self.looked);
                            }
                        }
                        _ if begun => return self.found(Kind::Open, self.looked),
                        front::QUERY => return self.found(Kind::Query, length),
                        front::FUNCTION_CALL => return self.found(Kind::Function, length),
                        front::TERMINATE => return self.found(Kind::Terminate, length),
                        front::COPY_DATA | front::COPY_DONE | front::COPY_FAIL => {
                            return self.found(Kind::Leftover, length);
                        }
                        tag => return Err(Malformed::UnknownTag(tag)),
                    }
                }
            }
        }
    }

    /// The length of the whole messages of a batch whose end has not come.
    pub fn begun(&self) -> usize {
        self.looked
    }

    /// Nothing has come of that since it was looked into.
    pub fn was_looked_into(&self) -> bool {
        self.looked <= self.looked_into
    }

    /// Reads the unread part again from its beginning.
    pub fn looks_again(&mut self) {
        self.looked = 0;
    }

    /// Records that these bytes of a batch were looked into; they stay where they are until more comes.
    pub fn looked_into(&mut self, bytes: usize) {
        (self.looked, self.looked_into) = (0, bytes);
    }

    fn found(&mut self, kind: Kind, bytes: usize) -> Result<Option<Request>, Malformed> {
        (self.looked, self.looked_into) = (0, 0);
        Ok(if kind == Kind::Leftover && bytes == 0 { None } else { Some(Request { kind, bytes }) })
    }
}

/// True if these messages execute a statement, or concern an execution: they do more than parse, describe
/// and close statements.
pub fn executes(bytes: &[u8], mut splitter: Splitter) -> Result<bool, Malformed> {
    let mut at = 0;
    while at < bytes.len() {
        let Step::Whole(frame) = splitter.next(&bytes[at..])? else { return Ok(true) };
        at += frame.bytes().len();
        let about_statements = match frame.tag() {
            front::PARSE => true,
            front::DESCRIBE => Describe::read(&frame).is_ok_and(|of| of.target == Target::Statement),
            front::CLOSE => Close::read(&frame).is_ok_and(|of| of.target == Target::Statement),
            _ => false,
        };
        if !about_statements {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Asks, Side};

    fn look(bytes: &[u8]) -> Option<Request> {
        Lookout::default().look(bytes, Splitter::new(Side::Client, REQUEST_HELD_BYTES)).unwrap()
    }

    fn request(kind: Kind, bytes: usize) -> Option<Request> {
        Some(Request { kind, bytes })
    }

    #[test]
    fn a_batch_ends_with_its_sync_and_is_seen_when_whole() {
        let mut batch = Vec::new();
        batch.parse(b"", b"SELECT 1", &[]);
        batch.bind_plain(b"");
        batch.describe(Target::Portal, b"");
        batch.execute(b"", 0);
        batch.sync();
        let whole = batch.len();
        batch.query(b"SELECT 2");
        let mut lookout = Lookout::default();
        for end in 0..whole {
            let splitter = Splitter::new(Side::Client, REQUEST_HELD_BYTES);
            assert_eq!(lookout.look(&batch[..end], splitter), Ok(None));
        }
        let begun = lookout.begun();
        assert!(begun > 0 && begun < whole && !lookout.was_looked_into());
        lookout.looked_into(begun);
        assert_eq!(lookout.begun(), 0);
        let splitter = Splitter::new(Side::Client, REQUEST_HELD_BYTES);
        assert_eq!(lookout.look(&batch[..begun], splitter), Ok(None));
        assert!(lookout.was_looked_into(), "nothing more has come");
        assert_eq!(look(&batch), request(Kind::Batch, whole));
        assert_eq!(look(&batch[whole..]), request(Kind::Query, batch.len() - whole));
    }

    #[test]
    fn what_goes_on_is_open() {
        let mut batch = Vec::new();
        batch.parse(b"", b"SELECT 1", &[]);
        let parse = batch.len();
        batch.describe(Target::Statement, b"");
        batch.flush();
        assert_eq!(look(&batch), request(Kind::Flushed, batch.len()));
        for executes in
            [Asks::bind_plain, |out: &mut Vec<u8>, name: &[u8]| out.describe(Target::Portal, name)]
        {
            batch.truncate(parse);
            executes(&mut batch, b"");
            batch.flush();
            assert_eq!(look(&batch), request(Kind::Open, batch.len()));
        }
        batch.truncate(parse);
        batch.query(b"SELECT 1");
        assert_eq!(look(&batch), request(Kind::Open, parse));
        let mut large = [&b"Q"[..], &1_000_000_u32.to_be_bytes(), b"SELECT"].concat();
        assert_eq!(look(&large), None);
        large.resize(REQUEST_HELD_BYTES, b' ');
        assert_eq!(look(&large), request(Kind::Open, 0));
    }

    #[test]
    fn a_password_has_no_place_here() {
        let mut lookout = Lookout::default();
        let splitter = Splitter::new(Side::Client, 64);
        assert_eq!(lookout.look(b"p\0\0\0\x04", splitter), Err(Malformed::UnknownTag(b'p')));
    }
}
