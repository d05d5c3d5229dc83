//! The procedure and the arguments of a CALL. Arguments that are computed must have the same values at every
//! server. PostgreSQL's analysis of a query with these expressions shows that.

use super::{Name, parse_tree};
use pg_query::NodeEnum;
use pg_query::protobuf::{Node, ScanToken, Token, a_const::Val};
use statement_analysis::shape::{Strings, tells_the_clock};
use std::ops::Range;

/// Longest CALL, in bytes, that is analysed: real ones are shorter, and longer ones could nest deeply.
const MAX_LOOKED_INTO: usize = 16 * 1024;

/// A CALL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// Name of the procedure, unresolved.
    pub name: Name,
    /// Arguments of the call.
    pub arguments: Arguments,
}

/// Arguments of a procedure call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// Literals and parameters, none of which means the current time.
    Values,
    /// A query that has the arguments as its columns; no literal in it means the current time.
    Computed(String),
    /// Any other arguments.
    Unknown,
}

/// The procedure and the arguments of a CALL; `None` if the text does not show them.
pub fn called(piece: &str, strings: Strings) -> Option<Called> {
    if piece.len() > MAX_LOOKED_INTO {
        return None;
    }
    let Some(NodeEnum::CallStmt(call)) = parse_tree::parsed(piece, strings) else { return None };
    let call = call.funccall?;
    let mut names = call.funcname.iter().map(|name| match &name.node {
        Some(NodeEnum::String(name)) => Some(name.sval.clone()),
        _ => None,
    });
    let name = match (names.next(), names.next(), names.next()) {
        (Some(Some(name)), None, None) => Name { schema: None, name },
        (Some(Some(schema)), Some(Some(name)), None) => Name { schema: Some(schema), name },
        _ => return None,
    };
    let arguments = match strings {
        _ if call.args.iter().all(is_value) => Arguments::Values,
        // The scanner follows the standard rules.
        Strings::Standard => query_of(piece).map_or(Arguments::Unknown, Arguments::Computed),
        Strings::Escaping => Arguments::Unknown,
    };
    Some(Called { name, arguments })
}

/// A query with the arguments of a CALL as its columns, byte for byte.
fn query_of(piece: &str) -> Option<String> {
    let mut tokens = pg_query::scan_tokens(piece).ok()?;
    tokens.retain(|token| !matches!(token.token(), Token::SqlComment | Token::CComment));
    let text = |token: &ScanToken| piece.get(token.start as usize..token.end as usize);
    let clock = |token: &ScanToken| text(token).is_none_or(|text| tells_the_clock(text.as_bytes()));
    if tokens.iter().any(|token| token.token() == Token::Sconst && clock(token)) {
        return None;
    }
    let pieces: Option<Vec<&str>> = arguments(&tokens)?.iter().map(|one| piece.get(one.clone())).collect();
    Some(format!("SELECT {}", pieces?.join(", ")))
}

/// Ranges of the arguments of a CALL, without their names.
fn arguments(tokens: &[ScanToken]) -> Option<Vec<Range<usize>>> {
    let open = tokens.iter().position(|token| token.token() == Token::Ascii40)?;
    let (mut depth, mut first, mut found) = (0usize, open + 1, Vec::new());
    for (place, token) in tokens.iter().enumerate().skip(open) {
        let ends = match token.token() {
            Token::Ascii40 | Token::Ascii91 => {
                depth += 1;
                false
            }
            Token::Ascii41 | Token::Ascii93 => {
                depth = depth.checked_sub(1)?;
                depth == 0
            }
            Token::Ascii44 => depth == 1,
            _ => false,
        };
        if ends {
            found.push(argument(tokens.get(first..place)?)?);
            first = place + 1;
        }
        if depth == 0 {
            return Some(found);
        }
    }
    None
}

/// Range of an argument's expression, after its name if it has one.
fn argument(tokens: &[ScanToken]) -> Option<Range<usize>> {
    let named =
        tokens.get(1).is_some_and(|sign| matches!(sign.token(), Token::EqualsGreater | Token::ColonEquals));
    let tokens = if named { &tokens[2..] } else { tokens };
    let (first, last) = (tokens.first()?, tokens.last()?);
    (first.token() != Token::Variadic).then_some(first.start as usize..last.end as usize)
}

/// True if a parameter's text may mean another value at another moment, whatever its type is.
pub fn may_mean_clock(text: &[u8]) -> bool {
    tells_the_clock(text)
}

fn is_value(argument: &Node) -> bool {
    match &argument.node {
        Some(NodeEnum::AConst(constant)) => match &constant.val {
            Some(Val::Sval(text)) => !tells_the_clock(text.sval.as_bytes()),
            _ => true,
        },
        Some(NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::TypeCast(cast)) => cast.arg.as_deref().is_some_and(is_value),
        Some(NodeEnum::NamedArgExpr(named)) => named.arg.as_deref().is_some_and(is_value),
        Some(NodeEnum::AArrayExpr(array)) => array.elements.iter().all(is_value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procedures_and_their_arguments() {
        let of = |text: &str| {
            let called = called(text, Strings::Standard)?;
            Some((called.name.schema, called.name.name, called.arguments))
        };
        let own = |schema: Option<&str>, name: &str, arguments| {
            Some((schema.map(str::to_owned), name.to_owned(), arguments))
        };
        let p = |arguments| own(None, "p", arguments);
        let computed = |query: &str| p(Arguments::Computed(query.to_owned()));
        for (text, wanted) in [
            ("CALL p()", p(Arguments::Values)),
            (
                "call Shop.\"Place\"(1, -2, 'x', NULL, $1, true)",
                own(Some("shop"), "Place", Arguments::Values),
            ),
            ("CALL p(a => '{1}'::int[], b => ARRAY[1, 2])", p(Arguments::Values)),
            ("CALL p(now())", computed("SELECT now()")),
            ("CALL p('now'::timestamptz)", p(Arguments::Unknown)),
            ("CALL p(1 + 1, 'now')", p(Arguments::Unknown)),
            ("CALL p(1 + 1)", computed("SELECT 1 + 1")),
            (
                "CALL p($1, b => (f($2, 3))[1] /* c, ) */, \"c\" := ARRAY[g('a,)', 2)] -- d\n)",
                computed("SELECT $1, (f($2, 3))[1], ARRAY[g('a,)', 2)]"),
            ),
            ("CALL p((SELECT 1))", computed("SELECT (SELECT 1)")),
            ("CALL p(VARIADIC ARRAY[1 + 1])", p(Arguments::Unknown)),
            ("CALL d.s.p()", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(of(text), wanted, "{text}");
        }
        let escaping = called(r"CALL p('\'' || 1)", Strings::Escaping).map(|called| called.arguments);
        assert_eq!(escaping, Some(Arguments::Unknown));
    }
}
