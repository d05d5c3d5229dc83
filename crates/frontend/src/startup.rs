//! Start-up of a client, from its first packet to its session: encryption or not, the limit of clients, its
//! proof, and its own connection at the primary, logged in as its role.

use super::authentication::{Turned, admit};
use super::first_packet::first;
use super::replication_connection::replicate;
use super::{Arrived, Console, Door, Keeps, application_name, client_limits};
use backend::request::REQUEST_HELD_BYTES;
use backend::servers::{Greeted, Open, Opening, Server};
use backend::service::Service;
use config::hba::Caller;
use config::origin::Origin;
use conn::log_in::{LoggedIn, Refusal, Wish};
use conn::peer::{Peer, malformation};
use conn::random;
use conn::registry::Seat;
use conn::secrets::Secret;
use conn::socket::Socket;
use session::{Line, Session};
use session_state::Startup as Settings;
use std::borrow::Cow;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use wire::tag::front;
use wire::{Answers, CancelRequest, Complaint, Frame, Problem, Replication, Startup, Status};

/// The SQLSTATE of a client that does not follow the protocol.
pub(super) const BROKEN: &str = "08P01";

/// Admits a client. Returns its session, or `None` when it has left again: refused, or done in the console or
/// with replication.
pub(super) async fn arrive(
    door: &Rc<Door>,
    socket: Socket,
    origin: Origin,
    port: u16,
) -> Option<Box<Session>> {
    let limit = door.log_in_limit.get();
    let first = timeout(limit, first(door, socket, origin, port)).await;
    let (mut client, startup, way) = first.ok()??;
    let origin = way.origin;
    if let Err(problem) = acceptable(door, &startup, way.tls || origin == Origin::Local) {
        door.count(|metrics| metrics.clients_refused.one(problem.sqlstate));
        client.out().problem(&problem);
        door.registry.farewell(client).await;
        return None;
    }
    let Some(seat) = door.take_seat(origin, way.port, way.tls, &startup) else {
        let problem = client_limits::too_many(door);
        door.count(|metrics| metrics.clients_refused.one(problem.sqlstate));
        client.out().problem(&problem);
        door.registry.farewell(client).await;
        return None;
    };
    client.notes_stalls(seat.stall.clone());
    if startup.needs_negotiation() {
        client.out().negotiate(startup.spoken(), &startup.unknown);
    }
    let caller = Caller {
        origin,
        encrypted: way.tls,
        database: &startup.database,
        replicates: startup.replication() == Ok(Some(Replication::Physical)),
        user: &startup.user,
        roles: None,
    };
    let entered = match timeout(limit, admit(door, &mut client, &caller, &way)).await {
        Ok(entered) => entered,
        Err(_) => Err(Turned::Away(Problem::fatal("57014", "canceling authentication due to timeout"))),
    };
    // The client is admitted, or leaves.
    drop(way);
    match entered {
        Err(turned) => {
            let problem = match turned {
                Turned::Gone => None,
                Turned::Away(problem) => Some(problem),
                Turned::Unproven { why, told } => {
                    note_unproven(door, &seat, &why);
                    Some(told)
                }
            };
            if let Some(problem) = problem {
                if problem.sqlstate == BROKEN {
                    door.registry.note_unruly(&seat, &problem.message);
                }
                door.count(|metrics| metrics.clients_refused.one(problem.sqlstate));
                client.out().problem(&problem);
            }
            door.registry.leave(&seat);
            door.registry.farewell(client).await;
        }
        Ok(_) if startup.database == door.options.console_database => {
            let console = door.console.borrow().clone();
            serve_console(door, client, &seat, console).await;
            door.registry.leave(&seat);
        }
        Ok(secret) => {
            let registry = door.registry.clone();
            return enter(door, Arrived { client, seat, startup, secret, registry }).await;
        }
    }
    None
}

/// Begins the session of an authenticated client, unless another session loop serves it to its end.
async fn enter(door: &Rc<Door>, arrived: Arrived) -> Option<Box<Session>> {
    if let Some(sessions) = door.options.sessions.clone() {
        match client_limits::enter(door, (0, 0), &arrived.seat) {
            Ok(()) => sessions.serve(arrived).await,
            Err(refusal) => {
                let Arrived { mut client, seat, .. } = arrived;
                door.refuse(client.out(), refusal);
                door.registry.leave(&seat);
                door.registry.farewell(client).await;
            }
        }
        return None;
    }
    let Arrived { client, seat, startup, secret, .. } = arrived;
    match startup.replication().ok().flatten() {
        Some(kind) => {
            replicate(door, client, seat, (startup, kind), secret).await;
            None
        }
        None => begin(door, client, seat, startup, secret).await,
    }
}

/// Logs a failed log-in, within the rate limit.
fn note_unproven(door: &Door, seat: &Seat, why: &str) {
    let Some(unsaid) = door.unproven.borrow_mut().may(Instant::now()) else { return };
    let Seat { user, database, .. } = seat;
    tracing::info!(user, database, from = %seat.origin, unsaid, "log-in failed: {why}");
}

/// Logs a refused log-in. As a rule the primary refused it, and its log need not be at hand.
pub(super) fn note_refused(door: &Door, seat: &Seat, refusal: &Refusal) {
    let Refusal::Answered(error) = refusal else { return };
    let Ok(frame) = Frame::new(error) else { return };
    let said = String::from_utf8_lossy(Complaint::read(&frame).message()).into_owned();
    note_unproven(door, seat, &said);
}

fn acceptable(door: &Door, startup: &Startup, private: bool) -> Result<(), Problem> {
    if door.options.tls_required && !private {
        return Err(Problem::fatal("28000", "connection is not encrypted (tls_required)")
            .hint("Connect with sslmode=require."));
    }
    if startup.user.is_empty() {
        return Err(Problem::fatal("28000", "no PostgreSQL user name specified in startup packet"));
    }
    match startup.replication() {
        // Rules for replication grant no right to run commands.
        Ok(Some(_)) if startup.database == door.options.console_database => {
            return Err(Problem::fatal("0A000", "the console does not support replication"));
        }
        Ok(_) => {}
        Err(value) => {
            let why = format!("invalid value for parameter \"replication\": \"{value}\"");
            return Err(Problem::fatal("22023", why)
                .hint("Valid values are: \"false\", 0, \"true\", 1, \"database\"."));
        }
    }
    if door.closing.get() && startup.database != door.options.console_database {
        return Err(Problem::fatal("57P03", "Consort is shutting down"));
    }
    if door.is_disabled(&startup.database) {
        let why = format!("database \"{}\" is disabled", startup.database);
        return Err(
            Problem::fatal("55000", why).hint("Use ENABLE in Consort's console to accept clients again.")
        );
    }
    Ok(())
}

/// Begins the session of an admitted client: with a connection of its own at the primary, which its role logs
/// in to now, or with a shared one.
async fn begin(
    door: &Rc<Door>,
    mut client: Peer,
    seat: Rc<Seat>,
    startup: Startup,
    secret: Option<Secret>,
) -> Option<Box<Session>> {
    let Some(service) = door.service.borrow().clone() else {
        client.out().problem(&Problem::fatal("57P03", "Consort is starting up"));
        door.registry.leave(&seat);
        door.registry.farewell(client).await;
        return None;
    };
    let begun = match own_settings(&service, &startup) {
        _ if service.cluster.serves_nobody() => Err(Refusal::MayNotLead),
        Ok(own) => {
            let begun = begun(door, &service, &seat, startup, own, secret);
            tokio::select! {
                begun = begun => begun,
                // Its entry, here and in the queue, is free for another client.
                () = poll_fn(|cx| client.poll_closed(cx)) => {
                    door.registry.leave(&seat);
                    return None;
                }
            }
        }
        Err(problem) => Err(problem),
    };
    let (own, wish, begun) = match begun {
        Ok(begun) => begun,
        Err(refusal) => {
            note_refused(door, &seat, &refusal);
            door.refuse(client.out(), refusal);
            door.registry.leave(&seat);
            door.registry.farewell(client).await;
            return None;
        }
    };
    // A shared connection belongs to no client, so the client's number is that of no process.
    let pid = match &begun {
        Begun::Own(own) => own.0.key.pid,
        Begun::Shares(..) | Begun::Greeted(..) => {
            door.process_numbers.draw(|number| door.registry.cancels.has_process(number))
        }
    };
    let key = CancelRequest { pid, secret: random::cancel_secret(seat.minor) };
    let out = client.out();
    out.authentication_ok();
    out.extend_from_slice(&begun.greeting());
    out.key_data(key.pid, &key.secret);
    out.ready(Status::Idle);
    door.count(|metrics| metrics.clients_accepted.one());
    *seat.key.borrow_mut() = Some(key.clone());
    door.registry.cancels.enter(key, seat.running.clone());
    let (registry, place) = (door.registry.clone(), wish.place.clone());
    let session = match begun {
        Begun::Own(connection) => {
            seat.pid.set(connection.0.key.pid);
            seat.opened.set(Some(connection.1.since()));
            service.cluster.database(&wish.database).traffic().count(|counts| counts.assignments += 1);
            seat.running.settled(&place, &connection.0.key);
            Session::new(Line::new(registry, seat, client, place, *connection), service, &own, wish)
        }
        Begun::Shares(server, name) => {
            let reported = server.lent.greeting.reported.clone();
            let mut line = Line::shared(registry, seat, client, reported);
            line.attach(*server);
            Session::new(line, service, &own, wish).called(name)
        }
        Begun::Greeted(greeted, name) => {
            let line = Line::shared(registry, seat, client, greeted.reported.clone());
            Session::greeted(line, service, &own, wish, &greeted.state).called(name)
        }
    };
    Some(Box::new(session))
}

/// Start of a session. The name of a client with transaction or statement pooling is reported separately,
/// unless its connection has it.
enum Begun {
    /// With its own connection.
    Own(Box<(LoggedIn, Open)>),
    /// With a shared one, as the first session of its kind.
    Shares(Box<Server>, Option<String>),
    /// Without any connection.
    Greeted(Rc<Greeted>, Option<String>),
}

impl Begun {
    /// Greeting for the client.
    fn greeting(&self) -> Cow<'_, [u8]> {
        let (messages, name) = match self {
            Begun::Own(own) => (&own.0.greeting, None),
            Begun::Shares(server, name) => (&server.lent.greeting.messages, name.as_deref()),
            Begun::Greeted(greeted, name) => (&greeted.messages, name.as_deref()),
        };
        match name {
            Some(name) => application_name::greeting(messages, name).into(),
            None => messages.into(),
        }
    }
}

/// Parts a client's settings: those for the primary, and Consort's own.
pub(super) fn own_settings(service: &Service, startup: &Startup) -> Result<Settings, Refusal> {
    let defaults = service.defaults(&startup.database, &startup.user);
    let pairs = startup.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Settings::of(pairs, defaults).map_err(|error| {
        let mut out = Vec::new();
        out.problem(&Problem { hint: error.hint, ..Problem::fatal(error.sqlstate, error.message) });
        Refusal::Answered(out)
    })
}

async fn begun(
    door: &Door,
    service: &Service,
    seat: &Seat,
    startup: Startup,
    own_settings: Settings,
    secret: Option<Secret>,
) -> Result<(Settings, Wish, Begun), Refusal> {
    let place =
        door.registry.primary().ok_or_else(|| Refusal::Unreachable("its address is unknown".to_owned()))?;
    let wish = Wish {
        place,
        user: startup.user,
        database: startup.database,
        parameters: own_settings.forward.clone(),
        secret,
        limit: Duration::ZERO,
        role: None,
    };
    let servers = &service.servers;
    let pool = servers.pool(&wish.database, &wish.user);
    let pooling = pool.pooling();
    let mut wish = Wish { limit: pooling.connect, ..wish };
    client_limits::enter(door, (pooling.database_clients, pooling.user_clients), seat)?;
    let name = if pooling.mode.shares() { application_name::taken(&mut wish.parameters) } else { None };
    let opening = Opening::of(&service.cluster, &wish, &door.registry.rooms);
    if !pooling.mode.shares() {
        let own = servers.take_own(opening, seat).await?;
        return Ok((own_settings, wish, Begun::Own(Box::new(own))));
    }
    if let Some(greeted) = servers.greeted(&service.cluster, &wish) {
        pool.is_opened_by(&opening);
        let wish = Wish { role: Some(greeted.role), ..wish };
        let name = name.and_then(|name| application_name::as_had(&name, &greeted.reported));
        return Ok((own_settings, wish, Begun::Greeted(greeted, name)));
    }
    // A used connection does not show how a session begins.
    let server = servers.take_new(opening, seat).await?;
    let wish = Wish { role: Some(server.lent.role), ..wish };
    let name = name.and_then(|name| application_name::as_had(&name, &server.lent.greeting.reported));
    Ok((own_settings, wish, Begun::Shares(Box::new(server), name)))
}

/// Parameters that drivers query at the start of a connection, unless they are reported.
const CONSOLE_REPORTS: [(&str, &str); 6] = [
    ("server_version", "15.0"),
    ("client_encoding", "UTF8"),
    ("server_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("standard_conforming_strings", "on"),
    ("integer_datetimes", "on"),
];

/// Serves the console: statements of the simple protocol, answered here.
async fn serve_console(door: &Door, mut client: Peer, seat: &Seat, console: Option<Rc<dyn Console>>) {
    let Some(console) = console.filter(|console| console.admits(&seat.user)) else {
        client
            .out()
            .problem(&Problem::fatal("28000", "this role is not permitted to use the console (admin_users)"));
        return door.registry.farewell(client).await;
    };
    let out = client.out();
    out.authentication_ok();
    for (name, value) in CONSOLE_REPORTS {
        out.parameter_status(name.as_bytes(), value.as_bytes());
    }
    out.key_data(0, &random::cancel_secret(seat.minor));
    out.ready(Status::Idle);
    let mut keeps = Keeps::new();
    loop {
        seat.idle(Status::Idle);
        if client.send().await.is_err() {
            return;
        }
        client.rest();
        let frame = tokio::select! {
            frame = client.whole_frame(REQUEST_HELD_BYTES) => frame,
            why = seat.sent_away() => {
                client.out().problem(&why.word());
                return door.registry.farewell(client).await;
            }
        };
        let length = match frame {
            Ok(length) => length,
            Err(error) => {
                if let Some(why) = malformation(&error) {
                    door.registry.note_unruly(seat, &why.to_string());
                    client.out().problem(&Problem::fatal(BROKEN, why.to_string()));
                    door.registry.farewell(client).await;
                }
                return;
            }
        };
        seat.active();
        let message = client.unread()[..length].to_vec();
        client.consume(length);
        if !console_message(door, &mut client, seat, (&*console, &mut keeps), &message).await {
            return door.registry.farewell(client).await;
        }
    }
}

/// Answers one message to the console. `false`: the client leaves.
async fn console_message(
    door: &Door,
    client: &mut Peer,
    seat: &Seat,
    (console, keeps): (&dyn Console, &mut Keeps),
    message: &[u8],
) -> bool {
    let Ok(frame) = Frame::new(message) else { return false };
    match frame.tag() {
        front::QUERY => {
            match wire::query_text(&frame).map(String::from_utf8_lossy) {
                Ok(text) => console.answer(&seat.user, &text, client.out(), keeps).await,
                Err(why) => {
                    door.registry.note_unruly(seat, &why.to_string());
                    client.out().problem(&Problem::fatal(BROKEN, why.to_string()));
                    return false;
                }
            }
            client.out().ready(Status::Idle);
        }
        front::TERMINATE => return false,
        front::SYNC => client.out().ready(Status::Idle),
        front::PARSE => {
            let why = "the console supports only the simple query protocol";
            client.out().problem(&Problem::error("0A000", why));
        }
        _ => {}
    }
    true
}
