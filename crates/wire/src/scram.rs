//! SCRAM-SHA-256 (RFC 5802, RFC 7677; PostgreSQL's documentation, "SASL Authentication"): the server's side
//! of the exchange towards clients, and the client's side by *keys* towards servers.
//!
//! Keys make a log-in pass through without a password. A verification of a client's proof against a verifier
//! yields the client's key, and with it (and the verifier's server key) a log-in is possible at every server
//! that stores the same verifier. Log-ins by password use postgres-protocol, which has no server side and no
//! keys; hashing and MACs are RustCrypto's. Nonces are passed in.

use crate::Malformed;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The mechanism's name.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The same, bound to the channel by `tls-server-end-point`: no other certificate can stand between.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// The most iterations that a server may ask for: each costs CPU before anybody is known.
const MAX_ITERATIONS: u32 = 100_000;

type Hash = [u8; 32];

/// Why an exchange ended without a log-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The peer's message does not follow the protocol.
    Malformed,
    /// The proof is wrong.
    WrongProof,
}

impl From<Malformed> for Refused {
    fn from(_: Malformed) -> Refused {
        Refused::Malformed
    }
}

/// Stored secret of a server in place of a password: `SCRAM-SHA-256$4096:salt$stored key:server key`.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Hash,
    server_key: Hash,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    /// Reads PostgreSQL's form; `None` if the text is something else.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|&n| n > 0)?,
            salt: STANDARD.decode(salt).ok()?,
            stored_key: STANDARD.decode(stored).ok()?.try_into().ok()?,
            server_key: STANDARD.decode(server).ok()?.try_into().ok()?,
        })
    }

    /// PostgreSQL's form, as [`Verifier::parse`] reads it. The text is a secret.
    pub fn text(&self) -> String {
        let Verifier { iterations, salt, stored_key, server_key } = self;
        let [salt, stored, server] = [&salt[..], stored_key, server_key].map(|bytes| STANDARD.encode(bytes));
        format!("SCRAM-SHA-256${iterations}:{salt}${stored}:{server}")
    }

    /// A verifier for a role that does not exist: the exchange goes on as for any other, and fails at its
    /// end. The same role gets the same salt as long as `secret` stays.
    pub fn of_nobody(role: &str, secret: &[u8]) -> Verifier {
        let salt = mac(secret, role.as_bytes());
        Verifier { iterations: 4096, salt: salt[..16].to_vec(), stored_key: [0; 32], server_key: salt }
    }
}

/// Keys for a log-in without a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    client_key: Hash,
    server_key: Hash,
}

impl Keys {
    /// Both keys, the client's first: only for another process of ours.
    pub fn bytes(&self) -> [u8; 64] {
        let mut both = [0; 64];
        both[..32].copy_from_slice(&self.client_key);
        both[32..].copy_from_slice(&self.server_key);
        both
    }

    /// Keys from [`Keys::bytes`]; `None` if the bytes are something else.
    pub fn of_bytes(both: &[u8]) -> Option<Keys> {
        let (client, server) = both.split_at_checked(32)?;
        Some(Keys { client_key: client.try_into().ok()?, server_key: server.try_into().ok()? })
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

fn mac(key: &[u8], message: &[u8]) -> Hash {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is a key");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

fn xor(a: &Hash, b: &Hash) -> Hash {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// Compares without telling by its time where the difference is.
fn same(a: &Hash, b: &Hash) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// The attribute at the beginning of a list `a=...,b=...`, and what follows it.
fn attribute<'a>(list: &'a str, name: &str) -> Result<(&'a str, &'a str), Malformed> {
    let (first, rest) = list.split_once(',').unwrap_or((list, ""));
    let value = first.strip_prefix(name).and_then(|v| v.strip_prefix('=')).ok_or(Malformed::Scram)?;
    Ok((value, rest))
}

fn utf8(message: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(message).map_err(|_| Malformed::Scram)
}

fn decode(value: &str) -> Result<Hash, Malformed> {
    STANDARD.decode(value).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(Malformed::Scram)
}

/// The server's side of one exchange.
#[derive(Debug)]
pub struct ServerExchange {
    verifier: Verifier,
    header: String,
    client_first: String,
    server_first: String,
    nonce: String,
}

impl ServerExchange {
    /// Takes the body of a SASLInitialResponse. `nonce` is ours: fresh, printable, without a comma. `end_point` is what the
    /// exchange may be bound to: then both mechanisms were offered, else SCRAM-SHA-256 alone.
    pub fn begin(
        verifier: Verifier,
        nonce: &str,
        initial: &[u8],
        end_point: Option<&[u8]>,
    ) -> Result<ServerExchange, Malformed> {
        let end = initial.iter().position(|&b| b == 0).ok_or(Malformed::Scram)?;
        let (mechanism, rest) = (&initial[..end], &initial[end + 1..]);
        let (length, message) = rest.split_at_checked(4).ok_or(Malformed::Scram)?;
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if length != message.len() {
            return Err(Malformed::Scram);
        }
        // n: the client cannot bind the channel. y: it could, and believes that we cannot. If we can, a man
        // in the middle has taken the better mechanism off the list.
        let (headers, bound): (&[&str], &[u8]) = match end_point {
            Some(end_point) if mechanism == MECHANISM_PLUS.as_bytes() => {
                (&["p=tls-server-end-point,,"], end_point)
            }
            Some(_) if mechanism == MECHANISM.as_bytes() => (&["n,,"], &[]),
            None if mechanism == MECHANISM.as_bytes() => (&["n,,", "y,,"], &[]),
            _ => return Err(Malformed::Scram),
        };
        let message = utf8(message)?;
        let header = headers.iter().find(|header| message.starts_with(**header)).ok_or(Malformed::Scram)?;
        let client_first = &message[header.len()..];
        let (_, rest) = attribute(client_first, "n")?;
        let (theirs, _) = attribute(rest, "r")?;
        if theirs.is_empty() {
            return Err(Malformed::Scram);
        }
        let nonce = format!("{theirs}{nonce}");
        let server_first =
            format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.iterations);
        Ok(ServerExchange {
            header: STANDARD.encode([header.as_bytes(), bound].concat()),
            client_first: client_first.to_owned(),
            verifier,
            server_first,
            nonce,
        })
    }

    /// Goes into an AuthenticationSASLContinue.
    pub fn challenge(&self) -> &[u8] {
        self.server_first.as_bytes()
    }

    /// Takes the body of the SASLResponse: the message for AuthenticationSASLFinal, and the keys that open the same
    /// verifier elsewhere.
    pub fn finish(self, response: &[u8]) -> Result<(String, Keys), Refused> {
        let response = utf8(response)?;
        let (bare, proof) = response.rsplit_once(",p=").ok_or(Refused::Malformed)?;
        let (header, rest) = attribute(bare, "c")?;
        let (nonce, _) = attribute(rest, "r")?;
        if header != self.header || nonce != self.nonce {
            return Err(Refused::Malformed);
        }
        let proof = decode(proof)?;
        let message = format!("{},{},{bare}", self.client_first, self.server_first);
        let client_key = xor(&proof, &mac(&self.verifier.stored_key, message.as_bytes()));
        if !same(&hash(&client_key), &self.verifier.stored_key) {
            return Err(Refused::WrongProof);
        }
        let server_key = self.verifier.server_key;
        let signature = mac(&server_key, message.as_bytes());
        Ok((format!("v={}", STANDARD.encode(signature)), Keys { client_key, server_key }))
    }
}

/// Request of a server's challenge.
struct Challenge<'a> {
    text: &'a str,
    nonce: &'a str,
}

impl<'a> Challenge<'a> {
    fn read(challenge: &'a [u8]) -> Result<Challenge<'a>, Malformed> {
        let text = utf8(challenge)?;
        let (nonce, rest) = attribute(text, "r")?;
        let (_salt, rest) = attribute(rest, "s")?;
        let (iterations, _) = attribute(rest, "i")?;
        let iterations: u32 = iterations.parse().map_err(|_| Malformed::Scram)?;
        if iterations > MAX_ITERATIONS { Err(Malformed::Scram) } else { Ok(Challenge { text, nonce }) }
    }
}

/// Checks that a challenge asks for no more work than a client may be asked for: for exchanges by password,
/// which their library does not bound.
pub fn bearable(challenge: &[u8]) -> Result<(), Malformed> {
    Challenge::read(challenge).map(|_| ())
}

/// The client's side of one exchange, by keys.
#[derive(Debug)]
pub struct ClientExchange {
    keys: Keys,
    nonce: String,
    signature: Hash,
}

impl ClientExchange {
    /// An exchange with a fresh nonce, printable, without a comma.
    pub fn begin(keys: Keys, nonce: &str) -> ClientExchange {
        ClientExchange { keys, nonce: nonce.to_owned(), signature: [0; 32] }
    }

    /// Goes into the SASLInitialResponse.
    pub fn first(&self) -> String {
        format!("n,,n=,r={}", self.nonce)
    }

    /// Takes the server's challenge: the message for the SASLResponse.
    pub fn answer(&mut self, challenge: &[u8]) -> Result<String, Malformed> {
        let Challenge { text, nonce } = Challenge::read(challenge)?;
        if !nonce.starts_with(&self.nonce) {
            return Err(Malformed::Scram);
        }
        let bare = format!("c={},r={nonce}", STANDARD.encode("n,,"));
        let message = format!("n=,r={},{text},{bare}", self.nonce);
        let signature = mac(&hash(&self.keys.client_key), message.as_bytes());
        self.signature = mac(&self.keys.server_key, message.as_bytes());
        Ok(format!("{bare},p={}", STANDARD.encode(xor(&self.keys.client_key, &signature))))
    }

    /// Takes the server's last message: is it the server that stores our verifier?
    pub fn finish(self, last: &[u8]) -> Result<(), Refused> {
        let (signature, _) = attribute(utf8(last)?, "v")?;
        if same(&decode(signature)?, &self.signature) { Ok(()) } else { Err(Refused::WrongProof) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
    use postgres_protocol::password::scram_sha_256;

    fn initial(message: &[u8]) -> Vec<u8> {
        let mut body = b"SCRAM-SHA-256\0".to_vec();
        body.extend_from_slice(&(message.len() as u32).to_be_bytes());
        body.extend_from_slice(message);
        body
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_rfc() {
        // SaltedPassword of "pencil" with the example's salt, by its keys.
        let verifier = Verifier::parse(
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
             wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
        )
        .unwrap();
        let exchange = ServerExchange::begin(
            verifier,
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            &initial(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"),
            None,
        )
        .unwrap();
        assert_eq!(
            exchange.challenge(),
            b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let (last, _) = exchange
            .finish(
                b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                  p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            )
            .unwrap();
        assert_eq!(last, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    fn log_in(secret: &str, password: &[u8]) -> Result<Keys, Refused> {
        let mut client = ScramSha256::new(password, ChannelBinding::unsupported());
        let server =
            ServerExchange::begin(Verifier::parse(secret).unwrap(), "ours", &initial(client.message()), None)
                .unwrap();
        client.update(server.challenge()).unwrap();
        let (last, keys) = server.finish(client.message())?;
        client.finish(last.as_bytes()).unwrap();
        Ok(keys)
    }

    #[test]
    fn a_password_opens_its_verifier_and_its_keys_open_it_again() {
        let secret = scram_sha_256(b"open sesame");
        let keys = log_in(&secret, b"open sesame").unwrap();
        assert_eq!(log_in(&secret, b"open barley"), Err(Refused::WrongProof));

        let mut client = ClientExchange::begin(keys, "theirs");
        let server = ServerExchange::begin(
            Verifier::parse(&secret).unwrap(),
            "ours",
            &initial(client.first().as_bytes()),
            None,
        )
        .unwrap();
        let response = client.answer(server.challenge()).unwrap();
        let (last, _) = server.finish(response.as_bytes()).unwrap();
        assert_eq!(client.finish(last.as_bytes()), Ok(()));
    }

    #[test]
    fn nobody_gets_in_as_nobody() {
        let verifier = Verifier::of_nobody("ghost", b"secret of this process");
        assert_eq!(verifier, Verifier::of_nobody("ghost", b"secret of this process"));
        let mut client = ScramSha256::new(b"anything", ChannelBinding::unsupported());
        let server = ServerExchange::begin(verifier, "ours", &initial(client.message()), None).unwrap();
        client.update(server.challenge()).unwrap();
        assert_eq!(server.finish(client.message()).unwrap_err(), Refused::WrongProof);
    }

    #[test]
    fn what_does_not_follow_the_protocol_is_refused() {
        let verifier = || Verifier::of_nobody("x", b"y");
        for message in [
            "",
            "n",
            "n,",
            "n,,",
            "p=tls-server-end-point,,n=,r=abc",
            "n,,n=,r=",
            "n,,x=,r=a",
            "x,,n=,r=a",
            "é,,",
        ] {
            assert!(
                ServerExchange::begin(verifier(), "n", &initial(message.as_bytes()), None).is_err(),
                "{message}"
            );
        }
        assert!(ServerExchange::begin(verifier(), "n", b"SCRAM-SHA-256", None).is_err());
        assert!(ServerExchange::begin(verifier(), "n", b"SCRAM-SHA-256\0\0\0\0\x09abc", None).is_err());
        assert!(ServerExchange::begin(verifier(), "n", b"PLAIN\0\0\0\0\x01a", None).is_err());
        for response in ["", "p=", "c=biws,r=abcn,p=AAAA", "c=biws,r=wrong,p=AAAA", "c=eSws,r=abcn,p=AAAA"] {
            let exchange = ServerExchange::begin(verifier(), "n", &initial(b"n,,n=,r=abc"), None).unwrap();
            assert_eq!(exchange.finish(response.as_bytes()).unwrap_err(), Refused::Malformed, "{response}");
        }
        assert_eq!(bearable(b"r=a,s=AA==,i=100000"), Ok(()));
        for challenge in [&b"r=a,s=AA==,i=100001"[..], b"r=a,s=AA==,i=-1", b"r=a,s=AA==", b"\xff"] {
            assert_eq!(bearable(challenge), Err(Malformed::Scram));
        }
        for text in
            ["", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$4096:AA==$AA==:AA=="]
        {
            assert_eq!(Verifier::parse(text), None, "{text}");
        }
    }

    /// postgres-protocol's client, bound to the end point that it sees, against a server with this one.
    fn bound(seen: &[u8], own: Option<&[u8]>) -> Result<Keys, Refused> {
        let secret = scram_sha_256(b"open sesame");
        let mut client =
            ScramSha256::new(b"open sesame", ChannelBinding::tls_server_end_point(seen.to_vec()));
        let mut body = b"SCRAM-SHA-256-PLUS\0".to_vec();
        body.extend_from_slice(&(client.message().len() as u32).to_be_bytes());
        body.extend_from_slice(client.message());
        let server = ServerExchange::begin(Verifier::parse(&secret).unwrap(), "ours", &body, own)?;
        client.update(server.challenge()).unwrap();
        let (last, keys) = server.finish(client.message())?;
        client.finish(last.as_bytes()).unwrap();
        Ok(keys)
    }

    #[test]
    fn an_exchange_is_bound_to_the_certificate_that_both_see() {
        assert!(bound(b"ours", Some(b"ours")).is_ok());
        assert_eq!(bound(b"of somebody between", Some(b"ours")), Err(Refused::Malformed));
        assert_eq!(bound(b"ours", None), Err(Refused::Malformed));
        // The client can bind, and was offered no binding.
        let verifier = Verifier::of_nobody("x", b"y");
        let downgraded =
            ServerExchange::begin(verifier.clone(), "n", &initial(b"y,,n=,r=abc"), Some(b"ours"));
        assert_eq!(downgraded.unwrap_err(), Malformed::Scram);
        assert!(ServerExchange::begin(verifier, "n", &initial(b"n,,n=,r=abc"), Some(b"ours")).is_ok());
    }
}
