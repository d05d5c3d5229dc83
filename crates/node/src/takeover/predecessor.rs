//! The predecessor process: hands its listening sockets and its idle clients over, and ends when its last
//! client has left.

use super::channel::Channel;
use super::{Letter, VERSION, address, places};
use crate::process::Process;
use crate::supervisor;
use conn::registry::{Doing, Leave, Moving, Seat};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

/// A new process says so soon what it wants,
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// and so soon that it has got everything. Clients wait meanwhile.
pub(super) const MINE_LIMIT: Duration = Duration::from_secs(10);
/// Time for a client that is logging in to become a session that can go over, and for a session that is asked
/// to go over to do so.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(2);
/// Interval of the check that all have gone.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Interval of the attempts to listen, while the predecessor listens still.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Attempts before the failure is logged.
const TRIES: u32 = 100;

/// Waits for a process that wants to take over, until one has. `inherited`: the sockets at which the process before has done so.
pub(crate) async fn wait(process: Rc<Process>, mut inherited: BTreeMap<String, OwnedFd>) {
    let Some(places) = process.config_file().and_then(|file| places(file).ok()) else { return };
    let mut listeners = Listeners::new();
    for place in places {
        let inherited =
            inherited.remove(&place).and_then(|socket| UnixListener::from_std(socket.into()).ok());
        let listener = match inherited {
            Some(listener) => Some(listener),
            None => listen(&place).await,
        };
        listeners.extend(listener.map(|listener| (place, listener)));
    }
    drop(inherited);
    loop {
        let stream = match next(&listeners).await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a successor process");
                sleep(AGAIN_AFTER).await;
                continue;
            }
        };
        let mut channel = Channel::over(stream);
        match hand_over(&process, &listeners, &mut channel).await {
            Ok(moving) => {
                drop(listeners);
                return serve_behind(&process, channel, moving).await;
            }
            Err(why) => {
                process.door.registry.goes_on();
                tracing::warn!("takeover failed; this process continues to serve: {why}");
            }
        }
    }
}

/// Addresses at which a successor is waited for.
type Listeners = Vec<(String, UnixListener)>;

/// The next connection at any of the listen addresses.
async fn next(listeners: &Listeners) -> io::Result<(UnixStream, SocketAddr)> {
    poll_fn(|cx| {
        let mut accepted = listeners.iter().map(|(_, listener)| listener.poll_accept(cx));
        accepted.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

async fn listen(place: &str) -> Option<UnixListener> {
    for _ in 0..TRIES {
        let listener = address(place).and_then(|address| {
            let listener = std::os::unix::net::UnixListener::bind_addr(&address)?;
            listener.set_nonblocking(true)?;
            UnixListener::from_std(listener)
        });
        match listener {
            Ok(listener) => return Some(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => sleep(AGAIN_AFTER).await,
            Err(error) => {
                tracing::warn!(%error, "cannot listen for a successor process; takeover is not possible");
                return None;
            }
        }
    }
    tracing::warn!("takeover is not possible: another process with the same configuration is running");
    None
}

/// Cause of a failure, for the log.
type Why = String;

const NOT_ITS_TURN: &str = "unexpected handover message";

fn gone(error: io::Error) -> Why {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the successor process ended".to_owned(),
        _ => error.to_string(),
    }
}

/// Hands everything over that can go now. Sessions that become idle later come out of what this returns.
///
/// # Errors
/// Hands over. The error: nothing was handed over, and this process goes on.
async fn hand_over(
    process: &Rc<Process>,
    listeners: &Listeners,
    channel: &mut Channel,
) -> Result<Receiver<Moving>, Why> {
    let ordered = process.door.ordered();
    let pid = greet(process, listeners, channel).await?;
    // One answer for all that follows: the configuration may be read again meanwhile.
    let alone = ready(channel).await? || process.cluster.lead().is_alone();
    let began = Instant::now();
    if alone {
        while_it_lives(channel, process.older_transactions_end(began)).await?;
    }
    let unheeded = || {
        let is_another = process.door.ordered() != ordered;
        let changed = is_another
            .then(|| "KILL, KILL_CLIENT, DISABLE or ENABLE was executed during the handover".to_owned());
        // This process cannot disconnect them.
        let is_third = alone && process.door.registry.is_somebody_before();
        let third = is_third.then(|| "its own predecessor still serves clients".to_owned());
        cannot_now(process).or(changed).or(third)
    };
    refuse(channel, unheeded()).await?;
    process.door.registry.accepts_nobody();
    let mut moving = process.door.registry.begins_to_move();
    let mut moved = Vec::new();
    send_idle(process, channel, &mut moving, &mut moved).await?;
    if alone {
        send_all(process, channel, &mut moving, &mut moved, began).await?;
    }
    write(channel, &Letter::Yours, None).await?;
    let said = timeout(MINE_LIMIT, channel.receive()).await;
    expect(
        said.map_err(|_| format!("the successor process sent nothing for {MINE_LIMIT:?}"))?,
        &Letter::Mine,
    )?;
    // Messages to this process that came while clients were sent would be lost there.
    refuse(channel, unheeded()).await?;
    // After this no sent client is taken back.
    channel.send(&Letter::Go, None).await.map_err(gone)?;
    let clients = moved.len();
    for moved in moved {
        // A client that has left meanwhile needs no message.
        let _ = moved.send(());
    }
    let stay = process.door.registry.why_they_stay();
    tracing::info!(clients, left = process.door.left(), ?stay, pid, "handed over to the successor process");
    process.is_taken_over(alone);
    if let Some(pid) = pid {
        supervisor::hands_over(pid);
    }
    Ok(moving)
}

/// Hears who it is, and sends the listening sockets. Its process.
async fn greet(process: &Process, listeners: &Listeners, channel: &mut Channel) -> Result<Option<u32>, Why> {
    let (user, pid) = channel.peer().map_err(gone)?;
    if user != rustix::process::geteuid().as_raw() {
        return Err(format!("the successor process runs as another user ({user})"));
    }
    let hello = timeout(HELLO_LIMIT, channel.receive()).await;
    let (hello, _) = hello
        .map_err(|_| format!("the successor process sent nothing for {HELLO_LIMIT:?}"))?
        .map_err(gone)?;
    let door = &process.door;
    let refused = match hello {
        Letter::Hello(VERSION) => cannot_now(process),
        Letter::Hello(other) => Some(format!(
            "handover version {VERSION} of the running process does not match version {other} of the successor; \
             stop the old process, then start the new one"
        )),
        _ => return Err("invalid handover message".to_owned()),
    };
    refuse(channel, refused).await?;
    let welcome = Letter::Welcome(std::process::id(), door.disabled(), door.process_numbers.next_part());
    write(channel, &welcome, None).await?;
    for (of, socket) in process.sockets() {
        write(channel, &Letter::Socket(of), Some(socket.as_fd())).await?;
    }
    // A successor of the new process finds it at once.
    for (place, listener) in listeners {
        write(channel, &Letter::Socket(place.clone()), Some(listener.as_fd())).await?;
    }
    write(channel, &Letter::Sockets, None).await?;
    tracing::info!(?pid, "takeover started");
    Ok(pid.and_then(|pid| u32::try_from(pid).ok()))
}

/// The new process could serve: whether two at a time would do harm by its configuration.
async fn ready(channel: &mut Channel) -> Result<bool, Why> {
    match channel.receive().await.map_err(gone)?.0 {
        Letter::Ready(alone) => Ok(alone),
        _ => Err(NOT_ITS_TURN.to_owned()),
    }
}

/// The reason against a handover now, if there is one.
fn cannot_now(process: &Process) -> Option<Why> {
    let door = &process.door;
    match () {
        () if door.is_closing() => Some("shutting down".to_owned()),
        () if door.registry.pauses.holds_any() => Some("paused; use RESUME in its console first".to_owned()),
        () => None,
    }
}

/// Tells the new process, if there is something against it.
async fn refuse(channel: &Channel, why: Option<Why>) -> Result<(), Why> {
    let Some(why) = why else { return Ok(()) };
    write(channel, &Letter::Refused(why.clone()), None).await?;
    Err(why)
}

/// Writes a handover message; a peer that does not read it for so long is not waited for.
async fn write(channel: &Channel, letter: &Letter, along: Option<BorrowedFd<'_>>) -> Result<(), Why> {
    let sent = timeout(MINE_LIMIT, channel.send(letter, along)).await;
    sent.map_err(|_| format!("the successor process read nothing for {MINE_LIMIT:?}"))?.map_err(gone)
}

fn expect<T>(received: io::Result<(Letter, T)>, letter: &Letter) -> Result<(), Why> {
    let (said, _) = received.map_err(gone)?;
    if said == *letter { Ok(()) } else { Err(NOT_ITS_TURN.to_owned()) }
}

/// Waits for something as long as the new process is there.
async fn while_it_lives<T>(channel: &mut Channel, something: impl Future<Output = T>) -> Result<T, Why> {
    tokio::select! {
        biased;
        said = channel.receive() => Err(said.map_or_else(gone, |_| NOT_ITS_TURN.to_owned())),
        done = something => Ok(done),
    }
}

/// Sends the sessions that set out, until none has for a moment.
async fn send(
    channel: &Channel,
    moving: &mut Receiver<Moving>,
    all: &mut Vec<oneshot::Sender<()>>,
) -> Result<(), Why> {
    while let Ok(Some(Moving { carried, socket, moved })) = timeout(LOOK_EVERY, moving.recv()).await {
        all.push(moved);
        write(channel, &Letter::Client(carried), Some(socket.as_fd())).await?;
    }
    Ok(())
}

/// Sends the sessions that are idle.
async fn send_idle(
    process: &Process,
    channel: &Channel,
    moving: &mut Receiver<Moving>,
    moved: &mut Vec<oneshot::Sender<()>>,
) -> Result<(), Why> {
    let asked = Instant::now();
    loop {
        send(channel, moving, moved).await?;
        // A client that takes longer follows later.
        if !process.door.registry.is_to_move() || asked.elapsed() > ARRIVAL_LIMIT {
            return Ok(());
        }
    }
}

/// Sends all sessions, each when its transaction is over. A session that cannot go over, or does not end
/// within `shutdown_drain_timeout` of the begin, is disconnected.
async fn send_all(
    process: &Rc<Process>,
    channel: &mut Channel,
    moving: &mut Receiver<Moving>,
    moved: &mut Vec<oneshot::Sender<()>>,
    began: Instant,
) -> Result<(), Why> {
    let asked = Instant::now();
    let deadline = (began + process.config().shutdown_drain_timeout).max(asked + ARRIVAL_LIMIT);
    let mut sent_away = BTreeMap::new();
    while process.door.left() > 0 && Instant::now() < deadline {
        let stalls = |seat: &Seat| seat.stall.get().is_some() && asked.elapsed() > ARRIVAL_LIMIT;
        let stays = |seat: &&Rc<Seat>| {
            (seat.was_asked() && !seat.has_gone()) || seat.doing() == Doing::Replicating || stalls(seat)
        };
        for seat in process.door.registry.seats().iter().filter(stays) {
            seat.ring(false, Leave::Ending);
            sent_away.entry(seat.id).or_insert_with(|| seat.why_it_stays());
        }
        // A client that waits for a connection to log in with has begun nothing, and gets no milder error.
        let is_late = |seat: &&Rc<Seat>| {
            seat.doing() == Doing::Arriving && seat.is_queued() && asked.elapsed() > ARRIVAL_LIMIT
        };
        process.door.registry.seats().iter().filter(is_late).for_each(|seat| seat.ring(true, Leave::Ending));
        // Strangers who only hold a connection, or a place, are not waited for.
        if process.door.registry.nobody_but_strangers() && asked.elapsed() > ARRIVAL_LIMIT {
            break;
        }
        send(channel, moving, moved).await?;
        while_it_lives(channel, sleep(LOOK_EVERY)).await?;
    }
    if !sent_away.is_empty() {
        let mut reasons: BTreeMap<_, usize> = BTreeMap::new();
        sent_away.into_values().for_each(|why| *reasons.entry(why).or_default() += 1);
        tracing::info!(?reasons, "disconnecting clients that cannot be handed over");
    }
    while_it_lives(channel, process.cut_off_who_is_left()).await?;
    send(channel, moving, moved).await
}

/// The other process serves. Sessions that become idle go over too; cancel requests for those that are here come from there.
async fn serve_behind(process: &Rc<Process>, mut channel: Channel, mut moving: Receiver<Moving>) {
    loop {
        tokio::select! {
            one = moving.recv() => {
                let Some(Moving { carried, socket, moved }) = one else { return };
                if channel.send(&Letter::Client(carried), Some(socket.as_fd())).await.is_ok() {
                    let _ = moved.send(());
                }
            }
            said = channel.receive() => match said {
                Ok((Letter::Cancel(pid, secret), _)) => {
                    let door = process.door.clone();
                    let request = wire::CancelRequest { pid, secret };
                    tokio::task::spawn_local(async move { door.registry.cancel(&request).await });
                }
                Ok(_) | Err(_) => {
                    tracing::warn!("lost contact to the successor process");
                    return process.door.registry.goes_on();
                }
            }
        }
    }
}
