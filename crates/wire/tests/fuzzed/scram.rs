//! Any bytes as a peer's part of a log-in: by SCRAM on either side, and by MD5.

use std::sync::LazyLock;
use wire::{ClientExchange, Keys, MECHANISM, Refused, ServerExchange, Verifier};

/// The example of RFC 7677, section 3: user `user`, password `pencil`.
const SECRET: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
     wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const OURS: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const PROOF: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| Verifier::parse(SECRET).expect("it is one"));
/// Keys from that proof.
static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let exchange = ServerExchange::begin(VERIFIER.clone(), OURS, &initial(FIRST.as_bytes()), None);
    exchange.expect("the example begins").finish(PROOF.as_bytes()).expect("it proves").1
});

fn initial(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [MECHANISM.as_bytes(), b"\0", &length, message].concat()
}

/// The first byte says whose part it is; a zero byte parts two messages.
pub(crate) fn check(bytes: &[u8]) {
    let [whose, said @ ..] = bytes else { return };
    let middle = said.iter().position(|byte| *byte == 0).unwrap_or(said.len());
    let (first, second) = (&said[..middle], said.get(middle + 1..).unwrap_or_default());
    match whose % 5 {
        0 => {
            for end_point in [None, Some(&b"end point"[..])] {
                let _ = ServerExchange::begin(VERIFIER.clone(), OURS, said, end_point);
            }
        }
        1 => server(first, second),
        2 => client(first, second),
        3 => stored(first),
        _ => md5(first),
    }
}

/// A client that is let in has sent the proof, with nothing but an extension in addition.
fn server(first: &[u8], second: &[u8]) {
    let Ok(exchange) = ServerExchange::begin(VERIFIER.clone(), OURS, &initial(first), None) else { return };
    assert!(exchange.challenge().ends_with(b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
    if let Ok((last, keys)) = exchange.finish(second) {
        assert!(last.starts_with("v=") && keys == *KEYS);
    }
}

/// A server that does not store the verifier is not believed; one that is believed has sent its signature.
fn client(first: &[u8], second: &[u8]) {
    let mut exchange = ClientExchange::begin(KEYS.clone(), "rOprNGfwEbeRWgbNEkqO");
    let Ok(answer) = exchange.answer(first) else { return };
    assert!(answer.starts_with("c=biws,r=rOprNGfwEbeRWgbNEkqO"));
    match exchange.finish(second) {
        Ok(()) => assert!(second.starts_with(b"v=")),
        Err(Refused::Malformed | Refused::WrongProof) => {}
    }
}

/// A role's secret as it stands in a file. An exchange by it can begin and fail.
fn stored(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Some(verifier) = Verifier::parse(text) else { return };
    let exchange = ServerExchange::begin(verifier, OURS, &initial(FIRST.as_bytes()), None);
    let _ = exchange.expect("any verifier begins").finish(PROOF.as_bytes());
}

fn md5(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Some(answer) = wire::md5_answer(text, [1, 2, 3, 4]) {
        assert_eq!(answer.len(), 35);
    }
    assert!(wire::md5_answer(&wire::md5_secret(text, text), [0; 4]).is_some());
}
