//! Any text as the tree that a server made of a statement: its footprint, and the reasons that keep it at the
//! primary.

use statement_analysis::shape::{Shape, Strings};
use statement_analysis::tree::query::Query;
use statement_analysis::tree::{Tree, walk};
use statement_analysis::{Catalog, Input, Parameter, Values, judge};

/// A zero byte parts the tree from the statement.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (trees, statement) = text.split_once('\0').unwrap_or((text, "SELECT 'a', 1 FROM t WHERE id = 5"));
    if let Ok(tree) = Tree::read(trees) {
        for node in tree.all() {
            let _ = (tree.name(node), Query::read(&tree, node, None));
        }
        assert_eq!(tree.meaning(), tree.meaning());
        let _ = (walk::facts(&tree), walk::own_columns(&tree), walk::stored_functions(&tree));
    }
    let shape = Shape::of(statement, Strings::Standard);
    let literals = shape.ranges();
    let input = Input { trees, text: statement, literals: &literals, parameters: &[23, 25] };
    let template = judge(&input, &Catalog::default());
    let mut texts = Vec::new();
    shape.texts(statement, &mut texts);
    let parameters = vec![Parameter::Null; template.parameters.len()];
    let values = Values { literals: &texts, parameters: &parameters, utf8: true };
    let _ = (template.stay_with(&values), template.reads.fill(&values), template.writes.fill(&values));
}
