//! Planted bugs stay out of the product: their switches stand behind the feature `planted`, which only the simulator and
//! tests turn on.

use syn::visit::{self, Visit};
use syn::{Attribute, Field, ItemStruct};
use toml::{Table, Value};

use crate::manifests::manifest;
use crate::tree::{Broken, Tree};

/// The crate that has the sets of planted bugs, and the name of its feature.
const PLANTED: &str = "planted";
/// The crate that runs with planted bugs.
const SIMULATOR: &str = "sim";
/// The crate that turns features on for tests.
const FOR_TESTS: &str = "unified-features";
/// Crates that turn the feature on in what depends on them.
const TURN_ON: [&str; 2] = [SIMULATOR, FOR_TESTS];

/// Switches of planted bugs are sets of the crate `planted`, whose feature no crate of the product turns on.
pub fn planted(tree: &Tree) -> Vec<Broken> {
    let mut broken = root(tree);
    for name in tree.crates() {
        broken.extend(features(tree, name));
        broken.extend(dependencies(tree, name));
    }
    for (path, text) in tree.rust().filter(|(path, _)| holds_switches(path)) {
        // What does not parse is the compiler's to tell.
        let Ok(file) = syn::parse_file(text) else { continue };
        let mut switches = Switches { path, broken: Vec::new() };
        switches.visit_file(&file);
        broken.extend(switches.broken);
    }
    broken
}

/// Sources that production runs.
fn holds_switches(path: &str) -> bool {
    let source = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"));
    source.is_some_and(|(name, _)| ![SIMULATOR, "tidy"].contains(&name))
}

/// The root turns the feature on for nobody, and builds no simulator beside the product.
fn root(tree: &Tree) -> Vec<Broken> {
    const ROOT: &str = "Cargo.toml";
    let manifest: Table = tree.get(ROOT).and_then(|text| text.parse().ok()).unwrap_or_default();
    let Some(workspace) = manifest.get("workspace").and_then(Value::as_table) else { return Vec::new() };
    let members = workspace.get("default-members").and_then(Value::as_array).into_iter().flatten();
    let with_product =
        members.filter_map(Value::as_str).any(|member| TURN_ON.iter().any(|name| member.ends_with(name)));
    let everywhere = turned_on(workspace, "dependencies").is_some();
    let mut broken = Vec::new();
    if with_product {
        let why =
            "default-members has a crate that turns the feature planted on for the product: leave it out";
        broken.push(Broken::new(ROOT, 0, why));
    }
    if everywhere {
        let why =
            "[workspace.dependencies] turns the feature planted on for everybody: only sim and tests may";
        broken.push(Broken::new(ROOT, 0, why));
    }
    broken
}

/// The feature is of the crate `planted` alone, and no default.
fn features(tree: &Tree, name: &str) -> Vec<Broken> {
    let manifest = manifest(tree, name).unwrap_or_default();
    let features = manifest.get("features").and_then(Value::as_table).into_iter().flatten();
    let turns_on = |(feature, on): &(&String, &Value)| {
        let named = |one: &Value| one.as_str().is_some_and(|one| one.rsplit('/').next() == Some(PLANTED));
        let on = on.as_array().is_some_and(|on| on.iter().any(named));
        on || (feature.as_str() == PLANTED && name != PLANTED)
    };
    features
        .filter(turns_on)
        .map(|(feature, _)| {
            let why = format!(
                "the feature {feature} turns planted bugs on: only the crate {PLANTED} has the feature, and \
                 dependents name it as {PLANTED} = {{ workspace = true, features = [\"{PLANTED}\"] }}"
            );
            Broken::new(&format!("crates/{name}/Cargo.toml"), 0, why)
        })
        .collect()
}

/// No crate of the product turns the feature on, by itself or by the simulator.
fn dependencies(tree: &Tree, name: &str) -> Vec<Broken> {
    if TURN_ON.contains(&name) {
        return Vec::new();
    }
    let manifest = manifest(tree, name).unwrap_or_default();
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let tables = targets.filter_map(|(_, target)| target.as_table()).chain([&manifest]);
    let kinds = ["dependencies", "build-dependencies"];
    let found = tables.flat_map(|table| kinds.into_iter().filter_map(|kind| turned_on(table, kind)));
    found
        .map(|dependency| {
            let why = format!(
                "{dependency} turns planted bugs on in what depends on {name}: only {SIMULATOR} and \
                 [dev-dependencies] may"
            );
            Broken::new(&format!("crates/{name}/Cargo.toml"), 0, why)
        })
        .collect()
}

/// The dependency of such a table that turns the feature on, if one does.
fn turned_on(table: &Table, kind: &str) -> Option<String> {
    let dependencies = table.get(kind)?.as_table()?;
    let turns_on = |(name, dependency): &(&String, &Value)| {
        let features = dependency.get("features").and_then(Value::as_array).into_iter().flatten();
        let is_built_in = TURN_ON.contains(&name.as_str()) && dependency.get("path").is_none();
        is_built_in || features.into_iter().any(|feature| feature.as_str() == Some(PLANTED))
    };
    dependencies.iter().find(turns_on).map(|(name, _)| name.clone())
}

/// Finds switches of planted bugs that are there without the feature.
struct Switches<'a> {
    path: &'a str,
    broken: Vec<Broken>,
}

impl Switches<'_> {
    fn refuse(&mut self, switch: &str) {
        let why = format!(
            "{switch} is a switch of a planted bug in every build: name the bug in planted::bugs! and ask \
             bugs.has(Bug::Name), or put it behind #[cfg(feature = \"{PLANTED}\")]"
        );
        self.broken.push(Broken::new(self.path, 0, why));
    }
}

impl<'ast> Visit<'ast> for Switches<'_> {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let of_bugs = ["Bug", "Bugs"].iter().any(|end| item.ident.to_string().ends_with(end));
        if of_bugs && !behind_feature(&item.attrs) {
            for field in item.fields.iter().filter(|field| is_switch(field) && !behind_feature(&field.attrs))
            {
                self.refuse(&format!("{}::{}", item.ident, field_name(field)));
            }
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_field(&mut self, field: &'ast Field) {
        let about = |attribute: &Attribute| match &attribute.meta {
            syn::Meta::NameValue(doc) if doc.path.is_ident("doc") => {
                quote::ToTokens::to_token_stream(&doc.value).to_string().contains("planted bug")
            }
            _ => false,
        };
        let is_flag = matches!(&field.ty, syn::Type::Path(path) if path.path.is_ident("bool"));
        if is_flag && field.attrs.iter().any(about) && !behind_feature(&field.attrs) {
            self.refuse(&field_name(field));
        }
    }
}

fn field_name(field: &Field) -> String {
    field.ident.as_ref().map_or_else(|| "a field".to_owned(), ToString::to_string)
}

/// Whether the field holds something when a program runs.
fn is_switch(field: &Field) -> bool {
    let syn::Type::Path(path) = &field.ty else { return true };
    path.path.segments.last().is_none_or(|last| last.ident != "PhantomData")
}

fn behind_feature(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = quote::ToTokens::to_token_stream(&attribute.meta).to_string();
        attribute.path().is_ident("cfg") && text.contains("feature = \"planted\"") && !text.contains("not")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        planted(&Tree::of([(path, text)])).len()
    }

    #[test]
    fn switch_without_the_feature_is_found() {
        const AT: &str = "crates/scheduler/src/bugs.rs";
        assert_eq!(found(AT, "pub struct Bugs { pub standby_live: bool, pub oid_differs: bool }"), 2);
        assert_eq!(
            found(AT, "struct Bugs<B> { #[cfg(feature = \"planted\")] set: u64, of: PhantomData<B> }"),
            0
        );
        assert_eq!(found(AT, "struct Bugs { #[cfg(not(feature = \"planted\"))] set: u64 }"), 1);
        assert_eq!(found(AT, "struct Rows { /// A planted bug.\n keep_floor: bool, bugs: Bugs }"), 1);
    }

    #[test]
    fn product_that_turns_the_feature_on_is_found() {
        let line = "planted = { workspace = true, features = [\"planted\"] }";
        let at = |name: &str| format!("crates/{name}/Cargo.toml");
        assert_eq!(found(&at("node"), &format!("[dependencies]\n{line}")), 1);
        assert_eq!(found(&at("node"), &format!("[target.'cfg(unix)'.dependencies]\n{line}")), 1);
        assert_eq!(found(&at("node"), "[dependencies]\nsim.workspace = true"), 1);
        assert_eq!(found(&at("node"), "[dependencies]\nunified-features.workspace = true"), 1);
        assert_eq!(found(&at("node"), "[dev-dependencies]\nunified-features.workspace = true"), 0);
        assert_eq!(found(&at("node"), "[dependencies]\nplanted.workspace = true"), 0);
        assert_eq!(found(&at("order"), &format!("[dev-dependencies]\n{line}")), 0);
        assert_eq!(found(&at("sim"), &format!("[dependencies]\n{line}")), 0);
        assert_eq!(found(&at("unified-features"), &format!("[dependencies]\n{line}")), 0);
        assert_eq!(found("Cargo.toml", &format!("[workspace.dependencies]\n{line}")), 1);
        assert_eq!(found("Cargo.toml", "[workspace.dependencies]\nsim = { path = \"crates/sim\" }"), 0);
        assert_eq!(
            found("Cargo.toml", "[workspace]\ndefault-members = [\"crates/consort\", \"crates/sim\"]"),
            1
        );
    }

    #[test]
    fn feature_that_is_a_default_or_passed_on_is_found() {
        assert_eq!(found("crates/planted/Cargo.toml", "[features]\nplanted = []"), 0);
        assert_eq!(
            found("crates/planted/Cargo.toml", "[features]\ndefault = [\"planted\"]\nplanted = []"),
            1
        );
        assert_eq!(found("crates/node/Cargo.toml", "[features]\nbugs = [\"planted/planted\"]"), 1);
        assert_eq!(found("crates/node/Cargo.toml", "[features]\nplanted = []"), 1);
    }
}
