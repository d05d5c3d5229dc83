//! Logging in at a server as a role: start-up, whatever proof the server demands, and its greeting (parameter status,
//! key for cancelling, ready). The greeting is kept as it came, for the client whose session this is.

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

/// No message of a log-in is longer.
const MESSAGE_LIMIT: usize = 64 * 1024;
/// Frames of a server up to this size are waited for; larger ones are handed on in parts.
pub const SERVER_HOLD_BYTES: usize = 8 * 1024;

/// Who wants in, where.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The server.
    pub place: Place,
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Other start-up parameters.
    pub parameters: Vec<(String, String)>,
    /// What proves that the role is meant.
    pub secret: Option<Secret>,
    /// It takes no longer than this.
    pub limit: Duration,
    /// The number of the role as which the client has come in, if that is known: another one may have got its name since.
    pub role: Option<u32>,
}

/// A connection that is logged in and ready.
pub struct LoggedIn {
    /// The connection.
    pub peer: Peer,
    /// Cancels what it runs.
    pub key: CancelRequest,
    /// What the server reports of its settings, by name.
    pub parameters: Vec<(Vec<u8>, Vec<u8>)>,
    /// The server's messages between "authenticated" and "ready", but for the key.
    pub greeting: Vec<u8>,
}

/// Why nobody got in.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The server does not answer, or not in time.
    Unreachable(String),
    /// The server said no: its ErrorResponse, as it came.
    Answered(Vec<u8>),
    /// No connection became free within this.
    NoServer(Duration),
    /// The server demands a proof that cannot be given.
    NoSecret(&'static str),
    /// Another Consort may lead, where two at a time would do harm.
    MayNotLead,
    /// Its client is sent away.
    SentAway(Leave),
    /// Its name is another role's by now.
    OtherRole(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Unreachable(error.to_string())
    }
}

/// The setting that says what a client calls itself.
pub const NAME_SETTING: &str = "application_name";

/// Logs in.
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

/// What the next step of a proof needs.
enum Proof {
    None,
    Password(Box<ScramSha256>),
    Keys(Box<ClientExchange>),
}

/// Answers what the server demands until it is content.
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
    Refusal::Unreachable(format!("it sent message type {tag} during the log-in"))
}

/// Writes the answer to one demand.
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
            Err(_) => Err(Refusal::Unreachable("it does not know the role's verifier".to_owned())),
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
        Authentication::Ok | Authentication::Other(_) => "a method that is not supported",
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

/// Why nobody got in, in words.
pub fn said(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unreachable(why) => why.clone(),
        Refusal::NoServer(wait) => format!("no connection became free within {} ms", wait.as_millis()),
        Refusal::NoSecret(method) => format!("it demands a proof by {method}"),
        Refusal::SentAway(_) => "its client is sent away".to_owned(),
        Refusal::MayNotLead => "another Consort may lead".to_owned(),
        Refusal::OtherRole(user) => format!("the role {user} is another one by now"),
        Refusal::Answered(error) => match wire::Frame::new(error) {
            Ok(frame) => String::from_utf8_lossy(wire::Complaint::read(&frame).message()).into_owned(),
            Err(why) => why.to_string(),
        },
    }
}

/// What a client hears where two Consorts at a time would do harm, and this one is not the one that leads. Drivers go on to
/// the next host of their list then.
pub fn not_leading() -> Problem {
    Problem::fatal("57P03", "another Consort leads, or may have taken over: this one waits")
        .hint("Name all of them as hosts of the connection: the one that leads lets you in.")
}

/// Tells a client why the primary did not let it in: in the primary's own words, if it had some.
pub fn refuse(registry: &Registry, out: &mut Vec<u8>, refusal: Refusal) {
    match refusal {
        Refusal::Answered(error) => out.extend_from_slice(&error),
        Refusal::Unreachable(why) => {
            registry.note_unheard(&format!("the primary cannot be reached: {why}"));
            out.problem(&Problem::fatal("57P03", format!("the primary cannot be reached: {why}")));
        }
        Refusal::NoServer(wait) => {
            let why = format!(
                "query_wait_timeout: no connection at the primary became free within {} ms",
                wait.as_millis()
            );
            out.problem(&Problem::fatal("53300", why).hint(
                "Raise default_pool_size or the limit that holds here (SHOW DATABASES, SHOW USERS), or find the sessions that \
                 keep theirs: SHOW CLIENTS says why they do.",
            ));
        }
        Refusal::SentAway(why) => out.problem(&why.word()),
        Refusal::OtherRole(user) => {
            let why = format!("role \"{user}\" is another one than when the client logged in");
            out.problem(
                &Problem::fatal("28000", why).hint("It was renamed or dropped meanwhile: log in again."),
            );
        }
        Refusal::MayNotLead => out.problem(&not_leading()),
        Refusal::NoSecret(method) => {
            let problem =
                Problem::fatal("28000", format!("the primary demands a proof by {method} for this role"))
                    .hint("Give the role's password, or a secret of that kind, in Consort's auth_file.");
            out.problem(&problem);
        }
    }
}
