//! COPY of a table out of the database as a query: PostgreSQL's analysis of that query shows which tables it
//! reads.

use super::parse_tree;
use pg_query::NodeEnum;
use pg_query::protobuf::Node;
use statement_analysis::shape::Strings;
use statement_analysis::sql::quoted;

/// Longest command, in bytes, that is analysed: real ones are shorter.
const MAX_LOOKED_INTO: usize = 16 * 1024;

/// A query that reads the rows which the command returns to its client; `None` if the text does not show it.
pub fn query_of(piece: &str, strings: Strings) -> Option<String> {
    if piece.len() > MAX_LOOKED_INTO {
        return None;
    }
    let Some(NodeEnum::CopyStmt(copy)) = parse_tree::parsed(piece, strings) else { return None };
    let table = copy.relation.as_ref().filter(|_| !copy.is_from)?;
    let columns: Vec<String> = copy.attlist.iter().map(column).collect::<Option<_>>()?;
    let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
    let schema = Some(&table.schemaname).filter(|schema| !schema.is_empty());
    let schema = schema.map(|schema| format!("{}.", quoted(schema))).unwrap_or_default();
    Some(format!("SELECT {columns} FROM ONLY {schema}{}", quoted(&table.relname)))
}

fn column(node: &Node) -> Option<String> {
    match &node.node {
        Some(NodeEnum::String(name)) => Some(quoted(&name.sval)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_copied_by_a_query() {
        let of = |text: &str| query_of(text, Strings::Standard);
        assert_eq!(of("COPY t TO STDOUT").as_deref(), Some(r#"SELECT * FROM ONLY "t""#));
        assert_eq!(
            of(r#"copy Shop."a ""b" (Id, "V") to stdout (format csv)"#).as_deref(),
            Some(r#"SELECT "id", "V" FROM ONLY "shop"."a ""b""#)
        );
        assert_eq!(of("COPY t FROM STDIN"), None);
        assert_eq!(of("COPY (SELECT 1) TO STDOUT"), None);
    }
}
