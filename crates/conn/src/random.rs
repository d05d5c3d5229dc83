//! Numbers that nobody can guess: nonces, salts and the secrets of cancel requests.

/// A nonce for a SCRAM exchange: printable, without a comma.
pub fn nonce() -> String {
    let bytes: [u8; 18] = rand::random();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A salt for an MD5 log-in.
pub fn salt() -> [u8; 4] {
    rand::random()
}

/// A secret that lasts as long as this process.
pub fn secret() -> [u8; 32] {
    rand::random()
}

/// A number below this one.
pub fn below(limit: u32) -> u32 {
    rand::random::<u32>() % limit
}

/// A secret that allows to cancel, as long as PostgreSQL 18 makes it for who speaks this minor version of the protocol.
pub fn cancel_secret(minor: u16) -> Vec<u8> {
    let bytes: [u8; 32] = rand::random();
    let length = if minor >= 2 { bytes.len() } else { 4 };
    bytes[..length].to_vec()
}
