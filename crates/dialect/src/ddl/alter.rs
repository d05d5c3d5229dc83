//! ALTER TABLE. What SQLite's own ALTER cannot do is done by a new table with the rows of the old one.

use pg_query::NodeEnum;
use pg_query::protobuf::{
    AlterTableCmd, AlterTableStmt, AlterTableType, ColumnDef, Constraint as Definition, DropBehavior,
    ObjectType, RenameStmt,
};

use super::create::Draft;
use super::{Script, check_name, create_sql, index_sql, save, sequence_row};
use crate::catalog::{Rule, Table};
use crate::data_types::{Type, TypeWithModifier};
use crate::problem::Problem;
use crate::statement_plan::Names;
use crate::translate::{Cast, Translator, quoted, string_literal};

/// How much of the table changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Extent {
    /// The catalogue.
    Catalogue,
    /// Indexes too.
    Indexes,
    /// The table itself.
    Table,
}

struct Change {
    draft: Draft,
    extent: Extent,
    /// Expressions over the old table for columns that are not copied.
    sources: Vec<(String, String)>,
    /// Queries that fail if the change is refused.
    checks: Vec<String>,
}

pub(super) fn table(statement: &AlterTableStmt, translator: &mut Translator<'_>) -> Result<Script, Problem> {
    let mut script = Script::new("ALTER TABLE");
    let relation = statement.relation.as_ref().ok_or_else(|| Problem::unsupported("this ALTER"))?;
    if statement.objtype() != ObjectType::ObjectTable {
        return Err(Problem::unsupported("ALTER of other than a table"));
    }
    if statement.missing_ok && translator.catalog.table(&relation.relname).is_none() {
        return Ok(script);
    }
    let old = translator.table(&relation.schemaname, &relation.relname)?;
    let draft = Draft::new(old.clone(), translator.catalog.next_oid);
    let mut change = Change { draft, extent: Extent::Catalogue, sources: Vec::new(), checks: Vec::new() };
    for node in &statement.cmds {
        let Some(NodeEnum::AlterTableCmd(command)) = &node.node else { continue };
        let changes_columns =
            matches!(command.subtype(), AlterTableType::AtDropColumn | AlterTableType::AtAlterColumnType);
        if changes_columns && super::drop::no_view_names(translator.catalog, &old.name, &[]).is_err() {
            return Err(Problem::unsupported("this change of a table that a view reads"));
        }
        change.apply(translator, command)?;
    }
    change.draft.finish(translator)?;
    let Change { draft, mut extent, sources, checks } = change;
    script.steps.extend(checks);
    script.computes = !sources.is_empty();
    script.next_oid = draft.next_oid;
    let new = draft.table;
    if new.constraints.len() != old.constraints.len() {
        extent = Extent::Table;
    }
    script.names = Names::of(translator.catalog, &new);
    script.names.children = new
        .constraints
        .iter()
        .filter(|rule| matches!(rule.rule, Rule::Foreign { .. }))
        .map(|rule| rule.name.clone())
        .collect();
    draft.sequences.iter().for_each(|sequence| script.step(sequence_row(sequence)));
    match extent {
        Extent::Table => rebuild(&mut script, translator, old, &new, &sources)?,
        Extent::Indexes => indexes(&mut script, translator, old, &new)?,
        Extent::Catalogue => script.bump(),
    }
    save(&mut script, &new);
    Ok(script)
}

/// Drops and makes the indexes that differ. The key that is the row's own number is not made this way.
fn indexes(
    script: &mut Script,
    translator: &mut Translator<'_>,
    old: &Table,
    new: &Table,
) -> Result<(), Problem> {
    for index in old.indexes.iter().filter(|index| new.indexes.iter().all(|other| other.oid != index.oid)) {
        script.step(format!("DROP INDEX {}", quoted(&index.name)));
    }
    for index in new.indexes.iter().filter(|index| old.indexes.iter().all(|other| other.oid != index.oid)) {
        script.steps.extend(index_sql(translator, new, index)?);
    }
    Ok(())
}

fn rebuild(
    script: &mut Script,
    translator: &mut Translator<'_>,
    old: &Table,
    new: &Table,
    sources: &[(String, String)],
) -> Result<(), Problem> {
    if translator.catalog.references(old.oid).any(|(child, _)| child.oid != old.oid) {
        return Err(Problem::unsupported(format!(
            "this change of table \"{}\", which foreign keys reference,",
            old.name
        ))
        .hint("Change the table before other tables reference it."));
    }
    const NAME: &str = "consort_rebuilt";
    let names: Vec<String> = new.columns.iter().map(|column| quoted(&column.name)).collect();
    let source = |name: &str| {
        let given = sources.iter().find(|(column, _)| column == name);
        given.map_or_else(|| quoted(name), |(_, sql)| sql.clone())
    };
    let values: Vec<String> = new.columns.iter().map(|column| source(&column.name)).collect();
    script.step(create_sql(translator, new, NAME)?);
    script.step(format!(
        "INSERT INTO {NAME} ({}) SELECT {} FROM {}",
        names.join(", "),
        values.join(", "),
        quoted(&old.name)
    ));
    script.step(format!("DROP TABLE {}", quoted(&old.name)));
    script.step(format!("ALTER TABLE {NAME} RENAME TO {}", quoted(&new.name)));
    for index in &new.indexes {
        script.steps.extend(index_sql(translator, new, index)?);
    }
    Ok(())
}

impl Change {
    fn apply(&mut self, translator: &mut Translator<'_>, command: &AlterTableCmd) -> Result<(), Problem> {
        let name = command.name.as_str();
        let definition = command.def.as_deref().and_then(|node| node.node.as_ref());
        match (command.subtype(), definition) {
            (AlterTableType::AtAddColumn, Some(NodeEnum::ColumnDef(column))) => {
                self.add_column(translator, column, command.missing_ok)?;
            }
            (AlterTableType::AtChangeOwner, _) => {
                // The session's user is known when the script runs.
                let owner = command.newowner.as_ref().map_or("", |role| &role.rolename);
                if !owner.is_empty() {
                    self.checks.push(format!("SELECT pg_is_user({})", string_literal(owner)));
                }
            }
            (AlterTableType::AtDropColumn, _) => self.drop_column(name, command)?,
            (AlterTableType::AtAddConstraint, Some(NodeEnum::Constraint(constraint))) => {
                self.add_constraint(translator, constraint)?;
            }
            (AlterTableType::AtDropConstraint, _) => self.drop_constraint(translator, name, command)?,
            (AlterTableType::AtColumnDefault, node) => {
                let node = node.and(command.def.as_deref());
                self.draft.set_default(translator, name, node)?;
            }
            (AlterTableType::AtSetNotNull | AlterTableType::AtDropNotNull, _) => {
                let is_not_null = command.subtype() == AlterTableType::AtSetNotNull;
                let in_key = self
                    .draft
                    .table
                    .primary_key()
                    .is_some_and(|key| key.keys.iter().any(|key| key.text == name));
                if !is_not_null && in_key {
                    return Err(Problem::new("42P16", format!("column \"{name}\" is in a primary key")));
                }
                let column = self.column(name)?;
                if column.is_not_null != is_not_null {
                    column.is_not_null = is_not_null;
                    self.extent = Extent::Table;
                }
            }
            (AlterTableType::AtAlterColumnType, Some(NodeEnum::ColumnDef(definition))) => {
                let Some(to) = &definition.type_name else { return Err(Problem::unsupported("this type")) };
                if definition.raw_default.is_some() {
                    return Err(Problem::unsupported("ALTER TYPE .. USING"));
                }
                let to = TypeWithModifier::read(to)?;
                self.change_type(translator, name, to)?;
            }
            (
                AlterTableType::AtSetRelOptions
                | AlterTableType::AtResetRelOptions
                | AlterTableType::AtSetStatistics
                | AlterTableType::AtSetStorage
                | AlterTableType::AtReplicaIdentity
                | AlterTableType::AtClusterOn
                | AlterTableType::AtValidateConstraint,
                _,
            ) => {}
            _ => return Err(Problem::unsupported("this form of ALTER TABLE")),
        }
        Ok(())
    }

    fn add_column(
        &mut self,
        translator: &mut Translator<'_>,
        column: &ColumnDef,
        is_optional: bool,
    ) -> Result<(), Problem> {
        if is_optional && self.draft.table.column(&column.colname).is_some() {
            return Ok(());
        }
        if self.draft.table.column(&column.colname).is_some() {
            let text = format!(
                "column \"{}\" of relation \"{}\" already exists",
                column.colname, self.draft.table.name
            );
            return Err(Problem::new("42701", text));
        }
        self.draft.column(translator, column)?;
        self.extent = Extent::Table;
        let Some(added) = self.draft.table.columns.last().cloned() else { return Ok(()) };
        let mut sql = "NULL".to_owned();
        if let Some(node) = &added.default {
            if added.default_text.as_deref().is_some_and(|text| text.starts_with("nextval(")) {
                return Err(Problem::unsupported("ADD COLUMN of a serial or identity column"));
            }
            let expr = translator.in_table(&self.draft.table, node, "DEFAULT expressions")?;
            sql = translator.assign(expr, added.kind, &added.name)?.sql;
        }
        self.sources.push((added.name, sql));
        Ok(())
    }

    fn add_constraint(
        &mut self,
        translator: &mut Translator<'_>,
        constraint: &Definition,
    ) -> Result<(), Problem> {
        let before = self.draft.table.columns.iter().filter(|column| column.is_not_null).count();
        self.draft.constraint(translator, constraint, None)?;
        let after = self.draft.table.columns.iter().filter(|column| column.is_not_null).count();
        let is_primary = self.draft.table.indexes.last().is_some_and(|index| index.constraint == "p");
        let is_row_number = is_primary && self.draft.table.row_number().is_some();
        self.extent =
            self.extent.max(if before == after && !is_row_number { Extent::Indexes } else { Extent::Table });
        Ok(())
    }

    fn column(&mut self, name: &str) -> Result<&mut crate::catalog::TableColumn, Problem> {
        let table = self.draft.table.name.clone();
        self.draft.table.columns.iter_mut().find(|column| column.name == name).ok_or_else(|| {
            Problem::new("42703", format!("column \"{name}\" of relation \"{table}\" does not exist"))
        })
    }

    fn drop_column(&mut self, name: &str, command: &AlterTableCmd) -> Result<(), Problem> {
        if command.missing_ok && self.draft.table.column(name).is_none() {
            return Ok(());
        }
        let number = self.column(name)?.number;
        if !self.column(name)?.identity.is_empty()
            || self.column(name)?.default_text.as_deref().is_some_and(|text| text.starts_with("nextval("))
        {
            return Err(Problem::unsupported("DROP COLUMN of a serial or identity column"));
        }
        let table = &mut self.draft.table;
        let names = |text: &str| {
            crate::parse::expression(text).map(|node| format!("{node:?}").contains(&format!("\"{name}\"")))
        };
        for constraint in &table.constraints {
            let uses = match &constraint.rule {
                Rule::Check(text) => names(text)?,
                Rule::Foreign { columns, .. } => columns.contains(&number),
            };
            if uses {
                return Err(Problem::unsupported(format!(
                    "DROP COLUMN of a column in constraint \"{}\"",
                    constraint.name
                ))
                .hint("Drop the constraint first."));
            }
        }
        for index in &table.indexes {
            if index.keys.iter().any(|key| key.is_expression) {
                return Err(Problem::unsupported("DROP COLUMN of a table with an index on an expression"));
            }
        }
        table.indexes.retain(|index| index.keys.iter().all(|key| key.text != name));
        table.columns.retain(|column| column.name != name);
        self.extent = Extent::Table;
        Ok(())
    }

    fn drop_constraint(
        &mut self,
        translator: &Translator<'_>,
        name: &str,
        command: &AlterTableCmd,
    ) -> Result<(), Problem> {
        let table = &mut self.draft.table;
        if let Some(place) = table.constraints.iter().position(|constraint| constraint.name == name) {
            table.constraints.remove(place);
            self.extent = Extent::Table;
            return Ok(());
        }
        if let Some(place) =
            table.indexes.iter().position(|index| index.name == name && !index.constraint.is_empty())
        {
            if translator.catalog.references(table.oid).next().is_some()
                || command.behavior() == DropBehavior::DropCascade
            {
                return Err(Problem::unsupported("DROP CONSTRAINT of a key of a referenced table"));
            }
            let is_row_number = table.indexes[place].constraint == "p" && table.row_number().is_some();
            table.indexes.remove(place);
            self.extent = self.extent.max(if is_row_number { Extent::Table } else { Extent::Indexes });
            return Ok(());
        }
        if command.missing_ok {
            return Ok(());
        }
        let text = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
        Err(Problem::new("42704", text))
    }

    fn change_type(
        &mut self,
        translator: &mut Translator<'_>,
        name: &str,
        to: TypeWithModifier,
    ) -> Result<(), Problem> {
        if matches!(
            to.base,
            Type::Array(_) | Type::Interval | Type::Name | Type::Char | Type::Oid | Type::Regclass
        ) {
            return Err(Problem::unsupported(format!("a column of type {}", to.base.name())));
        }
        let (from, has_default) = (self.column(name)?.kind, self.column(name)?.default_text.is_some());
        if has_default && from.base != to.base && !(from.base.is_integer() && to.base.is_integer()) {
            return Err(
                Problem::unsupported("ALTER TYPE of a column with a default").hint("Drop the default first.")
            );
        }
        let node = crate::parse::expression(&quoted(name))?;
        let expr = translator.in_table(&self.draft.table, &node, "transform expressions")?;
        let converted = translator.convert(expr, to, Cast::Assignment)?.ok_or_else(|| {
            let text = format!("column \"{name}\" cannot be cast automatically to type {}", to.base.name());
            Problem::new("42804", text).hint("You might need to specify an explicit cast.")
        })?;
        self.column(name)?.kind = to;
        self.sources.push((name.to_owned(), converted.sql));
        self.extent = Extent::Table;
        Ok(())
    }
}

pub(super) fn rename(statement: &RenameStmt, translator: &mut Translator<'_>) -> Result<Script, Problem> {
    let mut script = Script::new("ALTER TABLE");
    let relation = statement.relation.as_ref().ok_or_else(|| Problem::unsupported("this RENAME"))?;
    if statement.missing_ok {
        return Err(Problem::unsupported("RENAME with IF EXISTS"));
    }
    if !matches!(statement.rename_type(), ObjectType::ObjectTable | ObjectType::ObjectColumn) {
        return Err(Problem::unsupported("RENAME of this kind of object"));
    }
    let new = statement.newname.as_str();
    let table = translator.table(&relation.schemaname, &relation.relname)?;
    if super::drop::no_view_names(translator.catalog, &table.name, &[]).is_err() {
        return Err(Problem::unsupported("RENAME of a table that a view reads"));
    }
    match statement.rename_type() {
        ObjectType::ObjectTable => {
            check_name(translator, new)?;
            script.step(format!("ALTER TABLE {} RENAME TO {}", quoted(&table.name), quoted(new)));
            script.step(format!(
                "UPDATE consort_table SET name = {} WHERE oid = {}",
                string_literal(new),
                table.oid
            ));
        }
        ObjectType::ObjectColumn => {
            let old = statement.subname.as_str();
            let missing = || Problem::new("42703", format!("column \"{old}\" does not exist"));
            let column = table.column(old).ok_or_else(missing)?;
            if table.column(new).is_some() {
                let text = format!("column \"{new}\" of relation \"{}\" already exists", table.name);
                return Err(Problem::new("42701", text));
            }
            let has_text =
                table.constraints.iter().any(|constraint| matches!(constraint.rule, Rule::Check(_)))
                    || table.indexes.iter().any(|index| index.keys.iter().any(|key| key.is_expression));
            if has_text || table.columns.iter().any(|column| column.name.eq_ignore_ascii_case(new)) {
                return Err(Problem::unsupported(
                    "RENAME of a column of a table with checks or indexes on expressions",
                ));
            }
            script.step(format!(
                "ALTER TABLE {} RENAME COLUMN {} TO {}",
                quoted(&table.name),
                quoted(old),
                quoted(new)
            ));
            let mut renamed = table.clone();
            for other in &mut renamed.columns {
                if other.number == column.number {
                    new.clone_into(&mut other.name);
                }
            }
            for key in renamed.indexes.iter_mut().flat_map(|index| &mut index.keys) {
                if key.text == old {
                    new.clone_into(&mut key.text);
                }
            }
            save(&mut script, &renamed);
        }
        _ => return Err(Problem::unsupported("RENAME of this kind of object")),
    }
    Ok(script)
}
