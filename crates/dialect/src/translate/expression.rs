//! Expressions: constants, parameters, columns, conditions, CASE, subqueries.

use pg_query::NodeEnum;
use pg_query::protobuf::{
    AConst, AExpr, AExprKind, BoolExpr, BoolExprType, BoolTestType, CaseExpr, ColumnRef, Node, NullTest,
    NullTestType, SqlValueFunction, SqlValueFunctionOp, SubLink, SubLinkType, TypeCast, a_const::Val,
};

use rusqlite::types::Value;

use super::catalog_functions::catalog_cast;
use super::functions::function_call;
use super::operators::{any_array, between, binary, comparable, compare, compare_rows, in_list, like, unary};
use super::time_functions::interval;
use super::{Expr, HIDDEN, SYSTEM, Scope, Source, Translator, call, literal, string_literal};
use crate::data_types::{Type, TypeWithModifier, string};
use crate::problem::Problem;

impl Translator<'_> {
    /// Translates an expression; a grouped one covers its columns.
    pub(crate) fn expression(&mut self, node: &Node) -> Result<Expr, Problem> {
        self.spend()?;
        let mut expr = self.expression_node(node)?;
        let depth = self.scopes.len();
        if let Some(scope) = self.scopes.last()
            && !expr.has_aggregate
            && scope.groups.contains(&expr.sql)
        {
            expr.bare.retain(|(level, ..)| *level != depth);
        }
        Ok(expr)
    }

    fn expression_node(&mut self, node: &Node) -> Result<Expr, Problem> {
        let Some(node) = node.node.as_ref() else { return Err(Problem::unsupported("an empty expression")) };
        match node {
            NodeEnum::AConst(constant) => constant_expression(constant),
            NodeEnum::ParamRef(parameter) => self.parameter(parameter.number),
            NodeEnum::ColumnRef(column) => {
                self.column(column).map_err(|problem| problem.at(self.text, column.location))
            }
            NodeEnum::AExpr(expr) => {
                self.operation(expr).map_err(|problem| problem.at(self.text, expr.location))
            }
            NodeEnum::BoolExpr(expr) => self.boolean(expr),
            NodeEnum::TypeCast(cast) => self.type_cast(cast),
            NodeEnum::FuncCall(call) => {
                function_call(self, call).map_err(|problem| problem.at(self.text, call.location))
            }
            NodeEnum::NullTest(test) => self.null_test(test),
            NodeEnum::BooleanTest(test) => {
                let argument = self.operand(test.arg.as_deref())?;
                let argument = self.condition(argument, "IS TRUE")?;
                let words = match test.booltesttype() {
                    BoolTestType::IsTrue => "IS TRUE",
                    BoolTestType::IsNotTrue => "IS NOT TRUE",
                    BoolTestType::IsFalse => "IS FALSE",
                    BoolTestType::IsNotFalse => "IS NOT FALSE",
                    BoolTestType::IsUnknown => "IS NULL",
                    _ => "IS NOT NULL",
                };
                Ok(Expr::of(format!("({} {words})", argument.sql), Type::Bool, &[&argument]))
            }
            NodeEnum::CaseExpr(case) => self.case(case),
            NodeEnum::CoalesceExpr(coalesce) => {
                let parts = self.expressions(&coalesce.args)?;
                let (parts, kind) = self.unify(parts, "COALESCE")?;
                let mut expr = call("coalesce", &parts, kind);
                if let [only] = parts.as_slice() {
                    expr.sql.clone_from(&only.sql);
                }
                expr.is_not_null = parts.iter().any(|part| part.is_not_null);
                Ok(expr)
            }
            NodeEnum::MinMaxExpr(extreme) => self.extreme(&extreme.args, extreme.op == 1),
            NodeEnum::SqlvalueFunction(function) => self.value_function(function),
            NodeEnum::SubLink(link) => {
                self.subquery(link).map_err(|problem| problem.at(self.text, link.location))
            }
            NodeEnum::CollateClause(collate) => {
                let name = collate.collname.last().and_then(string).unwrap_or("");
                if !matches!(name, "C" | "POSIX" | "default" | "ucs_basic") {
                    return Err(
                        Problem::unsupported(format!("collation \"{name}\"")).hint("Text has collation C.")
                    );
                }
                self.operand(collate.arg.as_deref())
            }
            NodeEnum::AArrayExpr(_) => Err(Problem::unsupported("an array outside of = ANY")),
            NodeEnum::RowExpr(_) => Err(Problem::unsupported("a row outside of = and IN")),
            NodeEnum::SetToDefault(_) => Err(Problem::new("42601", "DEFAULT is not allowed in this context")),
            _ => Err(Problem::unsupported("an expression of this kind")),
        }
    }

    fn type_cast(&mut self, cast: &TypeCast) -> Result<Expr, Problem> {
        let Some((argument, name)) = cast.arg.as_deref().zip(cast.type_name.as_ref()) else {
            return Err(Problem::unsupported("this cast"));
        };
        if let Some(expr) = catalog_cast(self, argument, name)? {
            return Ok(expr);
        }
        let to = TypeWithModifier::read(name).map_err(|problem| problem.at(self.text, name.location))?;
        if to.base == Type::Interval {
            return interval(argument);
        }
        let expr = self.expression(argument)?;
        self.cast(expr, to).map_err(|problem| problem.at(self.text, cast.location))
    }

    pub(crate) fn expressions(&mut self, nodes: &[Node]) -> Result<Vec<Expr>, Problem> {
        nodes.iter().map(|node| self.expression(node)).collect()
    }

    pub(crate) fn operand(&mut self, node: Option<&Node>) -> Result<Expr, Problem> {
        self.expression(node.ok_or_else(|| Problem::unsupported("an operator without operand"))?)
    }

    fn parameter(&mut self, number: i32) -> Result<Expr, Problem> {
        let place = usize::try_from(number - 1).ok().filter(|place| *place < 65_535);
        let place = place.ok_or_else(|| Problem::new("42P02", format!("there is no parameter ${number}")))?;
        if self.parameters.len() <= place {
            self.parameters.resize(place + 1, None);
        }
        let base = self.parameters[place].unwrap_or(Type::Unknown);
        Ok(Expr { source: Source::Parameter(place), ..Expr::new(format!("?{number}"), base) })
    }

    fn column(&mut self, column: &ColumnRef) -> Result<Expr, Problem> {
        let names: Option<Vec<&str>> = column.fields.iter().map(string).collect();
        let names = names.ok_or_else(|| Problem::new("42601", "* is not allowed in this context"))?;
        let (table, name) = match names.as_slice() {
            [name] => (None, *name),
            [table, name] | [_, table, name] => (Some(*table), *name),
            _ => return Err(Problem::unsupported("a column's name of this form")),
        };
        for depth in (0..self.scopes.len()).rev() {
            let scope = &self.scopes[depth];
            let mut found = None;
            for item in &scope.items[scope.visible_from..] {
                if table.is_some_and(|table| table != item.name) {
                    continue;
                }
                let mut columns = item.columns.iter().filter(|column| table.is_some() || !column.is_merged);
                if let Some(column) = columns.find(|column| column.name == name) {
                    if found.is_some() || columns.any(|column| column.name == name) {
                        return Err(Problem::new(
                            "42702",
                            format!("column reference \"{name}\" is ambiguous"),
                        ));
                    }
                    found = Some((item, column));
                } else if table.is_some()
                    && !matches!(name, "ctid" | "xmin" | "xmax" | "cmin" | "cmax" | "tableoid")
                {
                    let text = format!("column {}.{name} does not exist", item.name);
                    return Err(Problem::new("42703", text));
                }
            }
            if let Some((item, column)) = found {
                if item.prefix == HIDDEN {
                    return Err(Problem::unsupported("RETURNING of another table's column"));
                }
                let sql = format!("{}{}", item.prefix, column.sql);
                let display = format!("{}.{}", item.name, column.name);
                let mut expr = Expr::new(sql.clone(), column.kind.base);
                expr.kind = column.kind;
                expr.source = Source::Column;
                expr.is_not_null = column.is_not_null;
                expr.origin = column.origin;
                expr.bare.push((depth + 1, sql, display));
                return Ok(expr);
            }
        }
        let is_item = |scope: &Scope| scope.items.iter().any(|item| item.name == name);
        if table.is_none() && self.scopes.iter().any(is_item) {
            return Err(Problem::unsupported("a whole row as a value").hint("Name the columns."));
        }
        let is_partial = |scope: &Scope| scope.items.iter().any(|item| item.oid == SYSTEM);
        if SYSTEM_COLUMNS.contains(&name) || self.scopes.iter().any(is_partial) {
            return Err(Problem::unsupported(format!("the system column \"{name}\"")));
        }
        match table {
            Some(table) => {
                Err(Problem::new("42P01", format!("missing FROM-clause entry for table \"{table}\"")))
            }
            None => Err(Problem::new("42703", format!("column \"{name}\" does not exist"))),
        }
    }

    fn boolean(&mut self, expr: &BoolExpr) -> Result<Expr, Problem> {
        let (word, of) = match expr.boolop() {
            BoolExprType::AndExpr => (" AND ", "AND"),
            BoolExprType::OrExpr => (" OR ", "OR"),
            _ => ("", "NOT"),
        };
        let mut parts = Vec::new();
        for node in &expr.args {
            let part = self.expression(node)?;
            parts.push(self.condition(part, of)?);
        }
        let texts: Vec<&str> = parts.iter().map(|part| part.sql.as_str()).collect();
        let sql = if word.is_empty() {
            format!("(NOT {})", texts.concat())
        } else {
            format!("({})", texts.join(word))
        };
        Ok(Expr::of(sql, Type::Bool, &parts.iter().collect::<Vec<_>>()))
    }

    fn null_test(&mut self, test: &NullTest) -> Result<Expr, Problem> {
        let argument = self.operand(test.arg.as_deref())?;
        let words = if test.nulltesttype() == NullTestType::IsNull { "IS NULL" } else { "IS NOT NULL" };
        Ok(Expr::of(format!("({} {words})", argument.sql), Type::Bool, &[&argument]))
    }

    fn case(&mut self, case: &CaseExpr) -> Result<Expr, Problem> {
        let subject = case.arg.as_deref().map(|node| self.expression(node)).transpose()?;
        if case.args.len() > 1 && subject.as_ref().is_some_and(|subject| subject.is_volatile) {
            return Err(Problem::unsupported("CASE of a volatile expression"));
        }
        let (mut conditions, mut results) = (Vec::new(), Vec::new());
        for node in &case.args {
            let Some(NodeEnum::CaseWhen(when)) = &node.node else { continue };
            let condition = self.operand(when.expr.as_deref())?;
            conditions.push(match &subject {
                Some(subject) => compare(self, "=", subject.clone(), condition)?,
                None => self.condition(condition, "CASE/WHEN")?,
            });
            results.push(self.operand(when.result.as_deref())?);
        }
        results.push(match case.defresult.as_deref() {
            Some(node) => self.expression(node)?,
            None => Expr { source: Source::Null, ..Expr::new("NULL", Type::Unknown) },
        });
        let (results, kind) = self.unify(results, "CASE")?;
        let mut sql = String::from("CASE");
        for (condition, result) in conditions.iter().zip(&results) {
            sql.push_str(&format!(" WHEN {} THEN {}", condition.sql, result.sql));
        }
        if let Some(last) = results.last() {
            sql.push_str(&format!(" ELSE {} END", last.sql));
        }
        let parts: Vec<&Expr> = conditions.iter().chain(&results).collect();
        Ok(Expr { kind, ..Expr::of(format!("({sql})"), kind.base, &parts) })
    }

    /// GREATEST and LEAST, which leave NULL out.
    fn extreme(&mut self, nodes: &[Node], is_greatest: bool) -> Result<Expr, Problem> {
        let parts = self.expressions(nodes)?;
        let (parts, kind) = self.unify(parts, if is_greatest { "GREATEST" } else { "LEAST" })?;
        if parts.iter().any(|part| part.is_volatile) {
            return Err(Problem::unsupported("GREATEST or LEAST of a volatile expression"));
        }
        let mut parts = parts.into_iter();
        let Some(mut best) = parts.next() else { return Err(Problem::unsupported("GREATEST of nothing")) };
        let operator = if is_greatest { ">=" } else { "<=" };
        for part in parts {
            let wins = compare(self, operator, best.clone(), part.clone())?.sql;
            let (left, right) = (&best.sql, &part.sql);
            let sql = format!(
                "(CASE WHEN {right} IS NULL THEN {left} WHEN {left} IS NULL THEN {right} WHEN {wins} THEN {left} ELSE {right} END)"
            );
            if sql.len() > 100_000 {
                return Err(Problem::unsupported("GREATEST or LEAST of so many values"));
            }
            best = Expr { kind, ..Expr::of(sql, kind.base, &[&best, &part]) };
        }
        Ok(best)
    }

    fn value_function(&mut self, function: &SqlValueFunction) -> Result<Expr, Problem> {
        use SqlValueFunctionOp as Op;
        let (sql, base) = match function.op() {
            Op::SvfopCurrentDate => ("pg_ts_date(pg_now())", Type::Date),
            Op::SvfopCurrentTimestamp => ("pg_now()", Type::Timestamptz),
            Op::SvfopLocaltimestamp => ("pg_now()", Type::Timestamp),
            Op::SvfopCurrentUser | Op::SvfopUser | Op::SvfopSessionUser | Op::SvfopCurrentRole => {
                ("pg_user()", Type::Name)
            }
            Op::SvfopCurrentCatalog => ("pg_database()", Type::Name),
            Op::SvfopCurrentSchema => ("'public'", Type::Name),
            _ => return Err(Problem::unsupported("CURRENT_TIME or a precision of the current time")),
        };
        Ok(Expr { is_not_null: true, ..Expr::new(sql, base) })
    }

    fn subquery(&mut self, link: &SubLink) -> Result<Expr, Problem> {
        let Some(NodeEnum::SelectStmt(select)) = link.subselect.as_ref().and_then(|node| node.node.as_ref())
        else {
            return Err(Problem::unsupported("this subquery"));
        };
        if self.scopes.last().is_some_and(|scope| scope.items.iter().any(|item| item.prefix.is_empty())) {
            return Err(Problem::unsupported("a subquery in RETURNING, CHECK or DEFAULT"));
        }
        self.subqueries += 1;
        let is_exists = link.sub_link_type() == SubLinkType::ExistsSublink;
        let query = self.select(select, None)?;
        let mut expr = match link.sub_link_type() {
            _ if is_exists => Expr::new(format!("EXISTS ({})", query.sql), Type::Bool),
            SubLinkType::ExprSublink => {
                let [column] = query.columns.as_slice() else {
                    return Err(Problem::new("42601", "subquery must return only one column"));
                };
                let base = if column.kind.base == Type::Unknown { Type::Text } else { column.kind.base };
                let sql = if query.is_single {
                    format!("({})", query.sql)
                } else {
                    format!("(SELECT pg_single(c1) FROM ({}))", query.sql)
                };
                Expr { kind: TypeWithModifier { base, ..column.kind }, ..Expr::new(sql, base) }
            }
            SubLinkType::AnySublink | SubLinkType::AllSublink => {
                let name = link.oper_name.first().and_then(string).unwrap_or("=");
                let is_any = link.sub_link_type() == SubLinkType::AnySublink;
                let word = match (is_any, name) {
                    (true, "=") => "IN",
                    (false, "<>") => "NOT IN",
                    _ => return Err(Problem::unsupported(format!("{name} ANY or ALL of a subquery"))),
                };
                let left = self.operand(link.testexpr.as_deref())?;
                let [column] = query.columns.as_slice() else {
                    return Err(Problem::new("42601", "subquery has too many columns"));
                };
                let right = Expr { kind: column.kind, ..Expr::new("c1", column.kind.base) };
                let (left, right) = comparable(self, "=", left, right)?;
                let source = if right.sql == "c1" {
                    query.sql.clone()
                } else {
                    format!("SELECT {} FROM ({})", right.sql, query.sql)
                };
                Expr::of(format!("({} {word} ({source}))", left.collated()), Type::Bool, &[&left])
            }
            _ => return Err(Problem::unsupported("ARRAY of a subquery")),
        };
        expr.is_volatile |= query.columns.iter().any(|column| column.is_volatile);
        expr.bare.extend(query.bare);
        Ok(expr)
    }

    fn operation(&mut self, expr: &AExpr) -> Result<Expr, Problem> {
        let names: Vec<&str> = expr.name.iter().filter_map(string).collect();
        let name = *names.last().unwrap_or(&"");
        match expr.kind() {
            AExprKind::AexprOp => {
                let (left, right) = (expr.lexpr.as_deref(), expr.rexpr.as_deref());
                if let Some((left, right)) = rows(left, right) {
                    return compare_rows(self, name, left, right);
                }
                let right_expr = self.operand(right)?;
                match left {
                    Some(left) => {
                        let left = self.expression(left)?;
                        binary(self, name, left, right_expr)
                    }
                    None => unary(name, right_expr),
                }
            }
            AExprKind::AexprDistinct | AExprKind::AexprNotDistinct => {
                let (left, right) =
                    (self.operand(expr.lexpr.as_deref())?, self.operand(expr.rexpr.as_deref())?);
                let (left, right) = comparable(self, "=", left, right)?;
                let word = if expr.kind() == AExprKind::AexprDistinct { "IS NOT" } else { "IS" };
                Ok(Expr::of(
                    format!("({} {word} {})", left.collated(), right.sql),
                    Type::Bool,
                    &[&left, &right],
                ))
            }
            AExprKind::AexprNullif => {
                let (left, right) =
                    (self.operand(expr.lexpr.as_deref())?, self.operand(expr.rexpr.as_deref())?);
                let (left, right) = comparable(self, "=", left, right)?;
                let sql = format!("nullif({}, {})", left.collated(), right.sql);
                Ok(Expr { kind: left.kind, ..Expr::of(sql, left.base(), &[&left, &right]) })
            }
            AExprKind::AexprIn => in_list(self, name, expr),
            AExprKind::AexprLike => like(self, expr, "pg_like", name.starts_with('!')),
            AExprKind::AexprIlike => like(self, expr, "pg_ilike", name.starts_with('!')),
            AExprKind::AexprBetween
            | AExprKind::AexprNotBetween
            | AExprKind::AexprBetweenSym
            | AExprKind::AexprNotBetweenSym => between(self, expr),
            AExprKind::AexprOpAny => any_array(self, name, expr, true),
            AExprKind::AexprOpAll => any_array(self, name, expr, false),
            _ => Err(Problem::unsupported("SIMILAR TO")),
        }
    }
}

const SYSTEM_COLUMNS: &[&str] = &["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

/// The items of both sides if both are rows.
fn rows<'n>(left: Option<&'n Node>, right: Option<&'n Node>) -> Option<(&'n [Node], &'n [Node])> {
    match (left?.node.as_ref()?, right?.node.as_ref()?) {
        (NodeEnum::RowExpr(left), NodeEnum::RowExpr(right)) => Some((&left.args, &right.args)),
        _ => None,
    }
}

fn constant_expression(constant: &AConst) -> Result<Expr, Problem> {
    if constant.isnull {
        return Ok(Expr { source: Source::Null, ..Expr::new("NULL", Type::Unknown) });
    }
    let mut expr = match constant.val.as_ref() {
        None => Expr::new("0", Type::Int4),
        Some(Val::Ival(number)) => Expr::new(literal(&Value::Integer(number.ival.into())), Type::Int4),
        Some(Val::Boolval(value)) => Expr::new(i32::from(value.boolval).to_string(), Type::Bool),
        Some(Val::Sval(text)) => Expr {
            source: Source::Literal(text.sval.clone()),
            ..Expr::new(string_literal(&text.sval), Type::Unknown)
        },
        Some(Val::Fval(number)) => match number.fval.parse::<i64>() {
            Ok(number) => {
                let base = if i32::try_from(number).is_ok() { Type::Int4 } else { Type::Int8 };
                Expr::new(literal(&Value::Integer(number)), base)
            }
            Err(_) => {
                let value = crate::numeric::Decimal::parse(&number.fval)?.to_string();
                Expr {
                    source: Source::Number(number.fval.clone()),
                    ..Expr::new(string_literal(&value), Type::Numeric)
                }
            }
        },
        Some(Val::Bsval(_)) => return Err(Problem::unsupported("a bit string")),
    };
    expr.is_not_null = true;
    Ok(expr)
}
