//! Licences of what is linked in: each must go with Apache-2.0 and ask for no more than its text and the copyright.

use serde_json::Value;

/// Licences that go with this project's.
const ACCEPTED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "MIT-0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Zlib",
    "0BSD",
    "Unlicense",
    "Unicode-3.0",
    "PostgreSQL",
    "CC0-1.0",
];

/// Packages of a `cargo metadata` answer whose licence is not accepted: name, version, licence.
pub fn refused(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let refused =
        packages.iter().filter(|package| !accepted(package["license"].as_str().unwrap_or_default()));
    refused
        .map(|package| format!("{} {}: licence {}", package["name"], package["version"], package["license"]))
        .collect()
}

/// True if an SPDX expression can be met by accepted licences: all parts of AND, one part of OR.
fn accepted(expression: &str) -> bool {
    let bare = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let words = bare.split_whitespace().collect::<Vec<_>>().join(" ");
    words.split(" AND ").all(|part| part.split(" OR ").any(|licence| ACCEPTED.contains(&licence.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        for fine in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "Apache-2.0 AND ISC",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
        ] {
            assert!(accepted(fine), "{fine}");
        }
        for wrong in ["", "GPL-3.0", "MIT AND GPL-3.0"] {
            assert!(!accepted(wrong), "{wrong}");
        }
    }
}
