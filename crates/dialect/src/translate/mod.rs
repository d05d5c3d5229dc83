//! PostgreSQL's tree to SQLite's text, with a type for every expression. Tables get aliases of the translator's own (`t1`,
//! `t2`) and output columns the names `c1`, `c2`, so names never mean anything else in SQLite.

mod catalog_functions;
mod coerce;
mod expression;
mod from;
mod functions;
mod names;
mod operators;
mod query;
mod select;
mod time_functions;
mod write;

use std::collections::BTreeSet;

use pg_query::protobuf::Node;

use crate::catalog::{Catalog, Table};
use crate::data_types::{Type, TypeWithModifier};
use crate::problem::Problem;

pub(crate) use crate::literal::{literal, quoted, string_literal};
pub(crate) use coerce::Cast;
pub(crate) use write::{Conflict, WriteStatement, delete_statement, insert_statement, update_statement};

/// Most nodes of a tree that are translated, repetitions included.
const MAX_NODES: usize = 200_000;

/// Origin of an expression's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Sql,
    /// A string constant, still untyped or of the expression's type.
    Literal(String),
    /// A number with a point or exponent, or too large for bigint.
    Number(String),
    Null,
    Parameter(usize),
    Column,
}

/// A translated expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) sql: String,
    pub(crate) kind: TypeWithModifier,
    pub(crate) source: Source,
    /// Columns outside aggregates that no GROUP BY expression covers: depth of their scope, SQL, name for errors.
    pub(crate) bare: Vec<(usize, String, String)>,
    pub(crate) has_aggregate: bool,
    pub(crate) is_volatile: bool,
    pub(crate) is_not_null: bool,
    /// OID and number of the column that it is.
    pub(crate) origin: Option<(u32, i16)>,
}

impl Expr {
    fn new(sql: impl Into<String>, base: Type) -> Expr {
        Expr {
            sql: sql.into(),
            kind: TypeWithModifier::plain(base),
            source: Source::Sql,
            bare: Vec::new(),
            has_aggregate: false,
            is_volatile: false,
            is_not_null: false,
            origin: None,
        }
    }

    /// An expression made of others.
    fn of(sql: impl Into<String>, base: Type, parts: &[&Expr]) -> Expr {
        let mut expr = Expr::new(sql, base);
        for part in parts {
            expr.bare.extend(part.bare.iter().cloned());
            expr.has_aggregate |= part.has_aggregate;
            expr.is_volatile |= part.is_volatile;
        }
        expr
    }

    fn base(&self) -> Type {
        self.kind.base
    }

    fn is_unknown(&self) -> bool {
        self.kind.base == Type::Unknown
    }

    /// Same columns and flags, another text and type.
    fn with(&self, sql: impl Into<String>, kind: TypeWithModifier) -> Expr {
        Expr { sql: sql.into(), kind, source: Source::Sql, origin: None, ..self.clone() }
    }

    /// The SQL with the collation of the type, where values are compared or sorted.
    pub(crate) fn collated(&self) -> String {
        match self.base() {
            Type::Numeric => format!("{} COLLATE consort_numeric", self.sql),
            _ if self.sql.contains("COLLATE") => format!("{} COLLATE BINARY", self.sql),
            _ => self.sql.clone(),
        }
    }
}

/// A table, subquery or function in FROM.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The visible name.
    pub(crate) name: String,
    /// SQLite's qualifier with the dot, or empty.
    pub(crate) prefix: String,
    pub(crate) columns: Vec<ItemColumn>,
    /// The table's OID, 0 for others.
    pub(crate) oid: u32,
}

/// The prefix of a table that RETURNING cannot name: SQLite has the target's columns only.
pub(crate) const HIDDEN: &str = "?";

/// The OID of an item of the system catalogue, which has a part of PostgreSQL's columns.
pub(crate) const SYSTEM: u32 = u32::MAX;

/// A column of an [`Item`].
#[derive(Clone, Debug)]
pub(crate) struct ItemColumn {
    pub(crate) name: String,
    pub(crate) sql: String,
    pub(crate) kind: TypeWithModifier,
    pub(crate) is_not_null: bool,
    /// OID and number of the table's column that it is.
    pub(crate) origin: Option<(u32, i16)>,
    /// Merged into another one by USING.
    pub(crate) is_merged: bool,
}

/// The names that a query sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) items: Vec<Item>,
    /// Items before this one are hidden, in ON of a join.
    pub(crate) visible_from: usize,
    /// GROUP BY's expressions.
    pub(crate) groups: Vec<String>,
    /// The clause in which aggregates are an error.
    pub(crate) no_aggregates: Option<&'static str>,
}

/// A query of WITH.
#[derive(Clone, Debug)]
pub(crate) struct CommonTable {
    name: String,
    sql_name: String,
    columns: Vec<QueryColumn>,
}

/// The state of one translation.
pub(crate) struct Translator<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) text: &'a str,
    pub(crate) parameters: Vec<Option<Type>>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) common: Vec<CommonTable>,
    pub(crate) tables: BTreeSet<String>,
    pub(crate) sequences: BTreeSet<String>,
    /// Number of subqueries in expressions so far.
    pub(crate) subqueries: usize,
    /// True while the columns of views are found, which then have none themselves.
    pub(crate) describes_views: bool,
    aliases: usize,
    nodes: usize,
}

impl<'a> Translator<'a> {
    pub(crate) fn new(
        catalog: &'a Catalog,
        text: &'a str,
        parameters: &[u32],
    ) -> Result<Translator<'a>, Problem> {
        let known = |oid: &u32| match oid {
            0 | 705 => Ok(None),
            oid => Type::from_oid(*oid)
                .map(Some)
                .ok_or_else(|| Problem::unsupported(format!("a parameter of the type with OID {oid}"))),
        };
        Ok(Translator {
            catalog,
            text,
            parameters: parameters.iter().map(known).collect::<Result<_, _>>()?,
            scopes: Vec::new(),
            common: Vec::new(),
            tables: BTreeSet::new(),
            sequences: BTreeSet::new(),
            subqueries: 0,
            describes_views: false,
            aliases: 0,
            nodes: 0,
        })
    }

    pub(crate) fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("t{}", self.aliases)
    }

    fn spend(&mut self) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Problem::new("54001", "the statement is too complex").hint("Split the statement."));
        }
        Ok(())
    }

    /// The user's table of this name. Error 42P01 if there is none.
    pub(crate) fn table(&mut self, schema: &str, name: &str) -> Result<&'a Table, Problem> {
        if crate::system::is_system(schema, name) {
            return Err(Problem::unsupported(format!("the system relation \"{name}\"")));
        }
        let missing = || {
            let shown = if schema.is_empty() { name.to_owned() } else { format!("{schema}.{name}") };
            Problem::new("42P01", format!("relation \"{shown}\" does not exist"))
        };
        if !matches!(schema, "" | "public") {
            return Err(missing());
        }
        let catalog = self.catalog;
        if catalog.views.contains_key(name) {
            return Err(Problem::unsupported(format!("a change of view \"{name}\""))
                .hint("Views are read only here. Change the tables that they read."));
        }
        let table = catalog.tables.get(name).ok_or_else(missing)?;
        self.tables.insert(name.to_owned());
        Ok(table)
    }

    pub(crate) fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Types of all parameters. One that nothing gives a type is error 42P18.
    pub(crate) fn parameter_types(&self) -> Result<Vec<Type>, Problem> {
        let known = |(place, of): (usize, &Option<Type>)| {
            of.ok_or_else(|| {
                Problem::new("42P18", format!("could not determine data type of parameter ${}", place + 1))
            })
        };
        self.parameters.iter().enumerate().map(known).collect()
    }

    /// An expression in a table's own definition: CHECK, DEFAULT or an index. Columns have no qualifier.
    pub(crate) fn in_table(
        &mut self,
        table: &Table,
        node: &Node,
        clause: &'static str,
    ) -> Result<Expr, Problem> {
        let item = Translator::table_item(table, &table.name, String::new());
        self.scopes.push(Scope { items: vec![item], no_aggregates: Some(clause), ..Scope::default() });
        let expr = self.expression(node);
        self.scopes.pop();
        expr
    }

    pub(crate) fn table_item(table: &Table, name: &str, prefix: String) -> Item {
        let column = |column: &crate::catalog::TableColumn| ItemColumn {
            name: column.name.clone(),
            sql: quoted(&column.name),
            kind: column.kind,
            is_not_null: column.is_not_null,
            origin: Some((table.oid, column.number)),
            is_merged: false,
        };
        Item {
            name: name.to_owned(),
            prefix,
            columns: table.columns.iter().map(column).collect(),
            oid: table.oid,
        }
    }
}

/// An output column of a query. In SQLite it is called `c1`, `c2`, ..
#[derive(Clone, Debug)]
pub(crate) struct QueryColumn {
    pub(crate) name: String,
    pub(crate) kind: TypeWithModifier,
    pub(crate) is_not_null: bool,
    pub(crate) is_volatile: bool,
    pub(crate) origin: Option<(u32, i16)>,
    /// A parameter without a type yet.
    pub(crate) parameter: Option<usize>,
}

/// A translated query.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) sql: String,
    pub(crate) columns: Vec<QueryColumn>,
    /// Columns of outer queries.
    pub(crate) bare: Vec<(usize, String, String)>,
    /// True if it has at most one row.
    pub(crate) is_single: bool,
}

pub(crate) fn rename(columns: &mut [QueryColumn], names: &[&str]) {
    columns.iter_mut().zip(names).for_each(|(column, name)| (*name).clone_into(&mut column.name));
}

/// A call of an SQL function with these arguments.
pub(crate) fn call(name: &str, arguments: &[Expr], kind: TypeWithModifier) -> Expr {
    let texts: Vec<&str> = arguments.iter().map(|part| part.sql.as_str()).collect();
    let sql = format!("{name}({})", texts.join(", "));
    Expr { kind, ..Expr::of(sql, kind.base, &arguments.iter().collect::<Vec<_>>()) }
}
