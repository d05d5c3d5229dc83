//! One instant instead of the words that mean the current time, so that all servers that execute a statement
//! use the same one.

use pg_query::protobuf::{ScanToken, Token};

/// The instant at which a transaction began, as its server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instant {
    /// `now()`, in ISO form with its zone.
    pub now: String,
    /// `CURRENT_DATE`.
    pub date: String,
    /// `LOCALTIMESTAMP`, in ISO form.
    pub local: String,
}

impl Instant {
    /// Query for the instant: three columns, in the order of the fields.
    pub const QUESTION: &'static str = "\
        SELECT pg_catalog.to_char(pg_catalog.now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') OPERATOR(pg_catalog.||) '+00', \
               pg_catalog.to_char(CURRENT_DATE, 'YYYY-MM-DD'), \
               pg_catalog.to_char(LOCALTIMESTAMP, 'YYYY-MM-DD HH24:MI:SS.US')";

    /// Parses the row that [`Instant::QUESTION`] returns.
    pub fn of_row(row: &[Option<String>]) -> Option<Instant> {
        match row {
            [Some(now), Some(date), Some(local)] => {
                Some(Instant { now: now.clone(), date: date.clone(), local: local.clone() })
            }
            _ => None,
        }
    }

    /// Returns the text with this instant instead of the words for the current time. `None` unless the text
    /// has exactly `words` of them, each standing alone. A name before the word, or a precision after it, is
    /// not understood. The same holds for a word that names a column of a subquery, or stands for a table.
    pub fn put_into(&self, text: &str, words: usize) -> Option<String> {
        let mut tokens = pg_query::scan_tokens(text).ok()?;
        tokens.retain(|token| !matches!(token.token(), Token::SqlComment | Token::CComment));
        let (mut out, mut from, mut found) = (String::with_capacity(text.len() + 64), 0, 0);
        let mut levels = vec![Level::default()];
        for at in 0..tokens.len() {
            enter(&mut levels, tokens[at].token());
            let Some((value, last)) = self.value_of(text, &tokens, at) else { continue };
            if names(&levels, &tokens, at, last) {
                return None;
            }
            out.push_str(text.get(from..place(tokens[at].start)?)?);
            out.push_str(&value);
            from = place(tokens[last].end)?;
            found += 1;
        }
        out.push_str(text.get(from..)?);
        (found == words).then_some(out)
    }

    /// The literal that replaces the words beginning at token `at`, and the index of their last token.
    fn value_of(&self, text: &str, tokens: &[ScanToken], at: usize) -> Option<(String, usize)> {
        let token = |at: usize| tokens.get(at).map(ScanToken::token);
        if at > 0 && token(at - 1) == Some(Token::Ascii46) {
            return None;
        }
        let cast = |value: &str, to: &str| format!("('{value}'::pg_catalog.{to})");
        let behind = token(at + 1);
        match token(at)? {
            Token::CurrentTimestamp if behind != Some(Token::Ascii40) => {
                Some((cast(&self.now, "timestamptz"), at))
            }
            Token::Localtimestamp if behind != Some(Token::Ascii40) => {
                Some((cast(&self.local, "timestamp"), at))
            }
            Token::CurrentDate => Some((cast(&self.date, "date"), at)),
            Token::Ident if behind == Some(Token::Ascii40) && token(at + 2) == Some(Token::Ascii41) => {
                let word = text.get(place(tokens[at].start)?..place(tokens[at].end)?)?;
                let is_now =
                    ["now", "transaction_timestamp"].iter().any(|name| word.eq_ignore_ascii_case(name));
                is_now.then(|| (cast(&self.now, "timestamptz"), at + 2))
            }
            _ => None,
        }
    }
}

/// State inside one pair of parentheses, or outside of all.
#[derive(Clone, Copy, Default)]
struct Level {
    selects: bool,
    /// True inside the select list, or the list of RETURNING.
    in_list: bool,
    in_from: bool,
}

fn enter(levels: &mut Vec<Level>, token: Token) {
    let is_outermost = levels.len() == 1;
    match token {
        Token::Ascii40 => levels.push(Level::default()),
        Token::Ascii41 if !is_outermost => drop(levels.pop()),
        _ => {
            let Some(level) = levels.last_mut() else { return };
            match token {
                Token::Select => *level = Level { selects: true, in_list: true, in_from: false },
                // EXTRACT has a FROM too.
                Token::From | Token::Using if level.selects || is_outermost => {
                    (level.in_list, level.in_from) = (false, true)
                }
                Token::Where
                | Token::GroupP
                | Token::Having
                | Token::Order
                | Token::Limit
                | Token::Set
                | Token::Union
                | Token::Intersect
                | Token::Except
                | Token::Values => (level.in_list, level.in_from) = (false, false),
                Token::Returning => (level.in_list, level.in_from) = (true, false),
                _ => {}
            }
        }
    }
}

/// True if the words from `at` to `last` name a column of a subquery, which a literal would not, or stand for
/// a table.
fn names(levels: &[Level], tokens: &[ScanToken], at: usize, last: usize) -> bool {
    let (Some(level), Some(before)) = (levels.last(), at.checked_sub(1).map(|at| tokens[at].token())) else {
        return false;
    };
    let is_listed = matches!(
        before,
        Token::Select | Token::Returning | Token::Distinct | Token::All | Token::Ascii44 | Token::Else
    );
    let has_a_name = tokens.get(last + 1).is_some_and(|behind| behind.token() == Token::As);
    let is_inside = levels.len() > 1;
    let is_a_table =
        matches!(before, Token::From | Token::Using | Token::Join | Token::LateralP | Token::Ascii44);
    level.in_list && is_inside && is_listed && !has_a_name || level.in_from && is_a_table
}

fn place(at: i32) -> Option<usize> {
    usize::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant() -> Instant {
        Instant { now: "N".to_owned(), date: "D".to_owned(), local: "L".to_owned() }
    }

    #[test]
    fn words_are_replaced_and_nothing_else() {
        let put = |text: &str, words| instant().put_into(text, words);
        assert_eq!(
            put("INSERT INTO t VALUES (1, CURRENT_TIMESTAMP, 'now()') -- now()", 1).as_deref(),
            Some("INSERT INTO t VALUES (1, ('N'::pg_catalog.timestamptz), 'now()') -- now()")
        );
        assert_eq!(
            put("UPDATE t SET ä = NOW ( ), b = current_date, c=localtimestamp", 3).as_deref(),
            Some(
                "UPDATE t SET ä = ('N'::pg_catalog.timestamptz), b = ('D'::pg_catalog.date), c=('L'::pg_catalog.timestamp)"
            )
        );
        assert_eq!(
            put("SELECT now(), \"now\"", 1).as_deref(),
            Some("SELECT ('N'::pg_catalog.timestamptz), \"now\"")
        );
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let put = |text: &str, words| instant().put_into(text, words);
        assert_eq!(put("SELECT pg_catalog.now()", 1), None);
        assert_eq!(put("SELECT current_timestamp(0)", 1), None);
        assert_eq!(put("SELECT now()", 2), None, "a view may ask, too");
        for named in [
            "INSERT INTO t SELECT y.now FROM (SELECT now()) y",
            "INSERT INTO t SELECT to_jsonb(y) FROM (SELECT id, now() FROM s) y",
            "INSERT INTO t SELECT to_jsonb(y) FROM (SELECT now()::date, id FROM s) y",
            "INSERT INTO t SELECT to_jsonb(y) FROM (SELECT CASE WHEN a THEN b ELSE now() END FROM s) y",
            "WITH w AS (SELECT CURRENT_DATE) INSERT INTO t SELECT current_date FROM w",
            "WITH w AS (INSERT INTO s VALUES (1) RETURNING now()) INSERT INTO t SELECT now FROM w",
            "INSERT INTO t SELECT x FROM now() AS x",
            "INSERT INTO t SELECT x FROM s, now() AS x",
            "UPDATE t SET a = x FROM now() AS x",
            "DELETE FROM t USING now() AS x WHERE at < x",
        ] {
            let count = named.to_lowercase().matches("now()").count().max(1);
            assert_eq!(put(named, count), None, "{named}");
        }
        for unnamed in [
            "INSERT INTO t SELECT id, now() FROM s",
            "INSERT INTO t SELECT y.a FROM (SELECT now() AS a) y",
            "INSERT INTO t VALUES (1, now())",
            "UPDATE t SET a = now(), b = 2 FROM s WHERE t.id = s.id",
            "UPDATE t SET a = EXTRACT(epoch FROM now())",
            "DELETE FROM t WHERE at < now()",
            "INSERT INTO t (a) SELECT coalesce(a, now()) FROM s",
            "UPDATE t SET a = (SELECT max(b) FROM s WHERE c IN (1, 2) AND at > now())",
        ] {
            assert!(put(unnamed, 1).is_some(), "{unnamed}");
        }
        assert_eq!(put("SELECT 'unfinished", 0), None);
    }
}
