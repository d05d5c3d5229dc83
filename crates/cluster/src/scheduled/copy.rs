//! A connection at a replica that executes transactions: the client's role, one transaction at a time. No
//! statement has a name: each is parsed when it runs, so that nothing of a session lives there but its
//! settings.

use conn::log_in::said;
use conn::log_in::{Wish, log_in};
use conn::peer::{Peer, Rooms, malformed};
use history::Incarnation;
use scheduler::StandbyId;
use session_state::{Interner, Settings};
use std::cell::RefCell;
use std::io;
use wire::tag::back;
use wire::{Asks, CommandTag, Complaint, Frame, Status, Step, Target};

/// A connection at a replica.
pub struct Copy {
    peer: Peer,
    /// Number of the replica.
    pub replica: StandbyId,
    /// Incarnation of the replica in which the connection was made.
    pub life: Incarnation,
    /// Settings of the connection. `None`: they must be queried before its next use.
    pub settings: Option<Settings>,
    /// True if its transaction changed settings: they end with it.
    pub has_set: bool,
}

/// Messages to be executed, each answered up to a ReadyForQuery.
#[derive(Clone, Debug, Default)]
pub struct Work {
    bytes: Vec<u8>,
    answers: usize,
    /// Number of the first messages that are commands of Consort itself.
    ours: usize,
}

impl Work {
    /// Adds a command of Consort itself, in front of all else.
    pub fn command(&mut self, text: &str) {
        self.query(text.as_bytes());
        self.ours += 1;
    }

    /// Adds a text, as a Query.
    pub fn query(&mut self, text: &[u8]) {
        self.bytes.query(text);
        self.answers += 1;
    }

    /// Adds a statement with parameters. `types` and `values` are as they stand in Parse and Bind messages.
    pub fn bound(&mut self, text: &[u8], types: &[u8], values: &[u8]) {
        self.bytes.parse(b"", text, types);
        self.bytes.bind(b"", b"", values);
        self.bytes.describe(Target::Portal, b"");
        self.bytes.execute(b"", 0);
        self.bytes.sync();
        self.answers += 1;
    }
}

/// Result of an execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Did {
    /// Command tags of completed statements, with their row counts.
    pub tags: Vec<Box<[u8]>>,
    /// The first error: its SQLSTATE and its message.
    pub error: Option<(String, String)>,
    /// The columns of the last row, as text.
    row: Vec<Option<String>>,
}

impl Copy {
    /// Opens a connection, with connection parameters that name the replica's address.
    pub async fn open(
        wish: &Wish,
        rooms: &Rooms,
        (replica, life): (StandbyId, Incarnation),
        interner: &RefCell<Interner>,
    ) -> Result<Copy, String> {
        let logged_in = log_in(wish, rooms).await.map_err(|refusal| said(&refusal))?;
        let mut copy = Copy { peer: logged_in.peer, replica, life, settings: None, has_set: false };
        copy.ask_settings(interner).await?;
        Ok(copy)
    }

    /// Returns true if the server has closed the connection, or sent a message without a request.
    pub(crate) fn is_gone(&mut self) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let gone = self.peer.poll_fill(&mut cx).is_ready();
        self.peer.rest();
        gone
    }

    /// Queries the connection's settings.
    pub async fn ask_settings(&mut self, interner: &RefCell<Interner>) -> Result<(), String> {
        let mut work = Work::default();
        work.query(Settings::probe().as_bytes());
        let did = self.run(&work).await?;
        if let Some((_, why)) = did.error {
            return Err(why);
        }
        let row: Vec<Option<&str>> = did.row.iter().map(Option::as_deref).collect();
        self.settings = Settings::of_probe(&row, &mut interner.borrow_mut()).map(|(settings, _)| settings);
        match self.settings {
            Some(_) => Ok(()),
            None => Err("cannot read the replica's settings".to_owned()),
        }
    }

    /// Executes work to the end. After an error the connection is useless.
    pub async fn run(&mut self, work: &Work) -> Result<Did, String> {
        self.begin(work);
        self.finish(work).await
    }

    /// Sends work, as far as possible at once.
    pub fn begin(&mut self, work: &Work) {
        self.peer.out().extend_from_slice(&work.bytes);
        self.peer.send_now();
    }

    /// Waits until the begun work is done. After an error the connection is useless.
    pub async fn finish(&mut self, work: &Work) -> Result<Did, String> {
        let (mut did, mut answered) = (Did::default(), 0);
        let done = async {
            self.peer.send().await?;
            while answered < work.answers {
                let (unread, splitter) = self.peer.cut();
                let step = splitter.next(unread).map_err(malformed)?;
                let length = step.len();
                match step {
                    Step::More(_) => {
                        self.peer.fill().await?;
                        continue;
                    }
                    Step::Part(part) if part.first && part.tag == back::ERROR => {
                        did.error.get_or_insert_default();
                    }
                    Step::Part(_) => {}
                    Step::Whole(frame) => {
                        let is_end = heard(&frame, &mut did)?;
                        answered += usize::from(is_end);
                        if is_end && answered <= work.ours {
                            did = std::mem::take(&mut did).without_error()?;
                        }
                    }
                }
                self.peer.consume(length);
            }
            self.peer.rest();
            Ok::<_, io::Error>(())
        };
        done.await.map_err(|error| error.to_string())?;
        Ok(did)
    }
}

impl Did {
    /// Returns the remaining result once commands of Consort itself were answered.
    fn without_error(self) -> io::Result<Did> {
        match self.error {
            Some((_, why)) => Err(io::Error::other(why)),
            None => Ok(Did::default()),
        }
    }
}

/// Notes one message; `true`: the server is ready for the next.
fn heard(frame: &Frame<'_>, did: &mut Did) -> io::Result<bool> {
    match frame.tag() {
        back::READY_FOR_QUERY => {
            let _: Status = wire::status(frame).map_err(malformed)?;
            return Ok(true);
        }
        back::COMMAND_COMPLETE => did.tags.push(CommandTag::read(frame).map_err(malformed)?.0.into()),
        back::DATA_ROW if did.tags.is_empty() && did.row.is_empty() => {
            did.row = wire::row_texts(frame).unwrap_or_default();
        }
        back::ERROR => {
            let complaint = Complaint::read(frame);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            if complaint.is_fatal() {
                return Err(io::Error::other(text(complaint.message())));
            }
            did.error.get_or_insert_with(|| (text(complaint.sqlstate()), text(complaint.message())));
        }
        back::COPY_IN | back::COPY_OUT => return Err(io::Error::other("unexpected COPY message")),
        _ => {}
    }
    Ok(false)
}
