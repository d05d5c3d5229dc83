//! The process that takes over.

use super::channel::Channel;
use super::{Letter, PID_FILE, PLACE, VERSION, address, places};
use crate::process::Process;
use session::{Carried, Session};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;
use wire::CancelRequest;

/// The process that serves answers within this.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The successor's side of a takeover in progress. The predecessor has handed over its listening sockets,
/// which it goes on using.
#[derive(Debug)]
pub struct Heir {
    stream: UnixStream,
    /// The process that serves.
    pub(crate) pid: u32,
    /// The disabled databases.
    pub(crate) disabled: Vec<String>,
    /// The part of the process numbers that it leaves to this one.
    pub(crate) part: u32,
    /// Its sockets, by what they are used for.
    pub(crate) sockets: BTreeMap<String, OwnedFd>,
}

/// The reason why nothing is handed over: a sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoHeir {
    /// No process of this configuration is there.
    NobodyThere(String),
    /// The predecessor refuses, or something is wrong.
    Refused(String),
}

impl From<String> for NoHeir {
    fn from(why: String) -> NoHeir {
        NoHeir::Refused(why)
    }
}

impl Heir {
    /// Asks the process that serves with this configuration. Nothing changes there before this one is ready.
    ///
    /// # Errors
    /// No such process is there, or it refuses.
    pub fn ask(config_file: &Path) -> Result<Heir, NoHeir> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let limit = timeout(ANSWER_LIMIT, asked(config_file)).await;
            limit.unwrap_or_else(|_| {
                Err(format!("the running process does not answer within {ANSWER_LIMIT:?}").into())
            })
        })
    }

    /// The sockets at which the process before waited for this one, and this one waits for the next.
    pub(crate) fn next(&mut self) -> BTreeMap<String, OwnedFd> {
        let sockets = std::mem::take(&mut self.sockets);
        let (next, others) = sockets.into_iter().partition(|(of, _)| of.starts_with(PLACE));
        self.sockets = others;
        next
    }

    /// The file that holds the number of the process that serves, locked by it, if it has one.
    pub fn pid_file(&mut self) -> Option<File> {
        self.sockets.remove(PID_FILE).map(File::from)
    }
}

/// To the process that serves with this configuration.
fn connect(config_file: &Path) -> io::Result<UnixStream> {
    let mut nobody = io::ErrorKind::NotFound.into();
    for place in places(config_file)? {
        match UnixStream::connect_addr(&address(&place)?) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => nobody = error,
            asked => return asked,
        }
    }
    Err(nobody)
}

async fn asked(config_file: &Path) -> Result<Heir, NoHeir> {
    let nobody = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => NoHeir::NobodyThere(format!(
            "no process to take over from: no Consort with the configuration {} runs as this user",
            config_file.display()
        )),
        _ => NoHeir::Refused(format!("cannot contact the running process: {error}")),
    };
    let stream = connect(config_file).map_err(nobody)?;
    stream.set_nonblocking(true).map_err(nobody)?;
    let mut channel = Channel::over(tokio::net::UnixStream::from_std(stream).map_err(nobody)?);
    let (user, _) = channel.peer().map_err(nobody)?;
    if user != rustix::process::geteuid().as_raw() {
        return Err(format!("the takeover socket belongs to a process of another user ({user})").into());
    }
    let ended = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "the running process ended".to_owned(),
        _ => format!("lost contact to the running process: {error}"),
    };
    channel.send(&Letter::Hello(VERSION), None).await.map_err(ended)?;
    let (pid, disabled, part) = match channel.receive().await.map_err(ended)?.0 {
        Letter::Welcome(pid, disabled, part) => (pid, disabled, part),
        Letter::Refused(why) => return Err(format!("the running process refused the takeover: {why}").into()),
        _ => return Err("invalid handover message from the running process".to_owned().into()),
    };
    let mut sockets = BTreeMap::new();
    loop {
        match channel.receive().await.map_err(ended)? {
            (Letter::Socket(of), Some(socket)) => drop(sockets.insert(of, socket)),
            (Letter::Sockets, None) => break,
            _ => return Err("invalid handover message from the running process".to_owned().into()),
        }
    }
    let stream = channel.into_stream().map_err(ended)?;
    Ok(Heir { stream, pid, disabled, part, sockets })
}

/// State that a successor process has received.
pub(crate) struct Inheritance {
    channel: Channel,
    clients: Vec<(Carried, OwnedFd)>,
}

impl Heir {
    /// This process could serve: waits for all handover messages. `alone`: no client stays at the
    /// predecessor.
    ///
    /// # Errors
    /// The process that serves goes on, or is gone: a sentence for a person.
    pub(crate) async fn receives(self, alone: bool) -> Result<Inheritance, String> {
        let stream = tokio::net::UnixStream::from_std(self.stream).map_err(not_handed_over)?;
        let mut channel = Channel::over(stream);
        channel.send(&Letter::Ready(alone), None).await.map_err(not_handed_over)?;
        let mut clients = Vec::new();
        loop {
            match channel.receive().await.map_err(not_handed_over)? {
                (Letter::Client(client), Some(socket)) => {
                    let client = Carried::read(&client).ok_or_else(|| no_turn(&Letter::Client(client)))?;
                    clients.push((client, socket));
                }
                (Letter::Yours, None) => return Ok(Inheritance { channel, clients }),
                other => return Err(no_turn(&other.0)),
            }
        }
    }
}

fn not_handed_over(error: io::Error) -> String {
    format!("the running process did not hand over: {error}")
}

/// The error for an unexpected handover message.
fn no_turn(said: &Letter) -> String {
    match said {
        Letter::Refused(why) => format!("the running process refused the takeover: {why}"),
        _ => "invalid handover message from the running process".to_owned(),
    }
}

impl Inheritance {
    /// Waits until it is this process's own. Until then nothing may be done with what has come. Not to be given up: as soon as the
    /// process before has read that all is here, it may be this one alone that has the clients.
    ///
    /// # Errors
    /// As [`Heir::receives`].
    pub(crate) async fn is_handed_over(&mut self) -> Result<(), String> {
        self.channel.send(&Letter::Mine, None).await.map_err(not_handed_over)?;
        match self.channel.receive().await.map_err(not_handed_over)? {
            (Letter::Go, None) => Ok(()),
            (other, _) => Err(no_turn(&other)),
        }
    }

    /// Clients go on here. How many.
    pub(crate) fn begins(&mut self, process: &Process) -> usize {
        let clients = std::mem::take(&mut self.clients);
        clients.into_iter().filter_map(|client| begin(process, client)).count()
    }
}

/// A client goes on here. `None`: it is not understood here, and its connection is closed.
fn begin(process: &Process, (carried, socket): (Carried, OwnedFd)) -> Option<()> {
    let service = process.door.service.borrow().clone()?;
    let Some(session) = Session::of_carried(&process.door.registry, &service, carried, socket) else {
        tracing::error!("disconnecting a client whose handed-over state is invalid");
        return None;
    };
    process.door.clone().goes_on_with(session);
    Some(())
}

/// The process before serves who is left there: whoever becomes idle goes on here, and cancel requests go there, until it ends.
pub(crate) async fn follows(
    process: Rc<Process>,
    inheritance: Inheritance,
    mut cancels: UnboundedReceiver<CancelRequest>,
) {
    let Inheritance { mut channel, .. } = inheritance;
    let mut clients = 0_usize;
    loop {
        tokio::select! {
            said = channel.receive() => match said {
                Ok((Letter::Client(client), Some(socket))) => {
                    let Some(client) = Carried::read(&client) else { break };
                    clients += usize::from(begin(&process, (client, socket)).is_some());
                }
                Ok(_) | Err(_) => break,
            },
            Some(CancelRequest { pid, secret }) = cancels.recv() => {
                // The process before may be writing, and reads nothing until this one does: one that finds no room is lost.
                if channel.send_now(&Letter::Cancel(pid, secret)).is_err() {
                    break;
                }
            }
        }
    }
    process.door.registry.nobody_is_before();
    tracing::info!(clients, "previous process ended; clients received since the takeover");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn heir() -> (Heir, Channel) {
        let (stream, old) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        old.set_nonblocking(true).unwrap();
        let old = Channel::over(tokio::net::UnixStream::from_std(old).unwrap());
        (Heir { stream, pid: 1, disabled: Vec::new(), part: 1, sockets: BTreeMap::new() }, old)
    }

    #[tokio::test]
    async fn what_can_be_given_up_has_not_said_that_all_is_here() {
        let (heir, mut old) = heir();
        old.send(&Letter::Yours, None).await.unwrap();
        let mut inheritance = heir.receives(true).await.unwrap();
        assert_eq!(old.receive().await.unwrap().0, Letter::Ready(true));
        let nothing = pin!(old.receive()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(nothing, Poll::Pending), "{nothing:?}");
        old.send(&Letter::Go, None).await.unwrap();
        inheritance.is_handed_over().await.unwrap();
        assert_eq!(old.receive().await.unwrap().0, Letter::Mine);
    }

    #[tokio::test]
    async fn until_the_last_word_the_process_before_may_refuse() {
        for yours in [true, false] {
            let (heir, old) = heir();
            if yours {
                old.send(&Letter::Yours, None).await.unwrap();
            }
            old.send(&Letter::Refused("it is paused".to_owned()), None).await.unwrap();
            let refused = async { heir.receives(false).await?.is_handed_over().await };
            assert_eq!(refused.await.unwrap_err(), "the running process refused the takeover: it is paused");
        }
    }
}
