//! MD5 log-ins, for servers and clients that know nothing better (PostgreSQL's documentation, "Password
//! Authentication").

use md5::{Digest, Md5};
use std::fmt::Write;

/// Content of a PasswordMessage for this stored secret (`md5` and 32 hexadecimal digits) and this salt;
/// `None` if the secret has another form.
pub fn md5_answer(secret: &str, salt: [u8; 4]) -> Option<String> {
    let digits = secret.strip_prefix("md5").filter(|digits| digits.len() == 32)?;
    let mut hash = Md5::new();
    hash.update(digits);
    hash.update(salt);
    let mut answer = String::from("md5");
    for byte in hash.finalize() {
        write!(answer, "{byte:02x}").expect("a string takes everything");
    }
    Some(answer)
}

/// The secret that a server stores for this role and password.
pub fn md5_secret(role: &str, password: &str) -> String {
    postgres_protocol::password::md5(password.as_bytes(), role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_client_side() {
        let salt = [0x2a, 0x3d, 0x8f, 0xe0];
        let client = postgres_protocol::authentication::md5_hash(b"role", b"word", salt);
        assert_eq!(md5_answer(&md5_secret("role", "word"), salt), Some(client));
        assert_eq!(md5_answer("word", salt), None);
    }
}
