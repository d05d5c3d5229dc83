//! Any bytes as what a server says to Consort that logs in there: whole conversations over a socket, with each kind of secret.

use conn::log_in::{LoggedIn, Wish, log_in};
use conn::peer::Rooms;
use conn::secrets::Secret;
use conn::socket::Place;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use wire::tag::back::AUTHENTICATION;
use wire::{Keys, ServerExchange, Side, Splitter, Step, Verifier};

/// Stands where the nonce of a client with a password belongs, and is as long.
const BY_PASSWORD: &[u8] = b"nonce-of-password-log-in";
/// The same with keys.
const BY_KEYS: &[u8] = b"nonce-of-a-log-in-by-the-keys-of-ann";

/// Keys of the password `pencil` (RFC 7677, section 3).
static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let secret = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
         wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let first = b"SCRAM-SHA-256\0\0\0\0\x20n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    let proof = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let verifier = Verifier::parse(secret).expect("it is one");
    let exchange =
        ServerExchange::begin(verifier, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", first, None).expect("it begins");
    exchange.finish(proof).expect("it proves").1
});

/// A server that sends the given bytes, as long as the thread lives.
struct Server {
    runtime: Runtime,
    listener: UnixListener,
    path: PathBuf,
}

impl Server {
    fn open() -> Server {
        let path = std::env::temp_dir().join(format!("consort-log-in-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = runtime.block_on(async { UnixListener::bind(&path) }).expect("a socket");
        Server { runtime, listener, path }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

thread_local! {
    static SERVER: Server = Server::open();
}

/// The first byte chooses the server's first messages. A client that is in has the key that the server sent.
pub(crate) fn check(bytes: &[u8]) {
    let [which, said @ ..] = bytes else { return };
    let secret = match which % 4 {
        0 => None,
        1 => Some(Secret::Plain("pencil".to_owned())),
        2 => Some(Secret::parse("md5c4ca4238a0b923820dcc509a6f75849b")),
        _ => Some(Secret::Keys(Box::new(KEYS.clone()))),
    };
    SERVER.with(|server| {
        let wish = Wish {
            place: Place::Unix(server.path.clone()),
            user: "user".to_owned(),
            database: "postgres".to_owned(),
            parameters: Vec::new(),
            secret,
            limit: Duration::from_secs(60),
            role: None,
        };
        let rooms = Rooms::default();
        let nonce = [None, Some(BY_PASSWORD), None, Some(BY_KEYS)][usize::from(which % 4)];
        // A client that is in hangs up again, for the server waits for that.
        let comes = async {
            log_in(&wish, &rooms)
                .await
                .map(|LoggedIn { peer: _, key, parameters, greeting }| (key, parameters, greeting))
        };
        let both = async { tokio::join!(comes, serve(server, said, nonce)) };
        let (ended, ()) = server.runtime.block_on(both);
        if let Ok((key, parameters, greeting)) = ended {
            assert!(key.secret.len() <= 256 && greeting.len() + parameters.len() <= said.len());
        }
    });
}

/// Says all of it. Where it begins with a demand for SCRAM, the client's nonce comes where one is to stand.
async fn serve(server: &Server, said: &[u8], nonce: Option<&[u8]>) {
    let (mut stream, _) = server.listener.accept().await.expect("it knocks");
    let demand = demand(said).filter(|_| nonce.is_some()).unwrap_or_default();
    let (first, rest) = said.split_at(demand);
    let mut rest = rest.to_vec();
    if let Some(marker) = nonce.filter(|_| demand > 0) {
        if stream.write_all(first).await.is_err() {
            return;
        }
        let theirs = nonce_of(&mut stream).await;
        while let Some(at) = rest.windows(marker.len()).position(|window| window == marker) {
            rest[at..at + marker.len()].copy_from_slice(&theirs);
        }
    }
    // The client may have closed before all is sent.
    let _ = stream.write_all(&rest).await;
    let _ = stream.shutdown().await;
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

/// The length of a demand for SCRAM at the beginning.
fn demand(said: &[u8]) -> Option<usize> {
    let Ok(Step::Whole(frame)) = Splitter::new(Side::Server, 1 << 16).next(said) else { return None };
    let is_demand = frame.tag() == AUTHENTICATION
        && wire::authentication(&frame).is_ok_and(|demand| demand.offers(wire::MECHANISM));
    is_demand.then_some(frame.bytes().len())
}

/// The nonce in the client's first message, which ends in it and follows its start-up packet.
async fn nonce_of(stream: &mut UnixStream) -> Vec<u8> {
    let mut heard = Vec::new();
    loop {
        let begun =
            wire::first_packet(&heard).expect("a start-up packet").map(|(_, length)| &heard[length..]);
        let mut splitter = Splitter::new(Side::Client, 1 << 16);
        if let Some(Ok(Step::Whole(frame))) = begun.map(|begun| splitter.next(begun)) {
            let at = frame.body().windows(3).position(|window| window == b",r=").expect("it has a nonce");
            return frame.body()[at + 3..].to_vec();
        }
        assert!(stream.read_buf(&mut heard).await.expect("it goes on") > 0, "it answers");
    }
}
