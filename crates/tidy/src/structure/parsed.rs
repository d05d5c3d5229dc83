//! What the laws of structure see of a crate: its modules' imports, its types with their sizes, its statics.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, ItemStatic, ItemStruct, Type, UseTree};

use crate::source::lines;
use crate::tree::Tree;

/// Types that hold state wherever they stand in a `static`.
const STATE: &[&str] = &["Atomic", "Cell", "Lock", "Mutex"];

/// A crate's sources.
#[derive(Debug, Default)]
pub(super) struct Crate {
    pub(super) name: String,
    /// The folder of its sources.
    pub(super) root: String,
    /// Module at the top of the crate, and those that it names.
    pub(super) imports: BTreeMap<String, BTreeSet<String>>,
    pub(super) types: Vec<Measured>,
    /// Path and name of each `static` with state.
    pub(super) statics: Vec<(String, String)>,
    /// Lines of `src`, tests apart.
    pub(super) lines: usize,
    /// Items that the root passes on, and the module they come from.
    passed_on: BTreeMap<String, String>,
}

/// A type of a crate, with what its `impl` blocks add.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) path: String,
    pub(super) name: String,
    pub(super) fields: usize,
    pub(super) methods: usize,
    pub(super) files: BTreeSet<String>,
}

/// All crates of the tree.
pub(super) fn crates(tree: &Tree) -> Vec<Crate> {
    let mut sources: BTreeMap<&str, Vec<(&str, syn::File)>> = BTreeMap::new();
    let mut found: BTreeMap<&str, Crate> = BTreeMap::new();
    for (path, text) in tree.rust() {
        let Some((name, within)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"))
        else {
            continue;
        };
        let one = found.entry(name).or_insert_with(|| Crate {
            name: name.to_owned(),
            root: format!("crates/{name}/src"),
            ..Crate::default()
        });
        one.lines += lines(path, text).iter().filter(|line| !line.test).count();
        let is_test = within == "tests.rs" || within.ends_with("/tests.rs") || within.contains("tests/");
        // What does not parse is the compiler's to tell.
        if let (false, Ok(file)) = (is_test, syn::parse_file(text)) {
            sources.entry(name).or_default().push((path, file));
        }
    }
    for (name, files) in sources {
        let one = found.get_mut(name).expect("each source has its crate");
        read(one, &files);
    }
    found.into_values().collect()
}

fn read(one: &mut Crate, files: &[(&str, syn::File)]) {
    for (path, file) in files {
        if is_root(path) {
            passed_on(one, file);
        }
        let mut types = Types { path, found: Vec::new() };
        types.visit_file(file);
        one.types.extend(types.found);
    }
    for (path, file) in files {
        let mut seen = Seen { one, path, module: module(path) };
        seen.visit_file(file);
    }
}

fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

/// The module at the top of the crate that a file belongs to; none for the root.
fn module(path: &str) -> Option<String> {
    let within = path.split_once("/src/")?.1;
    let top = within.split('/').next().unwrap_or(within).trim_end_matches(".rs");
    (!is_root(path)).then(|| top.to_owned())
}

/// `pub use a::{B, c::D};` of the root: B and D come from a.
fn passed_on(one: &mut Crate, file: &syn::File) {
    for item in &file.items {
        let Item::Use(item) = item else { continue };
        let UseTree::Path(first) = &item.tree else { continue };
        let from = first.ident.to_string();
        if !["crate", "self", "std"].contains(&from.as_str()) {
            leaves(&first.tree, &mut |leaf| {
                one.passed_on.insert(leaf, from.clone());
            });
        }
    }
}

fn leaves(tree: &UseTree, with: &mut impl FnMut(String)) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, with),
        UseTree::Name(name) => with(name.ident.to_string()),
        UseTree::Rename(rename) => with(rename.rename.to_string()),
        UseTree::Glob(_) => {}
        UseTree::Group(group) => group.items.iter().for_each(|item| leaves(item, with)),
    }
}

/// The first names of a tree: those that stand behind `crate::`.
fn firsts(tree: &UseTree, with: &mut impl FnMut(String)) {
    match tree {
        UseTree::Path(path) => with(path.ident.to_string()),
        UseTree::Name(name) => with(name.ident.to_string()),
        UseTree::Rename(rename) => with(rename.ident.to_string()),
        UseTree::Glob(_) => {}
        UseTree::Group(group) => group.items.iter().for_each(|item| firsts(item, with)),
    }
}

fn of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.meta.to_token_stream().to_string().contains("test")
    })
}

/// Finds the structs and enums of a file.
struct Types<'a> {
    path: &'a str,
    found: Vec<Measured>,
}

impl Types<'_> {
    fn add(&mut self, name: String, fields: usize) {
        self.found.push(Measured {
            path: self.path.to_owned(),
            name,
            fields,
            methods: 0,
            files: BTreeSet::new(),
        });
    }
}

impl<'ast> Visit<'ast> for Types<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !of_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let fields = match &item.fields {
            Fields::Named(fields) => fields.named.len(),
            Fields::Unnamed(fields) => fields.unnamed.len(),
            Fields::Unit => 0,
        };
        self.add(item.ident.to_string(), fields);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(item.ident.to_string(), 0);
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Finds imports, methods and statics of a file.
struct Seen<'a> {
    one: &'a mut Crate,
    path: &'a str,
    module: Option<String>,
}

impl Seen<'_> {
    /// `crate::NAME` stands in the file.
    fn names(&mut self, name: String) {
        let Some(module) = &self.module else { return };
        let to = self.one.passed_on.get(&name).cloned().unwrap_or(name);
        let is_module = to.starts_with(|first: char| first.is_ascii_lowercase());
        if is_module && to != *module {
            self.one.imports.entry(module.clone()).or_default().insert(to);
        }
    }

    /// Paths in what a macro is given.
    fn tokens(&mut self, tokens: TokenStream) {
        let all: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in all.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(word) if word == "crate" => {
                    if let Some(TokenTree::Ident(name)) = all.get(at + 3) {
                        self.names(name.to_string());
                    }
                }
                TokenTree::Ident(word) if word == "static" => {
                    if let (Some(TokenTree::Ident(name)), true) = (all.get(at + 1), has_state(&all)) {
                        self.one.statics.push((self.path.to_owned(), name.to_string()));
                    }
                }
                _ => {}
            }
        }
    }
}

fn has_state(tokens: &[TokenTree]) -> bool {
    tokens.iter().any(|token| match token {
        TokenTree::Ident(word) => STATE.iter().any(|state| word.to_string().contains(state)),
        TokenTree::Group(group) => has_state(&group.stream().into_iter().collect::<Vec<_>>()),
        _ => false,
    })
}

impl<'ast> Visit<'ast> for Seen<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !of_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if let UseTree::Path(path) = &item.tree
            && path.ident == "crate"
        {
            let mut names = Vec::new();
            firsts(&path.tree, &mut |name| names.push(name));
            names.into_iter().for_each(|name| self.names(name));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter();
        if segments.next().is_some_and(|first| first.ident == "crate")
            && let Some(second) = segments.next()
        {
            self.names(second.ident.to_string());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        if has_state(&item.ty.to_token_stream().into_iter().collect::<Vec<_>>()) {
            self.one.statics.push((self.path.to_owned(), item.ident.to_string()));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let methods = item.items.iter().filter(|item| matches!(item, ImplItem::Fn(_))).count();
        if let Type::Path(of) = &*item.self_ty
            && let Some(name) = of.path.segments.last().map(|segment| segment.ident.to_string())
        {
            let common =
                |other: &str| self.path.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
            let nearest =
                self.one.types.iter_mut().filter(|it| it.name == name).max_by_key(|it| common(&it.path));
            if let Some(it) = nearest {
                it.methods += methods;
                it.files.insert(self.path.to_owned());
            }
        }
        visit::visit_item_impl(self, item);
    }
}
