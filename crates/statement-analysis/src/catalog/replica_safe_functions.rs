//! Functions that the setting `replica_safe_functions` names. A name alone does not give the tables that a
//! function touches, and a proof needs them. So an IMMUTABLE function counts by its name, and another one
//! with the tables of its declaration.

use super::builtin::draws;
use super::extensions::{Member, TABLES};
use super::{Catalog, Class, Function, Procedure, RelationKind, Touches};
use crate::oid::FIRST_USER_OID;
use history::RelationId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// `pg_proc.provolatile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatility {
    /// The result depends on the arguments alone.
    Immutable,
    /// The result may depend on tables and settings.
    Stable,
    /// The function may do anything.
    Volatile,
}

/// The reason why a function is harmless at a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Harmless {
    /// Nothing: the function is not named, or its name is not enough.
    #[default]
    No,
    /// The function is named and IMMUTABLE: its arguments decide.
    Immutable,
    /// The function is named, and its declaration has the tables that it reads: they count as read by the statement.
    ReadsDeclared,
}

impl fmt::Display for Volatility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Volatility::Immutable => "IMMUTABLE",
            Volatility::Stable => "STABLE",
            Volatility::Volatile => "VOLATILE",
        })
    }
}

/// The limit of functions of an extension that one sentence names.
const NAMED_AT_MOST: usize = 4;

impl Catalog {
    /// Takes over what the configuration declares of functions: procedures with their tables, and the names of
    /// `replica_safe_functions`, each `schema.function` or an extension. Returns a sentence for each declaration that does not count.
    pub fn declare(&mut self, procedures: &[Procedure], harmless: &[String]) -> Vec<String> {
        let mut wrong = self.declare_procedures(procedures);
        let name = |name: &String| match name.split_once('.') {
            Some((schema, function)) => self.declare_harmless(schema, function).1,
            None => self.declare_extension_harmless(name).1,
        };
        wrong.extend(harmless.iter().filter_map(name).map(|why| format!("replica_safe_functions: {why}")));
        wrong
    }

    /// Declares every function of this schema and name harmless. Returns how many are, and why others are not.
    pub fn declare_harmless(&mut self, schema: &str, name: &str) -> (usize, Option<String>) {
        let (found, others) =
            self.vouch(false, |function| function.schema == schema && function.name == name);
        let wrong = others.first().map(|(_, why)| format!("{schema}.{name} {why}"));
        (found, wrong)
    }

    /// Declares every function of this extension harmless. Returns how many are, and which others are not.
    pub fn declare_extension_harmless(&mut self, extension: &str) -> (usize, Option<String>) {
        let (found, mut others) =
            self.vouch(true, |function| function.extension.as_deref() == Some(extension));
        others.sort();
        others.dedup_by(|one, other| one.0 == other.0);
        let more = if others.len() > NAMED_AT_MOST { ", .." } else { "" };
        let wrong = others.first().map(|(_, why)| {
            let named: Vec<&str> = others.iter().take(NAMED_AT_MOST).map(|(name, _)| name.as_str()).collect();
            format!(
                "{} functions of the extension {extension} stay at the primary: {}{more}: the first one {why}",
                others.len(),
                named.join(", ")
            )
        });
        (found, wrong)
    }

    /// Keeps an extension's functions at the primary: a node may have another library. What they do at the primary is known, so
    /// they do not count as code that may change the session.
    pub fn distrust_extension(&mut self, extension: &str) {
        for (id, _) in self.members.iter().filter(|(_, member)| member.extension == extension) {
            let Some(function) = self.functions.get_mut(id) else { continue };
            function.harmless = Harmless::No;
            if function.reviewed.is_some_and(Class::may_leave) {
                (function.reviewed, function.declared) = (Some(Class::Node), None);
            }
        }
    }

    /// Takes the reviewed classes of functions that read these tables back.
    pub fn distrust_tables(&mut self, tables: &BTreeSet<RelationId>) {
        for function in self.functions.values_mut().filter(|known| known.reviewed == Some(Class::Declared)) {
            let reads = |touches: &Touches| !touches.reads.is_disjoint(tables);
            if function.declared.as_ref().is_some_and(reads) {
                (function.reviewed, function.declared) = (None, None);
            }
        }
    }

    /// Extensions of the database with their versions, and whether there is a table of this version.
    pub fn extensions(&self) -> BTreeMap<&str, (&str, bool)> {
        let is_known =
            |name: &str, version: &str| TABLES.iter().any(|(of, at, _)| (*of, *at) == (name, version));
        let one = |member: &'_ Member| is_known(&member.extension, &member.version);
        self.members
            .values()
            .map(|member| (member.extension.as_str(), (member.version.as_str(), one(member))))
            .collect()
    }

    /// True for a function that gives another value each time, or may give another one elsewhere.
    pub(crate) fn draws(&self, function: u32) -> bool {
        draws(function) || matches!(self.function_class(function), Class::Random | Class::Hidden)
    }

    /// The number of these functions that are harmless; the names of the others, and why not.
    fn vouch(
        &mut self,
        by_extension: bool,
        which: impl Fn(&Function) -> bool,
    ) -> (usize, Vec<(String, String)>) {
        let named = self.functions.iter().filter(|(_, function)| which(function));
        let judged: Vec<_> = named.map(|(id, function)| (*id, self.credible(function))).collect();
        let (mut found, mut others) = (0, Vec::new());
        for (id, credible) in judged {
            let function = self.functions.get_mut(&id).expect("the function was just found");
            match credible {
                // A reviewed class is better than the word of its extension.
                _ if by_extension && function.reviewed.is_some_and(|class| class != Class::Unknown) => {
                    found += 1
                }
                Ok(harmless) => {
                    function.harmless = harmless;
                    found += 1;
                }
                Err(why) => others.push((format!("{}.{}", function.schema, function.name), why)),
            }
        }
        (found, others)
    }

    /// The reason why the name of this function is credible. The error: what the function lacks.
    fn credible(&self, function: &Function) -> Result<Harmless, String> {
        let volatility = self.volatility(function);
        let Some(touches) = &function.declared else {
            return match volatility {
                Volatility::Immutable => Ok(Harmless::Immutable),
                Volatility::Volatile if function.is_native => Err(CHANGES_SESSION.to_owned()),
                other => Err(format!(
                    "is {other}, and no table [procedure.\"{}.{}\"] declares what it reads (tables_read)",
                    function.schema, function.name
                )),
            };
        };
        if volatility == Volatility::Volatile && function.is_native {
            return Err(CHANGES_SESSION.to_owned());
        }
        if !touches.writes.is_empty() {
            return Err("is declared to write (tables_written)".to_owned());
        }
        if volatility == Volatility::Immutable && touches.reads.is_empty() {
            return Ok(Harmless::Immutable);
        }
        let is_view = |table: &&RelationId| {
            self.relations.get(table).is_some_and(|relation| relation.kind == RelationKind::View)
        };
        // `'*'` has the tables of each view too.
        let is_all = touches.reads.len() == self.relations.len();
        let view = touches.reads.iter().find(is_view).filter(|_| !is_all);
        match view {
            Some(view) => {
                let view = self.relation_name(*view);
                Err(format!(
                    "is declared to read the view {view}: declare the tables of the view instead (tables_read)"
                ))
            }
            None => Ok(Harmless::ReadsDeclared),
        }
    }

    /// The volatility of a function; an aggregate is as volatile as its worst part.
    fn volatility(&self, function: &Function) -> Volatility {
        let is_immutable = |part: &u32| match self.functions.get(part) {
            Some(part) => part.volatility == Volatility::Immutable,
            None => *part < FIRST_USER_OID && self.builtin.class(*part) == Class::Harmless,
        };
        match &function.parts {
            Some(parts) if !parts.iter().all(is_immutable) => Volatility::Stable,
            _ => function.volatility,
        }
    }
}

/// Why a VOLATILE function in C is never harmless, such as `set_limit` of `pg_trgm`.
const CHANGES_SESSION: &str =
    "is VOLATILE and written in C: it may change the session, and stays at the primary";
