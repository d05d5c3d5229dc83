//! Unpredictable random numbers: nonces, salts and the secrets of cancel requests.

/// Returns a nonce for a SCRAM exchange: printable, without a comma.
pub fn nonce() -> String {
    let bytes: [u8; 18] = rand::random();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a salt for MD5 authentication.
pub fn salt() -> [u8; 4] {
    rand::random()
}

/// Returns a secret for the lifetime of this process.
pub fn secret() -> [u8; 32] {
    rand::random()
}

/// Returns a random number below `limit`.
pub fn below(limit: u32) -> u32 {
    rand::random::<u32>() % limit
}

/// Returns a secret for cancel requests, of the length that PostgreSQL 18 uses for this minor version of the
/// protocol.
pub fn cancel_secret(minor: u16) -> Vec<u8> {
    let bytes: [u8; 32] = rand::random();
    let length = if minor >= 2 { bytes.len() } else { 4 };
    bytes[..length].to_vec()
}
