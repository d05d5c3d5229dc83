//! Commands of a session, each to the transaction that it belongs to.

use crate::command::{self, Action, Command, Connection, Control, Data};
use crate::connection_commands;
use crate::execute;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::session::{Queue, Session, State};
use crate::transaction::{Fault, Level};
use crate::watched_keys::Watched;
use bytes::Bytes;

/// Attempts of a transaction that the server itself repeats.
const ATTEMPTS: usize = 100;

/// Repetition of a transaction that the server itself runs.
struct Repeat {
    level: Level,
    /// The commit that the next snapshot must show.
    token: u64,
    attempts: usize,
}

impl Repeat {
    fn new(level: Level, token: u64) -> Repeat {
        Repeat { level, token, attempts: 0 }
    }

    /// Has the next attempt show the commit that this one has met.
    ///
    /// # Errors
    /// The fault, if a repetition is of no use, or there were too many.
    fn after(&mut self, fault: Fault) -> Result<(), Fault> {
        self.attempts += 1;
        let Some(commit) = fault.repeat_after().filter(|_| self.attempts < ATTEMPTS) else {
            return Err(fault);
        };
        (self.level, self.token) = (Level::Session, self.token.max(commit));
        Ok(())
    }
}

impl Session {
    /// Answers one command.
    pub(crate) async fn answer(&mut self, words: Vec<Bytes>) -> Reply {
        let command = match self.admitted(&words) {
            Ok(command) => command,
            Err(problem) => return self.refused(problem),
        };
        if let State::Queue(queue) = &mut self.state
            && !runs_at_once(command.action)
        {
            return queue.take(command, words).unwrap_or_else(|problem| self.refused(problem));
        }
        match command.action {
            Action::Data(data) => self.data(command, data, &words).await,
            Action::Control(control) => self.control(control, &words).await.unwrap_or_else(Problem::reply),
            Action::Connection(connection) => self.connection(connection, &words).await,
        }
    }

    /// The reply to a request that is too large to be read.
    pub(crate) fn too_large(&mut self, why: &str) -> Reply {
        let hint = "split it into several keys, or into several commands between BEGIN and COMMIT";
        self.refused(Problem::new(format!("{why}; {hint}")))
    }

    /// The reply of a command that is not run. EXEC then runs none of the queued ones.
    fn refused(&mut self, problem: Problem) -> Reply {
        if let State::Queue(queue) = &mut self.state {
            queue.is_refused = true;
        }
        problem.reply()
    }

    /// The command, if it exists, has a fitting number of arguments, and the client may run it.
    fn admitted(&self, words: &[Bytes]) -> Result<&'static Command, Problem> {
        let command = command::find(&words[0]);
        if !self.is_authenticated() && !command.is_some_and(runs_unauthenticated) {
            return Err(Problem::coded("NOAUTH", "Authentication required: send AUTH user password"));
        }
        let command = command.ok_or_else(|| Problem::unknown(words))?;
        if !command.takes(words.len()) {
            return Err(Problem::arity(command.name));
        }
        Ok(command)
    }

    async fn connection(&mut self, connection: Connection, words: &[Bytes]) -> Reply {
        let answered = connection_commands::answer(self, connection, words).await;
        answered.unwrap_or_else(Problem::reply)
    }

    /// A command that reads or writes keys.
    async fn data(&mut self, command: &Command, data: Data, words: &[Bytes]) -> Reply {
        match &mut self.state {
            State::Aborted(why) => aborted(why).reply(),
            State::Block(keys) => {
                let done = execute::run(keys, data, words, &self.shared.cursors).await;
                done.unwrap_or_else(|fault| self.failed(fault).reply())
            }
            State::Autocommit | State::Queue(_) => self.autocommit(command, data, words).await,
        }
    }

    /// The error of a command in a block. If the transaction itself is over, the block is.
    fn failed(&mut self, fault: Fault) -> Problem {
        match fault {
            Fault::Command(problem) => problem,
            fault => {
                let problem = fault.problem();
                self.abort("a command failed");
                problem
            }
        }
    }

    /// Runs a command as a transaction of its own, again after a conflict.
    async fn autocommit(&mut self, command: &Command, data: Data, words: &[Bytes]) -> Reply {
        let mut repeat = Repeat::new(self.level, self.token);
        loop {
            let done = async {
                let mut keys = self.shared.begin(!command.writes, repeat.level, repeat.token).await?;
                let reply = execute::run(&mut keys, data, words, &self.shared.cursors).await?;
                let committed = if command.writes { keys.commit().await? } else { keys.roll_back() };
                Ok::<_, Fault>((reply, committed))
            };
            match done.await {
                Ok((reply, committed)) => {
                    self.knows(committed);
                    return reply;
                }
                Err(fault) => match repeat.after(fault) {
                    Ok(()) => self.shared.counters.repeats.add(1),
                    Err(fault) => return fault.problem().reply(),
                },
            }
        }
    }

    async fn control(&mut self, control: Control, words: &[Bytes]) -> Result<Reply, Problem> {
        match control {
            Control::Begin => self.begin(&words[1..]).await,
            Control::Commit => self.commit().await,
            Control::Rollback => match std::mem::replace(&mut self.state, State::Autocommit) {
                State::Block(keys) => {
                    self.knows(keys.roll_back());
                    Ok(Reply::OK)
                }
                State::Aborted(_) => Ok(Reply::OK),
                State::Autocommit | State::Queue(_) => Err(Problem::new("ROLLBACK without BEGIN")),
            },
            Control::Multi => match &self.state {
                State::Autocommit => {
                    self.state = State::Queue(Queue::default());
                    Ok(Reply::OK)
                }
                State::Queue(_) => Err(Problem::new("MULTI calls can not be nested")),
                State::Block(_) | State::Aborted(_) => {
                    Err(Problem::new("MULTI inside BEGIN is not allowed: send the commands, then COMMIT"))
                }
            },
            Control::Discard => match std::mem::replace(&mut self.state, State::Autocommit) {
                State::Queue(_) => {
                    self.watched.clear();
                    Ok(Reply::OK)
                }
                other => {
                    self.state = other;
                    Err(Problem::new("DISCARD without MULTI"))
                }
            },
            Control::Exec => match std::mem::replace(&mut self.state, State::Autocommit) {
                State::Queue(queue) => self.exec(queue).await,
                other => {
                    self.state = other;
                    Err(Problem::new("EXEC without MULTI"))
                }
            },
            Control::Watch => self.watch(&words[1..]).await,
            Control::Unwatch => {
                self.watched.clear();
                Ok(Reply::OK)
            }
            Control::Consistency => self.consistency(&words[1..]),
        }
    }

    /// BEGIN [READ ONLY]. If it fails at the server, commands up to COMMIT or ROLLBACK are refused: a client that sends them in one
    /// pipeline does not mean them to run alone.
    async fn begin(&mut self, options: &[Bytes]) -> Result<Reply, Problem> {
        let read_only = match options {
            [] => false,
            [read, only] if read.eq_ignore_ascii_case(b"READ") && only.eq_ignore_ascii_case(b"ONLY") => true,
            [read, write] if read.eq_ignore_ascii_case(b"READ") && write.eq_ignore_ascii_case(b"WRITE") => {
                false
            }
            _ => return Err(Problem::new("syntax error: BEGIN [READ ONLY]")),
        };
        if !self.is_between_transactions() {
            return Err(Problem::new("BEGIN inside a transaction: send COMMIT or ROLLBACK first"));
        }
        if !self.watched.is_empty() {
            return Err(Problem::new(
                "BEGIN with watched keys is not allowed: watched keys are for MULTI; send UNWATCH first",
            ));
        }
        match self.shared.begin(read_only, self.level, self.token).await {
            Ok(keys) => {
                self.state = State::Block(Box::new(keys));
                Ok(Reply::OK)
            }
            Err(fault) => {
                self.state = State::Aborted("BEGIN failed".to_owned());
                Err(fault.problem())
            }
        }
    }

    async fn commit(&mut self) -> Result<Reply, Problem> {
        match std::mem::replace(&mut self.state, State::Autocommit) {
            State::Block(keys) => {
                let committed = keys.commit().await.map_err(Fault::problem)?;
                self.knows(committed);
                Ok(Reply::OK)
            }
            State::Aborted(why) => Err(Problem::coded(
                "ABORTED",
                format!("the transaction was rolled back: {why}; run it again from its BEGIN"),
            )),
            State::Autocommit | State::Queue(_) => Err(Problem::new("COMMIT without BEGIN")),
        }
    }

    async fn watch(&mut self, keys: &[Bytes]) -> Result<Reply, Problem> {
        match self.state {
            State::Queue(_) => return Err(Problem::new("WATCH inside MULTI is not allowed")),
            State::Block(_) | State::Aborted(_) => {
                return Err(Problem::new(
                    "WATCH inside BEGIN is not allowed: COMMIT itself finds other writers of the keys that it writes",
                ));
            }
            State::Autocommit => {}
        }
        let shared = self.shared.clone();
        let since = self.watched.add(&shared, keys).await?;
        // Reads that follow see at least the state from which on the keys are watched.
        self.knows(since);
        Ok(Reply::OK)
    }

    fn consistency(&mut self, words: &[Bytes]) -> Result<Reply, Problem> {
        match words {
            [] => return Ok(Reply::text(self.level.name())),
            [word] => {
                self.level = Level::named(word)
                    .ok_or_else(|| Problem::new("syntax error: CONSISTENCY [SESSION | STRONG | SNAPSHOT]"))?;
            }
            _ => return Err(Problem::arity("consistency")),
        }
        Ok(Reply::OK)
    }

    /// Runs the queued commands as one transaction. After a conflict they run again, unless a watched key has changed.
    async fn exec(&mut self, queue: Queue) -> Result<Reply, Problem> {
        let watched = std::mem::take(&mut self.watched);
        if queue.is_refused {
            return Err(Problem::coded("EXECABORT", "Transaction discarded because of previous errors."));
        }
        let mut repeat = Repeat::new(Level::Strong, self.token);
        loop {
            match self.try_exec(&queue, &watched, &repeat).await {
                Ok(Some(replies)) => return Ok(Reply::Array(replies)),
                Ok(None) => return Ok(Reply::NullArray),
                Err(fault) => match repeat.after(fault) {
                    Ok(()) => self.shared.counters.repeats.add(1),
                    Err(fault) => return Err(fault.problem()),
                },
            }
        }
    }

    /// One attempt. `None`: a watched key has changed.
    async fn try_exec(
        &mut self,
        queue: &Queue,
        watched: &Watched,
        repeat: &Repeat,
    ) -> Result<Option<Vec<Reply>>, Fault> {
        let writes = queue.calls.iter().any(|(command, _)| command.writes);
        let mut keys = self.shared.begin(!writes, repeat.level, repeat.token).await?;
        if watched.is_any_changed(&self.shared)? {
            self.knows(keys.roll_back());
            return Ok(None);
        }
        watched.guard(&mut keys)?;
        if writes {
            keys.guard_reads();
        }
        let mut replies = Vec::with_capacity(queue.calls.len());
        for (command, words) in &queue.calls {
            let reply = match command.action {
                Action::Data(data) => execute::run(&mut keys, data, words, &self.shared.cursors).await,
                Action::Connection(connection) => Ok(self.connection(connection, words).await),
                // UNWATCH: EXEC itself has unwatched the keys.
                Action::Control(_) => Ok(Reply::OK),
            };
            match reply {
                Ok(reply) => replies.push(reply),
                // As in Redis, the commands after one that fails run.
                Err(Fault::Command(problem)) => replies.push(problem.reply()),
                Err(fault) => return Err(fault),
            }
        }
        // Without writes the commit certifies nothing but watched keys.
        let committed = keys.commit().await?;
        self.knows(committed);
        Ok(Some(replies))
    }
}

/// True if the command is run inside of MULTI, not queued.
fn runs_at_once(action: Action) -> bool {
    matches!(
        action,
        Action::Control(Control::Exec | Control::Discard | Control::Multi | Control::Watch)
            | Action::Connection(Connection::Quit | Connection::Reset)
    )
}

/// True if a client may run the command before it has authenticated.
fn runs_unauthenticated(command: &Command) -> bool {
    matches!(
        command.action,
        Action::Connection(Connection::Auth | Connection::Hello | Connection::Quit | Connection::Reset)
    )
}

fn aborted(why: &str) -> Problem {
    Problem::coded(
        "ABORTED",
        format!("the transaction was rolled back: {why}; send ROLLBACK, then run it again"),
    )
}
