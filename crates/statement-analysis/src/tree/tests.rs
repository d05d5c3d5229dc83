//! The reader against the format's traps, and against anything at all.

use super::query::{Command, Entry};
use super::walk::facts;
use super::*;
use history::ColumnSet;
use std::ops::Range;

const SMALL: &str = "({QUERY :commandType 1 :canSetTag true :resultRelation 0 :hasForUpdate false :cteList <> :rtable \
    ({RANGETBLENTRY :alias <> :eref {ALIAS :aliasname t :colnames (\"id\" \"a\\ b\")} :rtekind 0 :relid 16384 :relkind r \
    :inh true :selectedCols (b 8 9) :insertedCols (b) :updatedCols (b)}) :jointree {FROMEXPR :fromlist ({RANGETBLREF \
    :rtindex 1}) :quals {OPEXPR :opno 96 :opfuncid 65 :args ({VAR :varno 1 :varattno 3 :varlevelsup 0} {CONST :consttype \
    23 :constisnull false :location 7 :constvalue 4 [ 5 0 0 0 -1 0 0 0 ]})}} :targetList <> :limitCount <>})";

fn word<'t>(tree: &Tree<'t>, node: NodeId, label: &str) -> &'t str {
    match tree.field(node, label) {
        Value::Atom(word) => word,
        other => panic!("{label} is {other:?}"),
    }
}

#[test]
fn nodes_lists_and_constants() {
    let tree = Tree::read(SMALL).unwrap();
    let query = as_node(tree.items(tree.root())[0]).unwrap();
    assert_eq!(tree.name(query), "QUERY");
    assert_eq!(tree.number(query, "commandType"), Some(1));
    assert!(
        tree.flag(query, "canSetTag") && !tree.flag(query, "hasForUpdate") && !tree.flag(query, "missing")
    );
    assert_eq!(tree.field(query, "cteList"), Value::Null);
    let entry = tree.nodes(query, "rtable").next().unwrap();
    assert_eq!(tree.numbers(tree.field(entry, "selectedCols")), Some(vec![8, 9]));
    assert_eq!(tree.numbers(tree.field(entry, "insertedCols")), Some(vec![]));
    assert_eq!(tree.numbers(tree.field(query, "jointree")), None);
    let constant = tree.all().find(|node| tree.name(*node) == "CONST").unwrap();
    let bytes: Vec<Value<'_>> = tree.items(tree.field(constant, "constvalue")).to_vec();
    assert_eq!((bytes[0], bytes[4], bytes.len()), (Value::Atom("5"), Value::Atom("-1"), 8));
}

#[test]
fn columns_are_the_union_of_both_sources() {
    let tree = Tree::read(SMALL).unwrap();
    let facts = facts(&tree);
    assert_eq!(facts.queries[0].command, Command::Select);
    let [Entry::Relation(relation)] = facts.queries[0].entries.as_slice() else { panic!() };
    assert_eq!(relation.columns, ColumnSet::of([1, 2, 3]));
    assert!(relation.joined && relation.children && !relation.view);
    assert!(!facts.marks.untraced);
}

#[test]
fn a_meaning_is_what_names_stand_for() {
    let meaning = |text: &str| Tree::read(text).unwrap().meaning();
    let same = meaning(SMALL);
    for (from, to) in [
        (":location 7", ":location 9"),
        ("4 [ 5 0 0 0 -1 0 0 0 ]", "4 [ 6 0 0 0 -1 0 0 0 ]"),
        (":aliasname t", ":aliasname u"),
        ("(\"id\" \"a\\ b\")", "(\"id\" \"a\\ b\" \"c\")"),
    ] {
        assert!(SMALL.contains(from), "{from}");
        assert_eq!(meaning(&SMALL.replace(from, to)), same, "{to}");
    }
    for (from, to) in [
        (":relid 16384", ":relid 16385"),
        (":opno 96", ":opno 410"),
        (":varattno 3", ":varattno 2"),
        (":consttype 23", ":consttype 20"),
        ("(b 8 9)", "(b 8)"),
    ] {
        assert!(SMALL.replace("\n", " ").contains(from), "{from}");
        assert_ne!(meaning(&SMALL.replace(from, to)), same, "{to}");
    }
}

#[test]
fn a_name_is_never_a_label() {
    let tree = Tree::read("{A :aliasname :relid :relid 5 :name \"a\\ :b\\)\\}\" :x \\[ :y ]}").unwrap();
    let node = as_node(tree.root()).unwrap();
    assert_eq!(word(&tree, node, "aliasname"), ":relid");
    assert_eq!(tree.number(node, "relid"), Some(5));
    assert_eq!(word(&tree, node, "name"), "\"a\\ :b\\)\\}\"");
    assert_eq!((word(&tree, node, "x"), word(&tree, node, "y")), ("\\[", "]"));
}

/// `format_node_dump` breaks at any space, also at one that a backslash protects.
#[test]
fn lines_break_inside_names() {
    let tree = Tree::read("{A :name \"one\\\ntwo\" :relid\n5}").unwrap();
    let node = as_node(tree.root()).unwrap();
    assert_eq!(word(&tree, node, "name"), "\"one\\\ntwo\"");
    assert_eq!(tree.number(node, "relid"), Some(5));
}

#[test]
fn a_broken_token_is_refused() {
    let long = "(".to_owned() + &"x".repeat(78) + "\nyy)";
    assert_eq!(Tree::read(&long).unwrap_err(), Unreadable::BrokenToken);
    let fits = "(".to_owned() + &"x".repeat(70) + "\nyy)";
    assert!(Tree::read(&fits).is_ok());
    // In another encoding the server's line of 78 bytes is shorter here.
    let foreign = "(\"é\"\n".to_owned() + &"x".repeat(30) + "\nyy)";
    assert_eq!(Tree::read(&foreign).unwrap_err(), Unreadable::BrokenToken);
}

#[test]
fn bounds_are_named() {
    let deep = "(".repeat(MAX_TREE_DEPTH + 2);
    let deep = deep.split_at(40).0.to_owned() + &" (".repeat(MAX_TREE_DEPTH);
    assert_eq!(Tree::read(&deep).unwrap_err(), Unreadable::TooDeep);
    let large = " ".repeat(MAX_TREE_BYTES + 1);
    assert_eq!(Tree::read(&large).unwrap_err(), Unreadable::TooLarge);
    for malformed in ["", "(", ")", "{A", "{A :b}", "(})", "{A :b )", "() ()", "word", "{A :constvalue 4 [ 1"]
    {
        assert_eq!(Tree::read(malformed).unwrap_err(), Unreadable::Malformed, "{malformed}");
    }
    assert!(Tree::read("<>").is_ok());
}

/// An untraceable value is reported as such; a footprint that is too small would be a wrong answer.
#[test]
fn what_cannot_be_traced_is_said() {
    for (from, to) in [
        (":varno 1", ":varno 2"),
        (":varno 1", ":varno 0"),
        (":varno 1", ":varno x"),
        (":varlevelsup 0", ":varlevelsup 1"),
        (":varlevelsup 0", ":varlevelsup -1"),
        (":varattno 3", ":varattno x"),
    ] {
        let text = SMALL.replace(from, to);
        assert!(facts(&Tree::read(&text).unwrap()).marks.untraced, "{to}");
    }
    let unknown = SMALL.replace("OPEXPR", "NEWEXPR");
    assert!(facts(&Tree::read(&unknown).unwrap()).marks.unknown_node);
}

/// Reading and walking any text ends, and does not panic.
#[test]
fn anything_can_be_read() {
    let pieces = [
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "<>",
        " ",
        "\n",
        "\\",
        "\"",
        ":",
        ":relid",
        ":varno 1",
        "4",
        "-1",
        "é",
        "QUERY",
        "VAR",
        ":rtable",
        ":varlevelsup 99",
        ":commandType 3",
        ":constvalue 4 [",
        "(i 1 2)",
        "(b",
        "{QUERY :rtable ",
        ":jointree",
    ];
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let catalog = crate::Catalog::default();
    let mut read = 0;
    for _ in 0..8_000 {
        let mut text = SMALL.to_owned();
        for _ in 0..=random(6) {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let from = places[random(places.len())];
            let to = places[random(places.len())];
            match random(4) {
                0 => text.insert_str(from, pieces[random(pieces.len())]),
                1 => text.truncate(from.max(1)),
                2 if from < to => text.replace_range(from..to.min(text.len()), pieces[random(pieces.len())]),
                _ => {
                    let copy = text[from.min(to)..from.max(to)].to_owned();
                    text.insert_str(from, &copy);
                }
            }
            if text.is_empty() {
                text.push('(');
            }
        }
        if let Ok(tree) = Tree::read(&text) {
            read += 1;
            let _ = facts(&tree);
            let input = crate::Input {
                trees: &text,
                text: "SELECT 5",
                literals: &[Range { start: 7, end: 8 }],
                parameters: &[],
            };
            let _ = crate::judge(&input, &catalog);
        }
    }
    assert!(read > 200, "{read} of the texts were trees");
}

/// A field under another name would be taken for an empty one: the statement must be unknown instead.
#[test]
fn node_without_a_field_is_unknown() {
    const WHOLE: &str = "{VAR :varno 1 :varattno 3 :varlevelsup 0 :vartype 23}";
    let is_known = |text: &str| {
        let tree = Tree::read(text).unwrap();
        forms::is_known(&tree, as_node(tree.root()).unwrap())
    };
    assert!(is_known(WHOLE));
    for label in [":varno", ":varattno", ":varlevelsup", ":vartype"] {
        assert!(!is_known(&WHOLE.replacen(label, ":other", 1)), "{label}");
    }
    assert!(!is_known("{VARIABLE :varno 1}"));
    assert!(is_known("{RANGETBLENTRY :rtekind 1 :subquery <> :securityQuals <>}"));
    assert!(!is_known("{RANGETBLENTRY :rtekind 1 :body <> :securityQuals <>}"));
    assert!(!is_known("{RANGETBLENTRY :rtekind 10 :securityQuals <>}"));
    assert!(facts(&Tree::read(SMALL).unwrap()).marks.unknown_node, "the small tree leaves fields out");
}

/// Since 16 the columns that an entry reads stand in the query's list of permissions. An entry that names none there, or
/// another relation's, reads every column.
#[test]
fn columns_come_from_the_list_of_permissions() {
    let columns = |index: &str, relation: &str| {
        let text = format!(
            "{{QUERY :commandType 1 :resultRelation 0 :rtable ({{RANGETBLENTRY :rtekind 0 :relid 16384 :relkind r :inh true \
             {index}}}) :rteperminfos ({{RTEPERMISSIONINFO :relid {relation} :selectedCols (b 8 9) :insertedCols (b) \
             :updatedCols (b 9)}}) :jointree <>}}"
        );
        let tree = Tree::read(&text).unwrap();
        let query = query::Query::read(&tree, as_node(tree.root()).unwrap(), None);
        let [Entry::Relation(relation)] = query.entries.as_slice() else { panic!("{:?}", query.entries) };
        (relation.columns, relation.updated)
    };
    let own = (ColumnSet::of([1, 2]), ColumnSet::of([2]));
    assert_eq!(columns(":perminfoindex 1", "16384"), own);
    assert_eq!(columns(":perminfoindex 0", "16384"), (ColumnSet::NONE, ColumnSet::NONE));
    for (index, relation) in [(":perminfoindex 2", "16384"), (":perminfoindex 1", "16385"), ("", "16384")] {
        assert_eq!(columns(index, relation), (ColumnSet::All, ColumnSet::All), "{index} {relation}");
    }
}
