//! The nodes of an analysed tree whose meaning for a footprint is known, on every supported major, with the fields that the
//! analysis reads. Any other node makes the statement unknown, and so does a node without one of these fields: a field under
//! another name would look like an empty one.

use super::{NodeId, Tree};

/// True if the node has a known name and its fields.
pub(super) fn is_known(tree: &Tree<'_>, node: NodeId) -> bool {
    let name = tree.name(node);
    let has = |labels: &[&str]| labels.iter().all(|label| tree.has(node, label));
    match FORMS.iter().find(|(known, _)| *known == name) {
        Some((_, labels)) => has(labels) && (name != "RANGETBLENTRY" || is_known_entry(tree, node)),
        None => false,
    }
}

/// The kinds of range-table entries (`RTEKind` of src/include/nodes/parsenodes.h).
fn is_known_entry(tree: &Tree<'_>, node: NodeId) -> bool {
    let has = |label| tree.has(node, label);
    match tree.number(node, "rtekind") {
        // A relation: the columns that it reads stand in the entry until 15, and in the query since 16.
        Some(0) => {
            ["relid", "relkind", "inh"].into_iter().all(has) && (has("selectedCols") || has("perminfoindex"))
        }
        Some(1) => has("subquery"),
        Some(2) => has("joinaliasvars"),
        Some(3) => has("functions"),
        Some(4) => has("tablefunc"),
        Some(5) => has("values_lists"),
        Some(6) => has("ctename"),
        // A transition table of a trigger, an empty FROM, and since 18 the expressions of GROUP BY.
        Some(7 | 8) => true,
        Some(9) => has("groupexprs"),
        _ => false,
    }
}

const FORMS: &[(&str, &[&str])] = &[
    ("AGGREF", &["aggfnoid", "aggtype", "args", "aggorder"]),
    ("ALIAS", &[]),
    ("ARRAYCOERCEEXPR", &["arg", "elemexpr", "resulttype"]),
    ("ARRAYEXPR", &["array_typeid", "elements", "multidims"]),
    ("BOOLEANTEST", &["arg"]),
    ("BOOLEXPR", &["boolop", "args"]),
    ("CASEEXPR", &["casetype", "arg", "args", "defresult"]),
    ("CASETESTEXPR", &[]),
    ("CASEWHEN", &["expr", "result"]),
    ("COALESCEEXPR", &["coalescetype", "args"]),
    ("COERCETODOMAIN", &["arg", "resulttype"]),
    ("COERCETODOMAINVALUE", &[]),
    ("COERCEVIAIO", &["arg", "resulttype"]),
    ("COLLATEEXPR", &["arg", "collOid"]),
    ("COMMONTABLEEXPR", &["ctename", "ctequery"]),
    ("CONST", &["consttype", "constisnull", "location", "constvalue"]),
    ("CONVERTROWTYPEEXPR", &["arg", "resulttype"]),
    ("CTECYCLECLAUSE", &[]),
    ("CTESEARCHCLAUSE", &[]),
    ("CURRENTOFEXPR", &[]),
    ("DISTINCTEXPR", &["opno", "opfuncid", "args"]),
    ("FIELDSELECT", &["arg", "resulttype"]),
    ("FIELDSTORE", &["arg", "newvals"]),
    ("FROMEXPR", &["fromlist", "quals"]),
    ("FUNCEXPR", &["funcid", "funcresulttype", "args"]),
    ("GROUPINGFUNC", &["args"]),
    ("GROUPINGSET", &["content"]),
    ("INFERENCEELEM", &["expr"]),
    ("JOINEXPR", &["jointype", "larg", "rarg", "quals"]),
    ("JSONCONSTRUCTOREXPR", &["args", "func", "coercion", "returning"]),
    ("JSONFORMAT", &[]),
    ("JSONISPREDICATE", &["expr"]),
    ("JSONRETURNING", &["typid"]),
    ("JSONVALUEEXPR", &["raw_expr", "formatted_expr"]),
    ("MERGEACTION", &["qual", "targetList"]),
    ("MERGESUPPORTFUNC", &[]),
    ("MINMAXEXPR", &["minmaxtype", "args"]),
    ("NAMEDARGEXPR", &["arg"]),
    ("NEXTVALUEEXPR", &["typeId"]),
    ("NULLIFEXPR", &["opno", "opfuncid", "args"]),
    ("NULLTEST", &["arg"]),
    ("ONCONFLICTEXPR", &["action", "arbiterElems", "onConflictSet", "onConflictWhere"]),
    ("OPEXPR", &["opno", "opfuncid", "opresulttype", "args"]),
    ("PARAM", &["paramkind", "paramid", "paramtype"]),
    ("QUERY", QUERY),
    ("RANGETBLENTRY", &["rtekind", "securityQuals"]),
    ("RANGETBLFUNCTION", &["funcexpr"]),
    ("RANGETBLREF", &["rtindex"]),
    ("RELABELTYPE", &["arg", "resulttype"]),
    ("RETURNINGEXPR", &["retexpr"]),
    ("ROWCOMPAREEXPR", &["opnos", "largs", "rargs"]),
    ("ROWEXPR", &["args", "row_typeid"]),
    ("ROWMARKCLAUSE", &[]),
    ("RTEPERMISSIONINFO", &["relid", "selectedCols", "insertedCols", "updatedCols"]),
    ("SCALARARRAYOPEXPR", &["opno", "opfuncid", "useOr", "args"]),
    ("SETOPERATIONSTMT", &["larg", "rarg"]),
    ("SETTODEFAULT", &[]),
    ("SORTGROUPCLAUSE", &["tleSortGroupRef", "eqop", "sortop"]),
    ("SQLVALUEFUNCTION", &["op"]),
    ("SUBLINK", &["subLinkType", "testexpr", "subselect"]),
    ("SUBSCRIPTINGREF", &["refrestype", "refexpr", "refassgnexpr"]),
    ("TABLEFUNC", &["coltypes"]),
    ("TABLESAMPLECLAUSE", &["tsmhandler"]),
    ("TARGETENTRY", &["expr", "resno", "resjunk", "ressortgroupref"]),
    ("VAR", &["varno", "varattno", "varlevelsup", "vartype"]),
    ("WINDOWCLAUSE", &["partitionClause", "orderClause", "frameOptions"]),
    ("WINDOWFUNC", &["winfnoid", "wintype", "args"]),
    ("WITHCHECKOPTION", &["qual"]),
    ("XMLEXPR", &["named_args", "args"]),
];

const QUERY: &[&str] = &[
    "commandType",
    "canSetTag",
    "resultRelation",
    "hasAggs",
    "hasWindowFuncs",
    "hasTargetSRFs",
    "hasDistinctOn",
    "hasForUpdate",
    "hasRowSecurity",
    "cteList",
    "rtable",
    "jointree",
    "targetList",
    "onConflict",
    "returningList",
    "groupClause",
    "groupingSets",
    "havingQual",
    "windowClause",
    "distinctClause",
    "sortClause",
    "limitOffset",
    "limitCount",
    "rowMarks",
    "setOperations",
];
