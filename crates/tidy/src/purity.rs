//! Pure crates open, wait for and ask the time of nothing. Clippy enforces the lists of what they must not call; this
//! law holds the lists in place: each pure crate repeats them byte by byte, and none makes an exception.

use crate::dependencies::crate_rows;
use crate::tree::{Broken, Tree};

/// The crate whose `clippy.toml` all pure crates repeat.
const REFERENCE: &str = "crates/history/clippy.toml";

/// What a pure crate's source must not switch off.
const LISTS: &[&str] = &["disallowed_methods", "disallowed_types"];

/// Crates that the table of ARCHITECTURE.md calls pure have the reference's lists, and only they.
pub fn pure_crates(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    let Some(reference) = tree.get(REFERENCE) else {
        return vec![Broken::new(REFERENCE, 0, "the lists that every pure crate repeats are gone")];
    };
    for row in crate_rows(tree) {
        let path = format!("crates/{}/clippy.toml", row.name);
        match (row.pure, tree.get(&path)) {
            (true, Some(lists)) if lists == reference => {}
            (true, Some(_)) => broken.push(Broken::new(&path, 0, format!("differs from {REFERENCE}"))),
            (true, None) => broken.push(Broken::new(&path, 0, format!("missing; copy {REFERENCE}"))),
            (false, Some(lists)) if lists == reference => {
                broken.push(Broken::new(
                    "ARCHITECTURE.md",
                    row.line,
                    format!("{} is kept pure: say so", row.name),
                ));
            }
            (false, _) => {}
        }
        if row.pure {
            broken.extend(exceptions(tree, &row.name));
        }
    }
    broken
}

/// Lines of a pure crate that switch a list off. Its `main.rs`, if it has one, is a program with arguments and no part of
/// the library.
fn exceptions(tree: &Tree, name: &str) -> Vec<Broken> {
    let (source, program) = (format!("crates/{name}/src/"), format!("crates/{name}/src/main.rs"));
    let lines = tree.rust().filter(|(path, _)| path.starts_with(&source) && *path != program).flat_map(
        |(path, text)| {
            text.lines().enumerate().filter(|(_, line)| LISTS.iter().any(|list| line.contains(list))).map(
                move |(at, _)| {
                    Broken::new(path, at + 1, "a pure crate makes no exception: act in node or postgres")
                },
            )
        },
    );
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(table: &str) -> Tree {
        let document = format!(
            "## Crates\n\n| crate | what | pure | knows | in tests |\n|---|---|---|---|---|\n{table}\n"
        );
        Tree::of([(REFERENCE, "lists"), ("crates/history/Cargo.toml", "")]).with("ARCHITECTURE.md", &document)
    }

    #[test]
    fn a_pure_crate_repeats_the_lists() {
        let row = "| `history` | nouns | pure | | |\n| `order` | order | pure | | |";
        assert_eq!(pure_crates(&tree(row)).len(), 1, "order has no lists");
        assert_eq!(pure_crates(&tree(row).with("crates/order/clippy.toml", "lists")), []);
        assert_eq!(pure_crates(&tree(row).with("crates/order/clippy.toml", "list")).len(), 1, "other lists");
    }

    #[test]
    fn the_table_says_who_is_pure() {
        assert_eq!(pure_crates(&tree("| `history` | nouns | | | |")).len(), 1);
    }

    #[test]
    fn a_pure_crate_makes_no_exception() {
        let text = "//! x\n#[expect(clippy::disallowed_methods, reason = \"once\")]\n";
        let found =
            pure_crates(&tree("| `history` | nouns | pure | | |").with("crates/history/src/lib.rs", text));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
    }
}
