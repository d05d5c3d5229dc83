//! What every crate's manifest must say: the workspace's lints, no unsafe code, a name that says something.

use toml::Table;

use crate::tree::{Broken, Tree};

/// Names that say nothing about what lives in a crate.
const EMPTY: &[&str] = &["types", "common", "utils", "util", "core", "misc", "helpers", "shared", "base"];

/// A crate's manifest.
pub fn manifest(tree: &Tree, name: &str) -> Option<Table> {
    tree.get(&format!("crates/{name}/Cargo.toml"))?.parse().ok()
}

/// The crate that may have unsafe code, in one module: SQLite calls its virtual file system through pointers of C.
const UNSAFE: &str = "pages";

/// `[lints] workspace = true` stands in each manifest. A lint that the workspace forbids cannot be allowed below it, so
/// the crate with unsafe code repeats the workspace's lints and denies `unsafe_code` instead.
pub fn lints(tree: &Tree) -> Vec<Broken> {
    let own = workspace_lints(tree).map(|mut lints| {
        if let Some(level) = lints.get_mut("rust").and_then(|rust| rust.get_mut("unsafe_code")) {
            *level = "deny".into();
        }
        lints
    });
    let takes = |name: &str| {
        let manifest = manifest(tree, name)?;
        manifest.get("lints")?.get("workspace")?.as_bool()
    };
    let repeats = |name: &str| manifest(tree, name).and_then(|mut manifest| manifest.remove("lints")) == own;
    tree.crates()
        .filter(|name| if *name == UNSAFE { !repeats(name) } else { takes(name) != Some(true) })
        .map(|name| {
            let missing = match name {
                UNSAFE => "[lints] is not the workspace's with unsafe_code = \"deny\"",
                _ => "[lints] workspace = true is missing",
            };
            Broken::new(&format!("crates/{name}/Cargo.toml"), 0, missing)
        })
        .collect()
}

fn workspace_lints(tree: &Tree) -> Option<toml::Value> {
    let mut root: Table = tree.get("Cargo.toml")?.parse().ok()?;
    root.get_mut("workspace")?.as_table_mut()?.remove("lints")
}

/// The workspace forbids unsafe code, and `forbid` cannot be taken back below it.
pub fn unsafe_forbidden(tree: &Tree) -> Vec<Broken> {
    let level = || Some(workspace_lints(tree)?.get("rust")?.get("unsafe_code")?.as_str()?.to_owned());
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
    fn the_crate_with_unsafe_code_repeats_all_other_lints() {
        let lints = |prefix: &str, level: &str, docs: &str| {
            format!("[{prefix}lints.rust]\nunsafe_code = \"{level}\"\nmissing_docs = \"{docs}\"\n")
        };
        let broken = |manifest: &str| {
            let root = lints("workspace.", "forbid", "warn");
            super::lints(&Tree::of([("crates/pages/Cargo.toml", manifest), ("Cargo.toml", &root)])).len()
        };
        assert_eq!(broken(&lints("", "deny", "warn")), 0);
        assert_eq!(broken(&lints("", "allow", "warn")), 1);
        assert_eq!(broken(&lints("", "deny", "allow")), 1);
        assert_eq!(broken("[lints]\nworkspace = true\n"), 1, "no unsafe code could be excepted");
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
