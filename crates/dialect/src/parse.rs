//! PostgreSQL's own grammar (libpg_query): text to tree and back, with bounds on length and depth.

use pg_query::protobuf::{Node, ParseResult, RawStmt, ResTarget, SelectStmt};
use pg_query::{NodeEnum, ParserOptions};

use crate::data_types::{Type, TypeWithModifier};
use crate::problem::Problem;

/// Longest statement in bytes.
pub const MAX_STATEMENT_BYTES: usize = 1 << 20;
/// Deepest nesting of brackets. The tree's decoder has a bound of its own, which is about 48 levels of expressions.
const MAX_BRACKETS: usize = 200;

/// The statements of a text, each with its place.
pub(crate) fn statements(text: &str) -> Result<Vec<RawStmt>, Problem> {
    if text.len() > MAX_STATEMENT_BYTES {
        return Err(Problem::new(
            "54000",
            format!("the statement is longer than {MAX_STATEMENT_BYTES} bytes"),
        ));
    }
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > MAX_BRACKETS {
        return Err(too_deep());
    }
    match pg_query::parse(text, ParserOptions::DEFAULT) {
        Ok(parsed) => Ok(parsed.protobuf.stmts),
        Err(pg_query::Error::Parse(message)) if message.contains("nested too deeply") => Err(too_deep()),
        Err(pg_query::Error::Parse(message)) => Err(syntax_error(text, &message)),
        Err(pg_query::Error::Decode(_)) => Err(too_deep()),
        Err(error) => Err(Problem::new("42601", error.to_string())),
    }
}

fn too_deep() -> Problem {
    Problem::new("54001", "stack depth limit exceeded").hint("The statement is nested too deeply. Split it.")
}

fn syntax_error(text: &str, message: &str) -> Problem {
    let problem = Problem::new("42601", message);
    let place = if message.ends_with("at end of input") {
        Some(text.len())
    } else {
        // The library keeps the position to itself: it is known if the token occurs once.
        let token = message.split_once("at or near \"").and_then(|(_, rest)| rest.strip_suffix('"'));
        token.and_then(|token| text.find(token).filter(|_| text.matches(token).count() == 1))
    };
    match place.and_then(|place| i32::try_from(place).ok()) {
        Some(place) => problem.at(text, place),
        None => problem,
    }
}

/// The single statement of a text.
pub(crate) fn statement(text: &str) -> Result<Option<NodeEnum>, Problem> {
    let mut found = statements(text)?;
    if found.len() > 1 {
        return Err(Problem::new("42601", "cannot insert multiple commands into a prepared statement"));
    }
    Ok(found.pop().and_then(|raw| raw.stmt).and_then(|node| node.node))
}

/// The tree of an expression.
pub(crate) fn expression(text: &str) -> Result<Node, Problem> {
    let malformed = || Problem::new("XX000", format!("the catalogue has no expression but: {text}"));
    match statement(&format!("SELECT {text}"))? {
        Some(NodeEnum::SelectStmt(select)) => {
            match select.target_list.first().and_then(|node| node.node.as_ref()) {
                Some(NodeEnum::ResTarget(target)) => target.val.as_deref().cloned().ok_or_else(malformed),
                _ => Err(malformed()),
            }
        }
        _ => Err(malformed()),
    }
}

/// The type that a text names; `None` if the tier has none of this name.
pub(crate) fn type_name(text: &str) -> Option<Type> {
    // The name is all of the text if nothing but a cast of NULL comes of it.
    let Some(NodeEnum::TypeCast(cast)) = expression(&format!("CAST(NULL AS {text})")).ok()?.node else {
        return None;
    };
    let is_null = matches!(&cast.arg.as_ref()?.node, Some(NodeEnum::AConst(constant)) if constant.isnull);
    let read = TypeWithModifier::read(cast.type_name.as_ref()?).ok()?;
    is_null.then_some(read.base)
}

fn text_of(node: NodeEnum) -> Result<String, Problem> {
    let raw = RawStmt { stmt: Some(Box::new(Node { node: Some(node) })), ..RawStmt::default() };
    let tree = ParseResult { version: 0, stmts: vec![raw] };
    pg_query::deparse(&tree, pg_query::DeparseOptions::default())
        .map_err(|error| Problem::new("XX000", error.to_string()))
}

/// PostgreSQL's SQL of an expression.
pub(crate) fn expression_text(node: &Node) -> Result<String, Problem> {
    let target = ResTarget { val: Some(Box::new(node.clone())), ..ResTarget::default() };
    let select = SelectStmt {
        target_list: vec![Node { node: Some(NodeEnum::ResTarget(Box::new(target))) }],
        limit_option: 1,
        op: 1,
        ..SelectStmt::default()
    };
    let text = text_of(NodeEnum::SelectStmt(Box::new(select)))?;
    Ok(text.strip_prefix("SELECT ").unwrap_or(&text).to_owned())
}

/// PostgreSQL's SQL of a query.
pub(crate) fn query_text(select: &SelectStmt) -> Result<String, Problem> {
    text_of(NodeEnum::SelectStmt(Box::new(select.clone())))
}
