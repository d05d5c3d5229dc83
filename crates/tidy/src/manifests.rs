//! What every crate's manifest must say: the workspace's lints, no unsafe code, a name that says something.

use toml::Table;

use crate::tree::{Broken, Tree};

/// Names that say nothing about what lives in a crate.
const EMPTY: &[&str] = &["types", "common", "utils", "util", "core", "misc", "helpers", "shared", "base"];

/// A crate's manifest.
pub fn manifest(tree: &Tree, name: &str) -> Option<Table> {
    tree.get(&format!("crates/{name}/Cargo.toml"))?.parse().ok()
}

/// `[lints] workspace = true` stands in each manifest.
pub fn lints(tree: &Tree) -> Vec<Broken> {
    let takes = |name: &str| {
        let manifest = manifest(tree, name)?;
        manifest.get("lints")?.get("workspace")?.as_bool()
    };
    tree.crates()
        .filter(|name| takes(name) != Some(true))
        .map(|name| {
            Broken::new(&format!("crates/{name}/Cargo.toml"), 0, "[lints] workspace = true is missing")
        })
        .collect()
}

/// The workspace forbids unsafe code, and `forbid` cannot be taken back below it.
pub fn unsafe_forbidden(tree: &Tree) -> Vec<Broken> {
    let level = || {
        let root: Table = tree.get("Cargo.toml")?.parse().ok()?;
        Some(root.get("workspace")?.get("lints")?.get("rust")?.get("unsafe_code")?.as_str()?.to_owned())
    };
    match level().as_deref() {
        Some("forbid") => Vec::new(),
        _ => vec![Broken::new("Cargo.toml", 0, "[workspace.lints.rust] unsafe_code = \"forbid\" is missing")],
    }
}

/// A crate is named for what lives in it, and its package as its folder.
pub fn crate_names(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for folder in tree.crates() {
        let path = format!("crates/{folder}/Cargo.toml");
        if EMPTY.contains(&folder) {
            broken.push(Broken::new(&path, 0, format!("\"{folder}\" says nothing about what lives here")));
        }
        let package = manifest(tree, folder)
            .and_then(|manifest| Some(manifest.get("package")?.get("name")?.as_str()?.to_owned()));
        if package.as_deref() != Some(folder) {
            broken.push(Broken::new(&path, 0, format!("the package is not named {folder} as its folder is")));
        }
    }
    broken
}

/// LTO is only in the profile of what is handed out: elsewhere it makes builds slow.
pub fn lto(tree: &Tree) -> Vec<Broken> {
    let root: Table = tree.get("Cargo.toml").and_then(|text| text.parse().ok()).unwrap_or_default();
    let profiles = root.get("profile").and_then(toml::Value::as_table).into_iter().flatten();
    profiles
        .filter(|(name, profile)| *name != "dist" && profile.get("lto").is_some())
        .map(|(name, _)| Broken::new("Cargo.toml", 0, format!("[profile.{name}] has lto: only dist may")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lto_outside_of_dist_is_found() {
        let tree = |profile: &str| Tree::of([("Cargo.toml", profile)]);
        assert_eq!(lto(&tree("[profile.dist]\nlto = \"fat\"")), []);
        assert_eq!(lto(&tree("[profile.release]\nlto = \"thin\"")).len(), 1);
    }

    #[test]
    fn each_law_of_manifests_can_be_broken() {
        let bare =
            Tree::of([("crates/utils/Cargo.toml", "[package]\nname = \"other\"\n"), ("Cargo.toml", "")]);
        assert_eq!(lints(&bare).len(), 1);
        assert_eq!(unsafe_forbidden(&bare).len(), 1);
        assert_eq!(crate_names(&bare).len(), 2);
    }

    #[test]
    fn a_manifest_as_it_should_be() {
        let tree = Tree::of([
            ("crates/order/Cargo.toml", "[package]\nname = \"order\"\n[lints]\nworkspace = true\n"),
            ("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"),
        ]);
        assert_eq!((lints(&tree), unsafe_forbidden(&tree), crate_names(&tree)), (vec![], vec![], vec![]));
    }
}
