//! Who may enter: what a client must prove, and what its proof is good for at the servers.

use super::{Door, Secret};
use crate::chance;
use crate::peer::Peer;
use crate::socket::Origin;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use std::io;
use wire::tag::front;
use wire::{Answers, Frame, MECHANISM, Malformed, Problem, Refused, ServerExchange, Verifier};

/// No message of a proof is longer.
const PROOF_LIMIT: usize = 4096;

/// What a client must prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Nothing.
    Trust,
    /// That it knows the password, by SCRAM-SHA-256.
    ScramSha256,
    /// That it knows the password, by MD5.
    Md5,
    /// The password as it is.
    Password,
}

/// What a client must prove, by where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Processes of this machine.
    pub loopback: Method,
    /// Everybody else.
    pub elsewhere: Method,
}

/// Why a client may not enter.
pub(super) enum Turned {
    /// It is gone.
    Gone,
    /// It is told this.
    Away(Problem),
    /// It has not proven that it is who it says. What the operator is told; the client hears the same whatever it is.
    Unproven(&'static str),
}

impl From<io::Error> for Turned {
    fn from(error: io::Error) -> Turned {
        match crate::peer::malformation(&error) {
            Some(why) => Turned::Away(Problem::fatal("08P01", why.to_string())),
            None => Turned::Gone,
        }
    }
}

impl From<Malformed> for Turned {
    fn from(why: Malformed) -> Turned {
        Turned::Away(Problem::fatal("08P01", why.to_string()))
    }
}

/// What a client hears that has not proven that it is this role.
pub(super) fn wrong(user: &str) -> Problem {
    Problem::fatal("28P01", format!("password authentication failed for user \"{user}\""))
}

/// Why a proof of this kind has failed, for the operator.
fn unproven(method: Method, known: Option<&Secret>) -> Turned {
    Turned::Unproven(match (method, known) {
        (_, None) => "the role has no line in auth_file",
        (Method::Md5, Some(Secret::Verifier(_))) | (Method::ScramSha256, Some(Secret::Md5(_))) => {
            "the role's line in auth_file is of no use with this auth_type"
        }
        _ => "the password is wrong",
    })
}

/// Lets the client prove who it is: what opens the servers for its role, if anything is needed there.
pub(super) async fn admit(
    door: &Door,
    client: &mut Peer,
    origin: Origin,
    user: &str,
) -> Result<Option<Secret>, Turned> {
    let admission = door.options.admission;
    let known = door.secrets.borrow().of(user).cloned();
    match if origin.is_loopback() { admission.loopback } else { admission.elsewhere } {
        Method::Trust => Ok(known),
        Method::Password => by_password(client, user, known).await.map(Some),
        Method::Md5 => by_md5(client, user, known).await.map(Some),
        Method::ScramSha256 => {
            let verifier = door.secrets.borrow_mut().verifier(user);
            by_scram(client, user, known, verifier, &door.nobody).await.map(Some)
        }
    }
}

/// Waits for the next message of the proof.
async fn proof(client: &mut Peer) -> Result<Vec<u8>, Turned> {
    client.send().await?;
    while client.unread().is_empty() {
        client.fill().await?;
    }
    let tag = client.unread()[0];
    if tag != front::PASSWORD {
        let why = format!("expected password response, got message type {tag}");
        return Err(Turned::Away(Problem::fatal("08P01", why)));
    }
    let length = client.whole_frame(PROOF_LIMIT).await?;
    let message = client.unread()[..length].to_vec();
    client.consume(length);
    Ok(Frame::new(&message)?.body().to_vec())
}

/// The text of a PasswordMessage: it ends in a zero byte.
fn text(body: &[u8]) -> Result<&str, Turned> {
    let (&last, text) = body.split_last().ok_or(Malformed::Body)?;
    if last != 0 || text.contains(&0) {
        return Err(Malformed::Body.into());
    }
    Ok(std::str::from_utf8(text).map_err(|_| Malformed::Body)?)
}

async fn by_password(client: &mut Peer, user: &str, known: Option<Secret>) -> Result<Secret, Turned> {
    client.out().authentication_cleartext();
    let body = proof(client).await?;
    let given = text(&body)?;
    let right = match &known {
        Some(Secret::Plain(password)) => password == given,
        Some(Secret::Md5(secret)) => *secret == wire::md5_secret(user, given),
        Some(Secret::Verifier(verifier)) => opens(given, verifier),
        Some(Secret::Keys(_)) | None => false,
    };
    if right { Ok(Secret::Plain(given.to_owned())) } else { Err(unproven(Method::Password, known.as_ref())) }
}

/// Does this password open this verifier? Both sides of an exchange say so.
fn opens(password: &str, verifier: &Verifier) -> bool {
    let mut client = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
    let mut initial = format!("{MECHANISM}\0").into_bytes();
    let length = u32::try_from(client.message().len()).expect("a SCRAM message is short");
    initial.extend_from_slice(&length.to_be_bytes());
    initial.extend_from_slice(client.message());
    let Ok(server) = ServerExchange::begin(verifier.clone(), &chance::nonce(), &initial) else {
        return false;
    };
    client.update(server.challenge()).is_ok() && server.finish(client.message()).is_ok()
}

async fn by_md5(client: &mut Peer, user: &str, known: Option<Secret>) -> Result<Secret, Turned> {
    let salt = chance::salt();
    client.out().authentication_md5(salt);
    let body = proof(client).await?;
    let given = text(&body)?;
    let secret = match &known {
        Some(Secret::Plain(password)) => Some(wire::md5_secret(user, password)),
        Some(Secret::Md5(secret)) => Some(secret.clone()),
        Some(Secret::Verifier(_) | Secret::Keys(_)) | None => None,
    };
    let right = secret.and_then(|secret| wire::md5_answer(&secret, salt)).as_deref() == Some(given);
    match known {
        Some(known) if right => Ok(known),
        known => Err(unproven(Method::Md5, known.as_ref())),
    }
}

async fn by_scram(
    client: &mut Peer,
    user: &str,
    known: Option<Secret>,
    verifier: Option<Verifier>,
    nobody: &[u8],
) -> Result<Secret, Turned> {
    let verifier = verifier.unwrap_or_else(|| Verifier::of_nobody(user, nobody));
    client.out().authentication_sasl(MECHANISM);
    let initial = proof(client).await?;
    let exchange = ServerExchange::begin(verifier, &chance::nonce(), &initial)?;
    client.out().sasl_continue(exchange.challenge());
    let response = proof(client).await?;
    let (last, keys) = exchange.finish(&response).map_err(|refused| match refused {
        Refused::Malformed => Malformed::Scram.into(),
        Refused::WrongProof => unproven(Method::ScramSha256, known.as_ref()),
    })?;
    client.out().sasl_final(last.as_bytes());
    Ok(match known {
        Some(known @ Secret::Plain(_)) => known,
        _ => Secret::Keys(Box::new(keys)),
    })
}
