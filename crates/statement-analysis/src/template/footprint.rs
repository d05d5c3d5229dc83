//! Footprints with holes: rows that are named by parameters and literals are known only at execution.

use super::{Parameter, Values};
use crate::catalog::KeyForm;
use crate::key::{self, Canonical};
use history::{Access, ColumnSet, Footprint, Key, KeyBuilder, MAX_KEYS, RelationId, Rows};
use std::collections::BTreeMap;

/// A footprint whose keys are to be filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FootprintTemplate {
    /// Every table and the catalog.
    Everything,
    /// These tables, each touched in one or more ways.
    Tables(BTreeMap<RelationId, Vec<AccessTemplate>>),
}

/// [`Access`] with holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessTemplate {
    /// The columns read or changed.
    pub columns: ColumnSet,
    /// The rows.
    pub rows: RowsTemplate,
    /// Rows come or go.
    pub existence: bool,
}

/// [`Rows`] with holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowsTemplate {
    /// All rows.
    All,
    /// The rows with any of these keys.
    Keys(Vec<KeyTemplate>),
}

/// A primary key with holes: for each of its columns, in their order, the values that it may have. The rows meant are
/// those of every combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplate(pub Vec<Vec<Slot>>);

/// Source of a key column's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The form of the column.
    pub form: KeyForm,
    /// The place of the value.
    pub source: Source,
    /// True if the column is a `varchar(n)`, which cuts blanks off the end of a longer value.
    pub cut: bool,
}

/// The place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The literal of this number, from 0, with a minus before it or not.
    Literal {
        /// Number of the literal.
        number: usize,
        /// A minus stands before it.
        negative: bool,
    },
    /// The elements of the array in the literal of this number.
    LiteralArray(usize),
    /// The parameter with this number, from 1.
    Parameter {
        /// Number of the parameter.
        number: u32,
        /// Its type.
        type_id: u32,
    },
    /// The elements of the array in the parameter with this number, from 1.
    ParameterArray(u32),
    /// Always the same value.
    Fixed(Canonical),
}

impl FootprintTemplate {
    /// No table.
    pub const NOTHING: FootprintTemplate = FootprintTemplate::Tables(BTreeMap::new());

    /// True if the footprint is empty for all values.
    pub fn is_nothing(&self) -> bool {
        matches!(self, FootprintTemplate::Tables(tables) if tables.is_empty())
    }

    /// True if the footprint is one row of one table at most, for all values.
    pub fn is_one_row(&self) -> bool {
        let FootprintTemplate::Tables(tables) = self else { return false };
        let is_one =
            |slot: &Slot| !matches!(slot.source, Source::LiteralArray(_) | Source::ParameterArray(_));
        let one_row = |access: &AccessTemplate| match &access.rows {
            RowsTemplate::Keys(keys) => {
                matches!(&keys[..], [KeyTemplate(columns)] if columns.iter().all(|values| matches!(&values[..], [one] if is_one(one))))
            }
            RowsTemplate::All => false,
        };
        tables.len() == 1 && tables.values().flatten().all(one_row)
    }

    /// Adds an access.
    pub fn add(&mut self, relation: RelationId, access: AccessTemplate) {
        if let FootprintTemplate::Tables(tables) = self {
            let accesses = tables.entry(relation).or_default();
            if !accesses.contains(&access) {
                accesses.push(access);
            }
        }
    }

    /// The footprint of an execution with these values. A value that is not understood stands for all rows.
    pub fn fill(&self, values: &Values<'_>) -> Footprint {
        let FootprintTemplate::Tables(tables) = self else { return Footprint::Everything };
        let mut footprint = Footprint::NOTHING;
        for (relation, accesses) in tables {
            for access in accesses {
                let AccessTemplate { columns, existence, .. } = *access;
                footprint.add(*relation, Access { columns, rows: access.rows.fill(values), existence });
            }
        }
        footprint
    }

    /// Memory that it takes beyond itself, in bytes, roughly.
    pub fn bytes(&self) -> usize {
        let FootprintTemplate::Tables(tables) = self else { return 0 };
        let access = |access: &AccessTemplate| match &access.rows {
            RowsTemplate::All => size_of::<AccessTemplate>(),
            RowsTemplate::Keys(keys) => {
                let slots =
                    keys.iter().flat_map(|key| &key.0).map(|values| 24 + values.len() * size_of::<Slot>());
                size_of::<AccessTemplate>() + slots.sum::<usize>() + 24 * keys.len()
            }
        };
        tables.values().map(|accesses| 48 + accesses.iter().map(access).sum::<usize>()).sum()
    }
}

impl RowsTemplate {
    /// The rows with these values.
    pub fn fill(&self, values: &Values<'_>) -> Rows {
        let RowsTemplate::Keys(keys) = self else { return Rows::All };
        let mut found = Vec::new();
        for key in keys {
            match key.fill(values) {
                Some(keys) => found.extend(keys),
                None => return Rows::All,
            }
        }
        Rows::keys(found)
    }
}

impl KeyTemplate {
    /// The one key that is meant, if each column has one value.
    fn one(&self, values: &Values<'_>) -> Option<Key> {
        let add = |key: KeyBuilder, column: &Vec<Slot>| match column.as_slice() {
            [slot] => slot.one(values).map(|value| value.add(key)),
            _ => None,
        };
        self.0.iter().try_fold(KeyBuilder::default(), add).map(KeyBuilder::finish)
    }

    /// `None` if a value is not understood, or if there are too many combinations.
    fn fill(&self, values: &Values<'_>) -> Option<Vec<Key>> {
        if let Some(key) = self.one(values) {
            return Some(vec![key]);
        }
        let mut builders = vec![KeyBuilder::default()];
        for column in &self.0 {
            let mut choices = Vec::new();
            for slot in column {
                choices.extend(slot.fill(values)?);
            }
            if builders.len() * choices.len() > MAX_KEYS {
                return None;
            }
            builders = builders.iter().flat_map(|key| choices.iter().map(|value| value.add(*key))).collect();
        }
        Some(builders.into_iter().map(KeyBuilder::finish).collect())
    }
}

impl Slot {
    /// Its value, if it has exactly one that is understood.
    fn one(&self, values: &Values<'_>) -> Option<Canonical> {
        let value = match &self.source {
            Source::Literal { number, negative } => {
                Canonical::of_literal(self.form, values.literals.get(*number)?, *negative)?
            }
            Source::Parameter { number, type_id } => match values.parameter(*number)? {
                Parameter::Text(text) => Canonical::of_text(self.form, str::from_utf8(text).ok()?)?,
                Parameter::Binary(value) => Canonical::of_binary(self.form, *type_id, value)?,
                Parameter::Null | Parameter::Unknown => return None,
            },
            Source::Fixed(value) => return Some(value.clone()),
            Source::LiteralArray(_) | Source::ParameterArray(_) => return None,
        };
        self.is_understood(&value, values).then_some(value)
    }

    /// True if the value means what the column holds.
    fn is_understood(&self, value: &Canonical, values: &Values<'_>) -> bool {
        let cut = self.cut && matches!(value, Canonical::Bytes(bytes) if bytes.ends_with(b" "));
        !cut && (values.utf8 || value.is_ascii() || self.form != KeyForm::Text)
    }

    /// All its values.
    fn fill(&self, values: &Values<'_>) -> Option<Vec<Canonical>> {
        let found = match &self.source {
            Source::Fixed(_) | Source::Literal { .. } | Source::Parameter { .. } => {
                return Some(vec![self.one(values)?]);
            }
            Source::LiteralArray(number) => {
                let text = key::unquote(values.literals.get(*number)?)?;
                self.elements_of_text(&text)?
            }
            Source::ParameterArray(number) => match values.parameter(*number)? {
                Parameter::Text(text) => self.elements_of_text(str::from_utf8(text).ok()?)?,
                Parameter::Binary(value) => {
                    let (type_id, elements) = key::elements_of_binary(value)?;
                    let element = |element: &&[u8]| Canonical::of_binary(self.form, type_id, element);
                    elements.iter().map(element).collect::<Option<Vec<Canonical>>>()?
                }
                Parameter::Null | Parameter::Unknown => return None,
            },
        };
        found.iter().all(|value| self.is_understood(value, values)).then_some(found)
    }

    fn elements_of_text(&self, text: &str) -> Option<Vec<Canonical>> {
        let elements = key::elements_of_text(text)?;
        elements.iter().map(|element| Canonical::of_text(self.form, element)).collect()
    }
}
