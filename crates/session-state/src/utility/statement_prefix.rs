//! Statements whose first words determine their kind and whose rest may be an expression of any depth.
//! PostgreSQL's scanner reads them, not its parser: a tree of hostile depth is never built.

use super::global_commands::{self, Everywhere};
use super::{Name, Utility, Utility as U};
use pg_query::protobuf::{ScanToken, Token};
use statement_analysis::shape::Strings;
use std::ops::Range;

/// The utility statement, if it is one of these; `offset` is the position of its first byte in the text.
pub(super) fn utility(piece: &str, offset: usize, strings: Strings) -> Option<Utility> {
    let mut tokens = pg_query::scan_tokens(piece).ok()?;
    tokens.retain(|token| !matches!(token.token(), Token::SqlComment | Token::CComment));
    let words = Words { piece, offset, tokens: &tokens };
    match words.token(0)? {
        Token::Create
        | Token::Alter
        | Token::Drop
        | Token::Comment
        | Token::Grant
        | Token::Revoke
        | Token::Security
        | Token::ImportP
        | Token::Reassign => Some(words.ddl(strings)),
        Token::Explain => words.explain(),
        Token::Prepare if words.token(1) != Some(Token::Transaction) => words.prepare(),
        Token::Execute => Some(U::Execute { name: words.name(1)? }),
        Token::Declare => words.declare(),
        Token::Copy => words.copy(),
        Token::Call => Some(U::Call),
        Token::Do => Some(U::Do),
        _ => None,
    }
}

struct Words<'a> {
    piece: &'a str,
    offset: usize,
    tokens: &'a [ScanToken],
}

impl Words<'_> {
    fn token(&self, at: usize) -> Option<Token> {
        self.tokens.get(at).map(ScanToken::token)
    }

    fn text(&self, at: usize) -> Option<&str> {
        let token = self.tokens.get(at)?;
        self.piece.get(token.start as usize..token.end as usize)
    }

    /// The name at this token, folded as PostgreSQL does.
    fn name(&self, at: usize) -> Option<String> {
        let text = self.text(at)?;
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        Some(quoted.map_or_else(|| text.to_ascii_lowercase(), |name| name.replace("\"\"", "\"")))
    }

    /// Range from the token to the end of the statement.
    fn rest(&self, at: usize) -> Option<Range<usize>> {
        let start = self.tokens.get(at)?.start as usize;
        Some(self.offset + start..self.offset + self.piece.len())
    }

    /// Index of the token after the parenthesis that closes the one at `at`.
    fn past_parentheses(&self, at: usize) -> Option<usize> {
        let mut depth = 0usize;
        for place in at..self.tokens.len() {
            match self.token(place)? {
                Token::Ascii40 => depth += 1,
                Token::Ascii41 => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(place + 1);
            }
        }
        None
    }

    fn ddl(&self, strings: Strings) -> Utility {
        let may_be = self.token(0).is_some_and(|first| global_commands::may_be(first, self.token(1)));
        let Everywhere { everywhere, alone } =
            if may_be { global_commands::of(self.piece, strings) } else { Everywhere::default() };
        U::Ddl { temporary: self.temporary(), everywhere, alone, keeps_own: self.keeps_own() }
    }

    /// True if the statement has `SET consort.x` for a role, a database or a function.
    fn keeps_own(&self) -> bool {
        let kinds =
            [Token::Role, Token::User, Token::Database, Token::Function, Token::Procedure, Token::Routine];
        let of_kind = (1..4).any(|at| self.token(at).is_some_and(|token| kinds.contains(&token)));
        // The body of a function follows that word, where SET belongs to an UPDATE.
        let end = (1..self.tokens.len()).find(|&at| self.token(at) == Some(Token::Atomic));
        let sets_own = |at: usize| {
            self.token(at) == Some(Token::Set)
                && self.name(at + 1).as_deref() == Some("consort")
                && self.token(at + 2) == Some(Token::Ascii46)
        };
        of_kind && (1..end.unwrap_or(self.tokens.len())).any(sets_own)
    }

    /// True if the statement creates a temporary object: by the word before the kind, or by naming the
    /// temporary schema.
    fn temporary(&self) -> bool {
        let word = (1..self.tokens.len().min(6))
            .any(|at| matches!(self.token(at), Some(Token::Temp | Token::Temporary)));
        let schema = || self.piece.as_bytes().windows(7).any(|part| part.eq_ignore_ascii_case(b"pg_temp"));
        word || schema()
    }

    fn explain(&self) -> Option<Utility> {
        let mut at = 1;
        let mut analyze = false;
        let asked = |at| matches!(self.token(at), Some(Token::Analyze | Token::Analyse));
        if self.token(at) == Some(Token::Ascii40) && !self.begins_query(at + 1) {
            let end = self.past_parentheses(at)?;
            analyze = (at..end).any(asked);
            at = end;
        } else {
            while asked(at) || self.token(at) == Some(Token::Verbose) {
                analyze |= asked(at);
                at += 1;
            }
        }
        let makes = if analyze { self.makes(at) } else { None };
        Some(U::Explain { analyze, makes, inner: self.rest(at)? })
    }

    /// The relation at this token that CREATE TABLE AS, CREATE MATERIALIZED VIEW or SELECT INTO creates;
    /// `None` if it is temporary.
    fn makes(&self, at: usize) -> Option<Name> {
        let mut name = if self.token(at) == Some(Token::Create) {
            1 + (at..self.tokens.len())
                .find(|&at| matches!(self.token(at), Some(Token::Table | Token::View)))?
        } else {
            let others = |at: usize| matches!(self.token(at - 1), Some(Token::Insert | Token::Merge));
            1 + (at + 1..self.tokens.len()).find(|&at| self.token(at) == Some(Token::Into) && !others(at))?
        };
        let from = name;
        let noise = |at| {
            let words = [Token::Table, Token::Unlogged, Token::IfP, Token::Not, Token::Exists];
            self.token(at).is_some_and(|token| words.contains(&token))
        };
        while noise(name) {
            name += 1;
        }
        let temporary = |at| matches!(self.token(at), Some(Token::Temp | Token::Temporary));
        if (at..from).any(|place| self.token(at) == Some(Token::Create) && temporary(place))
            || temporary(name)
        {
            return None;
        }
        // The last two of `database.schema.name`.
        let mut parts = vec![self.name(name)?];
        while self.token(name + 1) == Some(Token::Ascii46) {
            name += 2;
            parts.push(self.name(name)?);
        }
        let name = parts.pop()?;
        Some(Name { schema: parts.pop(), name })
    }

    fn begins_query(&self, at: usize) -> bool {
        matches!(
            self.token(at),
            Some(Token::Select | Token::With | Token::Values | Token::Table | Token::Ascii40)
        )
    }

    fn prepare(&self) -> Option<Utility> {
        let at = if self.token(2) == Some(Token::Ascii40) { self.past_parentheses(2)? } else { 2 };
        (self.token(at) == Some(Token::As)).then_some(())?;
        Some(U::Prepare { name: self.name(1)?, inner: self.rest(at + 1)? })
    }

    fn declare(&self) -> Option<Utility> {
        let at = (2..self.tokens.len()).find(|&at| self.token(at) == Some(Token::For))?;
        let hold =
            (2..at).any(|at| self.token(at) == Some(Token::Hold) && self.token(at - 1) == Some(Token::With));
        Some(U::Declare { hold, inner: self.rest(at + 1)? })
    }

    fn copy(&self) -> Option<Utility> {
        if self.token(1) == Some(Token::Ascii40) {
            let end = self.past_parentheses(1)?;
            let (from, to) = (self.tokens.get(2)?.start as usize, self.tokens.get(end - 1)?.start as usize);
            return Some(U::CopyQuery { inner: self.offset + from..self.offset + to });
        }
        // The column list and the options hold neither word.
        (1..self.tokens.len()).find_map(|at| match self.token(at)? {
            Token::From => Some(U::CopyFrom),
            Token::To => Some(U::CopyTo),
            _ => None,
        })
    }
}
