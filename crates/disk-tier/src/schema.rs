//! The schema of a PostgreSQL database as definitions that the tier takes, and what the tier does not take.

use dialect::Catalog;
use postgres::address::Control;
use std::collections::BTreeMap;

/// Columns: table, name, type, NOT NULL, default, identity, generated, and the sequence that the column owns.
const COLUMNS: &str = "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, \
     pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, a.attgenerated::text, \
     (SELECT s.relname::text FROM pg_depend p JOIN pg_class s ON s.oid = p.objid AND s.relkind = 'S' \
      WHERE p.classid = 'pg_class'::regclass AND p.refobjid = a.attrelid AND p.refobjsubid = a.attnum LIMIT 1) \
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
     LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum \
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' ORDER BY c.relname, a.attnum";
/// Constraints: table, name, kind, definition, referenced table.
const CONSTRAINTS: &str = "SELECT c.relname::text, o.conname::text, o.contype::text, pg_get_constraintdef(o.oid), f.relname::text \
     FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid LEFT JOIN pg_class f ON f.oid = o.confrelid \
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND o.contype IN ('p', 'u', 'c', 'f', 'x') \
     ORDER BY c.relname, o.conname";
/// Indexes that no constraint has: table and definition.
const INDEXES: &str = "SELECT c.relname::text, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' \
     AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conindid = i.indexrelid AND o.contype IN ('p', 'u', 'x')) \
     ORDER BY c.relname, i.indexrelid";
/// Sequences: name, start, increment, and whether it has other limits than without options, or begins again at its end.
const SEQUENCES: &str = "SELECT sequencename::text, start_value, increment_by, cycle OR CASE WHEN increment_by > 0 \
     THEN min_value <> 1 OR max_value <> most ELSE max_value <> -1 OR min_value <> -most - 1 END \
     FROM pg_sequences, LATERAL (SELECT CASE data_type::text WHEN 'smallint' THEN 32767 WHEN 'integer' THEN 2147483647 \
     ELSE 9223372036854775807 END AS most) limits WHERE schemaname = 'public' ORDER BY sequencename";
/// Views in the order in which they were made.
const VIEWS: &str = "SELECT relname::text, pg_get_viewdef(oid) FROM pg_class \
     WHERE relnamespace = 'public'::regnamespace AND relkind = 'v' ORDER BY oid";
/// Objects that the tier does not have: their kind and name, and a hint.
const OTHERS: &str = "SELECT CASE c.relkind WHEN 'p' THEN 'partitioned table' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' \
     ELSE 'relation' END || ' ' || c.oid::regclass::text, \
     CASE WHEN c.relnamespace <> 'public'::regnamespace THEN 'The tier has schema public only.' ELSE 'Make a table of it.' END \
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'consort') AND NOT c.relispartition \
     AND (c.relkind IN ('p', 'm', 'f') OR c.relkind IN ('r', 'v', 'S') AND n.nspname <> 'public') \
     UNION ALL SELECT 'trigger ' || t.tgname || ' of ' || t.tgrelid::regclass::text, 'Its work has to move into the application.' \
     FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND c.relnamespace = 'public'::regnamespace \
     UNION ALL SELECT 'policy ' || polname || ' of ' || polrelid::regclass::text, 'Every role reads all rows of the tier.' FROM pg_policy \
     UNION ALL SELECT 'rule ' || r.rulename || ' of ' || r.ev_class::regclass::text, 'Its work has to move into the application.' \
     FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE r.rulename <> '_RETURN' AND c.relnamespace = 'public'::regnamespace \
     UNION ALL SELECT 'inheritance of ' || inhrelid::regclass::text, 'The tier has no inherited tables.' \
     FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE NOT c.relispartition AND c.relkind = 'r'";
/// Functions are not rows: they are named, and left out.
const FUNCTIONS: &str = "SELECT 'function ' || p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
     WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'consort') \
     AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') ORDER BY 1";

/// A table to bring in: made, filled, completed, before the next one is made.
#[derive(Clone, Debug, Default)]
pub struct TablePlan {
    /// Its name.
    pub name: String,
    /// CREATE TABLE.
    pub create: String,
    /// Its columns, quoted, with commas between.
    pub columns: String,
    /// Number of its columns.
    pub width: usize,
    /// Definitions for when its rows are there.
    pub complete: Vec<String>,
    parents: Vec<String>,
}

/// An object that the tier does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The object.
    pub object: String,
    /// Why.
    pub why: String,
    /// Remedy.
    pub hint: String,
}

/// A schema to bring in.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Sequences that no column makes.
    pub sequences: Vec<String>,
    /// Tables, those that others reference first.
    pub tables: Vec<TablePlan>,
    /// Views.
    pub views: Vec<String>,
    /// Statements that set sequences.
    pub positions: Vec<String>,
    /// Objects that the tier does not take.
    pub refused: Vec<Refusal>,
    /// Objects that are left out, and change no row.
    pub left_out: Vec<String>,
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Reads the schema `public` inside of the transaction that has begun, and tries it out against the tier's dialect.
///
/// # Errors
/// The server fails: a sentence.
pub async fn read(control: &Control) -> Result<Schema, String> {
    let said = |error: tokio_postgres::Error| crate::trouble::Trouble::from(error).text();
    control.batch_execute("SET LOCAL search_path = public, pg_catalog").await.map_err(said)?;
    let query = async |text: &str| control.query(text, &[]).await.map_err(said);
    let mut sequences = Sequences::new();
    let mut schema = Schema::default();
    for row in query(SEQUENCES).await? {
        let name: String = row.get(0);
        // The view pg_sequences hides the position of a sequence that was set without a draw, or that the role may not read.
        let position = query(&format!("SELECT last_value, is_called FROM public.{}", quoted(&name))).await?;
        if row.get(3) {
            let why = "sequences of the tier have no MINVALUE, MAXVALUE or CYCLE".to_owned();
            let hint = "With --leave-out it comes without them.".to_owned();
            schema.refused.push(Refusal { object: format!("sequence {name}"), why, hint });
        }
        let position = position.first().map(|row| (row.get(0), row.get(1)));
        sequences.insert(name, (row.get(1), row.get(2), position));
    }
    let mut draft = Draft::default();
    draft.columns(&query(COLUMNS).await?, &sequences);
    draft.constraints(&query(CONSTRAINTS).await?);
    for row in query(INDEXES).await? {
        if let Some(plan) = draft.tables.get_mut(row.get::<_, &str>(0)) {
            plan.complete.insert(0, row.get(1));
        }
    }
    for (name, (start, increment, position)) in &sequences {
        if !draft.by_column.contains(name) {
            let text = format!("CREATE SEQUENCE {} START {start} INCREMENT {increment}", quoted(name));
            schema.sequences.push(text);
        }
        if let Some((value, is_called)) = position.filter(|position| *position != (*start, false)) {
            let name = quoted(name).replace('\'', "''");
            schema.positions.push(format!("SELECT setval('{name}', {value}, {is_called})"));
        }
    }
    for row in query(VIEWS).await? {
        let (name, text): (String, String) = (row.get(0), row.get(1));
        schema.views.push(format!("CREATE VIEW {} AS {}", quoted(&name), text.trim_end_matches(';')));
    }
    for row in query(OTHERS).await? {
        let why = "the tier has no such objects".to_owned();
        schema.refused.push(Refusal { object: row.get(0), why, hint: row.get(1) });
    }
    schema.left_out = query(FUNCTIONS).await?.iter().map(|row| row.get(0)).collect();
    schema.order(draft.finish());
    schema.try_out()?;
    Ok(schema)
}

/// Start and increment of a sequence, and its position: the value, and whether it was given.
type Numbers = (i64, i64, Option<(i64, bool)>);

/// Sequences by name.
type Sequences = BTreeMap<String, Numbers>;

/// Tables that are being put together.
#[derive(Default)]
struct Draft {
    tables: BTreeMap<String, TablePlan>,
    /// Columns and constraints in CREATE TABLE.
    parts: BTreeMap<String, Vec<String>>,
    /// Sequences that columns make themselves.
    by_column: Vec<String>,
}

impl Draft {
    fn columns(&mut self, rows: &[tokio_postgres::Row], sequences: &Sequences) {
        for row in rows {
            let column = Column::read(row);
            let table: String = row.get(0);
            let plan = self.tables.entry(table.clone()).or_default();
            plan.name.clone_from(&table);
            if plan.width > 0 {
                plan.columns.push_str(", ");
            }
            plan.columns.push_str(&quoted(&column.name));
            plan.width += 1;
            let values = column.sequence.as_ref().and_then(|name| sequences.get(name)).copied();
            let (definition, has_own) = column.definition(&table, values);
            if has_own {
                self.by_column.extend(column.sequence);
            }
            self.parts.entry(table).or_default().push(definition);
        }
    }

    fn constraints(&mut self, rows: &[tokio_postgres::Row]) {
        for row in rows {
            let (table, name): (String, String) = (row.get(0), row.get(1));
            let (kind, definition): (String, String) = (row.get(2), row.get(3));
            let parent: Option<String> = row.get(4);
            let Some(plan) = self.tables.get_mut(&table) else { continue };
            let text = format!("CONSTRAINT {} {definition}", quoted(&name));
            let is_inline = match kind.as_str() {
                "f" => parent.as_ref() != Some(&table),
                kind => kind != "u",
            };
            if is_inline {
                plan.parents.extend(parent);
                self.parts.entry(table).or_default().push(text);
            } else {
                plan.complete.push(format!("ALTER TABLE {} ADD {text}", quoted(&table)));
            }
        }
    }

    fn finish(mut self) -> BTreeMap<String, TablePlan> {
        for (name, plan) in &mut self.tables {
            let parts = self.parts.remove(name).unwrap_or_default();
            plan.create = format!("CREATE TABLE {} ({})", quoted(name), parts.join(", "));
            // A table that references itself needs its unique keys first.
            plan.complete.sort_by_key(|text| text.contains(" FOREIGN KEY "));
        }
        self.tables
    }
}

/// A column of a table.
struct Column {
    name: String,
    kind: String,
    is_not_null: bool,
    default: Option<String>,
    identity: String,
    generated: String,
    sequence: Option<String>,
}

impl Column {
    fn read(row: &tokio_postgres::Row) -> Column {
        Column {
            name: row.get(1),
            kind: row.get(2),
            is_not_null: row.get(3),
            default: row.get(4),
            identity: row.get(5),
            generated: row.get(6),
            sequence: row.get(7),
        }
    }

    /// The definition in CREATE TABLE, and whether the column makes its sequence itself.
    fn definition(&self, table: &str, values: Option<Numbers>) -> (String, bool) {
        let name = quoted(&self.name);
        let is_usual = self.sequence.as_deref() == Some(format!("{table}_{}_seq", self.name).as_str());
        if let (Some((start, increment, _)), false) = (values, self.identity.is_empty()) {
            let word = if self.identity == "a" { "ALWAYS" } else { "BY DEFAULT" };
            // A table or column that was renamed has a sequence of the old name.
            let named = self.sequence.as_ref().filter(|_| !is_usual);
            let named = named.map(|name| format!("SEQUENCE NAME {} ", quoted(name))).unwrap_or_default();
            let options = format!("{named}START WITH {start} INCREMENT BY {increment}");
            return (format!("{name} {} GENERATED {word} AS IDENTITY ({options})", self.kind), true);
        }
        if let (Some((start, increment, _)), true) = (values, is_usual) {
            let serial = match self.kind.as_str() {
                "smallint" => "smallserial",
                "integer" => "serial",
                _ => "bigserial",
            };
            if (start, increment) == (1, 1) && self.default.is_some() {
                return (format!("{name} {serial}"), true);
            }
        }
        let mut text = format!("{name} {}", self.kind);
        if self.is_not_null {
            text.push_str(" NOT NULL");
        }
        match (&self.default, self.generated.as_str()) {
            (Some(value), "") => text.push_str(&format!(" DEFAULT {value}")),
            (Some(value), _) => text.push_str(&format!(" GENERATED ALWAYS AS ({value}) STORED")),
            _ => {}
        }
        (text, false)
    }
}

impl Schema {
    /// Puts tables that others reference first. Tables that reference each other in a ring are refused.
    fn order(&mut self, mut tables: BTreeMap<String, TablePlan>) {
        loop {
            let is_ready = |plan: &TablePlan| plan.parents.iter().all(|parent| !tables.contains_key(parent));
            let ready: Vec<String> =
                tables.values().filter(|plan| is_ready(plan)).map(|plan| plan.name.clone()).collect();
            if ready.is_empty() {
                break;
            }
            self.tables.extend(ready.iter().filter_map(|name| tables.remove(name)));
        }
        for name in tables.into_keys() {
            self.refused.push(Refusal {
                object: format!("table {name}"),
                why: "its foreign keys lead back to it through other tables".to_owned(),
                hint: "Drop one of the foreign keys.".to_owned(),
            });
        }
    }

    /// Runs all definitions in an empty database of the tier's kind.
    fn try_out(&mut self) -> Result<(), String> {
        let wrong = |error: rusqlite::Error| format!("the engine has failed: {error}");
        let scratch = rusqlite::Connection::open_in_memory().map_err(wrong)?;
        let context = dialect::install(&scratch).map_err(wrong)?;
        context.session("consort", "postgres");
        Catalog::create(&scratch).map_err(wrong)?;
        let (mut refused, mut texts) = (Vec::new(), Vec::new());
        for (object, text) in self.definitions() {
            let run = || {
                let statements = dialect::split(&text)?;
                for statement in &statements {
                    let catalog = Catalog::load(&scratch)
                        .map_err(|error| dialect::Problem::new("XX000", error.to_string()))?;
                    let plan = dialect::plan(statement, &catalog, &[], &dialect::Settings::default())?;
                    let mut ignore = |_: &[u8]| std::ops::ControlFlow::Continue(());
                    plan.execute(&scratch, &context, &[], &[], &mut ignore)?;
                }
                Ok::<(), dialect::Problem>(())
            };
            if let Err(problem) = run() {
                texts.push(text.clone());
                refused.push(Refusal {
                    object,
                    why: problem.message,
                    hint: problem.hint.unwrap_or_default(),
                });
            }
        }
        self.refused.extend(refused);
        let is_taken = |text: &String| !texts.contains(text);
        self.sequences.retain(is_taken);
        self.tables.retain(|table| is_taken(&table.create));
        self.tables.iter_mut().for_each(|table| table.complete.retain(is_taken));
        self.views.retain(is_taken);
        self.positions.retain(is_taken);
        Ok(())
    }

    /// All definitions, each with the object that it is of.
    fn definitions(&self) -> Vec<(String, String)> {
        let mut all: Vec<_> =
            self.sequences.iter().map(|text| ("a sequence".to_owned(), text.clone())).collect();
        for table in &self.tables {
            let of = |text: &String| (format!("table {}", table.name), text.clone());
            all.push(of(&table.create));
            all.extend(table.complete.iter().map(of));
        }
        all.extend(self.positions.iter().map(|text| ("a sequence's value".to_owned(), text.clone())));
        all.extend(self.views.iter().map(|text| {
            let name = text.split(" AS ").next().unwrap_or_default();
            (name.replace("CREATE VIEW", "view"), text.clone())
        }));
        all
    }
}
