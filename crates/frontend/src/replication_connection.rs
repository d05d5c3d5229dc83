//! Replication connections: bytes pass unread between the client and a walsender of the primary.

use super::startup::{note_refused, own_settings};
use super::{Door, client_limits};
use backend::servers::Counted;
use backend::service::Service;
use conn::log_in::{LoggedIn, Refusal, Wish, log_in};
use conn::peer::Peer;
use conn::random;
use conn::registry::Seat;
use conn::secrets::Secret;
use conn::socket::Socket;
use scheduler::Writers;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use tokio::io::{AsyncWriteExt, copy, split};
use wire::{Answers, CancelRequest, Problem, Replication, Startup, Status};

/// Pin reason of a replication connection.
const TIE: &str = "replication";

/// Runs a replication connection after its client was admitted.
pub(super) async fn replicate(
    door: &Rc<Door>,
    mut client: Peer,
    seat: Rc<Seat>,
    (startup, kind): (Startup, Replication),
    secret: Option<Secret>,
) {
    let service = door.service.borrow().clone();
    let logged_in = match service {
        Some(service) => tokio::select! {
            entered = enter(door, &service, &seat, (startup, kind), secret) => entered,
            () = poll_fn(|cx| client.poll_closed(cx)) => return door.registry.leave(&seat),
        },
        None => Err(answered(Problem::fatal("57P03", "Consort is starting up"))),
    };
    let (log_in, counted) = match logged_in {
        Ok(entered) => entered,
        Err(refusal) => {
            note_refused(door, &seat, &refusal);
            door.refuse(client.out(), refusal);
            door.registry.leave(&seat);
            return door.registry.farewell(client).await;
        }
    };
    let LoggedIn { peer: server, key: there, greeting, .. } = log_in;
    let key = CancelRequest { pid: there.pid, secret: random::cancel_secret(seat.minor) };
    let out = client.out();
    out.authentication_ok();
    out.extend_from_slice(&greeting);
    out.key_data(key.pid, &key.secret);
    out.ready(Status::Idle);
    door.count(|metrics| metrics.clients_accepted.one());
    *seat.key.borrow_mut() = Some(key.clone());
    *seat.tie.borrow_mut() = Some(TIE);
    seat.pid.set(key.pid);
    if let Some(place) = door.registry.primary() {
        seat.running.settled(&place, &there);
    }
    door.registry.cancels.enter(key, seat.running.clone());
    seat.opened.set(Some(counted.since()));
    seat.replicates();
    if client.send().await.is_ok()
        && let (Some(mut client), Some(mut server)) = (bare(client), bare(server))
    {
        // A client that is disconnected comes back on its own and goes on where it was: it is not waited for.
        tokio::select! {
            _ = pass(&mut client, &mut server) => {}
            _ = poll_fn(|cx| seat.must_leave(true, cx).map_or(Poll::Pending, Poll::Ready)) => {}
        }
    }
    door.registry.leave(&seat);
}

/// Logs in at the primary, as long as the connection does nothing that Consort must know of.
async fn enter(
    door: &Door,
    service: &Service,
    seat: &Seat,
    (startup, kind): (Startup, Replication),
    secret: Option<Secret>,
) -> Result<(LoggedIn, Counted), Refusal> {
    if service.cluster.serves_nobody() {
        return Err(Refusal::MayNotLead);
    }
    if kind == Replication::Logical && service.cluster.scheduler().writers() == Writers::ThroughConsort {
        let why =
            "replication connections to a database are not allowed: they can write past Consort (writers)";
        return Err(answered(Problem::fatal("0A000", why).hint(
            "Connect to the primary itself, or set writers = \"anywhere\" where the design allows it.",
        )));
    }
    let own = own_settings(service, &startup)?;
    let place =
        door.registry.primary().ok_or_else(|| Refusal::Unreachable("its address is unknown".to_owned()))?;
    let pooling = service.servers.pool(&startup.database, &startup.user).pooling();
    let wish = Wish {
        place,
        user: startup.user,
        database: startup.database,
        parameters: own.forward,
        secret,
        limit: pooling.connect,
        role: None,
    };
    client_limits::enter(door, (pooling.database_clients, pooling.user_clients), seat)?;
    let counted = service.servers.own(&wish, seat).await?;
    // A refusal does not concern ordinary sessions of this role.
    Ok((log_in(&wish, &door.registry.rooms).await?, counted))
}

fn answered(problem: Problem) -> Refusal {
    let mut out = Vec::new();
    out.problem(&problem);
    Refusal::Answered(out)
}

/// One end of the connection, with the bytes that have already arrived from it.
struct End {
    socket: Socket,
    come: Vec<u8>,
}

fn bare(mut peer: Peer) -> Option<End> {
    let come = peer.unread().to_vec();
    peer.consume(come.len());
    Some(End { socket: peer.into_socket()?, come })
}

/// Passes all bytes between both ends, until one of them ends.
async fn pass(client: &mut End, server: &mut End) -> io::Result<()> {
    server.socket.write_all(&std::mem::take(&mut client.come)).await?;
    client.socket.write_all(&std::mem::take(&mut server.come)).await?;
    let (mut from_client, mut to_client) = split(&mut client.socket);
    let (mut from_server, mut to_server) = split(&mut server.socket);
    tokio::select! {
        ended = copy(&mut from_client, &mut to_server) => ended,
        ended = copy(&mut from_server, &mut to_client) => ended,
    }
    .map(drop)
}
