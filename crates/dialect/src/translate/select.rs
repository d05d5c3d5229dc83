//! One SELECT: targets, WHERE, GROUP BY, ORDER BY and LIMIT.

use pg_query::NodeEnum;
use pg_query::protobuf::{Node, SelectStmt, SortBy, SortByDir, SortByNulls};

use super::catalog_functions::shown_name;
use super::from::from_clause;
use super::names::{figure_name, star};
use super::{Cast, Expr, Query, QueryColumn, SYSTEM, Scope, Source, Translator, quoted};
use crate::data_types::{Type, TypeWithModifier, integer, string};
use crate::problem::Problem;

struct Target {
    name: String,
    expr: Expr,
}

pub(super) fn plain_select(
    t: &mut Translator<'_>,
    select: &SelectStmt,
    expected: Option<&[Type]>,
) -> Result<Query, Problem> {
    if select.distinct_clause.iter().any(|node| node.node.is_some()) {
        return Err(Problem::unsupported("DISTINCT ON").hint("Use GROUP BY, or row_number() in a subquery."));
    }
    if !select.window_clause.is_empty() || select.group_distinct {
        return Err(Problem::unsupported("WINDOW or GROUP BY DISTINCT"));
    }
    let depth = t.scopes.len();
    let from = from_clause(t, &select.from_clause)?;
    let filter = where_clause(t, select.where_clause.as_deref())?;
    let groups = group_terms(t, select)?;
    t.scope().groups = groups.iter().map(|expr| expr.sql.clone()).collect();
    let mut targets = target_list(t, &select.target_list)?;
    for (place, target) in targets.iter_mut().enumerate() {
        let wanted = expected.and_then(|types| types.get(place).copied()).unwrap_or(Type::Unknown);
        if target.expr.is_unknown() && wanted != Type::Unknown {
            target.expr = t.implicit(target.expr.clone(), wanted)?;
        }
    }
    let having = match select.having_clause.as_deref() {
        Some(node) => {
            let expr = t.expression(node)?;
            Some(t.condition(expr, "HAVING")?)
        }
        None => None,
    };
    let is_distinct = !select.distinct_clause.is_empty();
    let (order, mut used) = order_terms(t, &select.sort_clause, &targets, is_distinct)?;
    used.extend(having.clone());
    let all = || targets.iter().map(|target| &target.expr).chain(&used);
    let is_grouped = !groups.is_empty() || having.is_some() || all().any(|expr| expr.has_aggregate);
    if is_grouped {
        check_grouped(t, all(), depth)?;
        if groups.is_empty() && !all().any(|expr| expr.has_aggregate) {
            return Err(Problem::unsupported("HAVING without GROUP BY and aggregates"));
        }
    }
    let mut sql = print_select(&targets, is_distinct, &from, filter.as_ref());
    if !groups.is_empty() {
        let terms: Vec<String> = groups.iter().map(group_term).collect();
        sql.push_str(&format!(" GROUP BY {}", terms.join(", ")));
    }
    if let Some(having) = &having {
        sql.push_str(&format!(" HAVING {}", having.sql));
    }
    if !order.is_empty() {
        sql.push_str(&format!(" ORDER BY {order}"));
    }
    let is_one = limits(t, select, &mut sql)?;
    let bare = all().chain(&filter).flat_map(|expr| expr.bare.clone()).collect();
    if is_distinct {
        targets.iter().try_for_each(|target| json_order(target.expr.base()))?;
    }
    let columns = targets.into_iter().map(describe).collect::<Result<Vec<_>, _>>()?;
    let is_single = is_one || (is_grouped && groups.is_empty()) || select.from_clause.is_empty();
    Ok(Query { sql, columns, bare, is_single })
}

fn print_select(targets: &[Target], is_distinct: bool, from: &str, filter: Option<&Expr>) -> String {
    let output = |(place, target): (usize, &Target)| {
        let sql = if target.expr.source == Source::Column {
            target.expr.sql.clone()
        } else {
            target.expr.collated()
        };
        format!("{sql} AS c{}", place + 1)
    };
    let mut outputs: Vec<String> = targets.iter().enumerate().map(output).collect();
    if outputs.is_empty() {
        outputs.push("NULL".to_owned());
    }
    let mut sql = format!("SELECT {}{}", if is_distinct { "DISTINCT " } else { "" }, outputs.join(", "));
    if !from.is_empty() {
        sql.push_str(&format!(" FROM {from}"));
    }
    if let Some(filter) = filter {
        sql.push_str(&format!(" WHERE {}", filter.sql));
    }
    sql
}

/// The condition of WHERE.
pub(super) fn where_clause(t: &mut Translator<'_>, node: Option<&Node>) -> Result<Option<Expr>, Problem> {
    let Some(node) = node else { return Ok(None) };
    if matches!(node.node, Some(NodeEnum::CurrentOfExpr(_))) {
        return Err(Problem::unsupported("WHERE CURRENT OF"));
    }
    let before = t.scope().no_aggregates.replace("WHERE");
    let expr = t.expression(node)?;
    t.scope().no_aggregates = before;
    t.condition(expr, "WHERE").map(Some)
}

fn group_terms(t: &mut Translator<'_>, select: &SelectStmt) -> Result<Vec<Expr>, Problem> {
    let mut groups = Vec::new();
    for node in &select.group_clause {
        let target = |place: usize| match select.target_list.get(place).and_then(|node| node.node.as_ref()) {
            Some(NodeEnum::ResTarget(target)) => target.val.as_deref(),
            _ => None,
        };
        let by_name = |name: &str| {
            let named =
                |node: &Node| matches!(&node.node, Some(NodeEnum::ResTarget(target)) if target.name == name);
            select.target_list.iter().position(named).and_then(target)
        };
        t.scope().no_aggregates = Some("GROUP BY");
        let expr = match (&node.node, integer(node)) {
            (_, Some(place)) => {
                let missing =
                    || Problem::new("42P10", format!("GROUP BY position {place} is not in select list"));
                let place = usize::try_from(place - 1).ok().and_then(target).ok_or_else(missing)?;
                t.expression(place)?
            }
            (Some(NodeEnum::GroupingSet(_)), _) => return Err(Problem::unsupported("a grouping set")),
            (Some(NodeEnum::ColumnRef(column)), _) if column.fields.len() == 1 => match t.expression(node) {
                Err(problem) if problem.sqlstate == "42703" => {
                    let name = column.fields.first().and_then(string).unwrap_or("");
                    t.expression(by_name(name).ok_or(problem)?)?
                }
                other => other?,
            },
            _ => t.expression(node)?,
        };
        t.scope().no_aggregates = None;
        json_order(expr.base())?;
        if expr.is_volatile {
            return Err(Problem::unsupported("a volatile function in GROUP BY"));
        }
        groups.push(expr);
    }
    Ok(groups)
}

fn target_list(t: &mut Translator<'_>, nodes: &[Node]) -> Result<Vec<Target>, Problem> {
    let mut targets = Vec::new();
    for node in nodes {
        let Some(NodeEnum::ResTarget(target)) = &node.node else { continue };
        let Some(value) = target.val.as_deref() else { continue };
        if let Some(table) = star(value) {
            targets.extend(all_columns(t, table)?);
            continue;
        }
        let mut expr = t.expression(value)?;
        if expr.base() == Type::Regclass {
            expr = shown_name(t, expr)?;
        }
        let name = if target.name.is_empty() { figure_name(value).0 } else { target.name.clone() };
        targets.push(Target { name, expr });
    }
    Ok(targets)
}

/// The columns that `*` or `table.*` stands for.
fn all_columns(t: &mut Translator<'_>, table: Option<&str>) -> Result<Vec<Target>, Problem> {
    let depth = t.scopes.len();
    let scope = t.scope();
    let items: Vec<_> =
        scope.items.iter().filter(|item| table.is_none_or(|table| table == item.name)).collect();
    if items.is_empty() {
        return Err(match table {
            Some(table) => Problem::new("42P01", format!("missing FROM-clause entry for table \"{table}\"")),
            None => Problem::new("42601", "SELECT * with no tables specified is not valid"),
        });
    }
    let mut targets = Vec::new();
    if items.iter().any(|item| item.oid == SYSTEM) {
        return Err(
            Problem::unsupported("the star of a relation of the system catalogue").hint("Name the columns.")
        );
    }
    for item in items {
        for column in item.columns.iter().filter(|column| table.is_some() || !column.is_merged) {
            let sql = format!("{}{}", item.prefix, column.sql);
            let bare = if scope.groups.contains(&sql) {
                Vec::new()
            } else {
                vec![(depth, sql.clone(), format!("{}.{}", item.name, column.name))]
            };
            let expr = Expr {
                kind: column.kind,
                source: Source::Column,
                is_not_null: column.is_not_null,
                origin: column.origin,
                bare,
                ..Expr::new(sql, column.kind.base)
            };
            targets.push(Target { name: column.name.clone(), expr });
        }
    }
    Ok(targets)
}

/// Error 42803 if a column is neither grouped nor dependent on a primary key that is.
fn check_grouped<'e>(
    t: &Translator<'_>,
    all: impl Iterator<Item = &'e Expr>,
    depth: usize,
) -> Result<(), Problem> {
    let Some(scope) = t.scopes.last() else { return Ok(()) };
    for (_, sql, display) in all.flat_map(|expr| &expr.bare).filter(|(level, ..)| *level == depth) {
        let item = scope.items.iter().find(|item| !item.prefix.is_empty() && sql.starts_with(&item.prefix));
        let depends = item.is_some_and(|item| {
            let table = t.catalog.table_by_oid(item.oid);
            table.and_then(|table| table.primary_key()).is_some_and(|key| {
                key.keys
                    .iter()
                    .all(|key| scope.groups.contains(&format!("{}{}", item.prefix, quoted(&key.text))))
            })
        });
        if !depends {
            let text = format!(
                "column \"{display}\" must appear in the GROUP BY clause or be used in an aggregate function"
            );
            return Err(Problem::new("42803", text));
        }
    }
    Ok(())
}

/// ORDER BY as SQLite's, and the expressions that are no output columns.
fn order_terms(
    t: &mut Translator<'_>,
    nodes: &[Node],
    targets: &[Target],
    is_distinct: bool,
) -> Result<(String, Vec<Expr>), Problem> {
    let (mut terms, mut used) = (Vec::new(), Vec::new());
    for node in nodes {
        let Some(NodeEnum::SortBy(sort)) = &node.node else { continue };
        let mut place = output_place(sort, targets.iter().map(|target| target.name.as_str()))?;
        if let (None, Some(node)) = (place, sort.node.as_deref()) {
            let expr = t.expression(node)?;
            place = targets.iter().position(|target| target.expr.sql == expr.sql);
            if place.is_none() {
                if is_distinct {
                    let text = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                    return Err(Problem::new("42P10", text));
                }
                json_order(expr.base())?;
                // SQLite takes a number alone for an output column.
                terms.push(format!("+({}){}", expr.collated(), direction(sort, expr.is_not_null)?));
                if expr.source == Source::Column {
                    let last = terms.len() - 1;
                    terms[last] = format!("{}{}", expr.sql, direction(sort, expr.is_not_null)?);
                }
                used.push(expr);
            }
        }
        if let Some(place) = place {
            json_order(targets[place].expr.base())?;
            terms.push(format!("{}{}", place + 1, direction(sort, targets[place].expr.is_not_null)?));
        }
    }
    Ok((terms.join(", "), used))
}

/// ORDER BY inside an aggregate or window.
pub(super) fn sort_terms(t: &mut Translator<'_>, nodes: &[Node]) -> Result<String, Problem> {
    let mut terms = Vec::new();
    for node in nodes {
        let Some(NodeEnum::SortBy(sort)) = &node.node else { continue };
        let expr = t.operand(sort.node.as_deref())?;
        json_order(expr.base())?;
        terms.push(format!("{}{}", expr.collated(), direction(sort, expr.is_not_null)?));
    }
    Ok(terms.join(", "))
}

/// Adds LIMIT and OFFSET. Returns true if there is one row at most.
pub(super) fn limits(t: &mut Translator<'_>, select: &SelectStmt, sql: &mut String) -> Result<bool, Problem> {
    if select.limit_option == 3 {
        return Err(Problem::unsupported("FETCH FIRST .. WITH TIES"));
    }
    let mut bound = |node: &Node, of: &str, which: i32| -> Result<String, Problem> {
        if let Some(count) = integer(node).filter(|count| *count >= 0) {
            return Ok(count.to_string());
        }
        t.scopes.push(Scope { no_aggregates: Some("LIMIT"), ..Scope::default() });
        let expr = t.expression(node);
        t.scopes.pop();
        let expr = expr?;
        let base = expr.base();
        let expr = t.convert(expr, TypeWithModifier::plain(Type::Int8), Cast::Assignment)?;
        let expr = expr.filter(|_| !base.is_text()).ok_or_else(|| {
            Problem::new("42804", format!("argument of {of} must be type bigint, not type {}", base.name()))
        })?;
        Ok(format!("pg_limit({}, {which})", expr.sql))
    };
    let limit = select.limit_count.as_deref().map(|node| bound(node, "LIMIT", 0)).transpose()?;
    let offset = select.limit_offset.as_deref().map(|node| bound(node, "OFFSET", 1)).transpose()?;
    if limit.is_some() || offset.is_some() {
        sql.push_str(&format!(" LIMIT {}", limit.as_deref().unwrap_or("-1")));
    }
    if let Some(offset) = offset {
        sql.push_str(&format!(" OFFSET {offset}"));
    }
    Ok(limit.is_some_and(|limit| limit == "1" || limit == "0"))
}

/// RETURNING's columns.
pub(super) fn returning_targets(
    t: &mut Translator<'_>,
    nodes: &[Node],
) -> Result<(String, Vec<QueryColumn>), Problem> {
    t.scope().no_aggregates = Some("RETURNING");
    let targets = target_list(t, nodes)?;
    let outputs: Vec<String> = targets
        .iter()
        .enumerate()
        .map(|(place, target)| format!("{} AS c{}", target.expr.sql, place + 1))
        .collect();
    let mut columns = targets.into_iter().map(describe).collect::<Result<Vec<_>, _>>()?;
    for column in &mut columns {
        if column.kind.base == Type::Unknown {
            column.kind = TypeWithModifier::plain(Type::Text);
            if let Some(place) = column.parameter {
                t.parameters[place].get_or_insert(Type::Text);
            }
        }
    }
    Ok((format!(" RETURNING {}", outputs.join(", ")), columns))
}

/// A GROUP BY term; a constant must not be taken for an output column's number.
fn group_term(expr: &Expr) -> String {
    if expr.source == Source::Column { expr.collated() } else { format!("+({})", expr.collated()) }
}

fn describe(target: Target) -> Result<QueryColumn, Problem> {
    let expr = target.expr;
    if expr.base() == Type::Interval {
        return Err(Problem::unsupported("a result of type interval"));
    }
    let parameter = match expr.source {
        Source::Parameter(place) if expr.is_unknown() => Some(place),
        _ => None,
    };
    Ok(QueryColumn {
        name: target.name,
        kind: expr.kind,
        is_not_null: expr.is_not_null,
        is_volatile: expr.is_volatile,
        origin: expr.origin,
        parameter,
    })
}

pub(super) fn direction(sort: &SortBy, is_not_null: bool) -> Result<&'static str, Problem> {
    let is_descending = match sort.sortby_dir() {
        SortByDir::SortbyDesc => true,
        SortByDir::SortbyUsing => return Err(Problem::unsupported("ORDER BY USING")),
        _ => false,
    };
    let nulls_first = match sort.sortby_nulls() {
        SortByNulls::SortbyNullsFirst => true,
        SortByNulls::SortbyNullsLast => false,
        _ => is_descending,
    };
    Ok(match (is_descending, nulls_first) {
        (false, _) if is_not_null => "",
        (true, _) if is_not_null => " DESC",
        (false, true) => " ASC NULLS FIRST",
        (false, false) => " ASC NULLS LAST",
        (true, true) => " DESC NULLS FIRST",
        (true, false) => " DESC NULLS LAST",
    })
}

/// The output column that ORDER BY names by number or by its bare name.
pub(super) fn output_place<'n>(
    sort: &SortBy,
    names: impl Iterator<Item = &'n str>,
) -> Result<Option<usize>, Problem> {
    let Some(node) = sort.node.as_deref() else { return Ok(None) };
    let names: Vec<&str> = names.collect();
    if let Some(place) = integer(node) {
        let found = usize::try_from(place - 1).ok().filter(|place| *place < names.len());
        let missing = || Problem::new("42P10", format!("ORDER BY position {place} is not in select list"));
        return found.map(Some).ok_or_else(missing);
    }
    if matches!(node.node, Some(NodeEnum::AConst(_))) {
        return Err(Problem::new("42601", "non-integer constant in ORDER BY"));
    }
    let Some(NodeEnum::ColumnRef(column)) = &node.node else { return Ok(None) };
    let [name] = column.fields.as_slice() else { return Ok(None) };
    let Some(name) = string(name) else { return Ok(None) };
    let mut found = (0..names.len()).filter(|place| names[*place] == name);
    let (first, second) = (found.next(), found.next());
    if second.is_some() {
        return Err(Problem::unsupported(format!(
            "ORDER BY \"{name}\", which several output columns are called,"
        )));
    }
    Ok(first)
}

pub(super) fn json_order(base: Type) -> Result<(), Problem> {
    match base {
        Type::Json => Err(Problem::new("42883", "could not identify an ordering operator for type json")),
        Type::Jsonb => Err(Problem::unsupported("the order of type jsonb")),
        _ => Ok(()),
    }
}
