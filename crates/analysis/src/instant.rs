//! One instant in the place of the words that mean it, so that several servers that execute a statement take the same.

use pg_query::protobuf::{ScanToken, Token};

/// The instant at which a transaction began, as its server says it.
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
    /// The question for it: three columns, in the order of the fields.
    pub const QUESTION: &'static str = "\
        SELECT pg_catalog.to_char(pg_catalog.now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') OPERATOR(pg_catalog.||) '+00', \
               pg_catalog.to_char(CURRENT_DATE, 'YYYY-MM-DD'), \
               pg_catalog.to_char(LOCALTIMESTAMP, 'YYYY-MM-DD HH24:MI:SS.US')";

    /// The answer to it.
    pub fn of_row(row: &[Option<String>]) -> Option<Instant> {
        match row {
            [Some(now), Some(date), Some(local)] => {
                Some(Instant { now: now.clone(), date: date.clone(), local: local.clone() })
            }
            _ => None,
        }
    }

    /// The text with this instant instead of the words, if it has just so many of them, each by itself: a name before it, or
    /// a precision behind it, is not understood.
    pub fn put_into(&self, text: &str, words: usize) -> Option<String> {
        let mut tokens = pg_query::scan_tokens(text).ok()?;
        tokens.retain(|token| !matches!(token.token(), Token::SqlComment | Token::CComment));
        let (mut out, mut from, mut found) = (String::with_capacity(text.len() + 64), 0, 0);
        for at in 0..tokens.len() {
            let Some((value, last)) = self.value_of(text, &tokens, at) else { continue };
            out.push_str(text.get(from..place(tokens[at].start)?)?);
            out.push_str(&value);
            from = place(tokens[last].end)?;
            found += 1;
        }
        out.push_str(text.get(from..)?);
        (found == words).then_some(out)
    }

    /// What stands for the words that begin with this token, and their last token.
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
        assert_eq!(put("SELECT 'unfinished", 0), None);
    }
}
