//! Equalities on primary keys: conditions that confine a query to a few rows of a table.
//!
//! A conjunct `column = value` of WHERE, or of the ON of an inner join, confines the table to the rows whose
//! column has that value, wherever it stands in the join tree: a row without the value adds nothing to the
//! result, and leaving the row out removes nothing (the other side of an outer join is then empty for it, and
//! NULL is not equal). The ON of an outer join confines only the side that may be filled with NULL.

use super::footprint::{KeyTemplate, Slot, Source};
use super::literals::Literals;
use crate::catalog::{Catalog, KeyForm, PrimaryKey};
use crate::key::Canonical;
use crate::oid;
use crate::tree::query::{Entry, Query};
use crate::tree::walk::{Constant, Facts};
use crate::tree::{NodeId, Tree, Value, as_node};
use history::RelationId;
use std::collections::{BTreeMap, BTreeSet};

/// A column equal to one of these values: an operator's OID and the expressions.
#[derive(Clone, Debug)]
struct Equality {
    operator: u32,
    values: Vec<NodeId>,
}

/// By the place in the range table and the attribute number.
type Equalities = BTreeMap<(usize, i16), Equality>;

/// Finds keys in the queries of one statement.
pub(super) struct Keys<'k, 't> {
    tree: &'k Tree<'t>,
    catalog: &'k Catalog,
    literals: &'k Literals<'k>,
    constants: BTreeMap<NodeId, Constant>,
    /// For each query.
    equalities: Vec<Equalities>,
}

impl<'k, 't> Keys<'k, 't> {
    pub(super) fn of(
        tree: &'k Tree<'t>,
        facts: &Facts,
        catalog: &'k Catalog,
        literals: &'k Literals<'k>,
    ) -> Keys<'k, 't> {
        let constants = facts.constants.iter().map(|constant| (constant.node, *constant)).collect();
        let mut keys = Keys { tree, catalog, literals, constants, equalities: Vec::new() };
        for query in &facts.queries {
            let found = keys.conjuncts(query);
            keys.equalities.push(found);
        }
        // Outer queries come first, so what confines a view's column is known before the view's own body is seen.
        for outer in 0..facts.queries.len() {
            keys.pass_down(facts, outer);
        }
        keys
    }

    /// The key values to which the entry at this place of a query is confined, for a relation with this key. The
    /// attribute numbers of `key` are those of the entry's relation.
    pub(super) fn confined(&self, query: usize, place: usize, key: &PrimaryKey) -> Option<KeyTemplate> {
        let columns = key.columns.iter().map(|column| {
            let equality = self.equalities[query].get(&(place, column.attribute))?;
            let same = self.catalog.equalities.contains(&(column.family, equality.operator));
            let values = equality.values.iter().map(|value| self.slot(*value, column.form));
            values.collect::<Option<Vec<Slot>>>().filter(|_| same)
        });
        columns.collect::<Option<Vec<_>>>().map(KeyTemplate)
    }

    /// One table, whose rows the statement chooses by equalities alone, with values that are no expressions: nothing can fail on
    /// a row that is not chosen. (An expression of the result is computed for chosen rows.)
    pub(super) fn fails_on_chosen_rows_alone(&self, facts: &Facts) -> bool {
        let [query] = facts.queries.as_slice() else { return false };
        let [Entry::Relation(relation)] = query.entries.as_slice() else { return false };
        let policies = self.tree.flag(query.node, "hasRowSecurity");
        let Some(from) = self.tree.node(query.node, "jointree").filter(|_| !policies && !relation.view)
        else {
            return false;
        };
        let mut open = vec![self.tree.field(from, "quals")];
        while let Some(value) = open.pop() {
            let Some(node) = as_node(value) else {
                open.extend(self.tree.items(value));
                continue;
            };
            match self.tree.name(node) {
                "BOOLEXPR" if self.tree.field(node, "boolop") == Value::Atom("and") => {
                    open.push(self.tree.field(node, "args"));
                }
                "OPEXPR" if self.compares_plainly(node) => {}
                _ => return false,
            }
        }
        true
    }

    /// A column equals a constant or a parameter, by an operator that cannot fail.
    fn compares_plainly(&self, node: NodeId) -> bool {
        let operator = self.tree.oid(node, "opno");
        let is_plain = |argument: &Value<'_>| {
            let Some(argument) = as_node(*argument) else { return false };
            matches!(self.tree.name(self.without_relabel(argument)), "VAR" | "CONST" | "PARAM")
        };
        self.catalog.equalities.iter().any(|(_, equality)| *equality == operator)
            && self.tree.list(node, "args").iter().all(is_plain)
    }

    /// The key template of a row that has these expressions in its key columns.
    pub(super) fn of_row(
        &self,
        key: &PrimaryKey,
        value: impl Fn(i16) -> Option<NodeId>,
    ) -> Option<KeyTemplate> {
        let columns = key.columns.iter().map(|column| {
            let value = self.without_relabel(value(column.attribute)?);
            let assigned = self.assigned(value);
            let slot = self.slot(assigned.unwrap_or(value), column.form)?;
            Some(vec![Slot { cut: assigned.is_some(), ..slot }])
        });
        columns.collect::<Option<Vec<_>>>().map(KeyTemplate)
    }

    fn conjuncts(&self, query: &Query) -> Equalities {
        let mut found = Equalities::new();
        let mut open = vec![self.tree.field(query.node, "jointree")];
        while let Some(value) = open.pop() {
            let Some(node) = as_node(value) else {
                open.extend(self.tree.items(value));
                continue;
            };
            match self.tree.name(node) {
                "FROMEXPR" => {
                    self.conditions(self.tree.field(node, "quals"), None, &mut found);
                    open.push(self.tree.field(node, "fromlist"));
                }
                "JOINEXPR" => {
                    let (left, right) = (self.tree.field(node, "larg"), self.tree.field(node, "rarg"));
                    let quals = self.tree.field(node, "quals");
                    match self.tree.number(node, "jointype") {
                        Some(0) => self.conditions(quals, None, &mut found),
                        Some(1) => self.conditions(quals, Some(self.places(right)), &mut found),
                        Some(3) => self.conditions(quals, Some(self.places(left)), &mut found),
                        _ => {}
                    }
                    open.extend([left, right]);
                }
                _ => {}
            }
        }
        found
    }

    /// The places of the entries under a join tree's node.
    fn places(&self, value: Value<'t>) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            let Some(node) = as_node(value) else {
                open.extend(self.tree.items(value));
                continue;
            };
            if self.tree.name(node) == "RANGETBLREF" {
                found.extend(
                    self.tree.number(node, "rtindex").and_then(|number| usize::try_from(number - 1).ok()),
                );
            }
            open.extend(["fromlist", "larg", "rarg"].map(|label| self.tree.field(node, label)));
        }
        found
    }

    fn conditions(&self, quals: Value<'t>, among: Option<BTreeSet<usize>>, found: &mut Equalities) {
        let mut open = vec![quals];
        while let Some(value) = open.pop() {
            let Some(node) = as_node(value) else {
                open.extend(self.tree.items(value));
                continue;
            };
            let equality = match self.tree.name(node) {
                "BOOLEXPR" if self.tree.field(node, "boolop") == Value::Atom("and") => {
                    open.push(self.tree.field(node, "args"));
                    None
                }
                "OPEXPR" => self.equality(node),
                "SCALARARRAYOPEXPR" if self.tree.flag(node, "useOr") => self.membership(node),
                _ => None,
            };
            if let Some((at, equality)) =
                equality.filter(|(at, _)| among.as_ref().is_none_or(|among| among.contains(&at.0)))
            {
                found.entry(at).or_insert(equality);
            }
        }
    }

    fn equality(&self, node: NodeId) -> Option<((usize, i16), Equality)> {
        let [first, second] = self.tree.list(node, "args") else { return None };
        let (first, second) = (as_node(*first)?, as_node(*second)?);
        let (at, value) = match (self.column(first), self.column(second)) {
            (Some(at), None) => (at, second),
            (None, Some(at)) => (at, first),
            _ => return None,
        };
        let operator = self.operator(node).filter(|_| self.is_value(value))?;
        Some((at, Equality { operator, values: vec![value] }))
    }

    fn membership(&self, node: NodeId) -> Option<((usize, i16), Equality)> {
        let [column, array] = self.tree.list(node, "args") else { return None };
        let (at, array) = (self.column(as_node(*column)?)?, self.without_relabel(as_node(*array)?));
        let operator = self.operator(node)?;
        let values = match self.tree.name(array) {
            "ARRAYEXPR" if !self.tree.flag(array, "multidims") => self
                .tree
                .list(array, "elements")
                .iter()
                .map(|element| as_node(*element))
                .collect::<Option<Vec<_>>>()?,
            _ => vec![array],
        };
        values.iter().all(|value| self.is_value(*value)).then_some((at, Equality { operator, values }))
    }

    /// A constant or a parameter.
    fn is_value(&self, node: NodeId) -> bool {
        matches!(self.tree.name(self.without_integer_casts(self.without_relabel(node))), "CONST" | "PARAM")
    }

    /// The operator, if strings are equal to it only when their bytes are.
    pub(super) fn operator(&self, node: NodeId) -> Option<u32> {
        let collation = self.tree.oid(node, "inputcollid");
        let bytes = !self.catalog.nondeterministic_collations.contains(&collation);
        bytes.then(|| self.tree.oid(node, "opno"))
    }

    /// A column of the query itself, perhaps relabelled.
    pub(super) fn column(&self, node: NodeId) -> Option<(usize, i16)> {
        let node = self.without_relabel(node);
        let number = |label| self.tree.number(node, label);
        if self.tree.name(node) != "VAR" || number("varlevelsup") != Some(0) {
            return None;
        }
        Some((usize::try_from(number("varno")? - 1).ok()?, i16::try_from(number("varattno")?).ok()?))
    }

    fn without_relabel(&self, node: NodeId) -> NodeId {
        match self.tree.node(node, "arg") {
            Some(inner) if self.tree.name(node) == "RELABELTYPE" => inner,
            _ => node,
        }
    }

    /// Casts between integers keep the value or fail.
    fn without_integer_casts(&self, node: NodeId) -> NodeId {
        let cast =
            self.tree.name(node) == "FUNCEXPR" && INTEGER_CASTS.contains(&self.tree.oid(node, "funcid"));
        match self.tree.list(node, "args") {
            [Value::Node(inner)] if cast => *inner,
            _ => node,
        }
    }

    /// The value that an assignment to a `varchar(n)` cuts blanks off, or refuses. A cast that its author
    /// wrote is another call of the same function: it cuts whatever is too long.
    fn assigned(&self, node: NodeId) -> Option<NodeId> {
        let cut = self.tree.name(node) == "FUNCEXPR" && self.tree.oid(node, "funcid") == VARCHAR_LENGTH;
        let [Value::Node(inner), _, Value::Node(explicit)] = self.tree.list(node, "args") else {
            return None;
        };
        (cut && self.is_false(*explicit)).then_some(*inner)
    }

    fn is_false(&self, node: NodeId) -> bool {
        let datum = self.tree.items(self.tree.field(node, "constvalue"));
        self.tree.name(node) == "CONST"
            && !datum.is_empty()
            && datum.iter().all(|byte| *byte == Value::Atom("0"))
    }

    fn slot(&self, node: NodeId, form: KeyForm) -> Option<Slot> {
        let node = self.without_integer_casts(self.without_relabel(node));
        let source = match self.tree.name(node) {
            "PARAM" if self.tree.number(node, "paramkind") == Some(0) => {
                let number = u32::try_from(self.tree.number(node, "paramid")?).ok()?;
                let type_id = self.tree.oid(node, "paramtype");
                if fits(form, type_id) {
                    Source::Parameter { number, type_id }
                } else if fits(form, element(type_id)?) {
                    Source::ParameterArray(number)
                } else {
                    return None;
                }
            }
            "CONST" => return self.constant(self.constants.get(&node)?, form),
            _ => return None,
        };
        Some(Slot { form, source, cut: false })
    }

    /// A literal is a slot only if the value in the tree is what we read in the text: then a sign, an encoding or a
    /// conversion that we do not know cannot be between the two.
    fn constant(&self, constant: &Constant, form: KeyForm) -> Option<Slot> {
        if constant.null {
            return None;
        }
        let found = self.literals.number(constant);
        if !fits(form, constant.type_id) {
            let (number, negative) = found?;
            let array = fits(form, element(constant.type_id)?) && !negative;
            return array.then_some(Slot { form, source: Source::LiteralArray(number), cut: false });
        }
        let datum = self.tree.items(self.tree.field(constant.node, "constvalue"));
        let bytes = datum.iter().map(|byte| match byte {
            Value::Atom(word) => {
                word.parse::<i16>().ok().and_then(|byte| i8::try_from(byte).ok().map(i8::cast_unsigned))
            }
            _ => None,
        });
        let value = Canonical::of_datum(constant.type_id, &bytes.collect::<Option<Vec<u8>>>()?)?;
        let source = match (found, constant.location) {
            (Some((number, negative)), _) => {
                let written = self.literals.text(number);
                let same = Canonical::of_literal(form, written, negative).as_ref() == Some(&value);
                same.then_some(Source::Literal { number, negative })?
            }
            // The value comes from a view or a policy, and is the same for every text.
            (None, None) => Source::Fixed(value),
            (None, Some(_)) => return None,
        };
        Some(Slot { form, source, cut: false })
    }

    /// Hands what confines a column of a sub-query down to the column of the table inside that it is.
    fn pass_down(&mut self, facts: &Facts, outer: usize) {
        let inner_of = |node: NodeId| facts.queries.iter().position(|query| query.node == node);
        for ((place, column), equality) in self.equalities[outer].clone() {
            let Some(Entry::Subquery(node)) = facts.queries[outer].entries.get(place) else { continue };
            let Some(inner) = inner_of(*node).filter(|_| self.is_plain(*node)) else { continue };
            if let Some(at) = self.output(*node, column) {
                self.equalities[inner].entry(at).or_insert(equality);
            }
        }
    }

    /// The column of its own that a query gives as its output with this number.
    fn output(&self, query: NodeId, number: i16) -> Option<(usize, i16)> {
        let of_number = |target: &NodeId| self.tree.number(*target, "resno") == Some(number.into());
        let target = self.tree.nodes(query, "targetList").find(of_number)?;
        self.column(self.tree.node(target, "expr")?)
    }

    /// Each of its rows comes from one combination of rows, on its own: a condition on its output is one on its inside.
    fn is_plain(&self, query: NodeId) -> bool {
        let flags = ["hasAggs", "hasWindowFuncs", "hasTargetSRFs", "hasDistinctOn", "hasForUpdate"];
        let fields = [
            "groupClause",
            "groupingSets",
            "havingQual",
            "distinctClause",
            "limitOffset",
            "limitCount",
            "setOperations",
        ];
        !flags.iter().any(|flag| self.tree.flag(query, flag))
            && fields.iter().all(|field| self.tree.field(query, field) == Value::Null)
    }

    /// The catalog's key of this relation.
    pub(super) fn key_of(&self, relation: RelationId) -> Option<&'k PrimaryKey> {
        self.catalog.relations.get(&relation)?.key.as_ref()
    }
}

/// `varchar(varchar, int4, boolean)` (pg_proc).
const VARCHAR_LENGTH: u32 = 669;

/// Casts between int2, int4 and int8 (pg_proc).
const INTEGER_CASTS: [u32; 6] = [313, 314, 480, 481, 714, 754];

/// True if equal values of this type have this form.
fn fits(form: KeyForm, type_id: u32) -> bool {
    match form {
        KeyForm::Integer => matches!(type_id, oid::INT2 | oid::INT4 | oid::INT8),
        KeyForm::Uuid => type_id == oid::UUID,
        KeyForm::Text => matches!(type_id, oid::TEXT | oid::VARCHAR),
        KeyForm::Bytes => type_id == oid::BYTEA,
        KeyForm::Date => type_id == oid::DATE,
    }
}

/// The element type of the arrays that keys are looked for in (pg_type).
fn element(array: u32) -> Option<u32> {
    Some(match array {
        1001 => oid::BYTEA,
        1005 => oid::INT2,
        1007 => oid::INT4,
        1009 => oid::TEXT,
        1015 => oid::VARCHAR,
        1016 => oid::INT8,
        1182 => oid::DATE,
        2951 => oid::UUID,
        _ => return None,
    })
}
