//! FROM: tables, views, subqueries, joins and `generate_series`.

use pg_query::NodeEnum;
use pg_query::protobuf::{Alias, JoinExpr, JoinType, Node, RangeFunction, RangeVar, SelectStmt};

use super::names::as_call;
use super::operators::compare;
use super::{Expr, Item, ItemColumn, Query, QueryColumn, SYSTEM, Source, Translator, quoted, rename};
use crate::catalog::{Catalog, Table, TableColumn, View};
use crate::data_types::{Type, TypeWithModifier, string};
use crate::parse;
use crate::problem::Problem;
use crate::system;

/// Adds all items to the current scope. Returns SQLite's FROM without the word.
pub(super) fn from_clause(t: &mut Translator<'_>, nodes: &[Node]) -> Result<String, Problem> {
    let mut parts = Vec::new();
    for node in nodes {
        let has_outer = matches!(&node.node, Some(NodeEnum::JoinExpr(join))
            if nodes.len() > 1 && !matches!(join.jointype(), JoinType::JoinInner | JoinType::JoinLeft));
        if has_outer {
            return Err(
                Problem::unsupported("RIGHT or FULL JOIN in a FROM with commas").hint("Use CROSS JOIN.")
            );
        }
        let start = t.scope().items.len();
        parts.push(from_item(t, node)?);
        check_names(t, start)?;
    }
    Ok(parts.join(", "))
}

fn check_names(t: &mut Translator<'_>, start: usize) -> Result<(), Problem> {
    let items = &t.scope().items;
    for (place, item) in items.iter().enumerate().skip(start.max(1)) {
        if !item.name.is_empty() && items[..place].iter().any(|other| other.name == item.name) {
            return Err(Problem::new(
                "42712",
                format!("table name \"{}\" specified more than once", item.name),
            ));
        }
    }
    Ok(())
}

fn from_item(t: &mut Translator<'_>, node: &Node) -> Result<String, Problem> {
    t.spend()?;
    match node.node.as_ref() {
        Some(NodeEnum::RangeVar(range)) => {
            range_item(t, range).map_err(|problem| problem.at(t.text, range.location))
        }
        Some(NodeEnum::RangeSubselect(range)) => {
            let Some(NodeEnum::SelectStmt(select)) =
                range.subquery.as_ref().and_then(|node| node.node.as_ref())
            else {
                return Err(Problem::unsupported("this subquery"));
            };
            if range.lateral {
                return Err(Problem::unsupported("LATERAL"));
            }
            let query = hidden_query(t, select)?;
            subquery_item(t, query, range.alias.as_ref(), "")
        }
        Some(NodeEnum::JoinExpr(join)) => join_item(t, join),
        Some(NodeEnum::RangeFunction(range)) => function_item(t, range),
        _ => Err(Problem::unsupported("this entry of FROM")),
    }
}

/// A subquery, which does not see the other entries.
fn hidden_query(t: &mut Translator<'_>, select: &SelectStmt) -> Result<Query, Problem> {
    let items = std::mem::take(&mut t.scope().items);
    let visible_from = std::mem::take(&mut t.scope().visible_from);
    let query = t.query(select);
    t.scope().items = items;
    t.scope().visible_from = visible_from;
    query
}

pub(super) fn range_item(t: &mut Translator<'_>, range: &RangeVar) -> Result<String, Problem> {
    let name = range.relname.as_str();
    let is_plain = range.schemaname.is_empty();
    if let Some(table) = t.common.iter().rev().find(|table| is_plain && table.name == name).cloned() {
        let prefix = t.alias();
        let mut columns = table.columns;
        let names = alias_columns(range.alias.as_ref());
        rename(&mut columns, &names.iter().map(String::as_str).collect::<Vec<_>>());
        let shown = range.alias.as_ref().map_or(name, |alias| &alias.aliasname);
        add_query_item(t, shown, &prefix, &columns);
        return Ok(format!("{} AS {prefix}", table.sql_name));
    }
    if matches!(range.schemaname.as_str(), "" | "public")
        && let Some(view) = t.catalog.views.get(name)
    {
        let text = view.query.clone();
        t.tables.insert(name.to_owned());
        let Some(NodeEnum::SelectStmt(select)) = parse::statement(&text)? else {
            return Err(Problem::new("XX000", format!("view \"{name}\" has no query")));
        };
        let common = std::mem::take(&mut t.common);
        let scopes = std::mem::take(&mut t.scopes);
        let query = t.query(&select);
        (t.common, t.scopes) = (common, scopes);
        let mut query = query?;
        for (column, number) in query.columns.iter_mut().zip(1..) {
            column.origin = Some((view.oid, number));
        }
        return subquery_item(t, query, range.alias.as_ref(), name);
    }
    if t.catalog.table(name).is_none()
        && let Some(relation) =
            system::relation(t.catalog, &described_views(t, name), &range.schemaname, name)
    {
        let prefix = t.alias();
        let column = |(name, base): (&'static str, Type)| ItemColumn {
            name: name.to_owned(),
            sql: quoted(name),
            kind: TypeWithModifier::plain(base),
            is_not_null: false,
            origin: None,
            is_merged: false,
        };
        let columns = relation.columns.iter().copied().map(column).collect();
        let shown = range.alias.as_ref().map_or(name, |alias| &alias.aliasname).to_owned();
        let item = Item { name: shown, prefix: format!("{prefix}."), columns, oid: SYSTEM };
        t.scope().items.push(item);
        return Ok(format!("({}) AS {prefix}", relation.sql()));
    }
    let table = t.table(&range.schemaname, name)?;
    let prefix = t.alias();
    let shown = range.alias.as_ref().map_or(name, |alias| &alias.aliasname);
    let mut item = Translator::table_item(table, shown, format!("{prefix}."));
    for (column, name) in item.columns.iter_mut().zip(alias_columns(range.alias.as_ref())) {
        column.name = name;
    }
    t.scope().items.push(item);
    Ok(format!("{} AS {prefix}", quoted(&table.name)))
}

/// The views with their columns, as tables, for relations that list columns.
fn described_views(t: &Translator<'_>, relation: &str) -> Vec<Table> {
    // A view may itself read these relations.
    if t.describes_views || !matches!(relation, "pg_attribute" | "columns") {
        return Vec::new();
    }
    t.catalog.views.values().filter_map(|view| described_view(t.catalog, view)).collect()
}

fn described_view(catalog: &Catalog, view: &View) -> Option<Table> {
    let mut inner = Translator::new(catalog, &view.query, &[]).ok()?;
    inner.describes_views = true;
    let Some(NodeEnum::SelectStmt(select)) = parse::statement(&view.query).ok()? else { return None };
    let column = |(column, number): (QueryColumn, i16)| TableColumn {
        name: column.name,
        number,
        kind: column.kind,
        is_not_null: false,
        default_text: None,
        default: None,
        identity: String::new(),
    };
    let columns = inner.query(&select).ok()?.columns.into_iter().zip(1..).map(column).collect();
    Some(Table {
        oid: view.oid,
        name: view.name.clone(),
        columns,
        constraints: Vec::new(),
        indexes: Vec::new(),
    })
}

fn subquery_item(
    t: &mut Translator<'_>,
    query: Query,
    alias: Option<&Alias>,
    default: &str,
) -> Result<String, Problem> {
    let Query { sql, mut columns, .. } = query;
    if columns.iter().any(|column| column.is_volatile) {
        return Err(Problem::unsupported("a volatile function in a subquery of FROM"));
    }
    let names = alias_columns(alias);
    if names.len() > columns.len() {
        return Err(Problem::new("42P10", "table has fewer columns available than specified"));
    }
    rename(&mut columns, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let prefix = t.alias();
    let shown = alias.map_or(default, |alias| &alias.aliasname);
    add_query_item(t, shown, &prefix, &columns);
    Ok(format!("({sql}) AS {prefix}"))
}

fn add_query_item(t: &mut Translator<'_>, name: &str, prefix: &str, columns: &[QueryColumn]) {
    let column = |(place, column): (usize, &QueryColumn)| ItemColumn {
        name: column.name.clone(),
        sql: format!("c{}", place + 1),
        kind: column.kind,
        is_not_null: column.is_not_null,
        origin: column.origin,
        is_merged: false,
    };
    let columns = columns.iter().enumerate().map(column).collect();
    let item = Item { name: name.to_owned(), prefix: format!("{prefix}."), columns, oid: 0 };
    t.scope().items.push(item);
}

fn join_item(t: &mut Translator<'_>, join: &JoinExpr) -> Result<String, Problem> {
    if join.is_natural || join.alias.is_some() {
        return Err(Problem::unsupported("NATURAL JOIN or an alias of a join"));
    }
    let (Some(left), Some(right)) = (join.larg.as_deref(), join.rarg.as_deref()) else {
        return Err(Problem::unsupported("this join"));
    };
    let (word, left_null, right_null) = match join.jointype() {
        JoinType::JoinInner => ("JOIN", false, false),
        JoinType::JoinLeft => ("LEFT JOIN", false, true),
        JoinType::JoinRight => ("RIGHT JOIN", true, false),
        JoinType::JoinFull => ("FULL JOIN", true, true),
        _ => return Err(Problem::unsupported("this kind of join")),
    };
    let start = t.scope().items.len();
    let left_sql = from_item(t, left)?;
    let middle = t.scope().items.len();
    let mut right_sql = from_item(t, right)?;
    if matches!(right.node, Some(NodeEnum::JoinExpr(_))) {
        right_sql = format!("({right_sql})");
    }
    check_names(t, start)?;
    let before = std::mem::replace(&mut t.scope().visible_from, start);
    let condition = join_condition(t, join, start, middle);
    t.scope().visible_from = before;
    let condition = condition?;
    for (place, item) in t.scope().items.iter_mut().enumerate().skip(start) {
        if if place < middle { left_null } else { right_null } {
            item.columns.iter_mut().for_each(|column| column.is_not_null = false);
        }
    }
    let on = condition.map_or(String::new(), |condition| format!(" ON {}", condition.sql));
    let word = if on.is_empty() { "CROSS JOIN" } else { word };
    Ok(format!("{left_sql} {word} {right_sql}{on}"))
}

fn join_condition(
    t: &mut Translator<'_>,
    join: &JoinExpr,
    start: usize,
    middle: usize,
) -> Result<Option<Expr>, Problem> {
    if let Some(node) = join.quals.as_deref() {
        let before = t.scope().no_aggregates.replace("JOIN conditions");
        let expr = t.expression(node)?;
        t.scope().no_aggregates = before;
        return t.condition(expr, "JOIN/ON").map(Some);
    }
    let names: Vec<String> = join.using_clause.iter().filter_map(string).map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(None);
    }
    if !matches!(join.jointype(), JoinType::JoinInner | JoinType::JoinLeft) {
        return Err(Problem::unsupported("USING of a RIGHT or FULL JOIN").hint("Use ON."));
    }
    let mut conditions = Vec::new();
    for name in &names {
        let (left, place) = using_column(t, start..middle, name, "left")?;
        let right_end = t.scope().items.len();
        let (right, item) = using_column(t, middle..right_end, name, "right")?;
        let _ = place;
        conditions.push(compare(t, "=", left, right)?.sql);
        let columns = &mut t.scope().items[item].columns;
        columns.iter_mut().filter(|column| column.name == *name).for_each(|column| column.is_merged = true);
    }
    // The merged columns come first in `*`.
    let item = &mut t.scope().items[start];
    let is_first = item.columns.iter().take(names.len()).map(|column| &column.name).eq(names.iter());
    if !is_first {
        return Err(Problem::unsupported("USING of other than the first columns").hint("Use ON."));
    }
    Ok(Some(Expr::new(format!("({})", conditions.join(" AND ")), Type::Bool)))
}

fn using_column(
    t: &mut Translator<'_>,
    items: std::ops::Range<usize>,
    name: &str,
    side: &str,
) -> Result<(Expr, usize), Problem> {
    let scope = t.scope();
    let mut found = items.filter_map(|place| {
        let item = &scope.items[place];
        let column = item.columns.iter().find(|column| column.name == name && !column.is_merged)?;
        let expr = Expr::new(format!("{}{}", item.prefix, column.sql), column.kind.base);
        Some((Expr { kind: column.kind, source: Source::Column, ..expr }, place))
    });
    let missing = || {
        Problem::new(
            "42703",
            format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
        )
    };
    let first = found.next().ok_or_else(missing)?;
    if found.next().is_some() {
        let text = format!("common column name \"{name}\" appears more than once in {side} table");
        return Err(Problem::new("42702", text));
    }
    Ok(first)
}

/// `generate_series` of integers, as a recursive query.
fn function_item(t: &mut Translator<'_>, range: &RangeFunction) -> Result<String, Problem> {
    let refused = || Problem::unsupported("a function in FROM other than generate_series of integers");
    if range.lateral || range.ordinality || range.is_rowsfrom || !range.coldeflist.is_empty() {
        return Err(refused());
    }
    let call = range.functions.first().and_then(|node| match &node.node {
        Some(NodeEnum::List(list)) => list.items.first().and_then(as_call),
        _ => None,
    });
    let call = call.filter(|call| call.funcname.last().and_then(string) == Some("generate_series"));
    let call = call.ok_or_else(refused)?;
    let items = std::mem::take(&mut t.scope().items);
    let arguments = t.expressions(&call.args);
    t.scope().items = items;
    let arguments = arguments?;
    if !matches!(arguments.len(), 2 | 3) {
        return Err(refused());
    }
    let base = Translator::common_type(&arguments, "generate_series")?;
    if !matches!(base, Type::Int4 | Type::Int8) {
        return Err(refused());
    }
    if arguments.iter().any(|argument| argument.is_volatile) {
        return Err(Problem::unsupported("generate_series of a volatile expression"));
    }
    let mut texts = Vec::new();
    for argument in arguments {
        texts.push(t.implicit(argument, base)?.sql);
    }
    let (start, stop) = (&texts[0], &texts[1]);
    let step = texts.get(2).map_or("1", String::as_str);
    let step_value: i64 = step.trim_matches(['(', ')']).parse().map_err(|_| refused())?;
    let within = match step_value {
        0 => return Err(Problem::new("22023", "step size cannot equal zero")),
        1.. => "<=",
        _ => ">=",
    };
    let sql = format!(
        "WITH RECURSIVE series(c1) AS (SELECT {start} WHERE {start} {within} {stop} \
         UNION ALL SELECT c1 + {step} FROM series WHERE c1 + {step} {within} {stop}) SELECT c1 FROM series"
    );
    let prefix = t.alias();
    let name = range.alias.as_ref().map_or("generate_series", |alias| &alias.aliasname);
    let column = alias_columns(range.alias.as_ref()).into_iter().next().unwrap_or_else(|| name.to_owned());
    let column = QueryColumn {
        name: column,
        kind: TypeWithModifier::plain(base),
        is_not_null: true,
        is_volatile: false,
        origin: None,
        parameter: None,
    };
    add_query_item(t, name, &prefix, &[column]);
    Ok(format!("({sql}) AS {prefix}"))
}

fn alias_columns(alias: Option<&Alias>) -> Vec<String> {
    alias
        .map(|alias| alias.colnames.iter().filter_map(string).map(str::to_owned).collect())
        .unwrap_or_default()
}
