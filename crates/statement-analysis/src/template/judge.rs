//! From a tree to a template: a statement's footprint, and all that keeps it at the primary.

use super::footprint::{AccessTemplate, FootprintTemplate, RowsTemplate};
use super::key_equalities::Keys;
use super::literals::Literals;
use super::nondeterminism::chance;
use super::reexecution::{self, ByDeclaration, again};
use super::replica_differences::at_copies;
use super::replicated_execution::{Found, replay};
use super::writes::{Trust, writes};
use super::{Again, ClockWords, Dependencies, Input, Kind, ResultColumns, Stay, Template, Validity};
use crate::catalog::builtin::RANDOM_NUMBERS;
use crate::catalog::extensions;
use crate::catalog::{Catalog, Class, Harmless, Persistence, RelationKind, Touches, Volatility};
use crate::oid::FIRST_USER_OID;
use crate::tree::query::{Command, Relation};
use crate::tree::walk::{self, Facts};
use crate::tree::{NodeId, Tree};
use history::{ColumnSet, RelationId};
use std::collections::BTreeSet;

/// Makes a template from PostgreSQL's own tree of a statement.
pub fn judge(input: &Input<'_>, catalog: &Catalog) -> Template {
    let Ok(tree) = Tree::read(input.trees) else {
        return Template::everything(Kind::Write, Stay::UnreadableTree);
    };
    let mut facts = walk::facts(&tree);
    facts.types.extend(input.parameters);
    let commands: Vec<Command> = facts.commands().collect();
    if let Some((kind, stay)) = not_traced(&facts, &commands) {
        return Template::everything(kind, stay);
    }
    let literals = Literals::of(input, &facts);
    let keys = Keys::of(&tree, &facts, catalog, &literals);
    let mut judge = Judge::new(catalog, &facts);
    judge.commands(&commands);
    judge.functions();
    judge.types();
    judge.marks();
    let Touched { reads, relations, writes, by_declaration, calls_writers, draws, one_row } =
        judge.touched(&tree, &keys);
    // Code that may write anything may also change the session: a trigger, a CHECK, a function of a partition's key.
    let dirties = judge.dirties
        || match &by_declaration {
            Some(declared) => declared.writes == FootprintTemplate::Everything,
            None => judge.unknown || writes == FootprintTemplate::Everything,
        };
    let results = results(&tree, &facts);
    let at_copies = at_copies(&facts, catalog, (&reads, &relations), &results);
    let chance = chance(&tree, &facts, catalog, &keys);
    let known = reexecution::Known {
        stays: &judge.stays,
        chance,
        writes: by_declaration.as_ref().map_or(&writes, |declared| &declared.writes),
        at_copies,
        by_declaration: by_declaration.as_deref(),
    };
    let again = again(&tree, &facts, catalog, &known);
    let (stays, never_at_copies) = (&judge.stays, at_copies.never);
    let found = Found { writes: &writes, stays, chance, never_at_copies, calls_writers, draws, one_row };
    let replay = replay(&tree, &facts, catalog, &keys, &found);
    let (of_extensions, extension_state) = judge.extension_state();
    Template {
        kind: kind(&commands),
        validity: Validity {
            meaning: (!names_an_object(&facts)).then(|| tree.meaning()),
            exact: literals.unclaimed,
        },
        reads,
        writes,
        chance,
        again: Again { table: again, by_declaration },
        replay,
        random: facts.functions.iter().any(|function| may_draw(*function, catalog)),
        dirties,
        parameters: parameters(&facts),
        at_copies,
        results: ResultColumns { types: results, order: order(&tree, &facts), described: Vec::new() },
        fails_on_chosen_rows_alone: keys.fails_on_chosen_rows_alone(&facts),
        depends_on: Dependencies {
            parameters: of_extensions,
            extension_state,
            may_hide_state: judge.hides || dirties && catalog.may_hide_state,
            named: facts.named.iter().copied().collect(),
            locks: judge.locks(&relations),
            relations,
        },
        clock_words: clock_words(&facts, catalog),
        stays: judge.stays,
    }
}

/// Functions of which nothing is known, by OID, that a statement calls, that its operators stand for, or that make and print its
/// values.
pub fn unknown_functions(trees: &str, catalog: &Catalog) -> BTreeSet<u32> {
    let Ok(tree) = Tree::read(trees) else { return BTreeSet::new() };
    let facts = walk::facts(&tree);
    let judge = Judge::new(catalog, &facts);
    let mut unknown = judge.called(Class::Unknown);
    let of_types = judge.of_types.iter().filter(|of| {
        catalog.functions.get(*of).is_some_and(|known| {
            known.harmless == Harmless::No && matches!(known.reviewed, None | Some(Class::Unknown))
        })
    });
    unknown.extend(of_types);
    unknown
}

/// A text of SELECTs alone reads.
fn kind(commands: &[Command]) -> Kind {
    match commands.iter().all(|command| *command == Command::Select) {
        true => Kind::Read,
        false => Kind::Write,
    }
}

/// Why nothing is said of what a statement touches.
fn not_traced(facts: &Facts, commands: &[Command]) -> Option<(Kind, Stay)> {
    if commands.iter().any(|command| matches!(command, Command::Utility | Command::Unknown)) {
        return Some((Kind::Utility, Stay::Utility));
    }
    if facts.roots.is_empty() && !facts.marks.unknown_node {
        // A rule made nothing of it.
        return Some((Kind::Write, Stay::Writes));
    }
    (facts.marks.untraced || facts.marks.unknown_node).then_some((Kind::Write, Stay::UnreadableTree))
}

fn clock_words(facts: &Facts, catalog: &Catalog) -> ClockWords {
    let clock = |type_id: u32| catalog.type_traits(type_id).clock_words;
    let mut constants = facts.constants.iter();
    ClockWords {
        literals: constants.any(|constant| constant.location.is_some() && clock(constant.type_id)),
        parameters: facts
            .parameters
            .iter()
            .filter(|(_, of)| clock(**of))
            .map(|(number, _)| *number)
            .collect(),
    }
}

/// Types whose values are objects of the catalog, found by their names: `reg..`, and arrays of them.
const NAMES: &[u32] = &[
    24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191, // reg..
    1008, 2207, 2208, 2209, 2210, 2211, 3735, 3770, 4090, 4097, 4192, // arrays of those
];

/// True if a literal is a name that the catalog explains: of an enum's label, of a table. (A type that a user
/// made may hold one deep inside.) The resolved object is not part of the statement's meaning, for one
/// template serves many literals.
fn names_an_object(facts: &Facts) -> bool {
    let by_name = |type_id: u32| type_id >= FIRST_USER_OID || NAMES.contains(&type_id);
    facts.constants.iter().any(|constant| constant.location.is_some() && by_name(constant.type_id))
}

/// A function that draws random numbers, or a VOLATILE function that was declared harmless and may call it.
pub(super) fn may_draw(function: u32, catalog: &Catalog) -> bool {
    RANDOM_NUMBERS.contains(&function)
        || catalog
            .functions
            .get(&function)
            .is_some_and(|known| known.harmless != Harmless::No && known.volatility == Volatility::Volatile)
}

struct Judge<'j> {
    catalog: &'j Catalog,
    facts: &'j Facts,
    stays: BTreeSet<Stay>,
    /// Something runs that may write anything.
    opaque: bool,
    dirties: bool,
    /// True if something may change what no probe of the session shows.
    hides: bool,
    /// Functions of the types of its values.
    of_types: BTreeSet<u32>,
    /// Something runs of which nothing is known.
    unknown: bool,
    /// More than functions.
    unknown_besides: bool,
}

/// Relations that a statement touches, and the part of them that goes by declarations.
struct Touched {
    reads: FootprintTemplate,
    relations: BTreeSet<RelationId>,
    writes: FootprintTemplate,
    by_declaration: Option<Box<ByDeclaration>>,
    calls_writers: bool,
    draws: bool,
    one_row: bool,
}

impl<'j> Judge<'j> {
    fn new(catalog: &'j Catalog, facts: &'j Facts) -> Judge<'j> {
        let (stays, opaque, dirties, hides) = (BTreeSet::new(), false, false, false);
        let json = facts.functions.iter().any(|function| catalog.builtin.is_of_json(*function));
        let of_types = catalog.functions_of_types(&facts.types, json);
        Judge {
            catalog,
            facts,
            stays,
            opaque,
            dirties,
            hides,
            of_types,
            unknown: false,
            unknown_besides: false,
        }
    }

    fn touched(&mut self, tree: &Tree<'_>, keys: &Keys<'_, '_>) -> Touched {
        let (mut reads, relations) = self.relations(keys);
        self.fleeting(&relations);
        let (mut writes, fired) = writes(tree, self.facts, self.catalog, keys, Trust::Footprints);
        let one_row = writes.is_one_row();
        let mut called = self.called(Class::Declared);
        called.extend(self.of_types.iter().filter(|of| self.catalog.function_class(**of) == Class::Declared));
        let declared = self.declared(called.iter().chain(&fired));
        declared.add_to(&mut reads, &mut writes);
        let by_declaration = self.by_declaration(tree, keys, &reads, &writes);
        if self.opaque {
            writes = FootprintTemplate::Everything;
        }
        let of_called = called.iter().filter_map(|function| self.catalog.touches(*function));
        let calls_writers = of_called.into_iter().any(|touches| !touches.writes.is_empty());
        let draws = self.catalog.any_sequence(&declared.writes);
        Touched { reads, relations, writes, by_declaration, calls_writers, draws, one_row }
    }

    fn stay(&mut self, stay: Stay) {
        self.stays.insert(stay);
    }

    fn unknown_besides(&mut self) {
        self.unknown_besides = true;
        self.unknown();
    }

    fn unknown(&mut self) {
        self.stay(Stay::UnknownFunction);
        self.opaque = true;
        self.unknown = true;
    }

    fn commands(&mut self, commands: &[Command]) {
        if commands.iter().any(|command| *command != Command::Select) {
            self.stay(Stay::Writes);
        }
    }

    fn functions(&mut self) {
        let functions = self.facts.functions.iter().map(|function| self.catalog.function_class(*function));
        let operators = self.facts.operators.iter().map(|operator| self.catalog.operator_class(*operator));
        let classes: BTreeSet<Class> = functions.chain(operators).collect();
        for class in classes {
            match class {
                Class::Harmless
                | Class::ByOrder
                | Class::Declared
                | Class::Random
                | Class::Hidden
                | Class::Approximate => {}
                Class::Clock | Class::TextInput => self.stay(Stay::Clock),
                Class::Transaction => self.stay(Stay::Transaction),
                Class::Sequence => self.stay(Stay::Sequence),
                Class::Session => self.stay(Stay::Session),
                Class::SessionChange => {
                    self.stay(Stay::Session);
                    (self.dirties, self.hides) = (true, true);
                }
                Class::Node => self.stay(Stay::Node),
                Class::Reload => self.stay(Stay::Reload),
                Class::Catalog => self.stay(Stay::ObjectIdentifier),
                Class::LargeObject => self.stay(Stay::LargeObject),
                Class::Effect => self.stay(Stay::Effect),
                Class::RunsText => {
                    self.stay(Stay::RunsText);
                    self.opaque = true;
                    (self.dirties, self.hides) = (true, true);
                }
                Class::Uncallable => self.unknown_besides(),
                Class::Unknown => self.unknown(),
            }
        }
    }

    /// Parameters of extensions that the result depends on; true if it also depends on other state of an extension.
    fn extension_state(&self) -> (BTreeSet<&'static str>, bool) {
        let (mut all, mut other) = (BTreeSet::new(), false);
        for class in [Class::Hidden, Class::Approximate] {
            let is_of_class = |function: &&u32| self.catalog.function_class(**function) == class;
            let mut functions = self.called(class);
            functions.extend(self.of_types.iter().filter(is_of_class));
            for function in functions {
                let member = self.catalog.members.get(&function);
                let parameters = member.map_or(&[][..], |member| extensions::parameters(&member.extension));
                other |= class == Class::Hidden && parameters.is_empty();
                all.extend(parameters);
            }
        }
        (all, other)
    }

    /// The functions of this class that are called.
    fn called(&self, class: Class) -> BTreeSet<u32> {
        let behind = self.facts.operators.iter().filter_map(|operator| self.catalog.operators.get(operator));
        let functions = self.facts.functions.iter().chain(behind).copied();
        functions.filter(|function| self.catalog.function_class(*function) == class).collect()
    }

    /// Footprint if all unknown functions are declared, for databases where footprints do not go by
    /// declarations.
    fn by_declaration(
        &mut self,
        tree: &Tree<'_>,
        keys: &Keys<'_, '_>,
        reads: &FootprintTemplate,
        writes: &FootprintTemplate,
    ) -> Option<Box<ByDeclaration>> {
        let called = self.unknown_by_declaration();
        if called.is_none() && self.unknown {
            return None;
        }
        let catalog = self.catalog;
        let mut by = ByDeclaration { reads: reads.clone(), writes: writes.clone(), fires: None };
        if *writes == FootprintTemplate::Everything && !catalog.trusts_declarations {
            let (written, fired) = self::writes(tree, self.facts, catalog, keys, Trust::Again);
            if written != FootprintTemplate::Everything {
                let touches = catalog.touched_again_by(&fired)?;
                let FootprintTemplate::Tables(targets) = &written else { return None };
                // If triggers fire, foreign keys are checked too.
                let all = touches.writes.iter().chain(targets.keys());
                let bound = all.flat_map(|table| catalog.bound_by_keys(*table)).collect();
                Touches { reads: bound, writes: BTreeSet::new() }.add_to(&mut by.reads, &mut by.writes);
                by.writes = written;
                touches.add_to(&mut by.reads, &mut by.writes);
                by.fires = Some(touches.writes);
            }
        }
        if called.is_none() && by.fires.is_none() {
            return None;
        }
        called.unwrap_or_default().add_to(&mut by.reads, &mut by.writes);
        Some(Box::new(by))
    }

    /// Reads of unknown functions by their declarations, for databases where footprints do not go by
    /// declarations. Only if all unknown parts are functions that are declared to write nothing, and copies
    /// hold all of it alike.
    fn unknown_by_declaration(&mut self) -> Option<Touches> {
        let (catalog, unknown) = (self.catalog, self.called(Class::Unknown));
        let known = |operator: &u32| *operator < FIRST_USER_OID || catalog.operators.contains_key(operator);
        if self.unknown_besides || unknown.is_empty() || !self.facts.operators.iter().all(known) {
            return None;
        }
        let alike = |table: &RelationId| {
            catalog.relations.get(table).is_some_and(|table| table.unlike == ColumnSet::NONE)
        };
        let is_fit = |touches: &Touches| touches.writes.is_empty() && touches.reads.iter().all(alike);
        unknown
            .iter()
            .all(|function| catalog.touches(*function).is_some_and(is_fit))
            .then(|| self.declared(unknown.iter()))
    }

    /// Tables that declared functions touch.
    fn declared<'a>(&mut self, functions: impl Iterator<Item = &'a u32>) -> Touches {
        let mut touches = Touches::default();
        for function in functions {
            touches.add(self.catalog.touches(*function).unwrap_or(&Touches::default()));
        }
        for table in touches.reads.union(&touches.writes) {
            self.kind_of(*table);
        }
        touches
    }

    fn types(&mut self) {
        for type_id in &self.facts.types {
            let traits = self.catalog.type_traits(*type_id);
            if traits.unknown {
                self.unknown_besides();
            }
            if traits.object {
                self.stay(Stay::ObjectIdentifier);
            }
        }
        if self.of_types.iter().any(|function| self.catalog.function_class(*function) == Class::Node) {
            self.stay(Stay::Node);
        }
        // Text in data or in a parameter may say "today", or name a zone whose offset is another one tomorrow.
        let catalog = self.catalog;
        let by_text = |type_id: &u32| {
            let traits = catalog.type_traits(*type_id);
            traits.clock || traits.clock_words
        };
        let zoned = |type_id: u32| catalog.type_traits(type_id).clock;
        let facts = self.facts;
        if facts.text_conversions.iter().any(by_text)
            || facts.parameters.values().any(|type_id| zoned(*type_id))
            || facts.constants.iter().any(|constant| constant.location.is_some() && zoned(constant.type_id))
        {
            self.stay(Stay::Clock);
        }
    }

    fn marks(&mut self) {
        let marks = self.facts.marks;
        let found = [
            (marks.row_locks, Stay::LocksRows),
            (marks.next_value, Stay::Sequence),
            (marks.current_of || marks.sample, Stay::ByPlace),
            (marks.system_column, Stay::SystemColumn),
        ];
        found.into_iter().filter(|(there, _)| *there).for_each(|(_, stay)| self.stay(stay));
        for operation in &self.facts.value_functions {
            match operation {
                // CURRENT_DATE to LOCALTIMESTAMP(n)
                0..=8 => self.stay(Stay::Clock),
                // CURRENT_ROLE, CURRENT_USER, USER, SESSION_USER, CURRENT_CATALOG: from the log-in, or
                // mirrored
                9..=13 => {}
                // CURRENT_SCHEMA
                14 => self.stay(Stay::Session),
                _ => self.unknown_besides(),
            }
        }
    }

    fn fleeting(&mut self, relations: &BTreeSet<RelationId>) {
        let facts = self.facts;
        let others = facts.functions.iter().chain(&facts.operators).chain(&facts.types).copied();
        let mut used = relations.iter().chain(&facts.named).map(|relation| relation.get()).chain(others);
        if used.any(|used| self.catalog.fleeting.contains(&used)) {
            self.stay(Stay::Fleeting);
        }
    }

    /// Footprint of the reads, and all relations that matter.
    fn relations(&mut self, keys: &Keys<'_, '_>) -> (FootprintTemplate, BTreeSet<RelationId>) {
        let mut reads = FootprintTemplate::NOTHING;
        let mut seen = BTreeSet::new();
        let facts = self.facts;
        for (number, query) in facts.queries.iter().enumerate() {
            for (place, relation) in query.relations() {
                seen.insert(relation.id);
                let target = query.target == Some(place);
                if relation.view || !(relation.joined || relation.columns != ColumnSet::NONE) {
                    if target {
                        self.kind_of(relation.id);
                    }
                    continue;
                }
                let family =
                    if relation.children { self.catalog.family(relation.id) } else { vec![relation.id] };
                for member in family {
                    seen.insert(member);
                    self.kind_of(member);
                    reads.add(member, self.read(relation, member, number, place, keys));
                }
            }
        }
        (reads, seen)
    }

    /// Relations that are locked. Values decide which partitions are locked; reads of functions cannot be
    /// determined.
    fn locks(&self, relations: &BTreeSet<RelationId>) -> Option<BTreeSet<RelationId>> {
        let alone = |relation: &RelationId| self.catalog.family(*relation).len() == 1;
        let reviewed = |function: &u32| {
            let known = self.catalog.functions.get(function).and_then(|known| known.reviewed);
            known.is_some_and(|class| {
                matches!(
                    class,
                    Class::Harmless | Class::ByOrder | Class::Random | Class::Hidden | Class::Approximate
                )
            })
        };
        let opaque =
            self.facts.functions.iter().any(|function| *function >= FIRST_USER_OID && !reviewed(function));
        (!opaque && relations.iter().all(alone)).then(|| relations.clone())
    }

    fn read(
        &self,
        relation: &Relation,
        member: RelationId,
        query: usize,
        place: usize,
        keys: &Keys<'_, '_>,
    ) -> AccessTemplate {
        // A virtual column is computed by the expression of the table that is named, from the row of the member.
        let columns = self.catalog.with_virtual_bases(relation.id, relation.columns);
        let columns = self.catalog.columns_in(columns, relation.id, member);
        let columns = self.catalog.with_bases(member, columns);
        let confined = keys.key_of(relation.id).and_then(|key| keys.confined(query, place, key));
        let rows = match confined.filter(|_| self.catalog.same_key(relation.id, member)) {
            Some(key) => RowsTemplate::Keys(vec![key]),
            None => RowsTemplate::All,
        };
        AccessTemplate { columns, rows, existence: false }
    }

    fn kind_of(&mut self, relation: RelationId) {
        if relation.get() < FIRST_USER_OID {
            return self.stay(Stay::Catalog);
        }
        let Some(known) = self.catalog.relations.get(&relation) else {
            self.opaque = true;
            return self.stay(Stay::UnknownRelation);
        };
        match known.kind {
            RelationKind::Table => {
                let temporary = known.persistence == Persistence::Temporary;
                self.dirties |= temporary;
                if !known.published || known.persistence != Persistence::Permanent {
                    self.stay(Stay::NotInStream);
                }
            }
            RelationKind::Partitioned | RelationKind::View => {}
            RelationKind::Materialized => self.stay(Stay::NotInStream),
            RelationKind::Foreign => {
                self.stay(Stay::ForeignTable);
                self.opaque = true;
                (self.dirties, self.hides) = (true, true);
            }
            RelationKind::Sequence => self.stay(Stay::Sequence),
            RelationKind::Other => self.stay(Stay::UnknownRelation),
        }
    }
}

impl Touches {
    /// Adds all rows and columns, for nothing narrows them.
    fn add_to(&self, reads: &mut FootprintTemplate, writes: &mut FootprintTemplate) {
        let whole =
            |existence| AccessTemplate { columns: ColumnSet::All, rows: RowsTemplate::All, existence };
        self.reads.iter().for_each(|table| reads.add(*table, whole(false)));
        self.writes.iter().for_each(|table| writes.add(*table, whole(true)));
    }
}

fn parameters(facts: &Facts) -> Vec<u32> {
    /// More parameters than the protocol can carry are not listed.
    const MAX: u32 = 65_535;
    let last = facts.parameters.keys().copied().filter(|number| *number <= MAX).max().unwrap_or(0);
    (1..=last).map(|number| facts.parameters.get(&number).copied().unwrap_or(0)).collect()
}

/// The types of the columns that the client gets.
fn results(tree: &Tree<'_>, facts: &Facts) -> Vec<u32> {
    let own =
        facts.roots.iter().map(|root| &facts.queries[*root]).find(|query| tree.flag(query.node, "canSetTag"));
    let Some(query) = own else { return Vec::new() };
    let label = if query.command == Command::Select { "targetList" } else { "returningList" };
    let visible = tree.nodes(query.node, label).filter(|target| !tree.flag(*target, "resjunk"));
    visible
        .map(|target| tree.node(target, "expr").map_or(0, |expression| type_of(tree, expression)))
        .collect()
}

/// The places of the shown columns by which the answer is sorted, up to the first that is not shown.
fn order(tree: &Tree<'_>, facts: &Facts) -> Vec<usize> {
    let [root] = facts.roots.as_slice() else { return Vec::new() };
    let query = facts.queries[*root].node;
    let targets: Vec<NodeId> = tree.nodes(query, "targetList").collect();
    let place = |clause: NodeId| {
        let reference = tree.number(clause, "tleSortGroupRef")?;
        let is_it = |target: &NodeId| tree.number(*target, "ressortgroupref") == Some(reference);
        let named = targets.iter().position(is_it)?;
        (!tree.flag(targets[named], "resjunk")).then_some(named)
    };
    tree.nodes(query, "sortClause").map_while(place).collect()
}

/// The type of an expression, 0 if it takes more than a look.
fn type_of(tree: &Tree<'_>, expression: NodeId) -> u32 {
    const BOOL: u32 = 16;
    let label = match tree.name(expression) {
        "VAR" => "vartype",
        "CONST" => "consttype",
        "PARAM" => "paramtype",
        "FUNCEXPR" => "funcresulttype",
        "OPEXPR" | "NULLIFEXPR" => "opresulttype",
        "AGGREF" => "aggtype",
        "WINDOWFUNC" => "wintype",
        "RELABELTYPE" | "COERCEVIAIO" | "ARRAYCOERCEEXPR" | "COERCETODOMAIN" | "CONVERTROWTYPEEXPR"
        | "FIELDSELECT" => "resulttype",
        "CASEEXPR" => "casetype",
        "COALESCEEXPR" => "coalescetype",
        "MINMAXEXPR" => "minmaxtype",
        "ARRAYEXPR" => "array_typeid",
        "ROWEXPR" => "row_typeid",
        "SQLVALUEFUNCTION" => "type",
        "SUBSCRIPTINGREF" => "refrestype",
        "NEXTVALUEEXPR" => "typeId",
        "BOOLEXPR" | "NULLTEST" | "BOOLEANTEST" | "DISTINCTEXPR" | "SCALARARRAYOPEXPR" | "ROWCOMPAREEXPR" => {
            return BOOL;
        }
        _ => return 0,
    };
    tree.oid(expression, label)
}
