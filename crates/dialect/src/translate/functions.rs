//! Calls of functions and aggregates.

use pg_query::protobuf::{FuncCall, Node};

use super::catalog_functions::catalog_call;
use super::names::{as_call, column_name};
use super::operators::{binary, narrowed};
use super::select::sort_terms;
use super::time_functions::time_call;
use super::{Expr, Translator, call, quoted, string_literal};
use crate::data_types::{Type, TypeWithModifier, string};
use crate::problem::Problem;
use crate::statement::constant;

fn plain(base: Type) -> TypeWithModifier {
    TypeWithModifier::plain(base)
}

pub(super) fn function_call(t: &mut Translator<'_>, function: &FuncCall) -> Result<Expr, Problem> {
    let names: Vec<&str> = function.funcname.iter().filter_map(string).collect();
    let name = match names.as_slice() {
        [name] | ["pg_catalog", name] => *name,
        _ => return Err(Problem::unsupported(format!("function {}", names.join(".")))),
    };
    if function.func_variadic || function.agg_within_group {
        return Err(Problem::unsupported("VARIADIC or WITHIN GROUP"));
    }
    if function.over.is_some() {
        return window_call(t, name, function);
    }
    if is_aggregate(name) {
        return aggregate_call(t, name, function);
    }
    if let Some(expr) = sequence_call(t, name, &function.args)? {
        return Ok(expr);
    }
    if let Some(expr) = catalog_call(t, name, &function.args)? {
        return Ok(expr);
    }
    let arguments = t.expressions(&function.args)?;
    if let Some(expr) = time_call(t, name, &arguments)? {
        return Ok(expr);
    }
    if let Some(expr) = number_call(t, name, &arguments)? {
        return Ok(expr);
    }
    if let Some(expr) = text_call(t, name, &arguments)? {
        return Ok(expr);
    }
    let types: Vec<String> = arguments.iter().map(|argument| argument.base().name()).collect();
    let shown = format!("{name}({})", types.join(", "));
    if KNOWN_ELSEWHERE.contains(&name) || !is_translated(name) || arguments.iter().any(Expr::is_unknown) {
        return Err(Problem::unsupported(format!("function {shown}")));
    }
    Err(Problem::new("42883", format!("function {shown} does not exist")).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    ))
}

fn number_call(t: &mut Translator<'_>, name: &str, arguments: &[Expr]) -> Result<Option<Expr>, Problem> {
    let first = arguments.first().map_or(Type::Void, Expr::base);
    let is_number = first.is_number();
    let mut as_type = |place: usize, base: Type| t.implicit(arguments[place].clone(), base);
    Ok(Some(match (name, arguments.len()) {
        ("abs", 1) if is_number => {
            let sql = &arguments[0].sql;
            let sql = match first {
                Type::Numeric => format!("pg_nabs({sql})"),
                _ if first.is_float() => format!("pg_fabs({sql})"),
                _ => narrowed(first, format!("pg_abs({sql})")),
            };
            arguments[0].with(sql, plain(first))
        }
        ("floor" | "ceil" | "ceiling" | "round" | "trunc", 1) if is_number => {
            let (numeric, float) = match name {
                "floor" => ("pg_nfloor(", "pg_ffloor"),
                "round" => ("pg_nround(", "pg_fround"),
                "trunc" => ("pg_ntrunc(", "pg_ftrunc"),
                _ => ("pg_nceil(", "pg_fceil"),
            };
            if first == Type::Numeric {
                let scale = if matches!(name, "round" | "trunc") { ", 0" } else { "" };
                arguments[0].with(format!("{numeric}{}{scale})", arguments[0].sql), plain(Type::Numeric))
            } else {
                call(float, &[as_type(0, Type::Float8)?], plain(Type::Float8))
            }
        }
        ("round" | "trunc", 2) if is_number && !first.is_float() => {
            let parts = [as_type(0, Type::Numeric)?, as_type(1, Type::Int4)?];
            call(if name == "round" { "pg_nround" } else { "pg_ntrunc" }, &parts, plain(Type::Numeric))
        }
        ("mod", 2) => return binary(t, "%", arguments[0].clone(), arguments[1].clone()).map(Some),
        ("sqrt", 1) if first.is_integer() || first.is_float() => {
            call("pg_sqrt", &[as_type(0, Type::Float8)?], plain(Type::Float8))
        }
        ("sign", 1) if first == Type::Numeric => call("pg_nsign", arguments, plain(Type::Numeric)),
        ("random", 0) => {
            Expr { is_volatile: true, is_not_null: true, ..Expr::new("pg_random()", Type::Float8) }
        }
        _ => return Ok(None),
    }))
}

fn text_call(t: &mut Translator<'_>, name: &str, arguments: &[Expr]) -> Result<Option<Expr>, Problem> {
    use Type::{Int4, Text};
    let first = arguments.first().map_or(Type::Void, Expr::base);
    let fixed = |sql: &str, base| Expr { is_not_null: true, ..Expr::new(sql, base) };
    let signature: (&str, &[Type], Type) = match (name, arguments.len()) {
        ("length", 1) if first == Type::Bytea => ("pg_octets", &[Type::Bytea], Int4),
        ("octet_length", 1) if first == Type::Bytea => ("pg_octets", &[Type::Bytea], Int4),
        ("lower", 1) => ("lower", &[Text], Text),
        ("upper", 1) => ("upper", &[Text], Text),
        ("length" | "char_length" | "character_length", 1) => ("length", &[Text], Int4),
        ("octet_length", 1) if first != Type::Bpchar => ("pg_octets", &[Text], Int4),
        // A number of unknown type is a pattern to PostgreSQL.
        ("substring", 2 | 3)
            if arguments[1..].iter().all(|part| part.is_unknown() || part.base().is_text()) =>
        {
            return Err(Problem::unsupported("substring with a pattern")
                .hint("Cast a parameter that is a position to integer."));
        }
        ("substring" | "substr", 2) => ("pg_substring", &[Text, Int4], Text),
        ("substring" | "substr", 3) => ("pg_substring", &[Text, Int4, Int4], Text),
        ("left", 2) => ("pg_left", &[Text, Int4], Text),
        ("right", 2) => ("pg_right", &[Text, Int4], Text),
        ("lpad", 3) => ("pg_lpad", &[Text, Int4, Text], Text),
        ("rpad", 3) => ("pg_rpad", &[Text, Int4, Text], Text),
        ("repeat", 2) => ("pg_repeat", &[Text, Int4], Text),
        ("reverse", 1) => ("pg_reverse", &[Text], Text),
        ("initcap", 1) => ("pg_initcap", &[Text], Text),
        ("replace", 3) => ("replace", &[Text, Text, Text], Text),
        ("strpos" | "position", 2) => ("pg_strpos", &[Text, Text], Int4),
        ("split_part", 3) => ("pg_split_part", &[Text, Text, Int4], Text),
        ("btrim" | "ltrim" | "rtrim", 1) => {
            let Some(text) = convert_arguments(t, arguments, &[Text])? else { return Ok(None) };
            let function = name.trim_start_matches('b');
            return Ok(Some(text[0].with(format!("{function}({}, ' ')", text[0].sql), plain(Text))));
        }
        ("btrim", 2) => ("trim", &[Text, Text], Text),
        ("ltrim", 2) => ("ltrim", &[Text, Text], Text),
        ("rtrim", 2) => ("rtrim", &[Text, Text], Text),
        ("lpad" | "rpad", 2) => {
            let function = if name == "lpad" { "pg_lpad" } else { "pg_rpad" };
            let Some(parts) = convert_arguments(t, arguments, &[Text, Int4])? else { return Ok(None) };
            let sql = format!("{function}({}, {}, ' ')", parts[0].sql, parts[1].sql);
            return Ok(Some(Expr::of(sql, Text, &parts.iter().collect::<Vec<_>>())));
        }
        ("concat", 1..) | ("concat_ws", 2..) => {
            let mut parts = Vec::new();
            for argument in arguments {
                let part = printed(t, argument.clone())?;
                parts.push(part);
            }
            return Ok(Some(Expr { is_not_null: name == "concat", ..call(name, &parts, plain(Text)) }));
        }
        ("version", 0) => {
            return Ok(Some(fixed("'PostgreSQL 15.0 (in-memory tier of Consort)'", Text)));
        }
        ("current_database", 0) => return Ok(Some(fixed("pg_database()", Type::Name))),
        ("current_schema", 0) => return Ok(Some(fixed("'public'", Type::Name))),
        ("pg_is_in_recovery", 0) => return Ok(Some(fixed("0", Type::Bool))),
        _ => return Ok(None),
    };
    let (function, types, result) = signature;
    Ok(convert_arguments(t, arguments, types)?.map(|parts| call(function, &parts, plain(result))))
}

/// The arguments as these types; `None` if one does not convert implicitly.
fn convert_arguments(
    t: &mut Translator<'_>,
    arguments: &[Expr],
    types: &[Type],
) -> Result<Option<Vec<Expr>>, Problem> {
    let mut parts = Vec::new();
    for (argument, base) in arguments.iter().zip(types) {
        match t.convert(argument.clone(), plain(*base), super::Cast::Implicit)? {
            Some(part) => parts.push(part),
            None => return Ok(None),
        }
    }
    Ok(Some(parts))
}

/// The output text of a value, as `concat` prints it.
fn printed(t: &mut Translator<'_>, expr: Expr) -> Result<Expr, Problem> {
    match expr.base() {
        Type::Bool => {
            Ok(expr
                .with(format!("(CASE {} WHEN 1 THEN 't' WHEN 0 THEN 'f' END)", expr.sql), plain(Type::Text)))
        }
        Type::Bpchar => {
            Err(Problem::unsupported("concat of type character").hint("Cast the column to text."))
        }
        _ => t.cast(expr, plain(Type::Text)),
    }
}

/// The sequence that a constant names.
fn sequence_name(t: &mut Translator<'_>, node: &Node) -> Result<String, Problem> {
    let text = match as_call(node) {
        Some(call) if column_name(call) == "pg_get_serial_sequence" => match call.args.as_slice() {
            [table, column] => serial_sequence(t, table, column)?,
            _ => None,
        },
        _ => constant(node).flatten(),
    };
    let text = text.ok_or_else(|| Problem::unsupported("a sequence whose name is no constant"))?;
    let name = text.strip_prefix("public.").unwrap_or(&text);
    let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(name) => name.to_owned(),
        None => name.to_lowercase(),
    };
    if !t.catalog.sequences.contains_key(&name) {
        return Err(Problem::new("42P01", format!("relation \"{name}\" does not exist")));
    }
    t.sequences.insert(name.clone());
    Ok(name)
}

/// The name of the sequence of a column, both constants.
fn serial_sequence(t: &mut Translator<'_>, table: &Node, column: &Node) -> Result<Option<String>, Problem> {
    let texts = constant(table).flatten().zip(constant(column).flatten());
    let (table, column) =
        texts.ok_or_else(|| Problem::unsupported("pg_get_serial_sequence of no constants"))?;
    let name = table.strip_prefix("public.").unwrap_or(&table).trim_matches('"').to_owned();
    let table = t.table("", &name)?;
    let missing =
        || Problem::new("42703", format!("column \"{column}\" of relation \"{name}\" does not exist"));
    let owner = (table.oid, table.column(&column).ok_or_else(missing)?.number);
    let sequence = t.catalog.sequences.values().find(|sequence| sequence.owner == owner);
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let shown = |name: &str| if name.bytes().all(is_plain) { name.to_owned() } else { quoted(name) };
    Ok(sequence.map(|found| format!("public.{}", shown(&found.name))))
}

fn sequence_call(t: &mut Translator<'_>, name: &str, nodes: &[Node]) -> Result<Option<Expr>, Problem> {
    let volatile = |sql: String| Expr { is_volatile: true, ..Expr::new(sql, Type::Int8) };
    Ok(Some(match (name, nodes) {
        ("nextval" | "currval", [sequence]) => {
            let sequence = sequence_name(t, sequence)?;
            volatile(format!("pg_{name}({})", string_literal(&sequence)))
        }
        ("setval", [sequence, value, rest @ ..]) if rest.len() < 2 => {
            let sequence = sequence_name(t, sequence)?;
            let value = t.expression(value)?;
            let value = t.implicit(value, Type::Int8)?;
            let called = match rest {
                [called] => {
                    let called = t.expression(called)?;
                    t.implicit(called, Type::Bool)?.sql
                }
                _ => "1".to_owned(),
            };
            let sql = format!("pg_setval({}, {}, {called})", string_literal(&sequence), value.sql);
            Expr { is_volatile: true, ..Expr::of(sql, Type::Int8, &[&value]) }
        }
        ("lastval", []) => volatile("pg_lastval()".to_owned()),
        ("pg_get_serial_sequence", [table, column]) => {
            let name = serial_sequence(t, table, column)?;
            let sql = name.map_or("NULL".to_owned(), |name| string_literal(&name));
            Expr::new(sql, Type::Text)
        }
        _ => return Ok(None),
    }))
}

fn aggregate_call(t: &mut Translator<'_>, name: &str, function: &FuncCall) -> Result<Expr, Problem> {
    let depth = t.scopes.len();
    let clause = t.scopes.last().map_or(Some("this clause"), |scope| scope.no_aggregates);
    if let Some(clause) = clause {
        return Err(Problem::new("42803", format!("aggregate functions are not allowed in {clause}")));
    }
    let arguments = t.expressions(&function.args)?;
    if arguments.iter().any(|argument| argument.has_aggregate) {
        return Err(Problem::new("42803", "aggregate function calls cannot be nested"));
    }
    if arguments.iter().any(|argument| argument.bare.iter().any(|(level, ..)| *level != depth)) {
        return Err(Problem::unsupported("an aggregate of an outer query's column"));
    }
    let (sql_name, parts, kind) = aggregate_parts(t, name, function, arguments)?;
    if function.agg_distinct && parts.len() > 1 {
        return Err(Problem::unsupported("DISTINCT in an aggregate of two arguments"));
    }
    let mut texts: Vec<String> = parts.iter().map(Expr::collated).collect();
    if function.agg_star {
        texts = vec!["*".to_owned()];
    }
    let distinct = if function.agg_distinct { "DISTINCT " } else { "" };
    let mut sql = format!("{sql_name}({distinct}{}", texts.join(", "));
    if !function.agg_order.is_empty() {
        sql.push_str(&format!(" ORDER BY {}", sort_terms(t, &function.agg_order)?));
    }
    sql.push(')');
    if let Some(filter) = function.agg_filter.as_deref() {
        let filter = t.expression(filter)?;
        sql.push_str(&format!(" FILTER (WHERE {})", t.condition(filter, "FILTER")?.sql));
    }
    let mut expr = Expr { kind, ..Expr::of(sql, kind.base, &parts.iter().collect::<Vec<_>>()) };
    expr.bare.clear();
    expr.has_aggregate = true;
    expr.is_not_null = name == "count";
    Ok(expr)
}

/// SQLite's function, arguments and result of an aggregate.
fn aggregate_parts(
    t: &mut Translator<'_>,
    name: &str,
    function: &FuncCall,
    arguments: Vec<Expr>,
) -> Result<(&'static str, Vec<Expr>, TypeWithModifier), Problem> {
    use Type::{Bool, Float4, Float8, Int8, Numeric, Text};
    let base = arguments.first().map_or(Type::Void, Expr::base);
    let count = arguments.len();
    Ok(match name {
        "count" if function.agg_star || count == 1 => ("count", arguments, plain(Int8)),
        "sum" if matches!(base, Type::Int2 | Type::Int4) && count == 1 => ("sum", arguments, plain(Int8)),
        "sum" if matches!(base, Int8 | Numeric) && count == 1 => ("pg_nsum", arguments, plain(Numeric)),
        "sum" if base == Float8 && count == 1 => ("pg_f8sum", arguments, plain(Float8)),
        "sum" if base == Float4 && count == 1 => ("pg_f4sum", arguments, plain(Float4)),
        "avg" if base.is_float() && count == 1 => ("pg_favg", arguments, plain(Float8)),
        "avg" if base.is_number() && count == 1 => ("pg_navg", arguments, plain(Numeric)),
        "min" | "max" if count == 1 => {
            let word = if name == "min" { "min" } else { "max" };
            match base {
                Type::Unknown | Type::Varchar => {
                    let [argument] =
                        <[Expr; 1]>::try_from(arguments).unwrap_or_else(|_| [Expr::new("NULL", Text)]);
                    (word, vec![t.implicit(argument, Text)?], plain(Text))
                }
                Type::Bpchar => return Err(Problem::unsupported(format!("{name} of type character"))),
                // Of equal values such as 1.0 and 1.00 the last one stays.
                Type::Numeric if name == "min" => ("pg_nmin", arguments, plain(base)),
                Type::Numeric => ("pg_nmax", arguments, plain(base)),
                _ if base.is_number() || base.is_time() || base == Text => (word, arguments, plain(base)),
                _ => return Err(no_function(name, &arguments)),
            }
        }
        "bool_and" | "every" if count == 1 => ("min", typed_arguments(t, arguments, Bool)?, plain(Bool)),
        "bool_or" if count == 1 => ("max", typed_arguments(t, arguments, Bool)?, plain(Bool)),
        "string_agg" if count == 2 => {
            let mut parts = Vec::new();
            for argument in arguments {
                if argument.base() == Type::Bytea {
                    return Err(Problem::unsupported("string_agg of type bytea"));
                }
                let shown = no_function(name, std::slice::from_ref(&argument));
                parts.push(t.convert(argument, plain(Text), super::Cast::Implicit)?.ok_or(shown)?);
            }
            ("string_agg", parts, plain(Text))
        }
        "count" | "sum" | "avg" => return Err(no_function(name, &arguments)),
        _ => return Err(Problem::unsupported(format!("aggregate {name}"))),
    })
}

fn typed_arguments(t: &mut Translator<'_>, arguments: Vec<Expr>, base: Type) -> Result<Vec<Expr>, Problem> {
    arguments.into_iter().map(|argument| t.implicit(argument, base)).collect()
}

fn window_call(t: &mut Translator<'_>, name: &str, function: &FuncCall) -> Result<Expr, Problem> {
    let Some(window) = function.over.as_deref() else { return Err(Problem::unsupported("this window")) };
    // 1058 is the frame that is meant if none is given (FRAMEOPTION_DEFAULTS).
    if !window.name.is_empty() || !window.refname.is_empty() || window.frame_options != 1058 {
        return Err(Problem::unsupported("a named window or a frame"));
    }
    if t.scopes.last().is_some_and(|scope| scope.no_aggregates.is_some()) {
        return Err(Problem::new("42P20", "window functions are not allowed here"));
    }
    let (sql_name, parts, kind) = match (name, function.args.is_empty()) {
        ("row_number" | "rank" | "dense_rank", true) if !function.agg_star => {
            let sql_name = match name {
                "row_number" => "row_number",
                "rank" => "rank",
                _ => "dense_rank",
            };
            (sql_name, Vec::new(), plain(Type::Int8))
        }
        ("count" | "sum" | "min" | "max" | "bool_and" | "bool_or", _) => {
            let arguments = t.expressions(&function.args)?;
            aggregate_parts(t, name, function, arguments)?
        }
        _ => return Err(Problem::unsupported(format!("window function {name}"))),
    };
    if function.agg_distinct || function.agg_filter.is_some() || sql_name.starts_with("pg_") {
        return Err(Problem::unsupported(format!("window function {name} of this form")));
    }
    let texts: Vec<String> = parts.iter().map(Expr::collated).collect();
    let texts = if function.agg_star { "*".to_owned() } else { texts.join(", ") };
    let partition = t.expressions(&window.partition_clause)?;
    let mut over = Vec::new();
    if !partition.is_empty() {
        let terms: Vec<String> = partition.iter().map(Expr::collated).collect();
        over.push(format!("PARTITION BY {}", terms.join(", ")));
    }
    if !window.order_clause.is_empty() {
        over.push(format!("ORDER BY {}", sort_terms(t, &window.order_clause)?));
    }
    let sql = format!("{sql_name}({texts}) OVER ({})", over.join(" "));
    let all: Vec<&Expr> = parts.iter().chain(&partition).collect();
    Ok(Expr { kind, ..Expr::of(sql, kind.base, &all) })
}

fn no_function(name: &str, arguments: &[Expr]) -> Problem {
    let types: Vec<String> = arguments.iter().map(|argument| argument.base().name()).collect();
    Problem::new("42883", format!("function {name}({}) does not exist", types.join(", "))).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}

const AGGREGATES: &[&str] = &[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "every",
    "string_agg",
    "array_agg",
    "json_agg",
    "jsonb_agg",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "variance",
    "var_pop",
    "var_samp",
    "json_object_agg",
    "jsonb_object_agg",
    "corr",
    "bit_and",
    "bit_or",
    "mode",
    "percentile_cont",
    "percentile_disc",
    "regr_count",
];

fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains(&name)
}

/// Functions of PostgreSQL that exist for more types than are translated.
const KNOWN_ELSEWHERE: &[&str] =
    &["sqrt", "sign", "length", "substring", "extract", "date_part", "date_trunc", "octet_length"];

fn is_translated(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "abs",
        "floor",
        "ceil",
        "ceiling",
        "round",
        "trunc",
        "mod",
        "random",
        "lower",
        "upper",
        "char_length",
        "character_length",
        "substr",
        "left",
        "right",
        "lpad",
        "rpad",
        "repeat",
        "reverse",
        "initcap",
        "replace",
        "strpos",
        "position",
        "split_part",
        "btrim",
        "ltrim",
        "rtrim",
        "now",
    ];
    NAMES.contains(&name)
}
