//! The words of comments, messages and documents, counted: what the rules of writing refuse must not become more.
//!
//! Each count has a figure in `crates/tidy/figures.toml`. A count above its figure breaks the law, and so does a figure
//! far above its count: figures only go down. `cargo run -p tidy --example prose NAME` lists the places of one count.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};

use crate::dependencies::cells;
use crate::tree::{Broken, Tree};

/// The figures, by the name of each count.
const FIGURES: &str = "crates/tidy/figures.toml";

/// Slack of a figure: a commit that lowers a count by more than this lowers the figure too.
const SLACK: usize = 40;

/// Words that begin no sentence: a noun or an imperative does (CONTRIBUTING.md, "Write").
const OPENINGS: &[&str] =
    &["who", "whoever", "what", "whatever", "nobody", "somebody", "of", "that", "those", "it"];

/// Words that have a plainer one (CONTRIBUTING.md, "Write").
const WORDS: &[&str] =
    &["nobody", "somebody", "anew", "mend", "mends", "mended", "heed", "heeds", "heeded", "beside"];

/// Phrases that have a plainer word.
const PHRASES: &[&str] = &["is no more", "by itself", "another life"];

/// Words in a cell of a table.
const CELL_WORDS: usize = 30;

/// Documents whose words are not ours alone: records of runs, with the papers' sentences.
const RECORDS: &[&str] = &["docs/experiments/", "CHANGELOG.md", "LICENSE"];

/// A named count, and the places that it counts.
pub type Count = (&'static str, Vec<Broken>);

/// All counts of a tree.
pub fn counts(tree: &Tree) -> Vec<Count> {
    let mut comments = (Vec::new(), Vec::new());
    let mut messages = (Vec::new(), Vec::new());
    for (path, text) in tree.rust().filter(|(path, _)| !path.starts_with("crates/tidy/")) {
        in_comments(path, text, &mut comments);
        if path.contains("/src/") && !path.ends_with("tests.rs") && !path.contains("/tests/") {
            in_messages(path, text, &mut messages);
        }
    }
    let mut documents = (Vec::new(), Vec::new());
    let mut long = Vec::new();
    let ours = |path: &str| !RECORDS.iter().any(|record| path.starts_with(record));
    for (path, text) in tree.documents().filter(|(path, _)| ours(path)) {
        in_document(path, text, &mut documents);
        long.extend(long_cells(path, text));
    }
    vec![
        ("comment_openings", comments.0),
        ("comment_words", comments.1),
        ("message_openings", messages.0),
        ("message_words", messages.1),
        ("document_openings", documents.0),
        ("document_words", documents.1),
        ("document_cells", long),
    ]
}

/// No count is above its figure, and no figure far above its count.
pub fn prose(tree: &Tree) -> Vec<Broken> {
    let figures: toml::Table = tree.get(FIGURES).and_then(|text| text.parse().ok()).unwrap_or_default();
    let mut broken = Vec::new();
    for (name, places) in counts(tree) {
        let figure = figures.get(name).and_then(toml::Value::as_integer).unwrap_or_default();
        let figure = usize::try_from(figure).unwrap_or_default();
        let found = places.len();
        let list = format!("`cargo run -p tidy --example prose {name}` lists them");
        if found > figure {
            let why = format!("{name}: {found} places, {figure} allowed; reword the new ones: {list}");
            broken.push(Broken::new(FIGURES, 0, why));
        } else if figure > found + SLACK {
            broken.push(Broken::new(FIGURES, 0, format!("{name}: lower the figure {figure} to {found}")));
        }
    }
    broken
}

/// Places of openings, and of words.
type Places = (Vec<Broken>, Vec<Broken>);

fn in_comments(path: &str, text: &str, places: &mut Places) {
    let mut begins = true;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let documentation = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(comment) = documentation.or_else(|| line.strip_prefix("//")) else {
            begins = true;
            continue;
        };
        if begins && documentation.is_some() && opens_wrongly(comment) {
            places.0.push(Broken::new(path, at + 1, comment.trim()));
        }
        begins = comment.trim().is_empty();
        places.1.extend(words(comment).map(|word| Broken::new(path, at + 1, word)));
    }
}

fn in_messages(path: &str, text: &str, places: &mut Places) {
    // Sources that do not parse are the compiler's to report.
    let Ok(file) = syn::parse_file(text) else { return };
    let mut strings = Strings::default();
    strings.visit_file(&file);
    for (line, text) in strings.found.iter().filter(|(_, text)| text.split_whitespace().count() > 2) {
        if opens_wrongly(text) {
            places.0.push(Broken::new(path, *line, text.as_str()));
        }
        places.1.extend(words(text).map(|word| Broken::new(path, *line, format!("{word}: {text}"))));
    }
}

/// String literals outside of tests and documentation, macros included.
#[derive(Default)]
struct Strings {
    found: Vec<(usize, String)>,
}

impl Strings {
    fn read(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Literal(literal) => {
                    let line = literal.span().start().line;
                    if let Ok(syn::Lit::Str(text)) = syn::parse2(literal.to_token_stream()) {
                        self.found.push((line, text.value()));
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'a> Visit<'a> for Strings {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        let test = module.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
        if !test {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
        if attribute.path().is_ident("error") || attribute.path().is_ident("arg") {
            self.read(attribute.meta.to_token_stream());
        }
    }

    fn visit_lit_str(&mut self, text: &'a syn::LitStr) {
        self.found.push((text.span().start().line, text.value()));
    }

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        self.read(called.tokens.clone());
    }
}

fn in_document(path: &str, text: &str, places: &mut Places) {
    let (mut fenced, mut begins) = (false, true);
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("```") {
            fenced = !fenced;
            begins = true;
        }
        if fenced || line.starts_with("```") || line.is_empty() {
            begins = true;
            continue;
        }
        let item = line.trim_start_matches(['#', '-', '*', '>', ' ']);
        let starts = begins || item.len() != line.len();
        let openings: Vec<&str> = if line.starts_with('|') { cells(line) } else { vec![item] };
        begins = line.starts_with(['|', '#']);
        for opening in openings.into_iter().filter(|opening| starts && opens_wrongly(opening)) {
            places.0.push(Broken::new(path, at + 1, opening));
        }
        places.1.extend(words(line).map(|word| Broken::new(path, at + 1, word)));
    }
}

/// Cells of tables with too many words.
fn long_cells(path: &str, text: &str) -> Vec<Broken> {
    let rows = text.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    let mut broken = Vec::new();
    for (at, line) in rows {
        let counted = cells(line).into_iter().map(|cell| cell.split_whitespace().count());
        let long = counted.filter(|count| *count > CELL_WORDS);
        broken.extend(long.map(|count| Broken::new(path, at + 1, format!("a cell of {count} words"))));
    }
    broken
}

/// True if a sentence begins with a word that is no noun.
fn opens_wrongly(sentence: &str) -> bool {
    let mut all = split(sentence);
    let first = all.next().unwrap_or_default().to_lowercase();
    let second = all.next().unwrap_or_default();
    OPENINGS.contains(&first.as_str()) || (first == "so" && second == "many")
}

/// Words and phrases of a text that have a plainer one.
fn words(text: &str) -> impl Iterator<Item = String> {
    let lower = text.to_lowercase();
    let phrases: Vec<String> =
        PHRASES.iter().filter(|phrase| lower.contains(**phrase)).map(|phrase| (*phrase).to_owned()).collect();
    let words: Vec<String> = split(&lower).filter(|word| WORDS.contains(word)).map(str::to_owned).collect();
    words.into_iter().chain(phrases)
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || "_'".contains(c))).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(tree: &Tree, name: &str) -> usize {
        counts(tree).into_iter().find(|(count, _)| *count == name).map_or(0, |(_, places)| places.len())
    }

    #[test]
    fn comments_and_messages_are_counted() {
        let code = "//! What this is.\n\n/// Nobody knows.\n///\n/// A gate. Who?\nfn f() { warn!(\"that is mended now\"); g(\"a b c\") }\n#[cfg(test)]\nmod tests { const A: &str = \"it is anew\"; }\n";
        let tree = Tree::of([("crates/x/src/a.rs", code)]);
        assert_eq!(count(&tree, "comment_openings"), 2);
        assert_eq!(count(&tree, "comment_words"), 1);
        assert_eq!(count(&tree, "message_openings"), 1);
        assert_eq!(count(&tree, "message_words"), 1);
    }

    #[test]
    fn documents_are_counted() {
        let text = "# Of things\n\nA text,\nthat goes on.\n\n- It is anew.\n\n| What | a |\n|---|---|\n\n```\nwho\n```\n";
        let tree = Tree::of([("docs/a.md", text), ("docs/experiments/b.md", text)]);
        assert_eq!(count(&tree, "document_openings"), 3);
        assert_eq!(count(&tree, "document_words"), 1);
        let cell = format!("| {} |\n", "word ".repeat(31));
        assert_eq!(count(&Tree::of([("docs/a.md", cell.as_str())]), "document_cells"), 1);
    }

    #[test]
    fn figures_only_go_down() {
        let tree = Tree::of([("docs/a.md", "It is.\n")]);
        let figures = |figure: usize| format!("document_openings = {figure}\n");
        assert_eq!(prose(&tree.clone().with(FIGURES, &figures(1))), []);
        assert_eq!(prose(&tree.clone().with(FIGURES, &figures(0))).len(), 1, "more than allowed");
        assert_eq!(prose(&tree.with(FIGURES, &figures(42))).len(), 1, "far more allowed than there are");
    }
}
