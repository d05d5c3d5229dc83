//! Log-in at a server as a role: start-up, the authentication that the server requires, and its greeting
//! (parameter status, cancel key, ready). The greeting is kept byte for byte, for the client of this session.

use crate::peer::{Peer, Rooms};
use crate::random;
use crate::registry::{Leave, Registry};
use crate::secrets::Secret;
use crate::socket::Place;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use std::io;
use std::time::Duration;
use tokio::time::timeout;
use wire::tag::back;
use wire::{
    Answers, Asks, Authentication, CancelRequest, ClientExchange, Frame, Keys, MECHANISM, Problem, Side,
    Status,
};

/// Largest accepted message of a log-in, in bytes.
const MESSAGE_LIMIT: usize = 64 * 1024;
/// Largest server frame, in bytes, that is buffered whole. Larger frames are passed on in parts.
pub const SERVER_HOLD_BYTES: usize = 8 * 1024;

/// Connection parameters: the server, the role, the database and the time limit of one log-in.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The server.
    pub place: Place,
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Further start-up parameters.
    pub parameters: Vec<(String, String)>,
    /// Secret that authenticates as the role.
    pub secret: Option<Secret>,
    /// Time limit of the log-in.
    pub limit: Duration,
    /// OID of the role as which the client logged in, if it is known. Another role may have taken the name
    /// since.
    pub role: Option<u32>,
}

/// A server connection that is authenticated and ready.
pub struct LoggedIn {
    /// The connection.
    pub peer: Peer,
    /// Cancel key of the connection.
    pub key: CancelRequest,
    /// Settings that the server reports (ParameterStatus), by name.
    pub parameters: Vec<(Vec<u8>, Vec<u8>)>,
    /// Server messages from "authenticated" to "ready", without the cancel key.
    pub greeting: Vec<u8>,
}

/// Reason why a log-in failed.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The server does not answer, or does not answer in time.
    Unreachable(String),
    /// The server refused: its ErrorResponse, byte for byte.
    Answered(Vec<u8>),
    /// No connection became available within this time.
    NoServer(Duration),
    /// The server requires an authentication method for which there is no secret.
    NoSecret(&'static str),
    /// Another Consort may hold the leader lease, and two leaders at a time would do harm.
    MayNotLead,
    /// The client is being disconnected.
    SentAway(Leave),
    /// Another role has this name by now.
    OtherRole(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Unreachable(error.to_string())
    }
}

/// Setting that carries the name of a client's application.
pub const NAME_SETTING: &str = "application_name";

/// Logs in at the server.
pub async fn log_in(wish: &Wish, rooms: &Rooms) -> Result<LoggedIn, Refusal> {
    match timeout(wish.limit, attempt(wish, rooms)).await {
        Ok(ended) => ended,
        Err(_) => Err(Refusal::Unreachable(format!("no answer within {} ms", wish.limit.as_millis()))),
    }
}

async fn attempt(wish: &Wish, rooms: &Rooms) -> Result<LoggedIn, Refusal> {
    let socket = wish.place.connect().await?;
    let mut peer = Peer::new(socket, Side::Server, SERVER_HOLD_BYTES, rooms);
    let mut parameters = vec![("user", wish.user.as_str()), ("database", wish.database.as_str())];
    parameters.extend(wish.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    peer.out().startup(&parameters);
    prove(&mut peer, wish).await?;
    greet(peer).await
}

/// Input that the next step of the authentication needs.
enum Proof {
    None,
    Password(Box<ScramSha256>),
    Keys(Box<ClientExchange>),
}

/// Answers the server's authentication requests until the server accepts.
async fn prove(peer: &mut Peer, wish: &Wish) -> Result<(), Refusal> {
    let mut proof = Proof::None;
    loop {
        peer.send().await?;
        let length = peer.whole_frame(MESSAGE_LIMIT).await?;
        let message = peer.unread()[..length].to_vec();
        peer.consume(length);
        let frame = Frame::new(&message).map_err(crate::peer::malformed)?;
        match frame.tag() {
            back::AUTHENTICATION => {
                let demand = wire::authentication(&frame).map_err(crate::peer::malformed)?;
                if demand == Authentication::Ok {
                    return Ok(());
                }
                proof = answer(peer.out(), demand, proof, wish)?;
            }
            back::ERROR => return Err(Refusal::Answered(message)),
            back::NEGOTIATE_PROTOCOL_VERSION | back::NOTICE => {}
            tag => return Err(unexpected(tag)),
        }
    }
}

fn unexpected(tag: u8) -> Refusal {
    Refusal::Unreachable(format!("unexpected message type {tag} during log-in"))
}

/// Writes the answer to one authentication request.
fn answer(
    out: &mut Vec<u8>,
    demand: Authentication<'_>,
    proof: Proof,
    wish: &Wish,
) -> Result<Proof, Refusal> {
    match (demand, proof, &wish.secret) {
        (Authentication::Cleartext, _, Some(Secret::Plain(password))) => {
            out.password(password.as_bytes());
            Ok(Proof::None)
        }
        (Authentication::Md5(salt), _, Some(Secret::Plain(password))) => {
            let secret = wire::md5_secret(&wish.user, password);
            out.password(wire::md5_answer(&secret, salt).expect("just made").as_bytes());
            Ok(Proof::None)
        }
        (Authentication::Md5(salt), _, Some(Secret::Md5(secret))) => {
            out.password(wire::md5_answer(secret, salt).expect("checked when it was read").as_bytes());
            Ok(Proof::None)
        }
        (list @ Authentication::Sasl(_), _, Some(secret)) if list.offers(MECHANISM) => {
            begin_scram(out, secret)
        }
        (Authentication::SaslContinue(challenge), Proof::Password(mut exchange), _) => {
            wire::bearable(challenge).map_err(crate::peer::malformed)?;
            exchange.update(challenge)?;
            out.sasl_next(exchange.message());
            Ok(Proof::Password(exchange))
        }
        (Authentication::SaslFinal(last), Proof::Password(mut exchange), _) => {
            exchange.finish(last)?;
            Ok(Proof::None)
        }
        (Authentication::SaslContinue(challenge), Proof::Keys(mut exchange), _) => {
            let message = exchange.answer(challenge).map_err(crate::peer::malformed)?;
            out.sasl_next(message.as_bytes());
            Ok(Proof::Keys(exchange))
        }
        (Authentication::SaslFinal(last), Proof::Keys(exchange), _) => match exchange.finish(last) {
            Ok(()) => Ok(Proof::None),
            Err(_) => Err(Refusal::Unreachable(
                "the server does not know the SCRAM verifier of the role".to_owned(),
            )),
        },
        (demand, _, _) => Err(Refusal::NoSecret(demanded(demand))),
    }
}

fn begin_scram(out: &mut Vec<u8>, secret: &Secret) -> Result<Proof, Refusal> {
    match secret {
        Secret::Plain(password) => {
            let exchange = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
            out.sasl_first(MECHANISM, exchange.message());
            Ok(Proof::Password(Box::new(exchange)))
        }
        Secret::Keys(keys) => {
            let exchange = ClientExchange::begin(Keys::clone(keys), &random::nonce());
            out.sasl_first(MECHANISM, exchange.first().as_bytes());
            Ok(Proof::Keys(Box::new(exchange)))
        }
        Secret::Md5(_) | Secret::Verifier(_) => Err(Refusal::NoSecret(MECHANISM)),
    }
}

fn demanded(demand: Authentication<'_>) -> &'static str {
    match demand {
        Authentication::Cleartext => "password",
        Authentication::Md5(_) => "md5",
        Authentication::Sasl(_) | Authentication::SaslContinue(_) | Authentication::SaslFinal(_) => MECHANISM,
        Authentication::Ok | Authentication::Other(_) => "an unsupported method",
    }
}

/// Reads the server's greeting up to its first ReadyForQuery.
async fn greet(mut peer: Peer) -> Result<LoggedIn, Refusal> {
    let mut key = CancelRequest { pid: 0, secret: Vec::new() };
    let (mut parameters, mut greeting) = (Vec::new(), Vec::new());
    loop {
        let length = peer.whole_frame(MESSAGE_LIMIT).await?;
        let message = peer.unread()[..length].to_vec();
        peer.consume(length);
        let frame = Frame::new(&message).map_err(crate::peer::malformed)?;
        match frame.tag() {
            back::BACKEND_KEY_DATA => {
                let (pid, secret) = wire::key_data(&frame).map_err(crate::peer::malformed)?;
                key = CancelRequest { pid, secret: secret.to_vec() };
            }
            back::PARAMETER_STATUS => {
                let (name, value) = wire::parameter_status(&frame).map_err(crate::peer::malformed)?;
                parameters.push((name.to_vec(), value.to_vec()));
                greeting.extend_from_slice(&message);
            }
            back::NOTICE => greeting.extend_from_slice(&message),
            back::ERROR => return Err(Refusal::Answered(message)),
            back::READY_FOR_QUERY if wire::status(&frame) == Ok(Status::Idle) => {
                peer.rest();
                return Ok(LoggedIn { peer, key, parameters, greeting });
            }
            tag => return Err(unexpected(tag)),
        }
    }
}

/// Describes a refusal for logs and messages.
pub fn said(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unreachable(why) => why.clone(),
        Refusal::NoServer(wait) => format!("no connection became available within {} ms", wait.as_millis()),
        Refusal::NoSecret(method) => format!("the server requires authentication by {method}"),
        Refusal::SentAway(_) => "its client is being disconnected".to_owned(),
        Refusal::MayNotLead => "another Consort may hold the leader lease".to_owned(),
        Refusal::OtherRole(user) => format!("role {user} was replaced since the log-in"),
        Refusal::Answered(error) => match wire::Frame::new(error) {
            Ok(frame) => String::from_utf8_lossy(wire::Complaint::read(&frame).message()).into_owned(),
            Err(why) => why.to_string(),
        },
    }
}

/// Error for a client of a Consort that is not the leader, where two leaders at a time would do harm. Drivers
/// then try the next host of their list.
pub fn not_leading() -> Problem {
    Problem::fatal("57P03", "this Consort is not the leader")
        .hint("Name all Consorts as hosts of the connection; the leader accepts it.")
}

/// Reports to a client why the primary refused the log-in: in the primary's own words, if it gave any.
pub fn refuse(registry: &Registry, out: &mut Vec<u8>, refusal: Refusal) {
    match refusal {
        Refusal::Answered(error) => out.extend_from_slice(&error),
        Refusal::Unreachable(why) => {
            registry.note_unheard(&format!("cannot connect to the primary: {why}"));
            out.problem(&Problem::fatal("57P03", format!("cannot connect to the primary: {why}")));
        }
        Refusal::NoServer(wait) => {
            let why = format!(
                "no connection to the primary became available within {} ms (query_wait_timeout)",
                wait.as_millis()
            );
            out.problem(&Problem::fatal("53300", why).hint(
                "Increase default_pool_size or the limit in effect (SHOW DATABASES, SHOW USERS). \
                 SHOW CLIENTS shows which sessions pin a connection, and why.",
            ));
        }
        Refusal::SentAway(why) => out.problem(&why.word()),
        Refusal::OtherRole(user) => {
            let why = format!("role \"{user}\" is not the role that the client logged in as");
            out.problem(
                &Problem::fatal("28000", why).hint("The role was renamed or dropped since; log in again."),
            );
        }
        Refusal::MayNotLead => out.problem(&not_leading()),
        Refusal::NoSecret(method) => {
            let problem = Problem::fatal(
                "28000",
                format!("the primary requires authentication by {method} for this role"),
            )
            .hint("Set the role's password, or a secret for this method, in Consort's auth_file.");
            out.problem(&problem);
        }
    }
}
