//! Which procedure a CALL names, and whether it is called with values alone: what computes its arguments would have to do the
//! same at every server too.

use super::{Name, flat};
use crate::shape::{Strings, tells_the_clock};
use pg_query::NodeEnum;
use pg_query::protobuf::{Node, a_const::Val};

/// Longer ones are not looked into: nobody writes them, and they could nest deeply.
const MAX_LOOKED_INTO: usize = 16 * 1024;

/// A CALL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The procedure's name, unresolved.
    pub name: Name,
    /// Its arguments are literals and parameters, none of which means the clock by itself.
    pub by_values: bool,
}

/// What is called; `None` if that cannot be told.
pub fn called(piece: &str, strings: Strings) -> Option<Called> {
    if piece.len() > MAX_LOOKED_INTO {
        return None;
    }
    let Some(NodeEnum::CallStmt(call)) = flat::parsed(piece, strings) else { return None };
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
    Some(Called { name, by_values: call.args.iter().all(is_value) })
}

/// Whether a parameter's text may mean another value at another moment, whatever its type is.
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
            Some((called.name.schema, called.name.name, called.by_values))
        };
        let own = |schema: Option<&str>, name: &str, by_values| {
            Some((schema.map(str::to_owned), name.to_owned(), by_values))
        };
        for (text, wanted) in [
            ("CALL p()", own(None, "p", true)),
            ("call Shop.\"Place\"(1, -2, 'x', NULL, $1, true)", own(Some("shop"), "Place", true)),
            ("CALL p(a => '{1}'::int[], b => ARRAY[1, 2])", own(None, "p", true)),
            ("CALL p(now())", own(None, "p", false)),
            ("CALL p('now'::timestamptz)", own(None, "p", false)),
            ("CALL p(1 + 1)", own(None, "p", false)),
            ("CALL p((SELECT 1))", own(None, "p", false)),
            ("CALL d.s.p()", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(of(text), wanted, "{text}");
        }
    }
}
