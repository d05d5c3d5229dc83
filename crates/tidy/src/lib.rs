//! Checks of the code itself: each law of the project is a function from the tree of files to what breaks it.
//!
//! The laws are plain functions over a [`Tree`] in memory, so that each can also be shown to fail on a tree that breaks
//! it. `cargo test -p tidy` runs all of them on this repository. What clippy, rustfmt and rustdoc can see is theirs.

pub mod claims;
pub mod dependencies;
pub mod documents;
pub mod guarantees;
pub mod licences;
pub mod manifests;
pub mod planted;
pub mod prose;
pub mod purity;
pub mod secrets;
pub mod source;
pub mod structure;
pub mod tree;
pub mod words;

pub use tree::{Broken, Tree};

/// A law: its name, and the function that finds what breaks it.
pub type Law = (&'static str, fn(&Tree) -> Vec<Broken>);

/// Every law that a tree of files alone can break.
pub const LAWS: &[Law] = &[
    ("pure crates stay pure", purity::pure_crates),
    ("every crate takes the workspace's lints", manifests::lints),
    ("unsafe is forbidden everywhere", manifests::unsafe_forbidden),
    ("no crate has a name that says nothing", manifests::crate_names),
    ("the table of crates is the manifests'", dependencies::internal),
    ("every dependency is explained", dependencies::external),
    ("tests of one crate and of all share what they build", dependencies::unified),
    ("only design knows the papers' names", words::papers),
    ("only listed crates listen, and start tasks", words::listening),
    ("no empty names", words::empty_names),
    ("a file says first what lives in it", source::first_lines),
    ("files have at most 800 lines", source::length),
    ("nothing is left open", source::left_open),
    ("no test sleeps or is skipped", source::tests_wait),
    ("exceptions to lints have reasons", source::exceptions),
    ("only known hosts are named", secrets::hosts),
    ("no path of a machine is named", secrets::machine_paths),
    ("links in documents lead somewhere", documents::links),
    ("documents named in the source exist", documents::cited),
    ("the README's commands are run by a test", documents::readme_commands),
    ("every guarantee names its test", guarantees::tests_exist),
    ("claims are counted as their pages judge them", claims::counted),
    ("modules import one way, crates and types are small, no static holds state", structure::structure),
    ("only the profile dist has LTO", manifests::lto),
    ("words of comments, messages and documents keep to the rules", prose::prose),
    ("planted bugs stand behind a feature that no product turns on", planted::planted),
];
