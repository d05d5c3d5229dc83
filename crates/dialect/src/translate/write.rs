//! INSERT, UPDATE and DELETE. Every column gets its value here, defaults included, so SQLite's own rules for missing
//! values never apply.

use pg_query::NodeEnum;
use pg_query::protobuf::{
    DeleteStmt, InsertStmt, Node, OnConflictAction, OnConflictClause, OverridingKind, SelectStmt, UpdateStmt,
};

use super::from::from_clause;
use super::query::with_clause;
use super::select::{returning_targets, where_clause};
use super::{Expr, HIDDEN, Item, QueryColumn, Scope, Source, Translator, quoted, string_literal};
use crate::catalog::{Index, Table, TableColumn};
use crate::data_types::{Type, string};
use crate::problem::Problem;

/// A translated statement that changes rows of one table.
#[derive(Clone, Debug)]
pub(crate) struct WriteStatement {
    pub(crate) sql: String,
    /// RETURNING's columns.
    pub(crate) columns: Vec<QueryColumn>,
    pub(crate) table: String,
    /// Keys that a single row of constants and parameters proposes.
    pub(crate) keys: Vec<Conflict>,
}

/// The values that an INSERT of one row proposes for a unique index: SQL constants and parameters.
#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    pub(crate) index: String,
    pub(crate) values: Vec<Expr>,
}

/// Columns of an INSERT with the expression of each row.
type Rows = Vec<Vec<Expr>>;

pub(crate) fn insert_statement(
    t: &mut Translator<'_>,
    insert: &InsertStmt,
) -> Result<WriteStatement, Problem> {
    let Some(range) = &insert.relation else { return Err(Problem::unsupported("this INSERT")) };
    let with = insert.with_clause.as_ref().map(|with| with_clause(t, with)).transpose()?.unwrap_or_default();
    let table =
        t.table(&range.schemaname, &range.relname).map_err(|problem| problem.at(t.text, range.location))?;
    let columns = insert_columns(table, &insert.cols)?;
    let select = match insert.select_stmt.as_ref().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::SelectStmt(select)) => Some(select),
        _ => None,
    };
    let target = t.alias();
    let conflict = insert.on_conflict_clause.as_deref();
    let updates = conflict.is_some_and(|clause| clause.action() == OnConflictAction::OnconflictUpdate);
    let arbiter = conflict.map(|clause| arbiter(table, clause)).transpose()?.flatten();
    let is_values =
        select.is_none_or(|select| !select.values_lists.is_empty() && select.sort_clause.is_empty());
    let mut keys = Vec::new();
    let always = insert.r#override();
    let source = if is_values {
        let rows = value_rows(
            t,
            table,
            &columns,
            select.map(|select| select.as_ref()),
            always,
            insert.cols.is_empty(),
        )?;
        if let [row] = rows.as_slice() {
            keys = proposed_keys(table, row);
        }
        let text = |row: &Vec<Expr>| {
            format!("({})", row.iter().map(|expr| expr.sql.as_str()).collect::<Vec<_>>().join(", "))
        };
        let list = rows.iter().map(text).collect::<Vec<_>>().join(", ");
        match (&arbiter, updates && rows.len() > 1) {
            (Some(index), true) => proposed_once(table, index, &format!("VALUES {list}"), true),
            _ => format!("VALUES {list}"),
        }
    } else {
        let Some(select) = select else { return Err(Problem::unsupported("this INSERT")) };
        let source = select_rows(t, table, &columns, select, always, insert.cols.is_empty())?;
        match (&arbiter, updates) {
            (Some(index), true) => proposed_once(table, index, &source, false),
            _ => source,
        }
    };
    let names: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
    let mut sql =
        format!("{with}INSERT INTO {} AS {target} ({}) {source}", quoted(&table.name), names.join(", "));
    if let Some(clause) = conflict {
        let shown = range.alias.as_ref().map_or(&table.name, |alias| &alias.aliasname);
        sql.push_str(&on_conflict(t, table, clause, arbiter, &target, shown)?);
    }
    let columns = returning_clause(
        t,
        table,
        range.alias.as_ref().map(|alias| alias.aliasname.as_str()),
        Vec::new(),
        insert.returning_clause.as_ref().map(|clause| clause.exprs.as_slice()),
        &mut sql,
    )?;
    Ok(WriteStatement { sql, columns, table: table.name.clone(), keys })
}

/// Wraps an upsert's rows, so that a key proposed twice is error 21000.
fn proposed_once(table: &Table, index: &Index, source: &str, is_values: bool) -> String {
    let place =
        |name: &str| table.columns.iter().position(|column| column.name == name).map_or(0, |place| place + 1);
    let is_numeric = |name: &str| {
        table.columns.iter().any(|column| column.name == name && column.kind.base == Type::Numeric)
    };
    let key = |name: &str| {
        let value = format!("s.c{}", place(name));
        // Equal numbers have one text.
        match is_numeric(name) {
            true => format!(
                "CASE WHEN instr({value}, '.') > 0 THEN rtrim(rtrim({value}, '0'), '.') ELSE {value} END"
            ),
            false => value,
        }
    };
    let keys: Vec<String> = index.keys.iter().map(|index| key(&index.text)).collect();
    let list: Vec<String> = (1..=table.columns.len()).map(|place| format!("c{place}")).collect();
    let rows = if is_values { source.to_owned() } else { format!("SELECT * FROM ({source} LIMIT -1)") };
    // A subquery with LIMIT is computed once, whatever stands in WHERE.
    format!(
        "SELECT * FROM (WITH r({}) AS ({rows}) SELECT * FROM r LIMIT -1) AS s WHERE pg_once({})",
        list.join(", "),
        keys.join(", ")
    )
}

/// The default of a column. NULL if it has none.
fn column_default(t: &mut Translator<'_>, table: &Table, column: &TableColumn) -> Result<Expr, Problem> {
    let null = Expr { source: Source::Null, ..Expr::new("NULL", Type::Unknown) };
    let expr = match &column.default {
        Some(node) => {
            let node = node.clone();
            t.in_table(table, &node, "DEFAULT expressions")?
        }
        None => null,
    };
    stored(t, table, column, expr)
}

/// The value that a column stores. A row's own number may not be NULL: SQLite would make one up.
fn stored(t: &mut Translator<'_>, table: &Table, column: &TableColumn, expr: Expr) -> Result<Expr, Problem> {
    let value = t.assign(expr, column.kind, &column.name)?;
    let is_row_number = table.row_number().is_some_and(|key| key.number == column.number);
    let is_constant = value.sql.bytes().all(|byte| byte.is_ascii_digit());
    if !is_row_number || is_constant {
        return Ok(value);
    }
    let (table, name) = (string_literal(&table.name), string_literal(&column.name));
    Ok(Expr {
        source: value.source.clone(),
        ..value.with(format!("pg_required({}, {table}, {name})", value.sql), value.kind)
    })
}

fn value_rows(
    t: &mut Translator<'_>,
    table: &Table,
    columns: &[&TableColumn],
    select: Option<&SelectStmt>,
    always: OverridingKind,
    is_implicit: bool,
) -> Result<Rows, Problem> {
    let lists: Vec<&[Node]> = match select {
        None => vec![&[]],
        Some(select) => select
            .values_lists
            .iter()
            .filter_map(|node| match &node.node {
                Some(NodeEnum::List(list)) => Some(list.items.as_slice()),
                _ => None,
            })
            .collect(),
    };
    if select.is_some_and(|select| select.limit_count.is_some() || select.limit_offset.is_some()) {
        return Err(Problem::unsupported("LIMIT of VALUES"));
    }
    if lists.iter().any(|list| list.len() != lists[0].len()) {
        return Err(Problem::new("42601", "VALUES lists must all be the same length"));
    }
    let mut rows = Vec::new();
    for list in lists {
        if select.is_some() {
            check_count(list.len(), columns.len(), is_implicit)?;
        }
        let mut row = Vec::new();
        for column in &table.columns {
            let place = columns.iter().position(|other| other.number == column.number);
            let node = place.and_then(|place| list.get(place));
            let is_default = node.is_none_or(|node| matches!(node.node, Some(NodeEnum::SetToDefault(_))));
            let (Some(node), false) = (node, is_default) else {
                row.push(column_default(t, table, column)?);
                continue;
            };
            row.push(given_value(t, table, column, node, always)?);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The value of a column that the statement gives.
fn given_value(
    t: &mut Translator<'_>,
    table: &Table,
    column: &TableColumn,
    node: &Node,
    always: OverridingKind,
) -> Result<Expr, Problem> {
    check_identity(column, always)?;
    if always == OverridingKind::OverridingUserValue && !column.identity.is_empty() {
        return column_default(t, table, column);
    }
    t.scopes.push(Scope { no_aggregates: Some("VALUES"), ..Scope::default() });
    let expr = t.expression(node);
    t.scopes.pop();
    stored(t, table, column, expr?)
}

fn select_rows(
    t: &mut Translator<'_>,
    table: &Table,
    columns: &[&TableColumn],
    select: &SelectStmt,
    always: OverridingKind,
    is_implicit: bool,
) -> Result<String, Problem> {
    let types: Vec<Type> = columns.iter().map(|column| column.kind.base).collect();
    let query = t.select(select, Some(&types))?;
    check_count(query.columns.len(), columns.len(), is_implicit)?;
    let mut outputs = Vec::new();
    for column in &table.columns {
        let place = columns.iter().position(|other| other.number == column.number);
        let given = place.and_then(|place| Some((place, query.columns.get(place)?)));
        let expr = match given {
            Some((place, output)) => {
                check_identity(column, always)?;
                let mut expr = Expr::new(format!("c{}", place + 1), output.kind.base);
                expr.kind = output.kind;
                expr.is_not_null = output.is_not_null;
                if expr.is_unknown() {
                    expr.kind.base = Type::Text;
                }
                stored(t, table, column, expr)?
            }
            None => column_default(t, table, column)?,
        };
        outputs.push(expr.sql);
    }
    // Rows are made before they are inserted, in the query's order, and each expression of theirs once.
    Ok(format!("SELECT {} FROM (SELECT * FROM ({}) LIMIT -1) WHERE 1", outputs.join(", "), query.sql))
}

fn on_conflict(
    t: &mut Translator<'_>,
    table: &Table,
    clause: &OnConflictClause,
    arbiter: Option<&Index>,
    target: &str,
    shown: &str,
) -> Result<String, Problem> {
    let mut sql = String::from(" ON CONFLICT");
    if let Some(index) = arbiter {
        let names: Vec<String> = index.keys.iter().map(|key| quoted(&key.text)).collect();
        sql.push_str(&format!(" ({})", names.join(", ")));
    }
    if clause.action() != OnConflictAction::OnconflictUpdate {
        sql.push_str(" DO NOTHING");
        return Ok(sql);
    }
    let items = vec![
        Translator::table_item(table, shown, format!("{target}.")),
        Translator::table_item(table, "excluded", "excluded.".to_owned()),
    ];
    t.scopes.push(Scope { items, no_aggregates: Some("UPDATE"), ..Scope::default() });
    let subqueries = t.subqueries;
    let sets = assignments(t, table, &clause.target_list);
    let filter = where_clause(t, clause.where_clause.as_deref());
    t.scopes.pop();
    if t.subqueries > subqueries {
        // SQLite would show it rows that the same statement has changed.
        return Err(Problem::unsupported("a subquery in DO UPDATE"));
    }
    sql.push_str(&format!(" DO UPDATE SET {}", sets?));
    if let Some(filter) = filter? {
        sql.push_str(&format!(" WHERE {}", filter.sql));
    }
    Ok(sql)
}

fn assignments(t: &mut Translator<'_>, table: &Table, targets: &[Node]) -> Result<String, Problem> {
    let mut sets: Vec<String> = Vec::new();
    let mut seen: Vec<i16> = Vec::new();
    for node in targets {
        let Some(NodeEnum::ResTarget(target)) = &node.node else { continue };
        if !target.indirection.is_empty() {
            return Err(Problem::unsupported("an assignment to a part of a column"));
        }
        let column = find_column(table, &target.name)?;
        if seen.contains(&column.number) {
            let text = format!("multiple assignments to same column \"{}\"", column.name);
            return Err(Problem::new("42601", text));
        }
        seen.push(column.number);
        let value = match target.val.as_deref() {
            Some(node) if matches!(node.node, Some(NodeEnum::SetToDefault(_))) => {
                column_default(t, table, column)?
            }
            Some(node) => {
                if column.identity == "a" {
                    let text = format!("column \"{}\" can only be updated to DEFAULT", column.name);
                    return Err(Problem::new("428C9", text).detail(format!(
                        "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                        column.name
                    )));
                }
                let node = part_of_row(node)?;
                if matches!(node.node, Some(NodeEnum::SetToDefault(_))) {
                    column_default(t, table, column)?
                } else {
                    let expr = t.expression(node)?;
                    stored(t, table, column, expr)?
                }
            }
            None => return Err(Problem::unsupported("this assignment")),
        };
        sets.push(format!("{} = {}", quoted(&column.name), value.sql));
    }
    Ok(sets.join(", "))
}

pub(crate) fn update_statement(
    t: &mut Translator<'_>,
    update: &UpdateStmt,
) -> Result<WriteStatement, Problem> {
    let Some(range) = &update.relation else { return Err(Problem::unsupported("this UPDATE")) };
    let with = update.with_clause.as_ref().map(|with| with_clause(t, with)).transpose()?.unwrap_or_default();
    let table =
        t.table(&range.schemaname, &range.relname).map_err(|problem| problem.at(t.text, range.location))?;
    let alias = range.alias.as_ref().map(|alias| alias.aliasname.as_str());
    let target = t.alias();
    let item = Translator::table_item(table, alias.unwrap_or(&table.name), format!("{target}."));
    t.scopes.push(Scope { items: vec![item], no_aggregates: Some("UPDATE"), ..Scope::default() });
    let from = from_clause(t, &update.from_clause)?;
    let subqueries = t.subqueries;
    let sets = assignments(t, table, &update.target_list)?;
    let filter = where_clause(t, update.where_clause.as_deref())?;
    let others = t.scopes.pop().map(|scope| scope.items).unwrap_or_default();
    let mut sql = format!("{with}UPDATE {} AS {target} SET {sets}", quoted(&table.name));
    if !from.is_empty() {
        sql.push_str(&format!(" FROM {from}"));
    } else if t.subqueries > subqueries {
        // With FROM all values are computed before the first row changes, as in PostgreSQL.
        sql.push_str(" FROM (SELECT 1)");
    }
    if let Some(filter) = filter {
        sql.push_str(&format!(" WHERE {}", filter.sql));
    }
    let exprs = update.returning_clause.as_ref().map(|clause| clause.exprs.as_slice());
    if exprs.is_some() && !from.is_empty() && has_star(exprs.unwrap_or_default()) {
        return Err(Problem::unsupported("RETURNING * of an UPDATE with FROM").hint("Name the columns."));
    }
    let columns = returning_clause(t, table, alias, others, exprs, &mut sql)?;
    Ok(WriteStatement { sql, columns, table: table.name.clone(), keys: Vec::new() })
}

pub(crate) fn delete_statement(
    t: &mut Translator<'_>,
    delete: &DeleteStmt,
) -> Result<WriteStatement, Problem> {
    let Some(range) = &delete.relation else { return Err(Problem::unsupported("this DELETE")) };
    let with = delete.with_clause.as_ref().map(|with| with_clause(t, with)).transpose()?.unwrap_or_default();
    let table =
        t.table(&range.schemaname, &range.relname).map_err(|problem| problem.at(t.text, range.location))?;
    let alias = range.alias.as_ref().map(|alias| alias.aliasname.as_str());
    let target = t.alias();
    let item = Translator::table_item(table, alias.unwrap_or(&table.name), format!("{target}."));
    t.scopes.push(Scope { items: vec![item], no_aggregates: Some("WHERE"), ..Scope::default() });
    let using = from_clause(t, &delete.using_clause)?;
    let filter = where_clause(t, delete.where_clause.as_deref())?;
    let others = t.scopes.pop().map(|scope| scope.items).unwrap_or_default();
    let condition = filter.map_or(String::new(), |filter| format!(" WHERE {}", filter.sql));
    let name = quoted(&table.name);
    let mut sql = if using.is_empty() {
        format!("{with}DELETE FROM {name} AS {target}{condition}")
    } else {
        let free = ["rowid", "_rowid_", "oid"].into_iter();
        let mut free =
            free.filter(|name| table.columns.iter().all(|column| !column.name.eq_ignore_ascii_case(name)));
        let row = free.next().ok_or_else(|| Problem::unsupported("USING on a table with these columns"))?;
        format!(
            "{with}DELETE FROM {name} WHERE {row} IN (SELECT {target}.{row} FROM {name} AS {target}, {using}{condition})"
        )
    };
    let exprs = delete.returning_clause.as_ref().map(|clause| clause.exprs.as_slice());
    if exprs.is_some() && !using.is_empty() && has_star(exprs.unwrap_or_default()) {
        return Err(Problem::unsupported("RETURNING * of a DELETE with USING").hint("Name the columns."));
    }
    let columns = returning_clause(t, table, alias, others, exprs, &mut sql)?;
    Ok(WriteStatement { sql, columns, table: table.name.clone(), keys: Vec::new() })
}

/// Adds RETURNING, which sees the table's columns only.
fn returning_clause(
    t: &mut Translator<'_>,
    table: &Table,
    alias: Option<&str>,
    others: Vec<Item>,
    exprs: Option<&[Node]>,
    sql: &mut String,
) -> Result<Vec<QueryColumn>, Problem> {
    let Some(exprs) = exprs else { return Ok(Vec::new()) };
    let item = Translator::table_item(table, alias.unwrap_or(&table.name), String::new());
    let hidden = others.into_iter().skip(1).map(|other| Item { prefix: HIDDEN.to_owned(), ..other });
    let items = std::iter::once(item).chain(hidden).collect();
    t.scopes.push(Scope { items, no_aggregates: Some("RETURNING"), ..Scope::default() });
    let result = returning_targets(t, exprs);
    t.scopes.pop();
    let (clause, columns) = result?;
    sql.push_str(&clause);
    Ok(columns)
}

/// The expression for one column of `SET (a, b) = (x, y)`; any other expression itself.
fn part_of_row(node: &Node) -> Result<&Node, Problem> {
    let Some(NodeEnum::MultiAssignRef(part)) = &node.node else { return Ok(node) };
    let refused = || Problem::unsupported("SET of several columns from a subquery");
    let Some(NodeEnum::RowExpr(row)) = part.source.as_ref().and_then(|source| source.node.as_ref()) else {
        return Err(refused());
    };
    if usize::try_from(part.ncolumns) != Ok(row.args.len()) {
        return Err(Problem::new("42601", "number of columns does not match number of values"));
    }
    usize::try_from(part.colno - 1).ok().and_then(|place| row.args.get(place)).ok_or_else(refused)
}

fn has_star(exprs: &[Node]) -> bool {
    exprs.iter().any(|node| {
        let value = match &node.node {
            Some(NodeEnum::ResTarget(target)) => target.val.as_ref().and_then(|node| node.node.as_ref()),
            _ => None,
        };
        matches!(value, Some(NodeEnum::ColumnRef(column)) if column.fields.len() == 1 && string(&column.fields[0]).is_none())
    })
}

fn find_column<'t>(table: &'t Table, name: &str) -> Result<&'t TableColumn, Problem> {
    table.column(name).ok_or_else(|| {
        Problem::new("42703", format!("column \"{name}\" of relation \"{}\" does not exist", table.name))
    })
}

fn insert_columns<'t>(table: &'t Table, nodes: &[Node]) -> Result<Vec<&'t TableColumn>, Problem> {
    let mut columns: Vec<&TableColumn> = Vec::new();
    for node in nodes {
        let Some(NodeEnum::ResTarget(target)) = &node.node else { continue };
        let column = find_column(table, &target.name)?;
        if columns.iter().any(|other| other.number == column.number) {
            return Err(Problem::new(
                "42701",
                format!("column \"{}\" specified more than once", column.name),
            ));
        }
        columns.push(column);
    }
    Ok(if nodes.is_empty() { table.columns.iter().collect() } else { columns })
}

fn check_count(values: usize, columns: usize, is_implicit: bool) -> Result<(), Problem> {
    if values > columns {
        return Err(Problem::new("42601", "INSERT has more expressions than target columns"));
    }
    if values < columns && !is_implicit {
        return Err(Problem::new("42601", "INSERT has more target columns than expressions"));
    }
    Ok(())
}

fn check_identity(column: &TableColumn, always: OverridingKind) -> Result<(), Problem> {
    if column.identity != "a"
        || matches!(always, OverridingKind::OverridingSystemValue | OverridingKind::OverridingUserValue)
    {
        return Ok(());
    }
    Err(Problem::new("428C9", format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name))
        .detail(format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name))
        .hint("Use OVERRIDING SYSTEM VALUE to override."))
}

/// The index that ON CONFLICT names; `None` without target.
fn arbiter<'t>(table: &'t Table, clause: &OnConflictClause) -> Result<Option<&'t Index>, Problem> {
    let is_update = clause.action() == OnConflictAction::OnconflictUpdate;
    let Some(infer) = clause.infer.as_deref() else {
        return match is_update {
            true => Err(Problem::new(
                "42601",
                "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            )
            .hint("For example, ON CONFLICT (column_name).")),
            false => Ok(None),
        };
    };
    if infer.where_clause.is_some() {
        return Err(Problem::unsupported("WHERE in the target of ON CONFLICT"));
    }
    if !infer.conname.is_empty() {
        let found =
            table.indexes.iter().find(|index| index.name == infer.conname && !index.constraint.is_empty());
        let text = format!("constraint \"{}\" for table \"{}\" does not exist", infer.conname, table.name);
        return found.map(Some).ok_or_else(|| Problem::new("42704", text));
    }
    let mut names = Vec::new();
    for node in &infer.index_elems {
        let Some(NodeEnum::IndexElem(element)) = &node.node else { continue };
        if element.expr.is_some() {
            return Err(Problem::unsupported("an expression in the target of ON CONFLICT"));
        }
        names.push(find_column(table, &element.name)?.name.as_str());
    }
    let fits = |index: &&Index| {
        index.is_unique
            && index.keys.iter().all(|key| !key.is_expression && names.contains(&key.text.as_str()))
            && names.iter().all(|name| index.keys.iter().any(|key| key.text == *name))
    };
    table.indexes.iter().find(fits).map(Some).ok_or_else(|| {
        Problem::new(
            "42P10",
            "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        )
    })
}

/// Keys of a row whose parts are constants or parameters.
fn proposed_keys(table: &Table, row: &[Expr]) -> Vec<Conflict> {
    let value = |name: &str| {
        let place = table.columns.iter().position(|column| column.name == name)?;
        let expr = row.get(place)?;
        let is_fixed = matches!(expr.source, Source::Literal(_) | Source::Parameter(_) | Source::Number(_))
            || expr.sql.bytes().all(|byte| byte.is_ascii_digit());
        is_fixed.then(|| expr.clone())
    };
    let keys = |index: &&Index| index.is_unique && index.keys.iter().all(|key| !key.is_expression);
    let conflict = |index: &Index| {
        let values = index.keys.iter().map(|key| value(&key.text)).collect::<Option<Vec<Expr>>>()?;
        Some(Conflict { index: index.name.clone(), values })
    };
    table.indexes.iter().filter(keys).filter_map(conflict).collect()
}
