//! A statement under a design that orders transactions before their execution: if every server executes it,
//! why not, and the tables to declare for it.

use design::Design;
use history::RelationId;
use session_state::utility::call_arguments::{Arguments, called};
use session_state::utility::{Utility, replicated_ddl};
use statement_analysis::Catalog;
use statement_analysis::declared_tables::{Declaration, Declared};
use statement_analysis::oid::FIRST_USER_OID;
use statement_analysis::shape::Strings;
use statement_analysis::template::Ordered;
use statement_analysis::{Template, Values};
use std::collections::BTreeSet;

/// Such a design, with one database's catalog.
pub(super) struct In<'a> {
    pub(super) design: Design,
    pub(super) catalog: &'a Catalog,
}

/// The tables of a statement.
struct Wanted {
    reads: BTreeSet<RelationId>,
    writes: BTreeSet<RelationId>,
    sequences: bool,
}

impl In<'_> {
    /// Prints what a statement with a tree is. `declaration`: what its comment declares.
    pub(super) fn tree(&self, template: &Template, values: &Values<'_>, declaration: Option<&Declaration>) {
        let design = self.design.name;
        match template.ordered(values) {
            Ordered::Reads if template.stay_with(values).is_none() => {
                println!("  in the design {design}: may run at any server, outside a transaction block");
            }
            Ordered::Reads => println!("  in the design {design}: runs at the primary"),
            Ordered::SeemsToRead => {
                println!(
                    "  in the design {design}: runs at the primary, only outside a transaction block, and must not write"
                );
            }
            Ordered::Writes => println!("  in the design {design}: every server executes it"),
            Ordered::Differs(differs) => return self.refused(differs.sentence(), differs.hint()),
        }
        let wanted = template.touched_tables().map(|(reads, writes)| {
            let sequences = template.replay.moves_sequences;
            Wanted { reads, writes, sequences }
        });
        self.declares(wanted.as_ref(), declaration);
    }

    /// Prints what a utility statement is there; `false`: it is the primary's, as elsewhere.
    pub(super) fn utility(&self, utility: &Utility, text: &str, declaration: Option<&Declaration>) -> bool {
        if let Some((why, hint)) = replicated_ddl::refused(utility) {
            self.refused(why, hint);
            return true;
        }
        match utility {
            Utility::Ddl { everywhere: true, .. } => {
                let why = "this design does not replicate changes of roles, databases and tablespaces";
                self.refused(why, "Change them directly at the primary, before its replicas are copied.");
            }
            Utility::Ddl { .. } => match replicated_ddl::differs(text, Strings::Standard) {
                Some(why) => self.refused(why, replicated_ddl::SEE),
                None => self.everywhere(None, declaration),
            },
            Utility::Truncate { .. } => self.everywhere(None, declaration),
            Utility::Call => {
                let call = called(text, Strings::Standard);
                let touches = call.as_ref().and_then(|call| {
                    self.catalog.touched_if_called(call.name.schema.as_deref(), &call.name.name)
                });
                let computes = |arguments: &Arguments| *arguments != Arguments::Values;
                match touches {
                    None => self.refused("the procedure is not declared", "Declare it in the configuration."),
                    Some(touches) => {
                        let bound =
                            touches.writes.iter().flat_map(|table| self.catalog.bound_by_keys(*table));
                        let reads = touches.reads.iter().copied().chain(bound).collect();
                        let sequences = self.catalog.any_sequence(&touches.writes);
                        let wanted = Wanted { reads, writes: touches.writes, sequences };
                        self.everywhere(Some(&wanted), declaration);
                        if call.is_some_and(|call| computes(&call.arguments)) {
                            println!("    if its argument expressions give the same result at every server");
                        }
                    }
                }
            }
            _ => return false,
        }
        true
    }

    fn everywhere(&self, wanted: Option<&Wanted>, declaration: Option<&Declaration>) {
        println!("  in the design {}: every server executes it", self.design.name);
        self.declares(wanted, declaration);
    }

    fn refused(&self, why: &str, hint: &str) {
        println!("  in the design {}: rejected with 0A000: {why}", self.design.name);
        println!("    {hint}");
    }

    /// Prints the declaration that transactions want; all tables if no particular one is wanted.
    fn declares(&self, wanted: Option<&Wanted>, declaration: Option<&Declaration>) {
        if !self.design.declares_tables() {
            return;
        }
        match wanted {
            None => println!("  a transaction block must declare: consort.tables_written = '*'"),
            Some(wanted) => {
                let reads = wanted.reads.difference(&wanted.writes).copied().collect();
                let mut lists = Vec::new();
                for (name, tables) in [("read", &reads), ("written", &wanted.writes)] {
                    let listed = self.listed(tables);
                    if !listed.is_empty() {
                        lists.push(format!("consort.tables_{name} = '{}'", listed.replace('\'', "''")));
                    }
                }
                if !lists.is_empty() {
                    println!("  a transaction block must declare: {}", lists.join(", "));
                }
                if wanted.sequences && !self.catalog.any_sequence(&wanted.writes) {
                    println!(
                        "    and any sequence in consort.tables_written, because the statement calls nextval"
                    );
                }
            }
        }
        if let Some(declaration) = declaration {
            match self.lacks(wanted, declaration) {
                Ok(lacks) if lacks.is_empty() => println!("  the comment declares all tables"),
                Ok(lacks) => println!("  the comment does not declare {lacks}: rejected with 55000"),
                Err(name) => {
                    println!("  the comment declares the table \"{name}\", which does not exist: 42P01")
                }
            }
        }
    }

    /// The tables that a comment leaves out, for a person; nothing if it declares all. The error: a table
    /// that does not exist.
    fn lacks(&self, wanted: Option<&Wanted>, declaration: &Declaration) -> Result<String, String> {
        let none = Declared::default();
        let read = declaration.read.as_ref().unwrap_or(&none);
        let written = declaration.written.as_ref().unwrap_or(&none);
        let (mut reads, writes) = (self.catalog.tables_named(read)?, self.catalog.tables_named(written)?);
        if written.is_all() {
            return Ok(String::new());
        }
        let Some(wanted) = wanted else { return Ok("all tables, as written".to_owned()) };
        let bound: Vec<RelationId> =
            writes.iter().flat_map(|table| self.catalog.bound_by_keys(*table)).collect();
        reads.extend(bound);
        reads.extend(&writes);
        let mut lacks = self.listed(&wanted.writes.difference(&writes).copied().collect());
        if lacks.is_empty() && !read.is_all() {
            lacks = self.listed(&wanted.reads.difference(&reads).copied().collect());
        }
        if lacks.is_empty() && wanted.sequences && !self.catalog.any_sequence(&writes) {
            lacks = "a sequence".to_owned();
        }
        Ok(lacks)
    }

    /// The tables as a declaration names them. Children come with their parents, and PostgreSQL's own need not be named.
    fn listed(&self, tables: &BTreeSet<RelationId>) -> String {
        let inherits = |table: &RelationId| {
            let known = self.catalog.relations.get(table);
            known.is_some_and(|known| known.parents.iter().any(|parent| tables.contains(parent)))
        };
        let own = |table: &RelationId| table.get() < FIRST_USER_OID;
        let named = tables.iter().filter(|table| !inherits(table) && !own(table)).map(|table| {
            let known = self.catalog.relations.get(table);
            known.map_or_else(
                || table.to_string(),
                |known| match known.schema.as_str() {
                    "public" => word(&known.name),
                    schema => format!("{}.{}", word(schema), word(&known.name)),
                },
            )
        });
        named.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    }
}

/// A name, in quotes if it needs them.
fn word(name: &str) -> String {
    let plain = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    if plain { name.to_owned() } else { postgres::sql::quoted(name) }
}
