//! The shape of the code inside a crate: no import cycles between its modules, no oversized crate or type, no global state.
//!
//! Files are parsed by `syn`; test files and items behind `#[cfg(test)]` do not count.

mod exceptions;
mod parsed;

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{Broken, Tree};
use exceptions::{CYCLES, FIELDS, FILES, LINES, METHODS, STATICS};
use parsed::{Crate, Measured, crates};

/// Lines of `src` that a crate may have, tests apart.
const MAX_CRATE_LINES: usize = 12_000;
/// An exception for a crate's lines may be larger than the crate by so many.
const LINES_SLACK: usize = 1_000;
/// Fields that a struct may have.
const MAX_FIELDS: usize = 16;
/// Methods that a type may have, in all its `impl` blocks.
const MAX_METHODS: usize = 40;
/// Files that the `impl` blocks of a type may lie in.
const MAX_FILES: usize = 4;

/// The lists of what is known.
const LISTS: &str = "crates/tidy/src/structure/exceptions.rs, whose lists only shrink";

/// A figure that the tree has and the law forbids: path, name, figure. It may only go down.
pub(crate) type Exception = (&'static str, &'static str, usize);

/// The laws of structure, over sources that are parsed once.
pub fn structure(tree: &Tree) -> Vec<Broken> {
    let crates = crates(tree);
    let types = |limit, known, what, figure: fn(&Measured) -> usize| {
        let all = crates.iter().flat_map(|one| &one.types);
        let figures = all.map(|it| Figure { path: &it.path, name: &it.name, figure: figure(it) });
        above(figures, (limit, 0), known, what)
    };
    let mut broken: Vec<Broken> = crates.iter().flat_map(|one| cycles_of(one, CYCLES)).collect();
    broken.extend(sizes(&crates));
    broken.extend(types(MAX_FIELDS, FIELDS, "fields: it is several types", |it| it.fields));
    broken.extend(types(MAX_METHODS, METHODS, "methods: it is several types", |it| it.methods));
    broken.extend(types(MAX_FILES, FILES, "files with its impl: it is several types", |it| it.files.len()));
    broken.extend(crates.iter().flat_map(|one| global_state(one, STATICS)));
    broken
}

fn sizes(crates: &[Crate]) -> Vec<Broken> {
    let figures = crates.iter().map(|one| Figure { path: &one.root, name: "src", figure: one.lines });
    above(figures, (MAX_CRATE_LINES, LINES_SLACK), LINES, "lines: split the crate by what it knows")
}

/// A figure of a crate or of a type in it.
struct Figure<'a> {
    path: &'a str,
    name: &'a str,
    figure: usize,
}

fn cycles_of(one: &Crate, known: &[(&str, &str)]) -> Vec<Broken> {
    let known: Vec<&str> =
        known.iter().filter(|(name, _)| *name == one.name).map(|(_, cycle)| *cycle).collect();
    let found = cycles(&one.imports);
    let new = found.iter().filter(|cycle| !known.contains(&cycle.as_str())).map(|cycle| {
        let why = format!(
            "import cycle {{{cycle}}}: move what both sides need into a module below them (known cycles: {LISTS})"
        );
        Broken::new(&one.root, 0, why)
    });
    let gone = known.iter().filter(|cycle| !found.iter().any(|it| it == *cycle)).map(|cycle| {
        Broken::new(&one.root, 0, format!("the cycle {{{cycle}}} is not there as listed: correct the list"))
    });
    new.chain(gone).collect()
}

/// The sets of modules that reach each other, each as its sorted names.
fn cycles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|from| (from.as_str(), reachable(imports, from))).collect();
    let mut found = BTreeSet::new();
    for (from, to) in &reached {
        let cycle: Vec<&str> = to
            .iter()
            .copied()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(from)))
            .collect();
        if cycle.len() > 1 {
            found.insert(cycle.join(" "));
        }
    }
    found.into_iter().collect()
}

fn reachable<'a>(imports: &'a BTreeMap<String, BTreeSet<String>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        for other in imports.get(next).into_iter().flatten() {
            if reached.insert(other.as_str()) {
                open.push(other);
            }
        }
    }
    reached
}

/// Figures above the limit that are not the exception's, and exceptions that are larger by more than `slack` than what is there.
fn above<'a>(
    figures: impl Iterator<Item = Figure<'a>>,
    (limit, slack): (usize, usize),
    known: &[Exception],
    what: &str,
) -> Vec<Broken> {
    let mut broken = Vec::new();
    for Figure { path, name, figure } in figures {
        let known =
            known.iter().find(|(known_path, known_name, _)| *known_path == path && *known_name == name);
        let allowed = known.map_or(limit, |(_, _, allowed)| *allowed);
        let why = match figure {
            more if more > allowed => format!("{name} has {figure} {what} (at most {allowed})"),
            less if known.is_some() && less + slack < allowed => {
                format!("{name} has {figure} and is listed with {allowed}: lower {LISTS}")
            }
            _ => continue,
        };
        broken.push(Broken::new(path, 0, why));
    }
    broken
}

/// No `static` holds state: configuration, counters and clocks are passed.
fn global_state(one: &Crate, known: &[(&str, &str)]) -> Vec<Broken> {
    let new = one.statics.iter().filter(|(path, name)| !known.contains(&(path, name)));
    new.map(|(path, name)| {
        Broken::new(
            path,
            0,
            format!("static {name} is global state: pass it, so that two clusters fit in one process"),
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::structure as law;
    use super::*;

    const ROOT: &str = "//! x\nmod a;\nmod b;\nmod c;\npub use c::Deep;\n";

    fn tree(a: &str, b: &str, c: &str) -> Tree {
        Tree::of([
            ("crates/x/src/lib.rs", ROOT),
            ("crates/x/src/a.rs", a),
            ("crates/x/src/b/mod.rs", b),
            ("crates/x/src/c.rs", c),
        ])
    }

    #[test]
    fn cycle_through_paths_and_groups_is_found() {
        assert_eq!(law(&tree("use crate::b::B;", "use crate::c::C;", "")), []);
        let through_path = tree("use crate::b::B;", "fn f() { crate::a::g() }", "");
        assert!(law(&through_path)[0].why.contains("{a b}"));
        let through_group = tree("use crate::{b::B, c};", "", "use crate::{a::{A, Z}};");
        assert!(law(&through_group)[0].why.contains("{a c}"));
        let through_the_root = tree("use crate::Deep;", "", "use crate::a;");
        assert!(law(&through_the_root)[0].why.contains("{a c}"));
        let in_macro = tree("use crate::b;", "fn f() { println!(\"{}\", crate::a::g()) }", "");
        assert!(law(&in_macro)[0].why.contains("{a b}"));
        let in_tests_alone = tree("use crate::b;", "#[cfg(test)]\nmod tests { use crate::a::A; }", "");
        assert_eq!(law(&in_tests_alone), []);
    }

    #[test]
    fn listed_cycle_that_is_gone_is_named() {
        let tree = tree("use crate::b::B;", "", "");
        let broken = cycles_of(&crates(&tree)[0], &[("x", "a b")]);
        assert!(broken[0].why.contains("correct the list"), "{broken:?}");
    }

    #[test]
    fn oversized_types_are_found() {
        let fields: String = (0..17).map(|n| format!("f{n}: u8,")).collect();
        let methods: String = (0..41).map(|n| format!("fn m{n}() {{}}")).collect();
        let text = format!("struct Big {{ {fields} }}\nimpl Big {{ {methods} }}");
        let tree = tree(&text, "impl crate::a::Big { fn more() {} }", "");
        assert!(law(&tree)[0].why.starts_with("Big has 17 fields"));
        assert!(law(&tree)[1].why.starts_with("Big has 42 methods"));
        assert_eq!(law(&tree).len(), 2);
        let spread: Vec<String> = (0..5).map(|n| format!("crates/y/src/m{n}.rs")).collect();
        let root = ("crates/y/src/lib.rs", "//! y\nstruct Wide;");
        let spread = Tree::of(
            spread.iter().map(|path| (path.as_str(), "impl crate::Wide { fn f() {} }")).chain([root]),
        );
        assert!(law(&spread)[0].why.starts_with("Wide has 5 files"));
    }

    #[test]
    fn exceptions_only_shrink() {
        let figures = |figure| std::iter::once(Figure { path: "p", name: "Big", figure });
        let known: &[Exception] = &[("p", "Big", 20)];
        assert_eq!(above(figures(20), (16, 0), known, "fields"), []);
        assert_eq!(above(figures(21), (16, 0), known, "fields").len(), 1);
        assert!(above(figures(19), (16, 0), known, "fields")[0].why.contains("lower"));
    }

    #[test]
    fn state_in_a_static_is_found_and_a_table_is_not() {
        let tree = tree(
            "static TABLE: &[u8] = &[1];\nstatic COUNT: std::sync::atomic::AtomicU32 = AtomicU32::new(0);",
            "fn f() { static ONCE: OnceLock<u8> = OnceLock::new(); }",
            "thread_local! { static HERE: Cell<u8> = Cell::new(0); }",
        );
        let names: Vec<String> = law(&tree).iter().map(|broken| broken.why.clone()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
    }
}
