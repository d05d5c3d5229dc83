//! Handover of a session to a successor process: the state that it takes along, if all of it can go
//! (`node::takeover`).
//!
//! Only a pooled session that is detached can go, outside a transaction, with all answers sent to its client.
//! Input of its client after that goes along, however much there is. Each struct on the way is destructured
//! field by field, so that the compiler asks for a decision about every new field.

use super::Session;
use super::relay::Line;
use super::session_parts::{First, Reads, Who};
use super::txn::Txn;
use backend::prepared_statements::CarriedStatements;
use backend::request::REQUEST_HELD_BYTES;
use backend::service::Service;
use conn::log_in::Wish;
use conn::peer::Peer;
use conn::registry::{CarriedSeat, Moved, Registry, Seat};
use conn::secrets::Secret;
use conn::socket::{Place, Socket};
use serde::{Deserialize, Serialize};
use session_state::{BlockStatus, CarriedState, Pairs, SessionState, SessionStay, Startup};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;
use wire::{Keys, Side, Verifier};

/// Time after which a session for which there was no descriptor is asked again.
const DESCRIPTOR_AGAIN: Duration = Duration::from_millis(10);

/// Version of the handover messages. Raised with every change of a message, or of the state that a session
/// takes along (`the_version_says_what_is_carried`).
pub const CARRIED_VERSION: u32 = 6;

/// State of a session in its handover message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    seat: CarriedSeat,
    /// Start-up parameters for servers.
    parameters: Pairs,
    secret: Option<CarriedSecret>,
    /// OID of the session's role.
    role: Option<u32>,
    /// Settings that the server reported.
    reported: Vec<(Vec<u8>, Vec<u8>)>,
    state: CarriedState,
    statements: CarriedStatements,
    probe_first: bool,
    /// Input of the client that is not processed yet.
    unread: Vec<u8>,
}

/// Secret that authenticates at the servers as the session's role.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CarriedSecret {
    kind: u8,
    secret: Vec<u8>,
}

impl std::fmt::Debug for CarriedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CarriedSecret")
    }
}

impl Carried {
    /// The message in bytes, for the other process.
    fn written(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain data can be encoded")
    }

    /// Parses a message of another process. `None`: the bytes are no such message.
    pub fn read(bytes: &[u8]) -> Option<Carried> {
        let (carried, rest) = postcard::take_from_bytes(bytes).ok()?;
        rest.is_empty().then_some(carried)
    }
}

impl CarriedSecret {
    fn of(secret: &Secret) -> CarriedSecret {
        let (kind, secret) = match secret {
            Secret::Plain(password) => (0, password.as_bytes().to_vec()),
            Secret::Md5(hash) => (1, hash.as_bytes().to_vec()),
            Secret::Verifier(verifier) => (2, verifier.text().into_bytes()),
            Secret::Keys(keys) => (3, keys.bytes().to_vec()),
        };
        CarriedSecret { kind, secret }
    }

    fn secret(self) -> Option<Secret> {
        let text = |bytes| String::from_utf8(bytes).ok();
        Some(match self.kind {
            0 => Secret::Plain(text(self.secret)?),
            1 => Secret::Md5(text(self.secret)?),
            2 => Secret::Verifier(Box::new(Verifier::parse(&text(self.secret)?)?)),
            3 => Secret::Keys(Box::new(Keys::of_bytes(&self.secret)?)),
            _ => return None,
        })
    }
}

impl Line {
    /// The reason why the session cannot be handed over, if it cannot.
    fn stays(&self) -> Option<&'static str> {
        // Every new field decides here if it goes along.
        let Line {
            registry: _,
            seat,
            client,
            primary: _,
            statements: _,
            reported: _,
            lookout: _,
            outlives_primary: _,
            primary_gone: _,
            elsewhere,
            is_begun: _,
            lent,
            away,
            own,
            ear,
            has_heard: _,
        } = self;
        let busy = elsewhere.is_some() || client.splitter.is_inside() || client.unsent() > 0;
        let stays = [
            (seat.tls, "tls"),
            (own.is_some(), "pool_mode_session"),
            (seat.tie.borrow().is_some(), seat.tie.borrow().unwrap_or_default()),
            (lent.is_some() || !away, "keeps_server"),
            (ear.is_some(), "session_listens"),
            (busy, "busy"),
        ];
        stays.into_iter().find(|(stays, _)| *stays).map(|(_, why)| why)
    }
}

impl Session {
    /// Hands the session over if it can go, after the registry has asked.
    pub(super) async fn moves(&self) -> Moved {
        let Line { registry, seat, client, .. } = &self.line;
        let Some(way) = registry.may_go(seat).await else { return Moved::Back };
        let (carried, socket) = match (self.carried(), client.descriptor()) {
            (Ok(carried), Some(socket)) => (carried.written(), socket),
            (Ok(_), None) => return stays(seat, "tls"),
            (Err(why), _) => return stays(seat, why),
        };
        match socket.try_clone_to_owned() {
            Ok(socket) => registry.hands_over(seat, way, carried, socket).await,
            Err(_) => {
                seat.lacks_descriptor();
                // Descriptors become available again soon.
                sleep(DESCRIPTOR_AGAIN).await;
                Moved::Back
            }
        }
    }

    /// Writes the session's state down.
    ///
    /// # Errors
    /// The reason why it stays.
    fn carried(&self) -> Result<Carried, &'static str> {
        // Every new field decides here if it goes along.
        let Session {
            line,
            service: _,
            database: _,
            who,
            state,
            txn,
            current: _,
            mode: _,
            // A snapshot probe after the handover is not older than the reads before.
            reads: Reads { marks: _, behind: _, awaited: _, home: _, shelves: _ },
            first: First { probe, names: _, reload: _ },
            unjudged: _,
            shares: _,
            times: _,
            skipping,
            words: _,
            ended,
        } = self;
        if let Some(why) = line.stays() {
            return Err(why);
        }
        let Who { wish, backend: _, pool: _, named: _ } = who;
        let Wish { place: _, user: _, database: _, parameters, secret, limit: _, role } = wish;
        let in_transaction = !matches!(txn, Txn::Idle) || state.block() != BlockStatus::Idle;
        if in_transaction || *skipping || ended.is_some() {
            return Err("in_transaction");
        }
        state.may_move().map_err(SessionStay::name)?;
        Ok(Carried {
            seat: CarriedSeat::of(&line.seat).ok_or("no_cancel_key")?,
            parameters: parameters.clone(),
            secret: secret.as_ref().map(CarriedSecret::of),
            role: *role,
            reported: (*line.reported().0).clone(),
            state: state.carried().ok_or("session_state")?,
            statements: line.statements.carried(state.settings()).ok_or("session_prepared_statement")?,
            probe_first: *probe,
            unread: line.client.unread().to_vec(),
        })
    }

    /// Continues a session that was handed over, at this socket of its client. `None`: the state is not
    /// understood here.
    pub fn of_carried(
        registry: &Rc<Registry>,
        service: &Rc<Service>,
        carried: Carried,
        socket: OwnedFd,
    ) -> Option<Box<Session>> {
        let Carried { seat, parameters, secret, role, reported, state, statements, probe_first, unread } =
            carried;
        let primary: Place = registry.primary()?;
        let settings = Startup::of([], service.defaults(seat.database(), seat.user())).ok()?;
        let seat = registry.takes_in(seat)?;
        let begun = (|| {
            let begins = service.defaults(&seat.database, &seat.user);
            let mut interner = service.interner.borrow_mut();
            let state = SessionState::of_carried(&state, &begins, &mut interner)?;
            let statements = backend::prepared_statements::Statements::of_carried(
                statements,
                state.settings(),
                &mut interner,
            );
            Some((state, statements, Socket::of_descriptor(socket, seat.origin).ok()?, secret_of(secret)?))
        })();
        let Some((state, statements, socket, secret)) = begun else {
            registry.leave(&seat);
            return None;
        };
        let mut client = Peer::new(socket, Side::Client, REQUEST_HELD_BYTES, &registry.rooms);
        client.notes_stalls(seat.stall.clone());
        client.has_come(&unread);
        let limit = service.servers.pool(&seat.database, &seat.user).pooling().connect;
        let (user, database) = (seat.user.clone(), seat.database.clone());
        let wish = Wish { place: primary, user, database, parameters, secret, limit, role };
        let mut line = Line::shared(registry.clone(), seat, client, Rc::new(reported));
        line.statements = statements;
        let session = Session::new(line, service.clone(), &settings, wish);
        let reads = Reads { behind: true, ..Reads::default() };
        let first = First { probe: probe_first, ..First::default() };
        Some(Box::new(Session { state, reads, first, ..session }))
    }

    /// Ends the session here without a message to its client: it goes on in another process.
    pub(super) fn has_moved(self: Box<Self>) {
        let (line, _counted) = self.leave();
        line.registry.leave(&line.seat);
    }
}

fn stays(seat: &Seat, why: &'static str) -> Moved {
    seat.stays(why);
    Moved::Back
}

/// The secret, if there is one. `None`: it is not understood here.
fn secret_of(carried: Option<CarriedSecret>) -> Option<Option<Secret>> {
    carried.map(CarriedSecret::secret).map_or(Some(None), |secret| secret.map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_reflection::{Tracer, TracerConfig};
    use std::fmt::Write;

    #[test]
    fn secrets_go_along_and_are_not_shown() {
        let verifier = postgres_protocol::password::scram_sha_256(b"x");
        let keys = Keys::of_bytes(&[7; 64]).unwrap();
        for secret in [
            Secret::Plain("x".to_owned()),
            Secret::Md5(format!("md5{}", "0".repeat(32))),
            Secret::parse(&verifier),
            Secret::Keys(Box::new(keys)),
        ] {
            let carried = CarriedSecret::of(&secret);
            assert_eq!(format!("{carried:?}"), "CarriedSecret");
            let bytes = postcard::to_stdvec(&carried).unwrap();
            let arrived = postcard::from_bytes::<CarriedSecret>(&bytes).unwrap().secret().unwrap();
            assert_eq!(CarriedSecret::of(&arrived), carried);
            assert_eq!(format!("{arrived:?}"), format!("{secret:?}"));
        }
        assert!(CarriedSecret { kind: 9, secret: Vec::new() }.secret().is_none());
        assert!(Keys::of_bytes(&[7; 63]).is_none());
    }

    /// Shape of version 6. A new program must never misread an old one's message: every change of the shape
    /// raises the version.
    const CARRIED: &str = include_str!("carried_shape.txt");

    #[test]
    fn the_version_says_what_is_carried() {
        let mut tracer = Tracer::new(TracerConfig::default());
        tracer.trace_simple_type::<Carried>().unwrap();
        let mut carried = String::new();
        for (name, format) in tracer.registry().unwrap() {
            writeln!(carried, "{name} {}", serde_json::to_string(&format).unwrap()).unwrap();
        }
        assert_eq!((CARRIED_VERSION, carried.as_str()), (6, CARRIED));
    }
}
