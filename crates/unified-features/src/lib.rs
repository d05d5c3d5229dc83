//! No code: dev-dependencies on this crate turn the same features of external crates on in a test of one crate (`cargo test
//! -p session`) as in a test of the workspace. Both then share what is built.
