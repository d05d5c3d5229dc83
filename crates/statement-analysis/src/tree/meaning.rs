//! Meaning of a statement, as one number: the relations, columns, functions, operators and types that
//! PostgreSQL resolved its names to. The tree names them by their OIDs, so two trees of one text differ only
//! by the catalog's state.

use super::{Tree, Value};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Fields that two statements of one shape may have otherwise and still mean the same: places in the text, the values of
/// literals, and the names by which columns are shown in error messages.
const PASSED_OVER: &[&str] =
    &["location", "list_start", "list_end", "stmt_location", "stmt_len", "constvalue", "alias", "eref"];

impl<'t> Tree<'t> {
    /// The statement's meaning. Equal for equal meanings, and by all likelihood different for different ones.
    pub fn meaning(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut open = vec![self.root()];
        while let Some(value) = open.pop() {
            std::mem::discriminant(&value).hash(&mut hasher);
            match value {
                Value::Null | Value::Datum(_) => {}
                Value::Atom(word) => word.hash(&mut hasher),
                Value::List(_) => {
                    self.items(value).len().hash(&mut hasher);
                    open.extend(self.items(value));
                }
                Value::Node(node) => {
                    self.name(node).hash(&mut hasher);
                    for (label, value) in self.fields(node) {
                        if !PASSED_OVER.contains(label) {
                            label.hash(&mut hasher);
                            open.push(*value);
                        }
                    }
                }
            }
        }
        hasher.finish()
    }
}
