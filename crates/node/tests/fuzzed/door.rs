//! Any bytes as messages of a client at the frontend before it has a session: whole conversations over a
//! socket, by each authentication method, up to the console.

use config::hba::{Method, Rules};
use conn::secrets::Secrets;
use frontend::{Console, Door, Keeps, Listen, Listener, Options, Soon};
use std::path::PathBuf;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use wire::Answers;

const METHODS: [Method; 4] = [Method::Trust, Method::Password, Method::Md5, Method::ScramSha256];
/// PostgreSQL's form of the password `pencil` (RFC 7677, section 3).
const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
     wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
/// Most bytes that a client sends.
const MOST_BYTES: usize = 64 * 1024;

/// Answers whatever it is asked.
struct Echo;

impl Console for Echo {
    fn admits(&self, user: &str) -> bool {
        user == "ann"
    }

    fn answer<'a>(
        &'a self,
        _: &'a str,
        text: &'a str,
        out: &'a mut Vec<u8>,
        _: &'a mut Keeps,
    ) -> Soon<'a, ()> {
        Box::pin(async move { admin::console::commands(text).for_each(|command| out.complete(command)) })
    }
}

/// Doors that are open as long as the thread lives.
struct Doors {
    runtime: Runtime,
    tasks: LocalSet,
    folder: PathBuf,
}

impl Doors {
    fn open() -> Doors {
        let folder = std::env::temp_dir().join(format!("consort-doors-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for sockets");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let tasks = LocalSet::new();
        for (port, method) in (0..).zip(METHODS) {
            let rules = Rules::by_origin(method, method);
            let secrets = Secrets::gather([("ann", "pencil"), ("bob", PENCIL)]);
            let door = Door::new(Options { rules, ..Options::default() }, secrets, None);
            *door.console.borrow_mut() = Some(Rc::new(Echo));
            let place = Listen::Unix(folder.clone(), port);
            let listener = tasks.block_on(&runtime, Listener::open(&place)).expect("a socket");
            tasks.spawn_local(async move { door.serve(listener).await });
        }
        Doors { runtime, tasks, folder }
    }
}

impl Drop for Doors {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

thread_local! {
    static DOORS: Doors = Doors::open();
}

/// The first byte chooses the frontend. Its answers are messages, and then it closes.
pub(crate) fn check(bytes: &[u8]) {
    let [which, said @ ..] = bytes else { return };
    DOORS.with(|doors| {
        let path = doors.folder.join(format!(".s.PGSQL.{}", usize::from(*which) % METHODS.len()));
        let said = &said[..said.len().min(MOST_BYTES)];
        let heard = doors.tasks.block_on(&doors.runtime, async {
            let mut stream = UnixStream::connect(path).await.expect("the door is open");
            let mut heard = Vec::new();
            let (mut read, mut write) = stream.split();
            let say = async {
                // The frontend may have closed before all is sent.
                let _ = write.write_all(said).await;
                let _ = write.shutdown().await;
            };
            let _ = tokio::join!(say, read.read_to_end(&mut heard));
            heard
        });
        are_messages(&heard);
    });
}

/// Refusals to encrypt, and then whole messages.
fn are_messages(heard: &[u8]) {
    let mut at = heard.iter().take(3).take_while(|byte| **byte == b'N').count();
    let mut splitter = wire::Splitter::new(wire::Side::Server, 1 << 20);
    while at < heard.len() {
        let step = splitter.next(&heard[at..]).expect("what is said are messages");
        assert!(!step.is_empty(), "the last message is whole");
        at += step.len();
    }
}
