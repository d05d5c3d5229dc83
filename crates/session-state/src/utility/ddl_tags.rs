//! The statement of a text that a DDL command was, given its tag and that it ran: needed to execute the
//! command again elsewhere. An uncertain result counts as none.

use super::split::pieces;
use super::standard_strings;
use pg_query::protobuf::{ScanToken, Token};
use statement_analysis::shape::Strings;
use std::ops::Range;

/// Words that may stand between the words of a tag in a statement.
const BETWEEN: &[&str] = &[
    "or",
    "replace",
    "global",
    "local",
    "temp",
    "temporary",
    "unlogged",
    "unique",
    "recursive",
    "constraint",
    "trusted",
    "procedural",
    "default",
];

/// Kinds of objects that replicas do not have: commands on them have no effect there.
const NOT_THERE: &[&[&str]] =
    &[&["publication"], &["subscription"], &["event", "trigger"], &["large", "object"]];

/// Analysis of the words of one DDL statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Text of the statement, without TABLESPACE, and without CONCURRENTLY, which is refused inside a
    /// transaction. A label that it adds to an enum may exist already.
    pub text: String,
    /// True if the statement is ALTER TYPE .. ADD VALUE, and nothing else.
    pub adds_label: bool,
    /// True if the statement has CONCURRENTLY.
    pub concurrently: bool,
    /// True if the statement names SESSION_USER, which is another role where the statement is executed again.
    pub session_user: bool,
    /// True if the statement concerns only objects that replicas do not have: publications, large objects,
    /// tablespaces, Consort's own schema.
    pub not_there: bool,
}

/// The statements of a text that may be a command with this tag, in order. `None` if the text is not
/// understood, or if it may have run a part of them in another transaction, or rolled them back. The
/// statements read alike under either rule for strings.
pub fn tagged(text: &str, tag: &str, strings: Strings) -> Option<Vec<Told>> {
    let text = &*standard_strings(text, strings)?;
    let mut found = Vec::new();
    // A transaction ended, or a part of it was rolled back, after one of them.
    let (mut ended, mut several) = (false, false);
    for range in pieces(text, Strings::Standard)? {
        let statement = Words::of(&text[range])?;
        if statement.has(tag) {
            several |= ended && !found.is_empty();
            found.push(statement.told());
        } else {
            ended |= !found.is_empty() && statement.takes_back();
        }
    }
    (!several).then_some(found)
}

struct Words<'a> {
    text: &'a str,
    tokens: Vec<ScanToken>,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Option<Words<'a>> {
        let mut tokens = pg_query::scan_tokens(text).ok()?;
        tokens.retain(|token| !matches!(token.token(), Token::SqlComment | Token::CComment));
        Some(Words { text, tokens })
    }

    fn range(&self, at: usize) -> Option<Range<usize>> {
        let token = self.tokens.get(at)?;
        Some(token.start as usize..token.end as usize)
    }

    /// The word there, in small letters; a quoted name with its quotes.
    fn word(&self, at: usize) -> String {
        let text = self.range(at).and_then(|range| self.text.get(range));
        text.unwrap_or_default().to_ascii_lowercase()
    }

    fn is(&self, at: usize, token: Token) -> bool {
        self.tokens.get(at).is_some_and(|there| there.token() == token)
    }

    /// True if the first words of the statement are those of the tag.
    fn has(&self, tag: &str) -> bool {
        let mut at = 0;
        for word in tag.to_ascii_lowercase().split(' ') {
            while at > 0 && self.word(at) != word && BETWEEN.contains(&self.word(at).as_str()) {
                at += 1;
            }
            if self.word(at) != word {
                return false;
            }
            at += 1;
        }
        // Commands on roles, databases and the like: no event trigger fires, and no log names them.
        let of_operators = ["class", "family"];
        let shared = ["database", "tablespace", "parameter", "role"];
        let on_shared = |place: usize| shared.contains(&self.word(place).as_str());
        match tag {
            "COMMENT" | "SECURITY LABEL" => {
                !(0..5).any(|place| self.is(place, Token::On) && on_shared(place + 1))
            }
            "GRANT" | "REVOKE" => {
                let on = (1..self.tokens.len()).find(|place| self.is(*place, Token::On));
                on.is_some_and(|on| !on_shared(on + 1))
            }
            // With a query the command has another tag.
            "CREATE TABLE" => !self.outside_parentheses().any(|at| self.is(at, Token::As)),
            _ if tag.ends_with(" OPERATOR") => !of_operators.contains(&self.word(at).as_str()),
            _ => true,
        }
    }

    /// Positions of the words outside parentheses.
    fn outside_parentheses(&self) -> impl Iterator<Item = usize> + '_ {
        let mut depth = 0_i32;
        self.tokens.iter().enumerate().filter_map(move |(at, token)| {
            depth += match token.token() {
                Token::Ascii40 => 1,
                Token::Ascii41 => -1,
                _ => 0,
            };
            (depth == 0).then_some(at)
        })
    }

    /// True if the statement may roll back, or commit, the statements before it.
    fn takes_back(&self) -> bool {
        matches!(self.word(0).as_str(), "commit" | "end" | "rollback" | "abort")
            || self.word(0) == "prepare" && self.word(1) == "transaction"
    }

    fn told(&self) -> Told {
        let concurrently = (1..self.tokens.len()).any(|at| self.is(at, Token::Concurrently));
        let label = self.adds_label();
        let may_be_there = label.filter(|at| !self.is(at + 1, Token::IfP)).and_then(|at| self.range(at));
        let left_out = self.left_out().into_iter().filter_map(|at| Some((self.range(at)?, "")));
        let mut changes: Vec<(Range<usize>, &str)> = left_out.collect();
        changes.extend(may_be_there.map(|value| (value.end..value.end, " IF NOT EXISTS")));
        changes.sort_by_key(|(range, _)| range.start);
        let mut text = self.text.to_owned();
        for (range, by) in changes.into_iter().rev() {
            text.replace_range(range, by);
        }
        Told {
            text,
            adds_label: label.is_some(),
            concurrently,
            session_user: (0..self.tokens.len()).any(|at| self.is(at, Token::SessionUser)),
            not_there: self.speaks_of_what_is_not_there(),
        }
    }

    /// Position of VALUE in ALTER TYPE .. ADD VALUE. A column of a composite type may have this name, too,
    /// and no text follows it.
    fn adds_label(&self) -> Option<usize> {
        let adds = |at: &usize| {
            let label = [Token::Sconst, Token::Usconst, Token::IfP].iter().any(|kind| self.is(at + 1, *kind));
            self.word(at - 1) == "add" && self.word(*at) == "value" && label
        };
        let of_a_type = self.word(0) == "alter" && self.word(1) == "type";
        (3..self.tokens.len()).find(adds).filter(|_| of_a_type)
    }

    /// Words without effect elsewhere: CONCURRENTLY, and the storage location.
    fn left_out(&self) -> Vec<usize> {
        let mut all: Vec<usize> =
            (1..self.tokens.len()).filter(|at| self.is(*at, Token::Concurrently)).collect();
        all.extend(
            self.outside_parentheses()
                .filter(|at| *at > 1 && self.is(*at, Token::Tablespace))
                .flat_map(|at| [at, at + 1]),
        );
        let of_an_index = |at: &usize| {
            self.is(*at, Token::Using) && self.is(at + 1, Token::Index) && self.is(at + 2, Token::Tablespace)
        };
        all.extend((1..self.tokens.len()).filter(of_an_index).flat_map(|at| at..at + 4));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// True for ALTER .. SET TABLESPACE and nothing else.
    fn moves_only(&self) -> bool {
        let commas = || self.outside_parentheses().any(|at| self.is(at, Token::Ascii44));
        let sets = |at: usize| self.is(at, Token::Set) && self.is(at + 1, Token::Tablespace);
        self.word(0) == "alter" && (2..self.tokens.len()).any(sets) && !commas()
    }

    fn speaks_of_what_is_not_there(&self) -> bool {
        let on = (1..self.tokens.len()).find(|at| self.is(*at, Token::On));
        let kinds = [Some(1), on.map(|on| on + 1)];
        let is = |from: usize, words: &[&str]| {
            words.iter().enumerate().all(|(place, word)| self.word(from + place) == *word)
        };
        let kind = kinds.iter().flatten().any(|from| NOT_THERE.iter().any(|words| is(*from, words)));
        let own = |at: usize| {
            self.word(at) == "consort" && (self.word(at + 1) == "." || self.word(at - 1) == "schema")
        };
        kind || self.moves_only()
            || matches!(self.word(0).as_str(), "grant" | "revoke" | "comment")
                && (1..self.tokens.len()).any(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, tag: &str) -> Option<Vec<String>> {
        let found = tagged(text, tag, Strings::Standard)?;
        Some(found.into_iter().map(|told| told.text).collect())
    }

    #[test]
    fn statements_are_told_by_their_tags() {
        for (text, tag, found) in [
            ("CREATE TABLE a (b int)", "CREATE TABLE", 1),
            ("/* x */ create unlogged table a ()", "CREATE TABLE", 1),
            ("CREATE OR REPLACE RECURSIVE VIEW a (b) AS SELECT 1", "CREATE VIEW", 1),
            ("CREATE UNIQUE INDEX ON a (b)", "CREATE INDEX", 1),
            (
                "CREATE CONSTRAINT TRIGGER x AFTER INSERT ON a FOR EACH ROW EXECUTE FUNCTION f()",
                "CREATE TRIGGER",
                1,
            ),
            ("ALTER TABLE a RENAME TO table_b", "ALTER TABLE", 1),
            ("ALTER TABLE a ADD b int", "CREATE TABLE", 0),
            ("CREATE TABLESPACE x LOCATION '/x'", "CREATE TABLE", 0),
            ("GRANT SELECT ON a TO b; GRANT c TO d; GRANT CONNECT ON DATABASE e TO f", "GRANT", 1),
            ("COMMENT ON DATABASE a IS 'CREATE TABLE'; COMMENT ON TABLE a IS 'b'", "COMMENT", 1),
            (
                "CREATE TABLE a (); SELECT 1; CREATE TABLE b (); INSERT INTO a DEFAULT VALUES",
                "CREATE TABLE",
                2,
            ),
            ("BEGIN; CREATE TABLE a (); CREATE TABLE b (); COMMIT", "CREATE TABLE", 2),
            ("COMMIT; CREATE TABLE a (); CREATE TABLE b ()", "CREATE TABLE", 2),
            (
                "CREATE TABLE a AS SELECT 1; CREATE TABLE b (c int GENERATED ALWAYS AS (1) STORED)",
                "CREATE TABLE",
                1,
            ),
            ("DROP OPERATOR CLASS a USING btree; DROP OPERATOR === (int, int)", "DROP OPERATOR", 1),
        ] {
            assert_eq!(texts(text, tag).map(|texts| texts.len()), Some(found), "{text}");
        }
        for text in [
            "CREATE TABLE a (); COMMIT; CREATE TABLE b ()",
            "SAVEPOINT s; CREATE TABLE a (); ROLLBACK TO s; CREATE TABLE b ()",
            "CREATE TABLE a (); PREPARE TRANSACTION 'x'; CREATE TABLE b ()",
            "CREATE TABLE a (",
        ] {
            assert_eq!(texts(text, "CREATE TABLE"), None, "{text}");
        }
    }

    #[test]
    fn tagged_escaping_strings_are_marked() {
        let told = |text: &str| tagged(text, "COMMENT", Strings::Escaping);
        let texts = |text: &str| Some(told(text)?.into_iter().map(|told| told.text).collect::<Vec<_>>());
        assert_eq!(
            texts(r"COMMENT ON TABLE a IS 'a\\'';b'; COMMENT ON TABLE b IS '\\'").unwrap(),
            [r"COMMENT ON TABLE a IS  E'a\\'';b'", r"COMMENT ON TABLE b IS  E'\\'"]
        );
        assert_eq!(told(r"COMMENT ON TABLE a IS N'\\'"), None);
    }

    #[test]
    fn what_the_words_tell() {
        let told = |text: &str, tag: &str| tagged(text, tag, Strings::Standard).unwrap().remove(0);
        let index = told("CREATE INDEX CONCURRENTLY \"concurrently\" ON a (b)", "CREATE INDEX");
        assert!(index.concurrently);
        assert_eq!(index.text, "CREATE INDEX  \"concurrently\" ON a (b)");
        let lies =
            "CREATE TABLE a (b int PRIMARY KEY USING INDEX TABLESPACE c, tablespace int) TABLESPACE \"D\"";
        assert_eq!(
            told(lies, "CREATE TABLE").text,
            "CREATE TABLE a (b int PRIMARY KEY    , tablespace int)  "
        );
        assert!(told("ALTER TABLE a OWNER TO SESSION_USER", "ALTER TABLE").session_user);
        for (text, again) in [
            ("ALTER TYPE a ADD VALUE 'b' BEFORE 'c'", "ALTER TYPE a ADD VALUE IF NOT EXISTS 'b' BEFORE 'c'"),
            ("alter type add add /* x */ value E'b'", "alter type add add /* x */ value IF NOT EXISTS E'b'"),
            ("ALTER TYPE a ADD VALUE IF NOT EXISTS 'b'", "ALTER TYPE a ADD VALUE IF NOT EXISTS 'b'"),
        ] {
            let adds = told(text, "ALTER TYPE");
            assert!(adds.adds_label, "{text}");
            assert_eq!(adds.text, again);
        }
        for text in [
            "ALTER TYPE a ADD ATTRIBUTE add value",
            "ALTER TYPE a ADD ATTRIBUTE value text",
            "ALTER TYPE a RENAME VALUE 'b' TO 'c'",
        ] {
            let other = told(text, "ALTER TYPE");
            assert_eq!((other.adds_label, other.text.as_str()), (false, text));
        }
        for (text, tag) in [
            ("CREATE PUBLICATION p FOR ALL TABLES", "CREATE PUBLICATION"),
            ("COMMENT ON SUBSCRIPTION s IS 'x'", "COMMENT"),
            ("COMMENT ON EVENT TRIGGER s IS 'x'", "COMMENT"),
            ("GRANT SELECT ON LARGE OBJECT 7 TO a", "GRANT"),
            ("ALTER TABLE a SET TABLESPACE b", "ALTER TABLE"),
            ("ALTER INDEX ALL IN TABLESPACE a OWNED BY c SET TABLESPACE b NOWAIT", "ALTER INDEX"),
            ("GRANT USAGE ON SCHEMA consort TO PUBLIC", "GRANT"),
            ("GRANT EXECUTE ON FUNCTION consort.f() TO PUBLIC", "GRANT"),
        ] {
            assert!(told(text, tag).not_there, "{text}");
        }
        for (text, tag) in [
            ("CREATE TABLE publication (a int)", "CREATE TABLE"),
            ("CREATE TABLE consort.x (a int)", "CREATE TABLE"),
            ("GRANT SELECT ON consort TO a", "GRANT"),
            ("ALTER TABLE a SET TABLESPACE b, ADD c int", "ALTER TABLE"),
        ] {
            assert!(!told(text, tag).not_there, "{text}");
        }
    }
}
