//! Client authentication: the proof that a client must give, and the use of that proof at the servers.

use super::Door;
use super::first_packet::Way;
use super::startup::BROKEN;
use config::hba::{Caller, Certificate, Method, Rule, Rules};
use config::origin::Origin;
use conn::peer::Peer;
use conn::random;
use conn::secrets::Secret;
use nix::unistd::{Uid, User};
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use std::io;
use std::sync::LazyLock;
use tokio::sync::Semaphore;
use wire::tag::front;
use wire::{
    Answers, Frame, MECHANISM, MECHANISM_PLUS, Malformed, Problem, Refused, ServerExchange, Verifier,
};

/// Maximum bytes of a message of a proof.
const PROOF_LIMIT: usize = 4096;

/// Number of passwords that are checked against verifiers at once: half of the cores stay for authenticated
/// clients.
static PROVING: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new(cores.div_ceil(2))
});

/// Reason why a client is not admitted.
pub(super) enum Turned {
    /// The client has disconnected.
    Gone,
    /// The client is refused with this error.
    Away(Problem),
    /// The client is not admitted, or has not proven its identity.
    Unproven {
        /// Reason for the operator.
        why: String,
        /// Error for the client: the same whatever its proof lacks.
        told: Problem,
    },
}

impl From<io::Error> for Turned {
    fn from(error: io::Error) -> Turned {
        match conn::peer::malformation(&error) {
            Some(why) => Turned::Away(Problem::fatal(BROKEN, why.to_string())),
            None => Turned::Gone,
        }
    }
}

impl From<Malformed> for Turned {
    fn from(why: Malformed) -> Turned {
        Turned::Away(Problem::fatal(BROKEN, why.to_string()))
    }
}

/// Error for a client that has not proven to be this role.
fn wrong(method: Method, user: &str) -> Problem {
    match method {
        Method::Cert => {
            Problem::fatal("28000", format!("certificate authentication failed for user \"{user}\""))
        }
        Method::Peer => Problem::fatal("28000", format!("Peer authentication failed for user \"{user}\"")),
        _ => Problem::fatal("28P01", format!("password authentication failed for user \"{user}\"")),
    }
}

/// Returns the reason why a password does not match the known secret of a role, for the operator.
fn unopened(method: Method, known: Option<&Secret>) -> &'static str {
    match (method, known) {
        (_, None) => "role not found (auth_file)",
        (Method::ScramSha256, Some(Secret::Md5(_))) => {
            "the role's secret in auth_file does not work with this auth_type"
        }
        _ => "wrong password",
    }
}

/// Error if no rule matches this client, in PostgreSQL's own words.
fn no_rule(caller: &Caller<'_>, is_rejected: bool) -> Problem {
    let Caller { user, database, .. } = caller;
    let host = match caller.origin {
        Origin::Local => "[local]".to_owned(),
        origin @ Origin::Machine(_) => origin.to_string(),
    };
    let encryption = if caller.encrypted { "SSL encryption" } else { "no encryption" };
    let whom = format!("host \"{host}\", user \"{user}\"");
    let why = match (is_rejected, caller.replicates) {
        (true, true) => format!("pg_hba.conf rejects replication connection for {whom}, {encryption}"),
        (false, true) => format!("no pg_hba.conf entry for replication connection from {whom}, {encryption}"),
        (true, false) => {
            format!("pg_hba.conf rejects connection for {whom}, database \"{database}\", {encryption}")
        }
        (false, false) => format!("no pg_hba.conf entry for {whom}, database \"{database}\", {encryption}"),
    };
    Problem::fatal("28000", why)
}

/// Authenticates the client as the matching rule requires. Returns the credentials for the servers, if any
/// are needed there.
pub(super) async fn admit(
    door: &Door,
    client: &mut Peer,
    caller: &Caller<'_>,
    way: &Way,
) -> Result<Option<Secret>, Turned> {
    let rules = door.rules.borrow().clone();
    let Some(rule) = counting(door, &rules, caller).await? else {
        let why = "no matching rule (auth_hba_file)".to_owned();
        return Err(Turned::Unproven { why, told: no_rule(caller, false) });
    };
    let unproven = |why: &str, told| {
        let at = if rule.at.is_empty() { String::new() } else { format!(" ({})", rule.at) };
        Turned::Unproven { why: format!("{why}{at}"), told }
    };
    if rule.method == Method::Reject {
        return Err(unproven("rejected by a rule", no_rule(caller, true)));
    }
    if rule.certificate != Certificate::Any && way.certificate.is_none() {
        let told = Problem::fatal("28000", "connection requires a valid client certificate");
        return Err(unproven("no client certificate signed by client_tls_ca", told));
    }
    let user = caller.user;
    let secret = match proven(door, client, rule.method, user, way.end_point.as_deref()).await? {
        Ok(secret) => secret,
        Err(why) => return Err(unproven(why, wrong(rule.method, user))),
    };
    let system = match (rule.certificate, rule.method) {
        (Certificate::OfRole, _) => way.certificate.clone().filter(|name| !name.is_empty()),
        (_, Method::Peer) => system_user(way.uid).await,
        _ => return Ok(secret),
    };
    match system {
        Some(name) if rules.allow(rule, &name, user) => Ok(secret),
        Some(name) => Err(unproven(
            &format!("no map entry allows {name} to log in as this role"),
            wrong(rule.method, user),
        )),
        None => Err(unproven("cannot determine the client's user", wrong(rule.method, user))),
    }
}

/// Returns the matching rule. The primary is asked for memberships if nothing else decides.
async fn counting<'a>(
    door: &Door,
    rules: &'a Rules,
    caller: &Caller<'_>,
) -> Result<Option<&'a Rule>, Turned> {
    if let Ok(rule) = rules.rule(caller) {
        return Ok(rule);
    }
    let asked = door.memberships.borrow().clone();
    let found = match asked {
        Some(memberships) => memberships.of(caller.user).await,
        None => Err("cannot look up role memberships: no primary connection".to_owned()),
    };
    let roles = found.map_err(|why| unknown(door, &why, "roles", caller.user))?;
    Ok(rules.rule(&Caller { roles: Some(&roles), ..*caller }).unwrap_or(None))
}

/// Error if the primary cannot be asked about a role.
fn unknown(door: &Door, why: &str, what: &str, user: &str) -> Turned {
    door.registry.note_unheard(&format!("cannot look up a role: {why}"));
    let told = format!("cannot look up the {what} of role \"{user}\" at the primary");
    Turned::Away(Problem::fatal("57P03", told).hint("See Consort's log for the reason."))
}

/// Lets the client prove knowledge of the role's password, if that is required. Returns the credentials for
/// the servers, or the reason for the operator.
async fn proven(
    door: &Door,
    client: &mut Peer,
    method: Method,
    user: &str,
    end_point: Option<&[u8]>,
) -> Result<Result<Option<Secret>, &'static str>, Turned> {
    let (known, verifier) = known(door, user).await?;
    let opened = match method {
        Method::Trust | Method::Reject | Method::Cert | Method::Peer => return Ok(Ok(known)),
        Method::Password => by_password(client, user, known.as_ref()).await?,
        Method::Md5 if !matches!(known, Some(Secret::Verifier(_))) => {
            by_md5(client, user, known.as_ref()).await?
        }
        Method::Md5 | Method::ScramSha256 => {
            let verifier = verifier.unwrap_or_else(|| Verifier::of_nobody(user, &door.nobody));
            by_scram(client, known.as_ref(), verifier, end_point).await?
        }
    };
    Ok(opened.map(Some).ok_or_else(|| unopened(method, known.as_ref())))
}

/// Returns the role's known secret, from `auth_file` or else from the primary, and its verifier if one can be
/// derived.
async fn known(door: &Door, user: &str) -> Result<(Option<Secret>, Option<Verifier>), Turned> {
    let here = door.secrets.borrow().of(user).cloned();
    if here.is_some() {
        return Ok((here, door.secrets.borrow_mut().verifier(user)));
    }
    let lookup = door.lookup.borrow().clone();
    let Some(lookup) = lookup else { return Ok((None, None)) };
    match lookup.secret(user).await {
        Ok(found) => {
            let verifier = found.as_ref().and_then(Secret::verifier);
            Ok((found, verifier))
        }
        Err(why) => Err(unknown(door, &why, "secret", user)),
    }
}

/// Returns the name of a user of the system. The look-up may wait for another machine.
async fn system_user(uid: Option<u32>) -> Option<String> {
    let uid = Uid::from_raw(uid?);
    let found = tokio::task::spawn_blocking(move || User::from_uid(uid)).await.ok()?;
    Some(found.ok()??.name)
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
        return Err(Turned::Away(Problem::fatal(BROKEN, why)));
    }
    let length = client.whole_frame(PROOF_LIMIT).await?;
    let message = client.unread()[..length].to_vec();
    client.consume(length);
    Ok(Frame::new(&message)?.body().to_vec())
}

/// Returns the text of a PasswordMessage, which ends in a zero byte.
fn text(body: &[u8]) -> Result<&str, Turned> {
    let (&last, text) = body.split_last().ok_or(Malformed::Body)?;
    if last != 0 || text.contains(&0) {
        return Err(Malformed::Body.into());
    }
    Ok(std::str::from_utf8(text).map_err(|_| Malformed::Body)?)
}

async fn by_password(
    client: &mut Peer,
    user: &str,
    known: Option<&Secret>,
) -> Result<Option<Secret>, Turned> {
    client.out().authentication_cleartext();
    let body = proof(client).await?;
    let given = text(&body)?;
    let right = is_password(known, user, given).await;
    Ok(right.then(|| Secret::Plain(given.to_owned())))
}

/// Returns true if a password in clear text fits the secret of this role. A role without a secret has no password.
pub async fn is_password(known: Option<&Secret>, user: &str, given: &str) -> bool {
    match known {
        Some(Secret::Plain(password)) => password == given,
        Some(Secret::Md5(secret)) => *secret == wire::md5_secret(user, given),
        Some(Secret::Verifier(verifier)) => {
            // A verifier may require so many iterations that they take a tenth of a second, and this thread
            // serves all other clients.
            let (given, verifier) = (given.to_owned(), verifier.clone());
            let turn = PROVING.acquire().await;
            let proven = tokio::task::spawn_blocking(move || {
                let is_right = opens(&given, &verifier);
                drop(turn);
                is_right
            });
            proven.await.unwrap_or(false)
        }
        Some(Secret::Keys(_)) | None => false,
    }
}

/// Returns true if this password opens this verifier, as both sides of an exchange find.
fn opens(password: &str, verifier: &Verifier) -> bool {
    let mut client = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
    let mut initial = format!("{MECHANISM}\0").into_bytes();
    let length = u32::try_from(client.message().len()).expect("a SCRAM message is short");
    initial.extend_from_slice(&length.to_be_bytes());
    initial.extend_from_slice(client.message());
    let Ok(server) = ServerExchange::begin(verifier.clone(), &random::nonce(), &initial, None) else {
        return false;
    };
    client.update(server.challenge()).is_ok() && server.finish(client.message()).is_ok()
}

async fn by_md5(client: &mut Peer, user: &str, known: Option<&Secret>) -> Result<Option<Secret>, Turned> {
    let salt = random::salt();
    client.out().authentication_md5(salt);
    let body = proof(client).await?;
    let given = text(&body)?;
    let secret = match known {
        Some(Secret::Plain(password)) => Some(wire::md5_secret(user, password)),
        Some(Secret::Md5(secret)) => Some(secret.clone()),
        Some(Secret::Verifier(_) | Secret::Keys(_)) | None => None,
    };
    let right = secret.and_then(|secret| wire::md5_answer(&secret, salt)).as_deref() == Some(given);
    Ok(known.filter(|_| right).cloned())
}

async fn by_scram(
    client: &mut Peer,
    known: Option<&Secret>,
    verifier: Verifier,
    end_point: Option<&[u8]>,
) -> Result<Option<Secret>, Turned> {
    let offered: &[&str] = if end_point.is_some() { &[MECHANISM_PLUS, MECHANISM] } else { &[MECHANISM] };
    client.out().authentication_sasl(offered);
    let initial = proof(client).await?;
    let exchange = ServerExchange::begin(verifier, &random::nonce(), &initial, end_point)?;
    client.out().sasl_continue(exchange.challenge());
    let response = proof(client).await?;
    let (last, keys) = match exchange.finish(&response) {
        Ok(finished) => finished,
        Err(Refused::Malformed) => return Err(Malformed::Scram.into()),
        Err(Refused::WrongProof) => return Ok(None),
    };
    client.out().sasl_final(last.as_bytes());
    Ok(Some(match known {
        Some(known @ Secret::Plain(_)) => known.clone(),
        _ => Secret::Keys(Box::new(keys)),
    }))
}
