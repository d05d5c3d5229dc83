//! Who may know whom: ARCHITECTURE.md's tables against the manifests, both ways.
//!
//! The table under "## Crates" has the columns crate, content, `pure` or nothing, the crates that it knows, and
//! those that only its tests know. The table under "## Dependencies" has a row per external crate, with the reason.

use std::collections::BTreeSet;

use toml::Table;

use crate::manifests::manifest;
use crate::tree::{Broken, Tree};

/// The document that holds both tables.
const MAP: &str = "ARCHITECTURE.md";

/// The crate that makes a test of one crate and a test of the workspace turn the same features on.
const UNIFIED: &str = "unified-features";
/// External crates that take long to compile, and have other features without that crate.
const DEAR: [&str; 2] = ["pg_query", "tokio"];

/// One row of the table of crates.
#[derive(Debug, PartialEq, Eq)]
pub struct CrateRow {
    /// Line in the document, from 1.
    pub line: usize,
    /// The crate.
    pub name: String,
    /// It does no input or output and asks no clock.
    pub pure: bool,
    /// Crates of this workspace that it knows.
    pub knows: BTreeSet<String>,
    /// Crates of this workspace that only its tests know.
    pub tests_know: BTreeSet<String>,
}

/// The rows of the table of crates.
pub fn crate_rows(tree: &Tree) -> Vec<CrateRow> {
    let rows =
        table_rows(tree.get(MAP).unwrap_or_default(), "## Crates").into_iter().filter_map(|(line, cells)| {
            let [name, _, pure, knows, tests_know] = cells.get(..5)?.try_into().ok()?;
            let name = ticked(name).into_iter().next()?;
            Some(CrateRow {
                line,
                name,
                pure: pure == "pure",
                knows: ticked(knows),
                tests_know: ticked(tests_know),
            })
        });
    rows.collect()
}

/// The table of crates says exactly what the manifests say.
pub fn internal(tree: &Tree) -> Vec<Broken> {
    let rows = crate_rows(tree);
    let crates: BTreeSet<String> = tree.crates().map(str::to_owned).collect();
    let mut broken = Vec::new();
    for name in &crates {
        let Some(row) = rows.iter().find(|row| row.name == *name) else {
            broken.push(Broken::new(MAP, 0, format!("crate {name} is not in the table of crates")));
            continue;
        };
        let manifest = manifest(tree, name).unwrap_or_default();
        let of = |tables: &[&str]| -> BTreeSet<String> { &declared(&manifest, tables) & &crates };
        let normal = of(&["dependencies", "build-dependencies"]);
        let mut tests = &of(&["dev-dependencies"]) - &normal;
        tests.remove(UNIFIED);
        broken.extend(difference(row.line, &format!("{name} knows"), &row.knows, &normal));
        broken.extend(difference(row.line, &format!("the tests of {name} know"), &row.tests_know, &tests));
    }
    for row in rows.iter().filter(|row| !crates.contains(&row.name)) {
        broken.push(Broken::new(MAP, row.line, format!("there is no crate {}", row.name)));
    }
    broken
}

/// Tests of every crate that stands on a dear dependency turn the same features on.
pub fn unified(tree: &Tree) -> Vec<Broken> {
    let names = tree.crates().filter(|name| *name != UNIFIED && stands_on_dear(tree, name));
    let lacking = names.filter(|name| {
        let manifest = manifest(tree, name).unwrap_or_default();
        !declared(&manifest, &["dev-dependencies"]).contains(UNIFIED)
    });
    lacking
        .map(|name| {
            let why = format!(
                "cargo test -p {name} compiles {} again: add {UNIFIED}.workspace = true to [dev-dependencies]",
                DEAR.join(", ")
            );
            Broken::new(&format!("crates/{name}/Cargo.toml"), 0, why)
        })
        .collect()
}

/// The crate reaches a dear dependency, by itself or by crates that it knows.
fn stands_on_dear(tree: &Tree, name: &str) -> bool {
    let manifest = manifest(tree, name).unwrap_or_default();
    let known = declared(&manifest, &["dependencies"]);
    known.iter().any(|known| {
        DEAR.contains(&known.as_str())
            || tree.crates().any(|name| name == known) && stands_on_dear(tree, known)
    })
}

/// Every external dependency has a row with a reason, names its users, and is declared once for the workspace.
pub fn external(tree: &Tree) -> Vec<Broken> {
    let crates: BTreeSet<String> = tree.crates().map(str::to_owned).collect();
    let mut used = BTreeSet::new();
    let mut broken = Vec::new();
    for name in &crates {
        let manifest = manifest(tree, name).unwrap_or_default();
        used.extend(
            &declared(&manifest, &["dependencies", "build-dependencies", "dev-dependencies"]) - &crates,
        );
        broken.extend(own_versions(&manifest).into_iter().map(|dependency| {
            let why = format!(
                "{dependency}: declare it in [workspace.dependencies] and say `workspace = true` here"
            );
            Broken::new(&format!("crates/{name}/Cargo.toml"), 0, why)
        }));
    }
    let mut explained = BTreeSet::new();
    for (line, cells) in table_rows(tree.get(MAP).unwrap_or_default(), "## Dependencies") {
        let names = cells.first().map(|cell| ticked(cell)).unwrap_or_default();
        if cells.get(1).is_none_or(|reason| reason.len() < 20) {
            broken.push(Broken::new(
                MAP,
                line,
                "say what the dependency does for us, why this one, who keeps it",
            ));
        }
        explained.extend(names.iter().cloned());
        broken.extend(
            names.difference(&used).map(|name| Broken::new(MAP, line, format!("nobody depends on {name}"))),
        );
    }
    broken.extend(used.difference(&explained).map(|name| {
        Broken::new(MAP, 0, format!("{name} is a dependency without a row under \"## Dependencies\""))
    }));
    broken
}

/// Names of the dependencies in these tables of a manifest, also in those of one target.
fn declared(manifest: &Table, tables: &[&str]) -> BTreeSet<String> {
    sections(manifest, tables).into_iter().flat_map(|section| section.keys().cloned()).collect()
}

/// Dependencies that a manifest declares by itself instead of taking the workspace's version.
fn own_versions(manifest: &Table) -> Vec<String> {
    let all = sections(manifest, &["dependencies", "build-dependencies", "dev-dependencies"]);
    let own = all
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.get("workspace").and_then(toml::Value::as_bool) != Some(true));
    own.map(|(name, _)| name.clone()).collect()
}

fn sections<'a>(manifest: &'a Table, tables: &[&str]) -> Vec<&'a Table> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values).filter_map(toml::Value::as_table);
    std::iter::once(manifest)
        .chain(targets)
        .flat_map(|place| tables.iter().filter_map(|table| place.get(*table)?.as_table()))
        .collect()
}

fn difference(line: usize, what: &str, table: &BTreeSet<String>, manifest: &BTreeSet<String>) -> Vec<Broken> {
    let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
    if table == manifest {
        return Vec::new();
    }
    vec![Broken::new(
        MAP,
        line,
        format!("{what} [{}] by the table, [{}] by the manifest", list(table), list(manifest)),
    )]
}

/// The rows below a heading's first table, without its head: line (from 1) and trimmed cells.
pub fn table_rows<'a>(document: &'a str, heading: &str) -> Vec<(usize, Vec<&'a str>)> {
    let lines = document.lines().enumerate().skip_while(|(_, line)| *line != heading).skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with("## "));
    let rows = section.filter(|(_, line)| line.starts_with('|')).skip(2);
    rows.map(|(at, line)| (at + 1, cells(line))).collect()
}

/// The trimmed cells of one row.
pub fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_start_matches('|').trim_end_matches('|').split('|').map(str::trim).collect()
}

/// The words between backticks.
pub fn ticked(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "\
## Crates

| crate | what | pure | knows | its tests |
|---|---|---|---|---|
| `order` | one order | pure | `history` | |
| `history` | nouns | pure | | |

## Dependencies

| crate | why |
|---|---|
| `bytes` | shared buffers without copies; the tokio project keeps it |
";
    const ORDER: &str = "[dependencies]\nhistory.workspace = true\nbytes.workspace = true\n";

    fn tree() -> Tree {
        Tree::of([(MAP, TABLES), ("crates/history/Cargo.toml", ""), ("crates/order/Cargo.toml", ORDER)])
    }

    #[test]
    fn tables_that_agree_with_the_manifests_pass() {
        assert_eq!((internal(&tree()), external(&tree())), (vec![], vec![]));
    }

    #[test]
    fn an_edge_must_stand_in_both() {
        let without = tree().with("crates/order/Cargo.toml", "[dependencies]\nbytes.workspace = true\n");
        assert_eq!(internal(&without).len(), 1, "in the table only");
        let more = tree().with("crates/history/Cargo.toml", "[dependencies]\norder.workspace = true\n");
        assert_eq!(internal(&more).len(), 1, "in the manifest only");
        let test = tree().with("crates/history/Cargo.toml", "[dev-dependencies]\norder.workspace = true\n");
        assert_eq!(internal(&test).len(), 1, "an edge of tests is an edge");
    }

    #[test]
    fn a_crate_must_stand_in_the_table() {
        assert_eq!(internal(&tree().with("crates/wire/Cargo.toml", "")).len(), 1);
    }

    #[test]
    fn a_dependency_is_explained_and_used() {
        let more = tree().with("crates/history/Cargo.toml", "[dependencies]\nserde.workspace = true\n");
        assert_eq!(external(&more).len(), 1, "not explained");
        let fewer = tree().with("crates/order/Cargo.toml", "[dependencies]\nhistory.workspace = true\n");
        assert_eq!(external(&fewer).len(), 1, "not used");
        let own = tree()
            .with("crates/order/Cargo.toml", "[dependencies]\nhistory.workspace = true\nbytes = \"1\"\n");
        assert_eq!(external(&own).len(), 1, "its own version");
    }

    #[test]
    fn tests_on_a_dear_dependency_unify_features() {
        let lower = tree().with("crates/history/Cargo.toml", "[dependencies]\ntokio.workspace = true\n");
        assert_eq!(unified(&tree()), []);
        assert_eq!(unified(&lower).len(), 2, "order stands on history");
        let declared = format!("{ORDER}[dev-dependencies]\nunified-features.workspace = true\n");
        assert_eq!(unified(&lower.with("crates/order/Cargo.toml", &declared)).len(), 1);
    }
}
