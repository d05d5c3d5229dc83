//! Names of output columns, and small questions to the tree.

use pg_query::NodeEnum;
use pg_query::protobuf::{AExprKind, FuncCall, Node, SubLinkType};

use crate::data_types::string;

/// `Some` for a star; with the table that qualifies it.
pub(super) fn star(node: &Node) -> Option<Option<&str>> {
    let Some(NodeEnum::ColumnRef(column)) = &node.node else { return None };
    match column.fields.as_slice() {
        [.., last] if matches!(last.node, Some(NodeEnum::AStar(_))) => {
            let table = column.fields.len().checked_sub(2).and_then(|place| column.fields.get(place));
            Some(table.and_then(string))
        }
        _ => None,
    }
}

/// The name of an output column without AS, and how sure it is (`FigureColnameInternal`).
pub(super) fn figure_name(node: &Node) -> (String, u8) {
    let sure = |name: &str| (name.to_owned(), 2);
    let inner = |node: Option<&Node>| node.map_or(("?column?".to_owned(), 0), figure_name);
    match node.node.as_ref() {
        Some(NodeEnum::ColumnRef(column)) => {
            sure(column.fields.iter().filter_map(string).next_back().unwrap_or("?column?"))
        }
        Some(NodeEnum::FuncCall(call)) => (column_name(call), 2),
        Some(NodeEnum::AExpr(expr)) if expr.kind() == AExprKind::AexprNullif => sure("nullif"),
        Some(NodeEnum::TypeCast(cast)) => {
            let (name, strength) = inner(cast.arg.as_deref());
            let of = cast.type_name.as_ref().and_then(|name| name.names.last()).and_then(string);
            match of {
                Some(of) if strength <= 1 => (of.to_owned(), 1),
                _ => (name, strength),
            }
        }
        Some(NodeEnum::CollateClause(collate)) => inner(collate.arg.as_deref()),
        Some(NodeEnum::CoalesceExpr(_)) => sure("coalesce"),
        Some(NodeEnum::MinMaxExpr(extreme)) => sure(if extreme.op == 1 { "greatest" } else { "least" }),
        Some(NodeEnum::CaseExpr(case)) => {
            let (name, strength) = inner(case.defresult.as_deref());
            if strength <= 1 { ("case".to_owned(), 1) } else { (name, strength) }
        }
        Some(NodeEnum::SubLink(link)) => match link.sub_link_type() {
            SubLinkType::ExistsSublink => sure("exists"),
            SubLinkType::ExprSublink => match link.subselect.as_ref().and_then(|node| node.node.as_ref()) {
                Some(NodeEnum::SelectStmt(select)) => {
                    match select.target_list.first().and_then(|node| node.node.as_ref()) {
                        Some(NodeEnum::ResTarget(target)) if target.name.is_empty() => {
                            inner(target.val.as_deref())
                        }
                        Some(NodeEnum::ResTarget(target)) => sure(&target.name),
                        _ => sure("?column?"),
                    }
                }
                _ => inner(None),
            },
            _ => inner(None),
        },
        Some(NodeEnum::SqlvalueFunction(function)) => {
            let names = [
                "",
                "current_date",
                "current_time",
                "current_time",
                "current_timestamp",
                "current_timestamp",
                "localtime",
                "localtime",
                "localtimestamp",
                "localtimestamp",
                "current_role",
                "current_user",
                "user",
                "session_user",
                "current_catalog",
                "current_schema",
            ];
            sure(usize::try_from(function.op).ok().and_then(|op| names.get(op)).unwrap_or(&"?column?"))
        }
        _ => inner(None),
    }
}

/// A function's own name for its column.
pub(super) fn column_name(function: &FuncCall) -> String {
    function.funcname.last().and_then(string).unwrap_or("?column?").to_owned()
}

/// The inner node of a function's argument list, if it is a select.
pub(super) fn as_call(node: &Node) -> Option<&FuncCall> {
    match node.node.as_ref()? {
        NodeEnum::FuncCall(call) => Some(call),
        _ => None,
    }
}
