//! WITH, VALUES and set operations; the entry points for queries.

use pg_query::NodeEnum;
use pg_query::protobuf::{LockWaitPolicy, Node, SelectStmt, SetOperation, WithClause};

use super::select::{direction, json_order, limits, output_place, plain_select};
use super::{CommonTable, Expr, Query, QueryColumn, Scope, Source, Translator, rename};
use crate::data_types::{Type, TypeWithModifier, string};
use crate::problem::Problem;

/// A query as an operand or a subquery that has an ORDER BY, LIMIT or WITH of its own.
fn is_simple(select: &SelectStmt) -> bool {
    select.op() == SetOperation::SetopNone
        && select.sort_clause.is_empty()
        && select.limit_count.is_none()
        && select.limit_offset.is_none()
        && select.with_clause.is_none()
}

impl Translator<'_> {
    /// A whole query: open types become text.
    pub(crate) fn query(&mut self, select: &SelectStmt) -> Result<Query, Problem> {
        let mut query = self.select(select, None)?;
        for column in &mut query.columns {
            if column.kind.base == Type::Unknown {
                column.kind = TypeWithModifier::plain(Type::Text);
                if let Some(place) = column.parameter {
                    self.parameters[place].get_or_insert(Type::Text);
                }
            }
        }
        Ok(query)
    }

    /// A query whose open types become the expected ones, or stay open.
    pub(crate) fn select(
        &mut self,
        select: &SelectStmt,
        expected: Option<&[Type]>,
    ) -> Result<Query, Problem> {
        self.spend()?;
        refuse_skipped_locks(select)?;
        let known = self.common.len();
        let with = match &select.with_clause {
            Some(with) => with_clause(self, with)?,
            None => String::new(),
        };
        let result = if select.op() != SetOperation::SetopNone && select.larg.is_some() {
            set_operation(self, select, expected)
        } else if !select.values_lists.is_empty() {
            values_query(self, select, expected)
        } else {
            self.scopes.push(Scope::default());
            let result = plain_select(self, select, expected);
            self.scopes.pop();
            result
        };
        self.common.truncate(known);
        let mut query = result?;
        query.sql = format!("{with}{}", query.sql);
        let depth = self.scopes.len();
        query.bare.retain(|(level, ..)| *level <= depth);
        Ok(query)
    }
}

/// Error 0A000 for SKIP LOCKED and NOWAIT: the tier locks no rows, so it cannot tell which ones others hold.
fn refuse_skipped_locks(select: &SelectStmt) -> Result<(), Problem> {
    let refused = |node: &Node| match &node.node {
        Some(NodeEnum::LockingClause(clause)) => match clause.wait_policy() {
            LockWaitPolicy::LockWaitSkip => Some("SKIP LOCKED"),
            LockWaitPolicy::LockWaitError => Some("NOWAIT"),
            _ => None,
        },
        _ => None,
    };
    select.locking_clause.iter().find_map(refused).map_or(Ok(()), |word| {
        Err(Problem::unsupported(word)
            .hint("Use plain FOR UPDATE, and run the transaction again after error 40001."))
    })
}

pub(super) fn with_clause(t: &mut Translator<'_>, with: &WithClause) -> Result<String, Problem> {
    let mut parts = Vec::new();
    for node in &with.ctes {
        let Some(NodeEnum::CommonTableExpr(table)) = &node.node else { continue };
        let Some(NodeEnum::SelectStmt(select)) = table.ctequery.as_ref().and_then(|node| node.node.as_ref())
        else {
            return Err(Problem::unsupported("a statement in WITH that changes data"));
        };
        if table.search_clause.is_some() || table.cycle_clause.is_some() {
            return Err(Problem::unsupported("SEARCH or CYCLE"));
        }
        let sql_name = format!("w{}", t.alias());
        let names: Vec<&str> = table.aliascolnames.iter().filter_map(string).collect();
        let is_recursive = with.recursive && select.op() == SetOperation::SetopUnion;
        let (sql, mut columns) = if is_recursive {
            recursive_query(t, select, &table.ctename, &sql_name, &names)?
        } else {
            let query = t.query(select)?;
            (query.sql, query.columns)
        };
        if columns.iter().any(|column| column.is_volatile) {
            return Err(Problem::unsupported("a volatile function in WITH"));
        }
        rename(&mut columns, &names);
        let list: Vec<String> = (1..=columns.len()).map(|place| format!("c{place}")).collect();
        parts.push(format!("{sql_name}({}) AS ({sql})", list.join(", ")));
        t.common.push(CommonTable { name: table.ctename.clone(), sql_name, columns });
    }
    Ok(format!("WITH {}{} ", if with.recursive { "RECURSIVE " } else { "" }, parts.join(", ")))
}

fn recursive_query(
    t: &mut Translator<'_>,
    select: &SelectStmt,
    name: &str,
    sql_name: &str,
    names: &[&str],
) -> Result<(String, Vec<QueryColumn>), Problem> {
    let (Some(first), Some(second)) = (select.larg.as_deref(), select.rarg.as_deref()) else {
        return Err(Problem::unsupported("this recursive query"));
    };
    if !select.sort_clause.is_empty()
        || select.limit_count.is_some()
        || !is_simple(first)
        || !is_simple(second)
    {
        return Err(Problem::unsupported("ORDER BY, LIMIT or UNION inside a recursive query"));
    }
    let start = t.query(first)?;
    let mut columns = start.columns.clone();
    for column in &mut columns {
        (column.is_not_null, column.origin) = (false, None);
    }
    rename(&mut columns, names);
    let types: Vec<Type> = columns.iter().map(|column| column.kind.base).collect();
    t.common.push(CommonTable {
        name: name.to_owned(),
        sql_name: sql_name.to_owned(),
        columns: columns.clone(),
    });
    let step = t.select(second, Some(&types));
    t.common.pop();
    let step = step?;
    if step.columns.len() != columns.len() {
        return Err(Problem::new("42601", "each UNION query must have the same number of columns"));
    }
    for (column, (before, after)) in columns.iter().zip(start.columns.iter().zip(&step.columns)) {
        if before.kind.base != after.kind.base {
            let text = format!(
                "recursive query \"{name}\" column \"{}\" has type {} in non-recursive term but type {} overall",
                column.name,
                before.kind.base.name(),
                after.kind.base.name()
            );
            return Err(Problem::new("42804", text));
        }
    }
    let all = if select.all { " ALL" } else { "" };
    Ok((format!("{} UNION{all} {}", start.sql, step.sql), columns))
}

fn set_operation(
    t: &mut Translator<'_>,
    select: &SelectStmt,
    expected: Option<&[Type]>,
) -> Result<Query, Problem> {
    let (Some(left), Some(right)) = (select.larg.as_deref(), select.rarg.as_deref()) else {
        return Err(Problem::unsupported("this set operation"));
    };
    let word = match (select.op(), select.all) {
        (SetOperation::SetopUnion, true) => "UNION ALL",
        (SetOperation::SetopUnion, false) => "UNION",
        (SetOperation::SetopIntersect, false) => "INTERSECT",
        (SetOperation::SetopExcept, false) => "EXCEPT",
        _ => return Err(Problem::unsupported("INTERSECT ALL or EXCEPT ALL")),
    };
    let name = word.split(' ').next().unwrap_or(word);
    let mut sides = [t.select(left, expected)?, t.select(right, expected)?];
    if sides[0].columns.len() != sides[1].columns.len() {
        return Err(Problem::new("42601", format!("each {name} query must have the same number of columns")));
    }
    let types = common_types(&sides, name)?;
    for (side, select) in sides.iter_mut().zip([left, right]) {
        let differs = side
            .columns
            .iter()
            .zip(&types)
            .any(|(column, base)| column.kind.base == Type::Unknown && *base != Type::Unknown);
        if differs {
            *side = t.select(select, Some(&types))?;
        }
        settle(t, side, select, &types)?;
    }
    if word != "UNION ALL" {
        types.iter().try_for_each(|base| json_order(*base))?;
    }
    let [left, right] = sides;
    let mut columns = left.columns;
    for (column, other) in columns.iter_mut().zip(&right.columns) {
        column.is_not_null &= other.is_not_null;
        column.is_volatile |= other.is_volatile;
        column.origin = None;
        column.parameter = column.parameter.or(other.parameter);
        if column.kind != other.kind {
            column.kind.modifier = -1;
        }
    }
    let mut sql = if word == "UNION" && types.contains(&Type::Numeric) {
        // Of 1.0 and 1.00 the first one stays, as in PostgreSQL.
        format!("SELECT DISTINCT * FROM ({} UNION ALL {})", left.sql, right.sql)
    } else {
        format!("{} {word} {}", left.sql, right.sql)
    };
    let mut terms = Vec::new();
    for node in &select.sort_clause {
        let Some(NodeEnum::SortBy(sort)) = &node.node else { continue };
        let place = output_place(sort, columns.iter().map(|column| column.name.as_str()))?;
        let Some(place) = place else {
            return Err(Problem::unsupported(format!("an expression in ORDER BY after {name}")));
        };
        json_order(columns[place].kind.base)?;
        terms.push(format!("{}{}", place + 1, direction(sort, columns[place].is_not_null)?));
    }
    if !terms.is_empty() {
        sql.push_str(&format!(" ORDER BY {}", terms.join(", ")));
    }
    limits(t, select, &mut sql)?;
    let bare = left.bare.into_iter().chain(right.bare).collect();
    Ok(Query { sql, columns, bare, is_single: false })
}

/// The types that both sides have in common.
fn common_types(sides: &[Query; 2], name: &str) -> Result<Vec<Type>, Problem> {
    let common = |(one, other): (&QueryColumn, &QueryColumn)| {
        let (one, other) = (one.kind.base, other.kind.base);
        one.common(other).ok_or_else(|| {
            Problem::new(
                "42804",
                format!("{name} types {} and {} cannot be matched", one.name(), other.name()),
            )
        })
    };
    sides[0].columns.iter().zip(&sides[1].columns).map(common).collect()
}

/// Brings one side of a set operation to the common types.
fn settle(
    t: &mut Translator<'_>,
    side: &mut Query,
    select: &SelectStmt,
    types: &[Type],
) -> Result<(), Problem> {
    let mut texts = Vec::new();
    let mut changes = !is_simple(select);
    for (place, (column, base)) in side.columns.iter_mut().zip(types).enumerate() {
        let name = format!("c{}", place + 1);
        let expr = Expr { kind: column.kind, ..Expr::new(name.clone(), column.kind.base) };
        if column.kind.base != *base && column.kind.base != Type::Unknown {
            let expr = t.implicit(expr, *base)?;
            changes |= expr.sql != name;
            column.kind = expr.kind;
            texts.push(format!("{} AS {name}", expr.collated()));
        } else {
            texts.push(name);
        }
    }
    if changes {
        side.sql = format!("SELECT {} FROM ({})", texts.join(", "), side.sql);
    }
    Ok(())
}

fn values_query(
    t: &mut Translator<'_>,
    select: &SelectStmt,
    expected: Option<&[Type]>,
) -> Result<Query, Problem> {
    let mut columns: Vec<Vec<Expr>> = Vec::new();
    t.scopes.push(Scope { no_aggregates: Some("VALUES"), ..Scope::default() });
    for row in &select.values_lists {
        let Some(NodeEnum::List(list)) = &row.node else { continue };
        if !columns.is_empty() && columns.len() != list.items.len() {
            return Err(Problem::new("42601", "VALUES lists must all be the same length"));
        }
        columns.resize_with(list.items.len(), Vec::new);
        for (place, node) in list.items.iter().enumerate() {
            columns[place].push(t.expression(node)?);
        }
    }
    t.scopes.pop();
    let mut described = Vec::new();
    for (place, column) in columns.iter_mut().enumerate() {
        let parts = std::mem::take(column);
        let all_open = parts.iter().all(Expr::is_unknown);
        let wanted =
            expected.and_then(|types| types.get(place).copied()).filter(|base| *base != Type::Unknown);
        let parameter = parts.iter().find_map(|part| match part.source {
            Source::Parameter(place) if all_open => Some(place),
            _ => None,
        });
        let (parts, kind) = match wanted {
            Some(base) if all_open => {
                let parts =
                    parts.into_iter().map(|part| t.implicit(part, base)).collect::<Result<Vec<_>, _>>()?;
                (parts, TypeWithModifier::plain(base))
            }
            _ if all_open => (parts, TypeWithModifier::plain(Type::Unknown)),
            _ => t.unify(parts, "VALUES")?,
        };
        described.push(QueryColumn {
            name: format!("column{}", place + 1),
            kind,
            is_not_null: parts.iter().all(|part| part.is_not_null),
            is_volatile: parts.iter().any(|part| part.is_volatile),
            origin: None,
            parameter,
        });
        *column = parts;
    }
    let rows = columns.first().map_or(0, Vec::len);
    let first: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(place, column)| format!("{} AS c{}", column[0].collated(), place + 1))
        .collect();
    let row = |row: usize| {
        let texts: Vec<&str> = columns.iter().map(|column| column[row].sql.as_str()).collect();
        format!("({})", texts.join(", "))
    };
    let mut sql = format!("SELECT {}", first.join(", "));
    if rows > 1 {
        sql.push_str(&format!(" UNION ALL VALUES {}", (1..rows).map(row).collect::<Vec<_>>().join(", ")));
    }
    let bare = columns.iter().flatten().flat_map(|expr| expr.bare.clone()).collect();
    if !select.sort_clause.is_empty() || select.limit_count.is_some() || select.limit_offset.is_some() {
        return Err(
            Problem::unsupported("ORDER BY or LIMIT of VALUES").hint("Write SELECT .. FROM (VALUES ..).")
        );
    }
    Ok(Query { sql, columns: described, bare, is_single: rows == 1 })
}
