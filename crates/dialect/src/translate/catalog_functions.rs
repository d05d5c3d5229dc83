//! Functions and casts that queries of the system catalogue use.

use pg_query::NodeEnum;
use pg_query::protobuf::{Node, TypeName};

use super::{Expr, Translator, call, string_literal};
use crate::data_types::{Type, TypeWithModifier, string};
use crate::problem::Problem;
use crate::statement::constant;
use crate::system::{constraint_definitions, index_definitions, object_names, oid_of};

fn last_name(name: &TypeName) -> &str {
    name.names.last().and_then(string).unwrap_or("")
}

/// Casts to `regclass`, and from `regtype` to text; `None` for others.
pub(super) fn catalog_cast(
    t: &mut Translator<'_>,
    argument: &Node,
    to: &TypeName,
) -> Result<Option<Expr>, Problem> {
    match (last_name(to), &argument.node) {
        ("regclass", _) => {
            let text = constant(argument).flatten();
            let Some(text) = text else {
                let expr = t.expression(argument)?;
                return t
                    .implicit(expr, Type::Oid)
                    .map(|expr| Some(Expr { kind: TypeWithModifier::plain(Type::Regclass), ..expr }));
            };
            let oid = text.parse().ok().or_else(|| oid_of(t.catalog, &text));
            let missing = || Problem::new("42P01", format!("relation \"{text}\" does not exist"));
            Ok(Some(Expr::new(oid.ok_or_else(missing)?.to_string(), Type::Regclass)))
        }
        ("text", Some(NodeEnum::TypeCast(inner)))
            if inner.type_name.as_ref().map(last_name) == Some("regtype") =>
        {
            let expr = t.operand(inner.arg.as_deref())?;
            let expr = t.implicit(expr, Type::Oid)?;
            Ok(Some(
                expr.with(format!("pg_format_type({}, NULL)", expr.sql), TypeWithModifier::plain(Type::Text)),
            ))
        }
        _ => Ok(None),
    }
}

/// An OID's text in a list, as SQL. NULL if it is not there.
fn looked_up(oid: &Expr, list: Vec<(u32, String)>, base: Type) -> Expr {
    let when = |(oid, text): (u32, String)| format!(" WHEN {oid} THEN {}", string_literal(&text));
    let whens: String = list.into_iter().map(when).collect();
    let sql = if whens.is_empty() { "NULL".to_owned() } else { format!("(CASE {}{whens} END)", oid.sql) };
    oid.with(sql, TypeWithModifier::plain(base))
}

/// An output column of type regclass: the object's name, or its OID if it has none.
pub(super) fn shown_name(t: &Translator<'_>, expr: Expr) -> Result<Expr, Problem> {
    if t.scopes.len() > 1 {
        return Err(Problem::unsupported("type regclass in a subquery's result"));
    }
    let name = looked_up(&expr, object_names(t.catalog), Type::Regclass);
    Ok(name.with(format!("coalesce({}, CAST({} AS TEXT))", name.sql, expr.sql), name.kind))
}

/// Functions on the system catalogue; `None` for other names.
pub(super) fn catalog_call(
    t: &mut Translator<'_>,
    name: &str,
    nodes: &[Node],
) -> Result<Option<Expr>, Problem> {
    let known = matches!(
        name,
        "pg_get_userbyid"
            | "pg_table_is_visible"
            | "format_type"
            | "pg_get_expr"
            | "pg_get_indexdef"
            | "pg_get_constraintdef"
            | "obj_description"
            | "col_description"
            | "pg_encoding_to_char"
            | "to_regtype"
    );
    if !known || nodes.is_empty() {
        return Ok(None);
    }
    let arguments = t.expressions(nodes)?;
    let plain = TypeWithModifier::plain;
    let first = arguments[0].clone();
    if name == "pg_get_expr" {
        return t.implicit(first, Type::Text).map(Some);
    }
    if name == "to_regtype" {
        let text = t.implicit(first, Type::Text)?;
        return Ok(Some(call("pg_to_regtype", &[text], plain(Type::Oid))));
    }
    let is_number =
        first.base().is_integer() || matches!(first.base(), Type::Oid | Type::Regclass | Type::Unknown);
    if !is_number {
        return Ok(None);
    }
    let oid = t.implicit(first, if name == "pg_encoding_to_char" { Type::Int4 } else { Type::Oid })?;
    Ok(Some(match name {
        "pg_get_userbyid" => oid.with("pg_user()", plain(Type::Name)),
        "pg_table_is_visible" => oid.with("1", plain(Type::Bool)),
        "pg_encoding_to_char" => oid.with("'UTF8'", plain(Type::Name)),
        "pg_get_indexdef" => looked_up(&oid, index_definitions(t.catalog), Type::Text),
        "pg_get_constraintdef" => looked_up(&oid, constraint_definitions(t.catalog), Type::Text),
        "format_type" => {
            let [_, modifier] = arguments.as_slice() else { return Ok(None) };
            let modifier = t.implicit(modifier.clone(), Type::Int4)?;
            call("pg_format_type", &[oid, modifier], plain(Type::Text))
        }
        _ => oid.with("NULL", plain(Type::Text)),
    }))
}
