//! A session of the front at this node: transactions, one after the other.

use super::engine::{Activity, CountedTransaction, Engine, Running, locked};
use super::line::{Made, commit_eager};
use super::transaction::{Client, Desk, Making, Transaction, engine_error, gone, page_error, simple};
use crate::message::{self, Begin, ELSEWHERE, Failure, RESULT_LIMIT, ROWS_AT, Reply, Request, Run, Version};
use pages::Reader;
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A description waits so long for its version.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// Serves requests until the front leaves.
pub(super) fn serve(engine: &Arc<Engine>, stream: TcpStream) -> io::Result<()> {
    let (number, running) = engine.enter();
    let served = Session::open(engine, &stream, running).and_then(|mut session| {
        session.say(&Reply::Welcome { session: number })?;
        let ended = session.requests();
        session.end();
        ended
    });
    engine.leave(number);
    served
}

/// A transaction that is open, and where it reads.
struct Open {
    transaction: Transaction,
    at: Version,
    _counted: CountedTransaction,
}

struct Session<'a> {
    engine: &'a Arc<Engine>,
    input: BufReader<&'a TcpStream>,
    stream: &'a TcpStream,
    out: Vec<u8>,
    running: Running,
    reader: Reader,
    desk: Desk,
    client: Client,
    open: Option<Open>,
    /// The node's history when the desk was last asked.
    history: u64,
}

impl<'a> Session<'a> {
    fn open(engine: &'a Arc<Engine>, stream: &'a TcpStream, running: Running) -> io::Result<Session<'a>> {
        let reader = Reader::open(&engine.store).map_err(|error| io::Error::other(error.to_string()))?;
        let desk = Desk::new(reader.connection(), &engine.sequences).map_err(io::Error::other)?;
        Ok(Session {
            engine,
            input: BufReader::with_capacity(64 << 10, stream),
            stream,
            out: Vec::new(),
            running,
            reader,
            desk,
            client: Client::default(),
            open: None,
            history: engine.history(),
        })
    }

    fn say(&mut self, reply: &Reply) -> io::Result<()> {
        self.out.extend_from_slice(&message::frame(reply));
        if self.out.len() >= ROWS_AT { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn requests(&mut self) -> io::Result<()> {
        loop {
            if self.input.buffer().is_empty() {
                self.flush()?;
            }
            let request: Request = message::read(&mut self.input)?;
            if let Err(failure) = self.answer(request)? {
                self.say(&Reply::Failed(failure))?;
            }
        }
    }

    /// Answers a request, but for its failure.
    fn answer(&mut self, request: Request) -> io::Result<Result<(), Failure>> {
        let reply = match request {
            Request::Client { user, database, settings, lock_timeout_ms } => {
                let lock_timeout = (lock_timeout_ms > 0).then(|| Duration::from_millis(lock_timeout_ms));
                self.client = Client { user, database, settings, lock_timeout };
                self.desk.client(&self.client);
                return Ok(Ok(()));
            }
            Request::Describe { at, text, types } => self.describe(at, &text, &types),
            Request::Begin(begin) => self.begin(begin).map(|at| Reply::Begun { at }),
            Request::Run(run) => return self.run(&run),
            Request::Once(begin, run) if begin.writes => return self.write_once(&begin, &run),
            Request::Once(begin, run) => return self.read_once(begin, &run),
            Request::Definitions => self.definitions(),
            Request::Commit => self.commit()?,
            Request::Rollback => {
                let version = self.open.as_ref().map_or(0, |open| open.at);
                self.end();
                Ok(Reply::Committed { version })
            }
        };
        match reply {
            Ok(reply) => self.say(&reply).map(Ok),
            Err(failure) => Ok(Err(failure)),
        }
    }

    fn describe(&mut self, at: Version, text: &str, types: &[u32]) -> Result<Reply, Failure> {
        let is_alone = self.open.is_none();
        if is_alone {
            self.desk.forget_own();
            self.forget_other_histories();
            if !self.engine.wait_for(at, VERSION_LIMIT) {
                return Err(simple(ELSEWHERE, &format!("version {at} has not come to the node in time")));
            }
            self.reader.begin(at).map_err(|error| page_error(&error))?;
        }
        let described = self.desk.describe(self.reader.connection(), text, types);
        if is_alone {
            self.reader.end();
        }
        described.map(|(parameters, columns)| Reply::Described { parameters, columns })
    }

    fn definitions(&mut self) -> Result<Reply, Failure> {
        let connection = self.reader.connection();
        let dump = self.desk.catalog(connection)?.dump(connection).map_err(|error| engine_error(&error))?;
        Ok(Reply::Definitions { before_rows: dump.before_rows, after_rows: dump.after_rows })
    }

    /// Says which columns a statement has before it runs, if the client asks. A statement that fails says so itself.
    fn announce(&mut self, run: &Run) -> io::Result<()> {
        if !run.describes {
            return Ok(());
        }
        match self.desk.describe(self.reader.connection(), &run.text, &run.types) {
            Ok((parameters, columns)) => self.say(&Reply::Described { parameters, columns }),
            Err(_) => Ok(()),
        }
    }

    /// After an epoch has begun, or pages were copied, a version may have other definitions than before.
    fn forget_other_histories(&mut self) {
        let history = self.engine.history();
        if std::mem::replace(&mut self.history, history) != history {
            self.desk.forget_all();
        }
    }

    /// Begins a transaction at its version.
    fn begin(&mut self, begin: Begin) -> Result<Version, Failure> {
        self.end();
        self.forget_other_histories();
        let at = if begin.writes {
            if !self.engine.line.is_master() {
                return Err(gone());
            }
            self.engine.line.shown().max(begin.at)
        } else {
            begin.at
        };
        if !self.engine.wait_for(at, Duration::from_millis(begin.wait_ms.into())) {
            return Err(simple(ELSEWHERE, &format!("version {at} has not come to the node in time")));
        }
        let at = self.reader.begin(at).map_err(|error| page_error(&error))?;
        let transaction = Transaction::new(begin, &mut self.desk);
        self.open = Some(Open { transaction, at, _counted: CountedTransaction::begin(self.engine) });
        Ok(at)
    }

    /// Ends the transaction and drops what it has changed.
    fn end(&mut self) {
        if self.open.take().is_some() {
            self.reader.end();
        }
    }

    fn run(&mut self, run: &Run) -> io::Result<Result<(), Failure>> {
        let Some(mut open) = self.open.take() else {
            return Ok(Err(simple("25P01", "there is no transaction at the node")));
        };
        self.announce(run)?;
        *locked(&self.running) = Activity::Runs(self.reader.connection().get_interrupt_handle());
        let mut rows = Rows::new(self.stream, &mut self.out);
        let connection = self.reader.connection();
        let done = open.transaction.run(&mut self.desk, connection, run, &mut |row| rows.take(row));
        let sent = rows.end();
        *locked(&self.running) = Activity::Idle;
        self.open = Some(open);
        sent?;
        Ok(match done {
            Ok(done) => {
                let (tag, columns, hash) = (done.tag, done.columns, done.hash);
                self.say(&Reply::Done { tag, columns, hash, version: None })?;
                Ok(())
            }
            Err(failure) => Err(self.or_evicted(failure)),
        })
    }

    /// The engine reports a page that is gone as an error of its own.
    fn or_evicted(&self, failure: Failure) -> Failure {
        match self.reader.lost() {
            Some(lost) => {
                let is_conflict = matches!(lost, pages::Error::Conflict);
                let counter = if is_conflict { &self.engine.aborted } else { &self.engine.evicted };
                counter.fetch_add(1, Ordering::Relaxed);
                page_error(&lost)
            }
            None => failure,
        }
    }

    fn read_once(&mut self, begin: Begin, run: &Run) -> io::Result<Result<(), Failure>> {
        let at = match self.begin(begin) {
            Ok(at) => at,
            Err(failure) => return Ok(Err(failure)),
        };
        self.announce(run)?;
        *locked(&self.running) = Activity::Runs(self.reader.connection().get_interrupt_handle());
        let mut rows = Rows::new(self.stream, &mut self.out);
        let done = self.desk.run(self.reader.connection(), run, false, &mut |row| rows.take(row));
        let sent = rows.end();
        *locked(&self.running) = Activity::Idle;
        let done = done.map_err(|failure| self.or_evicted(failure));
        self.end();
        sent?;
        match done {
            Ok(done) => {
                let (tag, columns, hash) = (done.tag, done.columns, done.hash);
                self.say(&Reply::Done { tag, columns, hash, version: Some(at) }).map(Ok)
            }
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// A statement that commits: under the one writer, without a snapshot before.
    fn write_once(&mut self, begin: &Begin, run: &Run) -> io::Result<Result<(), Failure>> {
        let mut held = Vec::new();
        let mut count = 0;
        let mut rows = |row: &[u8]| {
            held.extend_from_slice(row);
            count += 1;
            if held.len() > RESULT_LIMIT { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let done = self.commit_eager(|session, making| {
            making.once(&session.client, begin, run, &mut rows, &session.running)
        });
        match done? {
            Ok((done, version)) => {
                if run.describes {
                    let columns = done.columns.clone();
                    self.say(&Reply::Described { parameters: Vec::new(), columns })?;
                }
                if count > 0 {
                    self.say(&Reply::Rows { messages: held, count })?;
                }
                let (tag, columns, hash) = (done.tag, done.columns, done.hash);
                self.say(&Reply::Done { tag, columns, hash, version: Some(version) }).map(Ok)
            }
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Runs a transaction under the writer. Its failure may be of what was not shown before: the front hears of the version.
    fn commit_eager<T>(
        &mut self,
        work: impl FnOnce(&Session<'_>, &mut Making) -> Result<(T, Option<Made>), Failure>,
    ) -> io::Result<Result<(T, Version), Failure>> {
        let _counted = CountedTransaction::begin(self.engine);
        let done = commit_eager(self.engine, &self.client, &self.running, |making| work(self, making));
        match done {
            Ok((Ok(answer), version)) => {
                self.engine.commits.fetch_add(1, Ordering::Relaxed);
                Ok(Ok((answer, version)))
            }
            Ok((Err(failure), version)) => {
                self.say(&Reply::Seen(version))?;
                Ok(Err(failure))
            }
            Err(failure) => Ok(Err(failure)),
        }
    }

    fn commit(&mut self) -> io::Result<Result<Reply, Failure>> {
        let Some(Open { transaction, at, .. }) = self.open.take() else {
            return Ok(Err(simple("25P01", "there is no transaction at the node")));
        };
        self.reader.end();
        // Without a change all that it has read is one snapshot, of a moment inside of it.
        if !transaction.begin.writes || !transaction.has_written {
            return Ok(Ok(Reply::Committed { version: at }));
        }
        let values = self.desk.taken();
        let done = self.commit_eager(|session, making| {
            transaction
                .replay(session.engine, &session.client, values, making, &session.running)
                .map(|set| ((), set))
        })?;
        Ok(done.map(|((), version)| Reply::Committed { version }))
    }
}

/// Rows on their way to the front, in frames of some size.
struct Rows<'a> {
    stream: &'a TcpStream,
    out: &'a mut Vec<u8>,
    messages: Vec<u8>,
    count: u32,
    failed: Option<io::Error>,
}

impl<'a> Rows<'a> {
    fn new(stream: &'a TcpStream, out: &'a mut Vec<u8>) -> Rows<'a> {
        Rows { stream, out, messages: Vec::new(), count: 0, failed: None }
    }

    fn take(&mut self, row: &[u8]) -> ControlFlow<()> {
        if row.len() > RESULT_LIMIT {
            return ControlFlow::Break(());
        }
        self.messages.extend_from_slice(row);
        self.count += 1;
        if self.messages.len() < ROWS_AT {
            return ControlFlow::Continue(());
        }
        self.gather();
        let mut stream = self.stream;
        match stream.write_all(self.out) {
            Ok(()) => {
                self.out.clear();
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn gather(&mut self) {
        if self.count > 0 {
            let messages = std::mem::take(&mut self.messages);
            self.out.extend_from_slice(&message::frame(&Reply::Rows { messages, count: self.count }));
            self.count = 0;
        }
    }

    fn end(mut self) -> io::Result<()> {
        self.gather();
        self.failed.map_or(Ok(()), Err)
    }
}
