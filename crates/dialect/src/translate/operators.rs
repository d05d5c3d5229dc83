//! Operators: arithmetic by type, comparisons, patterns and lists.

use pg_query::NodeEnum;
use pg_query::protobuf::{AExpr, AExprKind, Node};

use super::time_functions::time_arithmetic;
use super::{Expr, Source, Translator, string_literal};
use crate::data_types::{Type, TypeWithModifier, string};
use crate::problem::Problem;

fn no_operator(name: &str, left: Type, right: Type) -> Problem {
    Problem::new("42883", format!("operator does not exist: {} {name} {}", left.name(), right.name())).hint(
        "No operator matches the given name and argument types. You might need to add explicit type casts.",
    )
}

const COMPARISONS: &[&str] = &["=", "<>", "<", "<=", ">", ">="];

pub(super) fn binary(t: &mut Translator<'_>, name: &str, left: Expr, right: Expr) -> Result<Expr, Problem> {
    let name = if name == "!=" { "<>" } else { name };
    if COMPARISONS.contains(&name) {
        return compare(t, name, left, right);
    }
    match name {
        "+" | "-" | "*" | "/" | "%" => arithmetic(t, name, left, right),
        "||" => concatenate(t, left, right),
        "~~" | "!~~" | "~~*" | "!~~*" => {
            let function = if name.ends_with('*') { "pg_ilike" } else { "pg_like" };
            pattern_match(t, function, name.starts_with('!'), left, right, "'\\'")
        }
        "~" | "!~" => regular(t, name, left, right),
        "->" | "->>" | "~*" | "@>" | "<@" | "&" | "|" | "#" | "<<" | ">>" | "^" | "@@" | "?" | "&&"
        | "#>" | "#>>" | "!~*" => Err(Problem::unsupported(format!("operator {name}"))),
        _ => Err(no_operator(name, left.base(), right.base())),
    }
}

pub(super) fn unary(name: &str, operand: Expr) -> Result<Expr, Problem> {
    let base = operand.base();
    match name {
        "+" if base.is_number() => Ok(operand),
        "-" if base.is_number() => {
            if let Source::Number(text) = &operand.source {
                let sql = string_literal(&format!("-{}", operand.sql.trim_matches('\'')));
                return Ok(Expr {
                    source: Source::Number(format!("-{text}")),
                    ..operand.with(sql, operand.kind)
                });
            }
            let sql = match base {
                Type::Numeric => format!("pg_nneg({})", operand.sql),
                _ if base.is_float() => format!("pg_fneg({})", operand.sql),
                _ => narrowed(base, format!("pg_neg({})", operand.sql)),
            };
            Ok(operand.with(sql, TypeWithModifier::plain(base)))
        }
        "-" | "+" if base == Type::Unknown => {
            Err(Problem::new("42725", format!("operator is not unique: {name} unknown")))
        }
        "-" | "+" => Err(Problem::new("42883", format!("operator does not exist: {name} {}", base.name()))),
        _ => Err(Problem::unsupported(format!("prefix operator {name}"))),
    }
}

/// Both sides in the type in which they are compared. Error 42883 if they cannot be.
pub(super) fn comparable(
    t: &mut Translator<'_>,
    name: &str,
    left: Expr,
    right: Expr,
) -> Result<(Expr, Expr), Problem> {
    let base = comparison_type(name, left.base(), right.base())?;
    Ok((t.implicit(left, base)?, t.implicit(right, base)?))
}

pub(super) fn compare(t: &mut Translator<'_>, name: &str, left: Expr, right: Expr) -> Result<Expr, Problem> {
    let (left, right) = comparable(t, name, left, right)?;
    let right_sql = if left.base() == Type::Numeric { right.sql.clone() } else { right.collated() };
    Ok(Expr::of(format!("({} {name} {right_sql})", left.collated()), Type::Bool, &[&left, &right]))
}

pub(super) fn compare_rows(
    t: &mut Translator<'_>,
    name: &str,
    left: &[Node],
    right: &[Node],
) -> Result<Expr, Problem> {
    if left.len() != right.len() {
        return Err(Problem::new("42601", "unequal number of entries in row expressions"));
    }
    let word = match name {
        "=" => " AND ",
        "<>" => " OR ",
        _ => return Err(Problem::unsupported(format!("the comparison {name} of rows"))),
    };
    let mut parts = Vec::new();
    for (left, right) in left.iter().zip(right) {
        let (left, right) = (t.expression(left)?, t.expression(right)?);
        parts.push(compare(t, name, left, right)?);
    }
    let texts: Vec<&str> = parts.iter().map(|part| part.sql.as_str()).collect();
    Ok(Expr::of(format!("({})", texts.join(word)), Type::Bool, &parts.iter().collect::<Vec<_>>()))
}

fn arithmetic(t: &mut Translator<'_>, name: &str, left: Expr, right: Expr) -> Result<Expr, Problem> {
    let (from, other) = (left.base(), right.base());
    if from.is_time() || other.is_time() || Type::Interval == from || Type::Interval == other {
        return time_arithmetic(t, name, left, right);
    }
    if from == Type::Unknown && other == Type::Unknown {
        return Err(Problem::new("42725", format!("operator is not unique: unknown {name} unknown")));
    }
    let refused = || no_operator(name, from, other);
    let mut base = from.common(other).filter(|base| base.is_number()).ok_or_else(refused)?;
    if from != other && base == Type::Float4 && from != Type::Unknown && other != Type::Unknown {
        base = Type::Float8;
    }
    if name == "%" && base.is_float() {
        return Err(refused());
    }
    let (left, right) = (t.implicit(left, base)?, t.implicit(right, base)?);
    let (a, b) = (&left.sql, &right.sql);
    let word = match name {
        "+" => "add",
        "-" => "sub",
        "*" => "mul",
        "/" => "div",
        _ => "mod",
    };
    let sql = match base {
        Type::Numeric => format!("pg_n{word}({a}, {b})"),
        Type::Float4 => format!("pg_f4{word}({a}, {b})"),
        Type::Float8 => format!("pg_f8{word}({a}, {b})"),
        // A sum or product of two narrow integers fits 64 bits.
        Type::Int2 | Type::Int4 if matches!(name, "+" | "-" | "*") => {
            narrowed(base, format!("{a} {name} {b}"))
        }
        _ => narrowed(base, format!("pg_{word}({a}, {b})")),
    };
    Ok(Expr::of(sql, base, &[&left, &right]))
}

fn concatenate(t: &mut Translator<'_>, left: Expr, right: Expr) -> Result<Expr, Problem> {
    let (from, other) = (left.base(), right.base());
    let is_text = |base: Type| base.is_text() || base == Type::Unknown;
    if from == Type::Bytea || other == Type::Bytea || from == Type::Jsonb || other == Type::Jsonb {
        return Err(Problem::unsupported("the operator || of this type"));
    }
    if !is_text(from) && !is_text(other) {
        return Err(no_operator("||", from, other));
    }
    let text = TypeWithModifier::plain(Type::Text);
    let (left, right) = (t.cast(left, text)?, t.cast(right, text)?);
    Ok(Expr::of(format!("({} || {})", left.sql, right.sql), Type::Text, &[&left, &right]))
}

pub(super) fn in_list(t: &mut Translator<'_>, name: &str, expr: &AExpr) -> Result<Expr, Problem> {
    let Some(NodeEnum::List(list)) = expr.rexpr.as_ref().and_then(|node| node.node.as_ref()) else {
        return Err(Problem::unsupported("this form of IN"));
    };
    let is_not = name == "<>";
    let word = if is_not { "NOT IN" } else { "IN" };
    if let Some(NodeEnum::RowExpr(left)) = expr.lexpr.as_ref().and_then(|node| node.node.as_ref()) {
        let mut parts = Vec::new();
        for item in &list.items {
            let Some(NodeEnum::RowExpr(right)) = &item.node else {
                return Err(Problem::unsupported("IN of a row and other than rows"));
            };
            parts.push(compare_rows(t, "=", &left.args, &right.args)?);
        }
        if parts.len() > 1 && parts.iter().any(|part| part.is_volatile) {
            return Err(Problem::unsupported("IN of a row with a volatile expression"));
        }
        let texts: Vec<&str> = parts.iter().map(|part| part.sql.as_str()).collect();
        let sql = format!("({}({}))", if is_not { "NOT " } else { "" }, texts.join(" OR "));
        return Ok(Expr::of(sql, Type::Bool, &parts.iter().collect::<Vec<_>>()));
    }
    let left = t.operand(expr.lexpr.as_deref())?;
    let items = t.expressions(&list.items)?;
    in_items(t, word, left, items)
}

/// `left IN (items)`, all in one type.
fn in_items(t: &mut Translator<'_>, word: &str, left: Expr, items: Vec<Expr>) -> Result<Expr, Problem> {
    let is_of_others = |item: &Expr| item.base().is_number() && !item.base().is_float();
    if left.base() == Type::Float4 && items.len() > 1 && items.iter().any(is_of_others) {
        // PostgreSQL makes an array of the constants, in the type of the column; one alone it compares as a double.
        return Err(
            Problem::unsupported("IN of a real and numbers of other types").hint("Cast them to real.")
        );
    }
    let mut base = left.base();
    for item in &items {
        base = comparison_type("=", base, item.base())?;
    }
    let left = t.implicit(left, base)?;
    let mut compared = Vec::with_capacity(items.len());
    for item in items {
        compared.push(t.implicit(item, base)?);
    }
    let texts: Vec<&str> = compared.iter().map(|item| item.sql.as_str()).collect();
    let sql = format!("({} {word} ({}))", left.collated(), texts.join(", "));
    let parts: Vec<&Expr> = std::iter::once(&left).chain(&compared).collect();
    Ok(Expr::of(sql, Type::Bool, &parts))
}

/// `= ANY (array)` and `<> ALL (array)`.
pub(super) fn any_array(
    t: &mut Translator<'_>,
    name: &str,
    expr: &AExpr,
    is_any: bool,
) -> Result<Expr, Problem> {
    let word = match (name, is_any) {
        ("=", true) => "IN",
        ("<>" | "!=", false) => "NOT IN",
        _ => {
            return Err(Problem::unsupported(format!("{name} with ANY or ALL")).hint("Use = ANY or <> ALL."));
        }
    };
    let left = t.operand(expr.lexpr.as_deref())?;
    let mut array = expr.rexpr.as_deref().and_then(|node| node.node.as_ref());
    let mut declared = None;
    if let Some(NodeEnum::TypeCast(cast)) = array {
        if let Some(name) = &cast.type_name {
            declared = Some(TypeWithModifier::read(name)?.base);
        }
        array = cast.arg.as_ref().and_then(|node| node.node.as_ref());
    }
    if let Some(NodeEnum::AArrayExpr(list)) = array {
        let items = t.expressions(&list.elements)?;
        let items = match declared {
            Some(Type::Array(element)) => {
                let to = TypeWithModifier::plain(element.base());
                items.into_iter().map(|item| t.cast(item, to)).collect::<Result<Vec<_>, _>>()?
            }
            _ => items,
        };
        return in_items(t, word, left, items);
    }
    let Some(node) = array else { return Err(Problem::unsupported("this array")) };
    let right = t.expression(&Node { node: Some(node.clone()) })?;
    let (base, left) = match (declared, right.base()) {
        (Some(base @ Type::Array(_)), _) | (None, base @ Type::Array(_)) => (base, left),
        (None, Type::Unknown) => {
            let base = if left.is_unknown() { Type::Text } else { left.base() };
            let base = if base == Type::Varchar || base == Type::Bpchar { Type::Text } else { base };
            (base.array().ok_or_else(|| Problem::unsupported(format!("an array of {}", base.name())))?, left)
        }
        _ => return Err(Problem::new("42809", "op ANY/ALL (array) requires array on right side")),
    };
    let Type::Array(element) = base else { return Err(Problem::unsupported("this array")) };
    let right = t.implicit(right, base)?;
    let value = if element.base() == Type::Uuid { "unhex(value)" } else { "value" };
    let item = Expr::new(value, element.base());
    let (left, item) = comparable(t, "=", left, item)?;
    let null = format!("{} IS NULL", right.sql);
    let sql = format!(
        "({} {word} (SELECT {} FROM json_each(CASE WHEN {null} THEN '[null]' ELSE {} END)))",
        left.collated(),
        item.sql,
        right.sql
    );
    Ok(Expr::of(sql, Type::Bool, &[&left, &right]))
}

pub(super) fn between(t: &mut Translator<'_>, expr: &AExpr) -> Result<Expr, Problem> {
    let Some(NodeEnum::List(list)) = expr.rexpr.as_ref().and_then(|node| node.node.as_ref()) else {
        return Err(Problem::unsupported("this form of BETWEEN"));
    };
    let left = t.operand(expr.lexpr.as_deref())?;
    if left.is_volatile {
        return Err(Problem::unsupported("BETWEEN of a volatile expression"));
    }
    let [low, high] = list.items.as_slice() else {
        return Err(Problem::unsupported("this form of BETWEEN"));
    };
    let (low, high) = (t.expression(low)?, t.expression(high)?);
    let mut range = |low: &Expr, high: &Expr| -> Result<Expr, Problem> {
        let above = compare(t, ">=", left.clone(), low.clone())?;
        let below = compare(t, "<=", left.clone(), high.clone())?;
        Ok(Expr::of(format!("({} AND {})", above.sql, below.sql), Type::Bool, &[&above, &below]))
    };
    let forward = range(&low, &high)?;
    let found = match expr.kind() {
        AExprKind::AexprBetweenSym | AExprKind::AexprNotBetweenSym => {
            let backward = range(&high, &low)?;
            Expr::of(format!("({} OR {})", forward.sql, backward.sql), Type::Bool, &[&forward, &backward])
        }
        _ => forward,
    };
    match expr.kind() {
        AExprKind::AexprNotBetween | AExprKind::AexprNotBetweenSym => {
            Ok(found.with(format!("(NOT {})", found.sql), found.kind))
        }
        _ => Ok(found),
    }
}

pub(super) fn like(
    t: &mut Translator<'_>,
    expr: &AExpr,
    function: &str,
    is_not: bool,
) -> Result<Expr, Problem> {
    let left = t.operand(expr.lexpr.as_deref())?;
    if let Some(NodeEnum::FuncCall(call)) = expr.rexpr.as_ref().and_then(|node| node.node.as_ref())
        && call.funcname.last().and_then(string) == Some("like_escape")
        && let [pattern, escape] = call.args.as_slice()
    {
        let (pattern, escape) = (t.expression(pattern)?, t.expression(escape)?);
        let escape = t.implicit(escape, Type::Text)?.sql;
        return pattern_match(t, function, is_not, left, pattern, &escape);
    }
    let right = t.operand(expr.rexpr.as_deref())?;
    pattern_match(t, function, is_not, left, right, "'\\'")
}

fn pattern_match(
    t: &mut Translator<'_>,
    function: &str,
    is_not: bool,
    left: Expr,
    right: Expr,
    escape: &str,
) -> Result<Expr, Problem> {
    let name = if function == "pg_ilike" { "~~*" } else { "~~" };
    let (from, other) = (left.base(), right.base());
    let is_text = |base: Type| base.is_text() || base == Type::Unknown;
    if !is_text(from) || !is_text(other) {
        return Err(no_operator(name, from, other));
    }
    if from == Type::Bpchar {
        return Err(Problem::unsupported("LIKE on type character").hint("Cast the column to text."));
    }
    let (left, right) = (t.implicit(left, Type::Text)?, t.implicit(right, Type::Text)?);
    let call = format!("{function}({}, {}, {escape})", left.sql, right.sql);
    let is_fixed = matches!(right.source, Source::Literal(_) | Source::Parameter(_));
    let sql = if is_not {
        format!("(NOT {call})")
    } else if function == "pg_like" && left.source == Source::Column && is_fixed && escape == "'\\'" {
        // The bounds of the pattern's prefix let SQLite use an index.
        let (column, pattern) = (&left.sql, &right.sql);
        format!("({column} >= pg_like_low({pattern}) AND {column} < pg_like_high({pattern}) AND {call})")
    } else {
        call
    };
    Ok(Expr::of(sql, Type::Bool, &[&left, &right]))
}

/// The regular expressions that psql sends: `^(name)$`, and `^prefix` of plain letters.
fn regular(t: &mut Translator<'_>, name: &str, left: Expr, right: Expr) -> Result<Expr, Problem> {
    let refused = || Problem::unsupported("a regular expression").hint("Use LIKE.");
    let Source::Literal(pattern) = &right.source else { return Err(refused()) };
    let inner = pattern.strip_prefix('^').ok_or_else(refused)?;
    let whole = inner.strip_prefix('(').and_then(|rest| rest.strip_suffix(")$"));
    let word = whole.unwrap_or(inner);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if word.is_empty() || !word.bytes().all(is_plain) || !left.base().is_text() {
        return Err(refused());
    }
    let left = t.implicit(left, Type::Text)?;
    let (length, word_sql) = (word.len(), string_literal(word));
    let found = match whole {
        Some(_) => format!("({} = {word_sql})", left.sql),
        None => format!("(substr({}, 1, {length}) = {word_sql})", left.sql),
    };
    let sql = if name == "!~" { format!("(NOT {found})") } else { found };
    Ok(Expr::of(sql, Type::Bool, &[&left]))
}

/// The type in which two types are compared.
fn comparison_type(name: &str, from: Type, other: Type) -> Result<Type, Problem> {
    let common = from.common(other).ok_or_else(|| no_operator(name, from, other))?;
    let base = match (from, other) {
        (Type::Bpchar, Type::Varchar) | (Type::Varchar, Type::Bpchar) => Type::Bpchar,
        _ if from == other => common,
        _ if from.is_number() && other.is_number() && (from.is_float() || other.is_float()) => Type::Float8,
        _ if from.is_text() && other.is_text() => Type::Text,
        _ => common,
    };
    match base {
        Type::Json => Err(no_operator(name, from, other)),
        Type::Jsonb | Type::Interval | Type::Array(_) | Type::Void => {
            Err(Problem::unsupported(format!("a comparison of type {}", base.name())))
        }
        Type::Unknown | Type::Varchar | Type::Name => Ok(Type::Text),
        _ => Ok(base),
    }
}

/// An integer's result in the range of its type.
pub(crate) fn narrowed(base: Type, sql: String) -> String {
    match base {
        Type::Int2 => format!("pg_int2({sql})"),
        Type::Int4 => format!("pg_int4({sql})"),
        _ => sql,
    }
}
