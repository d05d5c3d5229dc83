//! CREATE TABLE, INDEX, SEQUENCE and VIEW.

use pg_query::NodeEnum;
use pg_query::protobuf::{
    ColumnDef, ConstrType, Constraint as Definition, CreateSeqStmt, CreateStmt, IndexStmt, Node, SortByDir,
    ViewStmt,
};

use super::{Script, check_name, create_sql, free_name, index_row, index_sql, save, sequence_row};
use crate::catalog::{Constraint, Index, IndexKey, Rule, Sequence, Table, TableColumn};
use crate::data_types::{Type, TypeWithModifier, string};
use crate::parse;
use crate::problem::Problem;
use crate::statement::constant;
use crate::statement_plan::Names;
use crate::translate::{Translator, string_literal};

/// A table that is being put together, with what its columns bring along.
pub(super) struct Draft {
    pub(super) table: Table,
    pub(super) sequences: Vec<Sequence>,
    pub(super) next_oid: u32,
    names: Vec<String>,
    foreign: Vec<(Definition, Vec<String>)>,
}

impl Draft {
    pub(super) fn new(table: Table, next_oid: u32) -> Draft {
        Draft { table, sequences: Vec::new(), next_oid, names: Vec::new(), foreign: Vec::new() }
    }

    fn oid(&mut self) -> u32 {
        self.next_oid += 1;
        self.next_oid - 1
    }

    fn name(&mut self, translator: &Translator<'_>, given: &str, parts: &[&str]) -> Result<String, Problem> {
        let name =
            if given.is_empty() { free_name(translator, &self.names, parts)? } else { given.to_owned() };
        self.names.push(name.clone());
        Ok(name)
    }

    /// Adds a column with its own constraints.
    pub(super) fn column(
        &mut self,
        translator: &mut Translator<'_>,
        definition: &ColumnDef,
    ) -> Result<(), Problem> {
        let name = definition.colname.clone();
        let type_name =
            definition.type_name.as_ref().ok_or_else(|| Problem::unsupported("a column without type"))?;
        let kind = TypeWithModifier::read(type_name)?;
        if matches!(
            kind.base,
            Type::Array(_) | Type::Interval | Type::Name | Type::Char | Type::Oid | Type::Regclass
        ) {
            return Err(Problem::unsupported(format!("a column of type {}", kind.base.name())));
        }
        if kind.base == Type::Bpchar && kind.modifier < 0 {
            return Err(Problem::unsupported("type bpchar without length").hint("Use text."));
        }
        if self.table.column(&name).is_some() {
            return Err(Problem::new("42701", format!("column \"{name}\" specified more than once")));
        }
        if self.table.columns.iter().any(|column| column.name.eq_ignore_ascii_case(&name)) {
            return Err(Problem::unsupported(format!(
                "a name that differs from another one by case only, \"{name}\","
            )));
        }
        if let Some(collation) =
            definition.coll_clause.as_ref().and_then(|clause| clause.collname.last()).and_then(string)
            && !matches!(collation, "C" | "POSIX" | "default")
        {
            return Err(Problem::unsupported(format!("collation \"{collation}\"")));
        }
        let number = self.table.columns.last().map_or(1, |column| column.number + 1);
        self.table.columns.push(TableColumn {
            name: name.clone(),
            number,
            kind,
            is_not_null: definition.is_not_null,
            default_text: None,
            default: None,
            identity: String::new(),
        });
        let word = type_name.names.last().and_then(string).unwrap_or("");
        if word.contains("serial") {
            self.own_sequence(translator, &name, "", &[])?;
        }
        for node in &definition.constraints {
            let Some(NodeEnum::Constraint(constraint)) = &node.node else { continue };
            self.column_constraint(translator, &name, constraint)?;
        }
        Ok(())
    }

    fn last(&mut self) -> Result<&mut TableColumn, Problem> {
        self.table.columns.last_mut().ok_or_else(|| Problem::unsupported("this column"))
    }

    fn column_constraint(
        &mut self,
        translator: &mut Translator<'_>,
        name: &str,
        constraint: &Definition,
    ) -> Result<(), Problem> {
        match constraint.contype() {
            ConstrType::ConstrNull => {}
            ConstrType::ConstrNotnull => self.last()?.is_not_null = true,
            ConstrType::ConstrDefault => {
                let node =
                    constraint.raw_expr.as_deref().ok_or_else(|| Problem::unsupported("this default"))?;
                self.set_default(translator, name, Some(node))?;
            }
            ConstrType::ConstrIdentity => {
                self.own_sequence(translator, name, &constraint.generated_when, &constraint.options)?;
            }
            ConstrType::ConstrGenerated => return Err(Problem::unsupported("a generated column")),
            ConstrType::ConstrForeign => self.foreign.push((constraint.clone(), vec![name.to_owned()])),
            ConstrType::ConstrAttrDeferrable | ConstrType::ConstrAttrDeferred => {
                return Err(Problem::unsupported("a deferrable constraint"));
            }
            ConstrType::ConstrAttrNotDeferrable | ConstrType::ConstrAttrImmediate => {}
            _ => self.constraint(translator, constraint, Some(name))?,
        }
        Ok(())
    }

    pub(super) fn set_default(
        &mut self,
        translator: &mut Translator<'_>,
        name: &str,
        node: Option<&Node>,
    ) -> Result<(), Problem> {
        let missing = || {
            Problem::new(
                "42703",
                format!("column \"{name}\" of relation \"{}\" does not exist", self.table.name),
            )
        };
        let place = self.table.columns.iter().position(|column| column.name == name).ok_or_else(missing)?;
        if let Some(node) = node {
            let empty = Table { columns: Vec::new(), ..self.table.clone() };
            let expr =
                translator.in_table(&empty, node, "DEFAULT expressions").map_err(|problem| match problem
                    .sqlstate
                {
                    "42703" => Problem::new("0A000", "cannot use column reference in DEFAULT expression"),
                    _ => problem,
                })?;
            translator.assign(expr, self.table.columns[place].kind, name)?;
        }
        let column = &mut self.table.columns[place];
        column.default_text = node.map(parse::expression_text).transpose()?;
        column.default = node.cloned();
        Ok(())
    }

    /// A sequence for a serial or identity column.
    fn own_sequence(
        &mut self,
        translator: &mut Translator<'_>,
        column: &str,
        identity: &str,
        options: &[Node],
    ) -> Result<(), Problem> {
        let table = self.table.name.clone();
        let name = match sequence_name(options) {
            Some(name) => {
                check_name(translator, name)?;
                name.to_owned()
            }
            None => self.name(translator, "", &[&table, column, "seq"])?,
        };
        let oid = self.oid();
        let (table_oid, number) = (self.table.oid, self.last()?.number);
        let mut sequence =
            Sequence { oid, name: name.clone(), start: 1, increment: 1, owner: (table_oid, number) };
        sequence_options(&mut sequence, options)?;
        let text = format!("nextval({}::regclass)", string_literal(&name));
        let last = self.last()?;
        last.is_not_null = true;
        identity.clone_into(&mut last.identity);
        last.default = Some(parse::expression(&text)?);
        last.default_text = Some(text);
        self.sequences.push(sequence);
        Ok(())
    }

    /// Adds a key or check; foreign keys wait until all columns are known.
    pub(super) fn constraint(
        &mut self,
        translator: &mut Translator<'_>,
        definition: &Definition,
        column: Option<&str>,
    ) -> Result<(), Problem> {
        if definition.deferrable || definition.initdeferred {
            return Err(Problem::unsupported("a deferrable constraint"));
        }
        let is_checked = matches!(definition.contype(), ConstrType::ConstrCheck | ConstrType::ConstrForeign);
        if is_checked && (definition.skip_validation || !definition.is_enforced) {
            return Err(Problem::unsupported("NOT VALID or NOT ENFORCED"));
        }
        let table = self.table.name.clone();
        match definition.contype() {
            ConstrType::ConstrPrimary | ConstrType::ConstrUnique => {
                if definition.nulls_not_distinct
                    || !definition.including.is_empty()
                    || !definition.indexname.is_empty()
                {
                    return Err(Problem::unsupported("NULLS NOT DISTINCT, INCLUDE or USING INDEX"));
                }
                let mut names: Vec<String> =
                    definition.keys.iter().filter_map(string).map(str::to_owned).collect();
                names.extend(column.map(str::to_owned).filter(|_| names.is_empty()));
                let is_primary = definition.contype() == ConstrType::ConstrPrimary;
                self.key(translator, &definition.conname, &names, is_primary)?;
            }
            ConstrType::ConstrCheck => {
                let node =
                    definition.raw_expr.as_deref().ok_or_else(|| Problem::unsupported("this check"))?;
                let expr = translator.in_table(&self.table, node, "check constraints")?;
                let mut columns: Vec<&str> = expr
                    .bare
                    .iter()
                    .map(|(_, _, shown)| shown.rsplit_once('.').map_or("", |(_, name)| name))
                    .collect();
                columns.sort_unstable();
                columns.dedup();
                let one = if let [one] = columns.as_slice() { (*one).to_owned() } else { String::new() };
                if expr.is_volatile || expr.sql.contains("pg_now") || expr.sql.contains("pg_user") {
                    return Err(Problem::unsupported("a check that depends on the time or the session"));
                }
                translator.condition(expr, "CHECK")?;
                let name = self.name(translator, &definition.conname, &[&table, &one, "check"])?;
                self.unused(&name)?;
                let oid = self.oid();
                let text = parse::expression_text(node)?;
                self.table.constraints.push(Constraint { oid, name, rule: Rule::Check(text) });
            }
            ConstrType::ConstrForeign => {
                let names = definition.fk_attrs.iter().filter_map(string).map(str::to_owned).collect();
                self.foreign.push((definition.clone(), names));
            }
            _ => return Err(Problem::unsupported("a constraint of this kind")),
        }
        Ok(())
    }

    fn unused(&self, name: &str) -> Result<(), Problem> {
        let same = |other: &&Constraint| other.name.eq_ignore_ascii_case(name);
        if self.table.constraints.iter().any(|other| same(&other)) {
            let text = format!("constraint \"{name}\" for relation \"{}\" already exists", self.table.name);
            return Err(Problem::new("42710", text));
        }
        Ok(())
    }

    fn key(
        &mut self,
        translator: &mut Translator<'_>,
        given: &str,
        names: &[String],
        is_primary: bool,
    ) -> Result<(), Problem> {
        let table = self.table.name.clone();
        if is_primary && self.table.primary_key().is_some() {
            let text = format!("multiple primary keys for table \"{table}\" are not allowed");
            return Err(Problem::new("42P16", text));
        }
        let mut keys = Vec::new();
        for name in names {
            let column = self.table.columns.iter_mut().find(|column| column.name == *name);
            let missing = || Problem::new("42703", format!("column \"{name}\" named in key does not exist"));
            let column = column.ok_or_else(missing)?;
            no_json(column.kind.base)?;
            column.is_not_null |= is_primary;
            keys.push(IndexKey { text: name.clone(), is_expression: false, is_descending: false });
        }
        let list = names.join("_");
        let parts: Vec<&str> = if is_primary { vec![&table, "pkey"] } else { vec![&table, &list, "key"] };
        if !given.is_empty() {
            check_name(translator, given)?;
        }
        let name = self.name(translator, given, &parts)?;
        let oid = self.oid();
        let constraint = if is_primary { "p" } else { "u" }.to_owned();
        self.table.indexes.push(Index { oid, name, is_unique: true, constraint, keys });
        Ok(())
    }

    /// Adds the foreign keys.
    pub(super) fn finish(&mut self, translator: &mut Translator<'_>) -> Result<(), Problem> {
        for (definition, names) in std::mem::take(&mut self.foreign) {
            let range =
                definition.pktable.as_ref().ok_or_else(|| Problem::unsupported("this foreign key"))?;
            let own = self.table.clone();
            let parent = if range.relname == own.name {
                &own
            } else {
                translator.table(&range.schemaname, &range.relname)?
            };
            let mut parents: Vec<String> =
                definition.pk_attrs.iter().filter_map(string).map(str::to_owned).collect();
            if parents.is_empty() {
                let text = format!("there is no primary key for referenced table \"{}\"", parent.name);
                let key = parent.primary_key().ok_or_else(|| Problem::new("42704", text))?;
                parents = key.keys.iter().map(|key| key.text.clone()).collect();
            }
            if parents.len() != names.len() {
                let text = "number of referencing and referenced columns for foreign key disagree";
                return Err(Problem::new("42830", text));
            }
            let (mut columns, mut parent_columns) = (Vec::new(), Vec::new());
            for (name, parent_name) in names.iter().zip(&parents) {
                let missing = |name: &str| {
                    Problem::new(
                        "42703",
                        format!("column \"{name}\" referenced in foreign key constraint does not exist"),
                    )
                };
                let column = own.column(name).ok_or_else(|| missing(name))?;
                let other = parent.column(parent_name).ok_or_else(|| missing(parent_name))?;
                let (one, two) = (column.kind.base, other.kind.base);
                if one != two && !(one.is_integer() && two.is_integer()) && !(one.is_text() && two.is_text())
                {
                    return Err(Problem::unsupported(format!(
                        "a foreign key of type {} to {}",
                        one.name(),
                        two.name()
                    )));
                }
                columns.push(column.number);
                parent_columns.push(other.number);
            }
            let fits = |index: &Index| {
                let mut texts: Vec<&str> = index.keys.iter().map(|key| key.text.as_str()).collect();
                let mut wanted: Vec<&str> = parents.iter().map(String::as_str).collect();
                texts.sort_unstable();
                wanted.sort_unstable();
                index.is_unique && texts == wanted
            };
            if !parent.indexes.iter().any(fits) {
                let text = format!(
                    "there is no unique constraint matching given keys for referenced table \"{}\"",
                    parent.name
                );
                return Err(Problem::new("42830", text));
            }
            let actions = foreign_actions(&definition)?;
            let (own_name, list, parent_oid) = (own.name.clone(), names.join("_"), parent.oid);
            let name = self.name(translator, &definition.conname, &[&own_name, &list, "fkey"])?;
            self.unused(&name)?;
            let oid = self.oid();
            let rule = Rule::Foreign { columns, parent: parent_oid, parent_columns, actions };
            self.table.constraints.push(Constraint { oid, name, rule });
        }
        Ok(())
    }
}

fn no_json(base: Type) -> Result<(), Problem> {
    if base == Type::Json {
        return Err(Problem::new(
            "42704",
            "data type json has no default operator class for access method \"btree\"",
        ));
    }
    if base == Type::Jsonb { Err(Problem::unsupported("a key of type jsonb")) } else { Ok(()) }
}

pub(super) fn table(statement: &CreateStmt, translator: &mut Translator<'_>) -> Result<Script, Problem> {
    let mut script = Script::new("CREATE TABLE");
    let relation = statement.relation.as_ref().ok_or_else(|| Problem::unsupported("this table"))?;
    let name = relation.relname.clone();
    if !matches!(relation.schemaname.as_str(), "" | "public") {
        return Err(Problem::unsupported("a schema other than public"));
    }
    if relation.relpersistence == "t"
        || statement.partspec.is_some()
        || !statement.inh_relations.is_empty()
        || statement.of_typename.is_some()
    {
        return Err(Problem::unsupported("a temporary, partitioned, inherited or typed table"));
    }
    if statement.if_not_exists && translator.catalog.is_taken(&name) {
        return Ok(script);
    }
    check_name(translator, &name)?;
    let oid = translator.catalog.next_oid;
    let empty =
        Table { name: name.clone(), oid, columns: Vec::new(), constraints: Vec::new(), indexes: Vec::new() };
    let mut draft = Draft::new(empty, oid + 1);
    draft.names.push(name.clone());
    for node in &statement.table_elts {
        match &node.node {
            Some(NodeEnum::ColumnDef(column)) => draft.column(translator, column)?,
            Some(NodeEnum::Constraint(_)) => {}
            _ => return Err(Problem::unsupported("CREATE TABLE .. LIKE")),
        }
    }
    for node in &statement.table_elts {
        if let Some(NodeEnum::Constraint(constraint)) = &node.node {
            draft.constraint(translator, constraint, None)?;
        }
    }
    draft.finish(translator)?;
    script.next_oid = draft.next_oid;
    draft.sequences.iter().for_each(|sequence| script.step(sequence_row(sequence)));
    save(&mut script, &draft.table);
    script.step(create_sql(translator, &draft.table, &name)?);
    for index in &draft.table.indexes {
        if let Some(sql) = index_sql(translator, &draft.table, index)? {
            script.step(sql);
        }
    }
    Ok(script)
}

pub(super) fn index(statement: &IndexStmt, translator: &mut Translator<'_>) -> Result<Script, Problem> {
    let mut script = Script::new("CREATE INDEX");
    let relation = statement.relation.as_ref().ok_or_else(|| Problem::unsupported("this index"))?;
    let table = translator.table(&relation.schemaname, &relation.relname)?;
    if statement.where_clause.is_some()
        || statement.nulls_not_distinct
        || !statement.index_including_params.is_empty()
    {
        return Err(Problem::unsupported("WHERE, INCLUDE or NULLS NOT DISTINCT of an index"));
    }
    if !matches!(statement.access_method.as_str(), "" | "btree" | "hash") {
        return Err(Problem::unsupported(format!("access method {}", statement.access_method)));
    }
    let (mut keys, mut names) = (Vec::new(), Vec::new());
    for node in &statement.index_params {
        let Some(NodeEnum::IndexElem(element)) = &node.node else { continue };
        let is_descending = element.ordering() == SortByDir::SortbyDesc;
        let key = match element.expr.as_deref() {
            Some(node) => {
                let name = match &node.node {
                    Some(NodeEnum::FuncCall(call)) => {
                        crate::data_types::string(call.funcname.last().unwrap_or(node)).unwrap_or("expr")
                    }
                    _ => "expr",
                };
                names.push(name.to_owned());
                IndexKey { text: parse::expression_text(node)?, is_expression: true, is_descending }
            }
            None => {
                let missing = || Problem::new("42703", format!("column \"{}\" does not exist", element.name));
                no_json(table.column(&element.name).ok_or_else(missing)?.kind.base)?;
                names.push(element.name.clone());
                IndexKey { text: element.name.clone(), is_expression: false, is_descending }
            }
        };
        keys.push(key);
    }
    if keys.iter().any(|key| key.text.contains('\n')) {
        return Err(Problem::unsupported("an index expression of several lines"));
    }
    let name = if statement.idxname.is_empty() {
        free_name(translator, &[], &[&table.name, &names.join("_"), "idx"])?
    } else {
        if statement.if_not_exists && translator.catalog.is_taken(&statement.idxname) {
            return Ok(script);
        }
        check_name(translator, &statement.idxname)?;
        statement.idxname.clone()
    };
    let oid = translator.catalog.next_oid;
    let index = Index { oid, name, is_unique: statement.unique, constraint: String::new(), keys };
    script.step(index_row(table.oid, &index));
    script.steps.extend(index_sql(translator, table, &index)?);
    let indexes = vec![index];
    script.names = Names { tables: vec![Table { indexes, ..table.clone() }], ..Names::default() };
    Ok(script)
}

/// Actions of a foreign key, on updates and deletes.
fn foreign_actions(definition: &Definition) -> Result<String, Problem> {
    let actions = format!("{}{}", definition.fk_upd_action, definition.fk_del_action);
    let refused = actions.contains('d')
        || definition.fk_matchtype == "f"
        || definition.deferrable
        || !definition.fk_del_set_cols.is_empty();
    match refused {
        true => Err(Problem::unsupported(
            "SET DEFAULT, SET NULL of some columns, MATCH FULL or a deferrable foreign key",
        )),
        false => Ok(actions),
    }
}

fn sequence_options(sequence: &mut Sequence, options: &[Node]) -> Result<(), Problem> {
    let mut starts = None;
    for node in options {
        let Some(NodeEnum::DefElem(option)) = &node.node else { continue };
        let value = option.arg.as_deref().and_then(|node| constant(node).flatten());
        let number = value.and_then(|text| text.parse::<i64>().ok());
        match (option.defname.as_str(), number) {
            ("start", Some(number)) => starts = Some(number),
            ("increment", Some(number)) if number != 0 => sequence.increment = number,
            ("cache" | "sequence_name", _) | ("minvalue" | "maxvalue", None) => {}
            ("cycle", None) if !option.arg.as_deref().is_some_and(is_true) => {}
            ("as", _) if option.arg.as_deref().is_some_and(is_bigint) => {}
            (other, _) => return Err(Problem::unsupported(format!("the option {other} of a sequence"))),
        }
    }
    let is_ascending = sequence.increment > 0;
    sequence.start = starts.unwrap_or(if is_ascending { 1 } else { -1 });
    let why = match (is_ascending, sequence.start) {
        (true, ..1) => "less than MINVALUE (1)",
        (false, 0..) => "greater than MAXVALUE (-1)",
        _ => return Ok(()),
    };
    Err(Problem::new("22023", format!("START value ({}) cannot be {why}", sequence.start)))
}

/// The name that an identity column gives its sequence.
fn sequence_name(options: &[Node]) -> Option<&str> {
    let named = options.iter().find_map(|node| match &node.node {
        Some(NodeEnum::DefElem(option)) if option.defname == "sequence_name" => option.arg.as_deref(),
        _ => None,
    })?;
    let Some(NodeEnum::List(names)) = &named.node else { return None };
    names.items.last().and_then(string)
}

fn is_true(node: &Node) -> bool {
    matches!(&node.node, Some(NodeEnum::Boolean(value)) if value.boolval)
}

/// Whether it is the type of all sequences here.
fn is_bigint(node: &Node) -> bool {
    let Some(NodeEnum::TypeName(name)) = &node.node else { return false };
    name.names.last().and_then(string) == Some("int8")
}

pub(super) fn sequence(
    statement: &CreateSeqStmt,
    translator: &mut Translator<'_>,
) -> Result<Script, Problem> {
    let mut script = Script::new("CREATE SEQUENCE");
    let relation = statement.sequence.as_ref().ok_or_else(|| Problem::unsupported("this sequence"))?;
    let name = relation.relname.clone();
    if statement.if_not_exists && translator.catalog.is_taken(&name) {
        return Ok(script);
    }
    check_name(translator, &name)?;
    let mut sequence =
        Sequence { oid: translator.catalog.next_oid, name, start: 1, increment: 1, owner: (0, 0) };
    sequence_options(&mut sequence, &statement.options)?;
    script.step(sequence_row(&sequence));
    script.bump();
    Ok(script)
}

pub(super) fn view(statement: &ViewStmt, translator: &mut Translator<'_>) -> Result<Script, Problem> {
    let mut script = Script::new("CREATE VIEW");
    let relation = statement.view.as_ref().ok_or_else(|| Problem::unsupported("this view"))?;
    if statement.replace
        || !statement.aliases.is_empty()
        || !statement.options.is_empty()
        || relation.relpersistence == "t"
    {
        return Err(Problem::unsupported("OR REPLACE, TEMPORARY or column names of a view"));
    }
    check_name(translator, &relation.relname)?;
    let Some(NodeEnum::SelectStmt(select)) = statement.query.as_ref().and_then(|node| node.node.as_ref())
    else {
        return Err(Problem::unsupported("this view"));
    };
    if format!("{select:?}").contains("AStar") {
        // PostgreSQL keeps the columns that the star stood for when the view was made.
        return Err(Problem::unsupported("a star in a view").hint("Name the columns."));
    }
    let query = translator.query(select)?;
    if !translator.parameters.is_empty() {
        return Err(Problem::new("42P02", "there is no parameter $1"));
    }
    if query.columns.iter().any(|column| column.is_volatile) {
        return Err(Problem::unsupported("a volatile function in a view"));
    }
    let text = string_literal(&parse::query_text(select)?);
    script.step(format!(
        "INSERT INTO consort_view VALUES ({}, {}, {text})",
        translator.catalog.next_oid,
        string_literal(&relation.relname)
    ));
    script.bump();
    Ok(script)
}
