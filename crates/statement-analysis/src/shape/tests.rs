//! The lexer against examples, and against PostgreSQL's own scanner and parser over generated statements.

use super::*;
use std::collections::BTreeMap;

fn shape(text: &str) -> Shape {
    Shape::of(text, Strings::Standard)
}

/// The key as a person reads it: `?i` for a literal.
fn key(text: &str) -> String {
    let shape = shape(text);
    match shape.sure() {
        Ok(()) => String::from_utf8_lossy(shape.key()).replace('\u{1}', "?").replace('\u{2}', "!"),
        Err(unsure) => format!("unsure: {}", unsure.name()),
    }
}

fn literals(text: &str) -> Vec<&str> {
    let mut into = Vec::new();
    shape(text).texts(text, &mut into);
    into
}

#[test]
fn literals_are_taken_out_with_their_class() {
    for (text, expected) in [
        ("SELECT abalance FROM t WHERE aid = 4711;", "SELECT abalance FROM t WHERE aid = ?i"),
        ("SELECT 2147483647, 2147483648, 2147483649", "SELECT ?i, ?j, ?l"),
        ("SELECT 9223372036854775807, 9223372036854775808, 9223372036854775809", "SELECT ?l, ?m, ?n"),
        ("SELECT 000000000000000000000001, 99999999999999999999999999", "SELECT ?i, ?n"),
        ("SELECT 1.5, .5, 5., 1e5, 1.5E-3, 1e+5", "SELECT ?n, ?n, ?n, ?n, ?n, ?n"),
        ("SELECT 'it''s', E'a\\'b\\n', $$x'y$$, $a$x$$y$a$", "SELECT ?s, ?e, ?d, ?d"),
        ("SELECT B'101', x'1F', b''", "SELECT ?b, ?b, ?b"),
        ("SELECT a-1, - 5, -5, a - -1", "SELECT a-?i, - ?i, -?i, a - -?i"),
        ("SELECT $1, $23 + 4", "SELECT $1, $23 + ?i"),
        (
            "SELECT a1, a$1, _2, \"3\", \"a''1\", \"x\"\"5\"",
            "SELECT a1, a$1, _2, \"3\", \"a''1\", \"x\"\"5\"",
        ),
        ("SELECT true, NULL, date '2020-01-01'", "SELECT true, NULL, date ?s"),
        ("SELECT a[1], a[1:2], x::int[3]", "SELECT a[?i], a[?i:?i], x::int[?i]"),
        ("SELECT'a'", "SELECT?s"),
        (
            "SELECT \u{e9}t\u{e9}1 FROM \u{fc} WHERE x='\u{2603}'",
            "SELECT \u{e9}t\u{e9}1 FROM \u{fc} WHERE x=?s",
        ),
    ] {
        assert_eq!(key(text), expected, "{text}");
    }
}

#[test]
fn blanks_and_comments_are_one_space() {
    let expected = "SELECT a FROM t WHERE b = ?i";
    for text in [
        "SELECT a FROM t WHERE b = 1",
        "  \n SELECT\ta\r\nFROM   t WHERE b = 1  ;  ",
        "/* x */ SELECT /* y /* z */ ' */ a -- it's\n FROM t WHERE b = 1 -- end",
        "-- first\nSELECT/**/a/**/FROM/**/t WHERE b = 1;;; ; -- rest",
        ";; SELECT a FROM t WHERE b = 1",
    ] {
        assert_eq!(key(text), expected, "{text}");
        assert_eq!(shape(text).hash(), shape(expected.replace("?i", "7").as_str()).hash());
        assert!(!shape(text).several());
    }
    assert_eq!(key("SELECT 1--2\n+3"), "SELECT ?i +?i");
    assert_eq!(key("SELECT 4+--x\n5, 6*/*x*/7"), "SELECT ?i+ ?i, ?i* ?i");
    assert_ne!(key("SELECT a <- b"), key("SELECT a < - b"));
    assert_ne!(key("SELECT a FROM t \"x  y\""), key("SELECT a FROM t \"x y\""));
}

#[test]
fn numbers_that_are_places_or_type_modifiers_stay() {
    for (text, expected) in [
        (
            "SELECT a, b FROM t WHERE c = 3 ORDER BY 1, 2 DESC LIMIT 10",
            "SELECT a, b FROM t WHERE c = ?i ORDER BY 1, 2 DESC LIMIT ?i",
        ),
        (
            "SELECT a FROM t GROUP BY 1 HAVING sum(b) IN (1, 2)",
            "SELECT a FROM t GROUP BY 1 HAVING sum(b) IN (?i, ?i)",
        ),
        (
            "SELECT a FROM t GROUP BY GROUPING SETS ((1), (2, 3))",
            "SELECT a FROM t GROUP BY GROUPING SETS ((1), (2, 3))",
        ),
        (
            "SELECT DISTINCT ON (1, b) a FROM t WHERE x IN (4, 5)",
            "SELECT DISTINCT ON (1, b) a FROM t WHERE x IN (?i, ?i)",
        ),
        ("SELECT a FROM t ORDER BY b + 5", "SELECT a FROM t ORDER BY b + ?i"),
        ("SELECT (SELECT a FROM t ORDER BY 1), 5", "SELECT (SELECT a FROM t ORDER BY 1), ?i"),
        (
            "SELECT a FROM t ORDER BY (SELECT b FROM u LIMIT 3), 2",
            "SELECT a FROM t ORDER BY (SELECT b FROM u LIMIT ?i), 2",
        ),
        ("SELECT x::numeric(10,2), y::varchar(5), 7", "SELECT x::numeric(10,2), y::varchar(5), ?i"),
        (
            "SELECT x::character varying (5), CAST(y AS public.geometry(3, 4)), f(8)",
            "SELECT x::character varying (5), CAST(y AS public.geometry(3, 4)), f(?i)",
        ),
        ("SELECT x::float(24)::int + 4, interval(3) '5'", "SELECT x::float(24)::int + ?i, interval(3) ?s"),
        (
            "WITH x AS (VALUES (1)) SELECT a AS b FROM x WHERE c IN (6)",
            "WITH x AS (VALUES (?i)) SELECT a AS b FROM x WHERE c IN (?i)",
        ),
        ("SELECT t.limit FROM t ORDER BY t.limit, 2", "SELECT t.limit FROM t ORDER BY t.limit, 2"),
    ] {
        assert_eq!(key(text), expected);
    }
}

#[test]
fn literals_that_mean_the_clock_stay_and_are_listed() {
    let plain = key("SELECT * FROM t WHERE at > '2020-01-01'");
    for word in ["now", "NOW", " now ", "today 12:00", "{yesterday,tomorrow}", "12:00today", "(Tomorrow,)"] {
        let text = format!("SELECT * FROM t WHERE at > '{word}'");
        assert_ne!(key(&text), plain, "{word}");
        assert_eq!(literals(&text), [format!("'{word}'")]);
        assert_ne!(key(&text), key(&text.replace(word, &format!("{word} ")))); // each by its text
    }
    for word in ["know", "nowhere", "todayy", "epoch", "infinity", "allballs", "n-o-w"] {
        assert_eq!(key(&format!("SELECT * FROM t WHERE at > '{word}'")), plain, "{word}");
    }
    assert!(key("SELECT $$today$$, E'\\nnow', 'a'").contains("!e"));
}

#[test]
fn what_is_not_sure_has_no_key() {
    for (text, why) in [
        ("SELECT N'a'", Unsure::NationalString),
        ("SELECT U&'a'", Unsure::UnicodeString),
        ("SELECT u&\"a\"", Unsure::UnicodeString),
        ("SELECT 0x1F", Unsure::Number),
        ("SELECT 1_000", Unsure::Number),
        ("SELECT 12ab", Unsure::Number),
        ("SELECT 1..2", Unsure::Number),
        ("SELECT 1.5.6", Unsure::Number),
        ("SELECT 1e", Unsure::Number),
        ("SELECT $1a", Unsure::Number),
        ("SELECT 'a'\n'b'", Unsure::Continuation),
        ("SELECT 'a' -- c\n  'b'", Unsure::Continuation),
        ("SELECT 'a", Unsure::Unterminated),
        ("SELECT \"a", Unsure::Unterminated),
        ("SELECT $a$ $b$", Unsure::Unterminated),
        ("SELECT /* /* */", Unsure::Unterminated),
        ("SELECT E'\\x41'", Unsure::Escape),
        ("SELECT E'n\\ow'", Unsure::Escape),
        ("SELECT E'\\", Unsure::Unterminated),
        ("SELECT \u{0b} 1", Unsure::Junk),
        ("SELECT {1}", Unsure::Junk),
        ("SELECT a\\b", Unsure::Junk),
        ("SELECT $x", Unsure::Junk),
    ] {
        let shape = shape(text);
        assert_eq!(shape.sure(), Err(why), "{text}");
        assert!(shape.key().is_empty() && shape.literals().is_empty() && shape.several());
    }
    assert!(shape("SELECT 'a' 'b'").sure().is_ok());
    assert!(shape("SELECT 'a', \n'b'").sure().is_ok());
}

#[test]
fn backslashes_mean_what_the_session_says() {
    let text = "SELECT 'a\\' , b, 'c'";
    assert_eq!(literals(text), ["'a\\'", "'c'"]);
    let escaping = Shape::of(text, Strings::Escaping);
    assert_eq!(escaping.sure(), Err(Unsure::Unterminated));
    let text = "SELECT 'a\\' , b'";
    let escaping = Shape::of(text, Strings::Escaping);
    assert_eq!(escaping.literals(), [Literal { start: 7, end: 16, class: Class::Escaped }]);
}

#[test]
fn the_verb_is_the_first_word() {
    for (text, verb) in [
        ("", Verb::Empty),
        (" ; -- x\n ;", Verb::Empty),
        ("select 1", Verb::Tree),
        ("((SELECT 1))", Verb::Tree),
        ("/* x */ WITH a AS (SELECT 1) SELECT 1", Verb::Tree),
        ("Merge INTO t USING u ON true WHEN MATCHED THEN DELETE", Verb::Tree),
        ("TABLE t", Verb::Tree),
        ("BEGIN", Verb::Utility),
        ("selection", Verb::Utility),
        ("'x'", Verb::Utility),
        ("$$", Verb::Utility),
        ("5", Verb::Utility),
        ("U&\"x", Verb::Utility),
    ] {
        assert_eq!(shape(text).verb(), verb, "{text}");
    }
}

#[test]
fn several_statements_are_seen() {
    for text in ["SELECT 1; SELECT 2", "BEGIN;COMMIT;", "SELECT 1;;/**/(SELECT 2)", "SELECT 1; \u{e9}"] {
        assert!(shape(text).several(), "{text}");
    }
    for text in ["SELECT 1;", "SELECT ';'", ";SELECT \";\";", "SELECT 1; -- SELECT 2", "SELECT $$;$$ /* ; */"]
    {
        assert!(!shape(text).several(), "{text}");
    }
    assert_eq!(literals("SELECT 1; SELECT 2"), ["1"]);
}

#[test]
fn hints_stand_before_the_first_word() {
    let hint = |text| shape(text).hint();
    assert_eq!(hint("/* consort: primary */ SELECT 1"), Some(Hint::Level(Consistency::Primary)));
    assert_eq!(hint("/* app */ -- x\n /*Consort:Weak*/SELECT 1"), Some(Hint::Level(Consistency::Weak)));
    assert!(matches!(
        hint("/* consort: bounded 200ms */ SELECT 1"),
        Some(Hint::Level(Consistency::Bounded(_)))
    ));
    assert_eq!(hint("/* consort: fresh please */ SELECT 1"), Some(Hint::Unknown));
    assert_eq!(hint("SELECT /* consort: primary */ 1"), None);
    assert_eq!(hint("/* consortium: primary */ SELECT 1"), None);
    assert_eq!(hint("/* \u{2603}\u{2603}\u{2603} */ SELECT 1"), None);
    assert_eq!(key("/* consort: weak */ SELECT 1"), key("SELECT 2"));
}

#[test]
fn comments_that_declare_stand_there_or_in_a_begin() {
    let declares = |text| (shape(text).hint(), shape(text).declaration(text).is_some());
    for text in [
        "/* consort: tables_read = 'a, b', tables_written = 'c' */ CALL p()",
        "BEGIN /* consort: tables_read = 'a' */",
        "begin isolation level serializable/*consort:tables_written='*'*/;",
        "START TRANSACTION /* app */ /* Consort: tables_written = 'a' */ READ WRITE",
    ] {
        assert_eq!(declares(text), (Some(Hint::Declares), true), "{text}");
    }
    for text in ["/* consort: tables = 'a' */ SELECT 1", "BEGIN /* consort: tables_read = a */"] {
        assert_eq!(declares(text), (Some(Hint::Unknown), false), "{text}");
    }
    for text in
        ["SELECT /* consort: tables_read = 'a' */ 1", "BEGIN; /* consort: tables_read = 'a' */ SELECT 1"]
    {
        assert_eq!(declares(text), (None, false), "{text}");
    }
    let text = "BEGIN /* consort: tables_reed = 'a' */";
    assert_eq!(shape(text).said(text), "tables_reed = 'a'");
}

#[test]
fn long_texts_have_no_key_but_an_end() {
    let long = format!("INSERT INTO t VALUES ('{}')", "x".repeat(MAX_TEXT));
    assert_eq!((shape(&long).sure(), shape(&long).several()), (Err(Unsure::TooLong), false));
    assert!(shape(&format!("{long}; COMMIT")).several());
    let many = format!("SELECT {}", vec!["1"; MAX_LITERALS + 1].join(","));
    assert_eq!((shape(&many).sure(), shape(&many).several()), (Err(Unsure::TooManyLiterals), false));
    assert!(shape(&format!("SELECT {}", vec!["1"; MAX_LITERALS].join(","))).sure().is_ok());
    let huge = format!("SELECT '{}'", "x".repeat(MAX_LOOK));
    assert_eq!((shape(&huge).sure(), shape(&huge).several()), (Err(Unsure::TooLong), true));
    let nested = format!("SELECT {}1{}", "(".repeat(4000), ")".repeat(4000));
    assert!(shape(&nested).sure().is_ok());
}

#[test]
fn reading_again_leaves_nothing_behind() {
    let mut again = Shape::new();
    for text in [
        "SELECT 1, 'a'",
        "N'x'",
        "BEGIN; COMMIT",
        "/* consort: weak */ SELECT 2",
        "BEGIN /* consort: tables_read = 'a' */",
        "",
    ] {
        again.read(text, Strings::Standard);
        let fresh = shape(text);
        assert_eq!(format!("{again:?}"), format!("{fresh:?}"));
    }
}

/// SplitMix64 with a fixed seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((word ^ word >> 31) % bound as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Places of literals by PostgreSQL's scanner. `None` if it refuses the text.
fn scanned(text: &str) -> Option<Vec<(u32, u32)>> {
    use pg_query::protobuf::Token::{Bconst, Fconst, Iconst, Sconst, Usconst, Xconst};
    let literal = [Iconst, Fconst, Sconst, Bconst, Xconst, Usconst].map(|token| token as i32);
    let tokens = pg_query::scan(text).ok()?.tokens;
    Some(
        tokens
            .iter()
            .filter(|token| literal.contains(&token.token))
            .map(|t| (t.start as u32, t.end as u32))
            .collect(),
    )
}

/// The lexer and the scanner see the same literals, but for the numbers that stay in the key.
fn agree(text: &str) -> bool {
    let shape = shape(text);
    if shape.sure().is_err() || shape.several() {
        return false;
    }
    let Some(theirs) = scanned(text) else { return false };
    let mine: Vec<(u32, u32)> = shape.literals().iter().map(|literal| (literal.start, literal.end)).collect();
    let kept = |place: &&(u32, u32)| !mine.contains(place);
    for &(start, end) in theirs.iter().filter(kept) {
        let number = &text[start as usize..end as usize];
        assert!(number.bytes().next().is_some_and(|b| b.is_ascii_digit() || b == b'.'), "{number} in {text}");
        let lower = text.to_lowercase();
        assert!(
            ["by", "distinct", "::", "as", "("].iter().any(|word| lower.contains(word)),
            "{number} in {text}"
        );
    }
    assert!(mine.iter().all(|place| theirs.contains(place)), "{text}\nmine {mine:?}\ntheirs {theirs:?}");
    true
}

#[rustfmt::skip]
const PIECES: &[&str] = &[
    "SELECT", "a", "b1", "e", "E", "x", "B", "n", "u", "'", "''", "'x'", "'a''b'", "E'\\n'", "E'\\''", "\"",
    "\"q\"", "\"a\"\"b\"", "$1", "$", "$$", "$$a$$", "$t$", "$t$ ' $t$", "1", "12", "2147483648", "1.5",
    ".5", "5.", "1e5", "e5", "-", "--", "--c\n", "/*", "*/", "/* c */", "/**/", "/* /* */ */", "*", "/",
    "+", "<", "=", "!", "@", "%", "|", "(", ")", ",", ".", ":", "::", "[", "]", " ", "  ", "\n", "\t",
    "\r\n", "\u{e9}", "AS", "BY", "numeric", "now", "\\", "_",
];

#[test]
fn pieces_at_random_have_the_literals_that_postgresql_sees() {
    let mut chance = Chance(1);
    let mut compared = 0;
    for _ in 0..400_000 {
        let text: String = (0..2 + chance.below(10)).map(|_| chance.of(PIECES)).collect();
        compared += usize::from(agree(&text));
    }
    assert!(compared > 8_000, "only {compared} were compared");
}

/// A statement at random: its text with `?` where a literal goes.
fn statement(chance: &mut Chance, depth: usize) -> String {
    let table = chance.of(&["t", "public.t", "\"T 1\"", "pgbench_accounts", "a.b"]);
    let filter = filter(chance, depth);
    match chance.below(6) {
        0 => format!("INSERT INTO {table} (a, b) VALUES (?, ?), (?, -?)"),
        1 => format!("UPDATE {table} SET a = a + ?, b = ? WHERE {filter}"),
        2 => format!("DELETE FROM {table} WHERE {filter}"),
        _ => {
            let list = chance.of(&[
                "a, b",
                "*",
                "count(*)",
                "a + ?, -?",
                "coalesce(a, ?)::varchar(5)",
                "DISTINCT a",
            ]);
            let tail = chance.of(&[
                "",
                "ORDER BY a",
                "ORDER BY 1",
                "ORDER BY 2, 1",
                "GROUP BY 1",
                "LIMIT ?",
                "ORDER BY a LIMIT ? OFFSET ?",
                "FOR UPDATE",
            ]);
            format!("SELECT {list} FROM {table} WHERE {filter} {tail}")
        }
    }
}

fn filter(chance: &mut Chance, depth: usize) -> String {
    let column = chance.of(&["a", "t.b", "\"c d\"", "lower(e)", "x->>'k'"]);
    match chance.below(if depth == 0 { 6 } else { 9 }) {
        0 => format!("{column} = ?"),
        1 => format!("{column} IN (?, ?, ?)"),
        2 => format!("{column} BETWEEN ? AND -?"),
        3 => format!("{column} = $1"),
        4 => format!("{column} LIKE ? AND NOT b IS NULL"),
        5 => format!("a - ? > - ? AND {column} <> ALL (ARRAY[?, ?])"),
        6 => format!("({} OR {})", filter(chance, depth - 1), filter(chance, depth - 1)),
        7 => format!("EXISTS (SELECT ? FROM u WHERE {})", filter(chance, depth - 1)),
        _ => format!("{column} = (SELECT max(a) FROM u WHERE {})", filter(chance, depth - 1)),
    }
}

/// One way to write a statement: its literals, blanks and comments at random.
fn written(chance: &mut Chance, statement: &str) -> String {
    let mut text = String::new();
    for piece in statement.split_inclusive([' ', '?']) {
        let (body, last) = piece.split_at(piece.len() - 1);
        text.push_str(body);
        text.push_str(match last {
            " " => {
                chance.of(&[" ", " ", " ", "  ", "\n", "\t ", "/* c */", " -- c 'x' ?\n", "/* /* ; */ */ "])
            }
            "?" => chance.of(&[
                "1",
                "42",
                "2147483647",
                "2147483648",
                "3000000000",
                "9223372036854775808",
                "1e10",
                "1.5",
                ".25",
                "'a'",
                "''",
                "'it''s'",
                "'2020-01-01'",
                "'now'",
                "E'a\\nb'",
                "$$d$$",
                "$x$ ' $x$",
                "B'01'",
                "'\u{2603}'",
                "' today 5:00'",
            ]),
            other => other,
        });
    }
    text
}

#[test]
fn one_key_is_one_parse_tree() {
    let mut chance = Chance(2);
    let mut trees: BTreeMap<Vec<u8>, (String, String)> = BTreeMap::new();
    let (mut compared, mut shared) = (0, 0);
    for _ in 0..4_000 {
        let statement = statement(&mut chance, 2);
        for _ in 0..4 {
            let text = written(&mut chance, &statement);
            let Ok(fingerprint) = pg_query::fingerprint(&text, 0, pg_query::FingerprintOptions::FULL_RELNAME)
            else {
                continue;
            };
            compared += usize::from(agree(&text));
            let shape = shape(&text);
            if shape.sure().is_err() {
                continue;
            }
            let (first, of_first) =
                trees.entry(shape.key().to_vec()).or_insert((text.clone(), fingerprint.hex.clone()));
            shared += usize::from(*first != text);
            assert_eq!(*of_first, fingerprint.hex, "{first}\n{text}");
        }
    }
    assert!(
        compared > 12_000 && shared > 1_000,
        "{compared} compared, {shared} shared a key with another text"
    );
}
