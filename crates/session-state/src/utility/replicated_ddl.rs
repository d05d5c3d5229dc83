//! Commands that change the catalog and that several servers may execute, each for itself, with the same rows
//! and definitions afterwards. A command that computes values for existing rows does so in an order, at a
//! time and with random values of its own at each server.

use super::{Utility, parse_tree};
use pg_query::NodeEnum;
use pg_query::protobuf::{
    AlterTableCmd, AlterTableStmt, AlterTableType as A, ColumnDef, ConstrType, CreateDomainStmt, Node,
    PartitionBoundSpec, RangeVar, TypeName,
};
use statement_analysis::shape::{Shape, Strings, tells_the_clock};

/// Longest command, in bytes, that is analysed: real ones are shorter, and longer ones could nest deeply.
const MAX_LOOKED_INTO: usize = 16 * 1024;

/// Hint that names the list of commands that are not executed.
pub const SEE: &str = "docs/designs.md lists what this design does not execute.";

/// Types whose columns each server would fill with values of its own: types that stand for a sequence, and
/// the domain of `information_schema` whose default is the current time.
const COMPUTED: [&str; 7] =
    ["serial", "serial2", "serial4", "serial8", "bigserial", "smallserial", "time_stamp"];

/// Reason why executions of the command at several servers may differ; `None` if they do not.
pub fn differs(piece: &str, strings: Strings) -> Option<&'static str> {
    let unknown = "the command is not known to do the same at every server";
    if piece.len() > MAX_LOOKED_INTO {
        return Some(unknown);
    }
    match parse_tree::parsed(piece, strings) {
        Some(node) => of_node(&node).unwrap_or(Some(unknown)).or_else(|| folds(&node, piece, strings)),
        None => Some(unknown),
    }
}

/// Reason why the command stores an expression in which a constant (`'now'`) or a bound takes the current
/// time, once and for all: each server does so for itself.
fn folds(node: &NodeEnum, piece: &str, strings: Strings) -> Option<&'static str> {
    let keeps_expressions = matches!(
        node,
        NodeEnum::CreateStmt(_)
            | NodeEnum::ViewStmt(_)
            | NodeEnum::AlterTableStmt(_)
            | NodeEnum::IndexStmt(_)
            | NodeEnum::CreatePolicyStmt(_)
            | NodeEnum::AlterPolicyStmt(_)
            | NodeEnum::CreateTrigStmt(_)
    );
    let mut literals = Vec::new();
    Shape::of(piece, strings).texts(piece, &mut literals);
    let tells = |literal: &&str| !literal.starts_with('"') && tells_the_clock(literal.as_bytes());
    (keeps_expressions && literals.iter().any(tells))
        .then_some("a constant such as 'now' would be another time at each server")
}

/// Reason why a partition's bounds may differ: they are computed when it is created or attached.
fn bounds(of: Option<&PartitionBoundSpec>) -> Option<&'static str> {
    let of = of?;
    // MINVALUE and MAXVALUE are names in the tree.
    let is_plain = |datum: &Node| is_constant(datum) || matches!(&datum.node, Some(NodeEnum::ColumnRef(_)));
    let mut datums = of.listdatums.iter().chain(&of.lowerdatums).chain(&of.upperdatums);
    (!datums.all(is_plain)).then_some("each server would compute its bounds")
}

/// Reason why a utility statement is refused in designs where every server executes writes, with a hint for
/// its author. `None`: the statement is of another kind.
pub fn refused(utility: &Utility) -> Option<(&'static str, &'static str)> {
    Some(match utility {
        Utility::Execute { .. } => (
            "EXECUTE of a statement from PREPARE is not supported",
            "Use a prepared statement of the protocol, or send the statement itself.",
        ),
        Utility::Declare { .. } => ("cursors are not supported", "Send the query itself."),
        Utility::CopyFrom => ("COPY FROM STDIN is not supported", "Send INSERTs with many rows each."),
        Utility::Do => ("the code of DO can have any effect", "Send its statements one by one."),
        Utility::PrepareTransaction(_) | Utility::CommitPrepared(_) | Utility::RollbackPrepared(_) => {
            ("two-phase commit is not supported", "Use COMMIT.")
        }
        Utility::Load | Utility::Explain { analyze: true, makes: Some(_), .. } => {
            ("the command affects one server only", SEE)
        }
        _ => return None,
    })
}

/// Reason why the command may differ. `None`: the command is unknown.
fn of_node(node: &NodeEnum) -> Option<Option<&'static str>> {
    Some(match node {
        NodeEnum::CreateStmt(table) => lasts(table.relation.as_ref())
            .or_else(|| numbers(&table.table_elts))
            .or_else(|| bounds(table.partbound.as_ref())),
        NodeEnum::ViewStmt(view) => lasts(view.view.as_ref()),
        NodeEnum::CreateSeqStmt(sequence) => {
            lasts(sequence.sequence.as_ref()).or_else(|| cached(&sequence.options))
        }
        NodeEnum::AlterSeqStmt(sequence) => cached(&sequence.options),
        NodeEnum::IndexStmt(index) if index.concurrent => {
            Some("CREATE INDEX CONCURRENTLY cannot run in a transaction")
        }
        NodeEnum::DropStmt(drop) if drop.concurrent => {
            Some("DROP INDEX CONCURRENTLY cannot run in a transaction")
        }
        NodeEnum::AlterTableStmt(table) => alters(table),
        NodeEnum::CreateDomainStmt(domain) => fills_later(domain),
        NodeEnum::CreateSchemaStmt(schema) if !schema.schema_elts.is_empty() => {
            Some("CREATE SCHEMA with objects inside is not supported")
        }
        NodeEnum::IndexStmt(_)
        | NodeEnum::DropStmt(_)
        | NodeEnum::CreateSchemaStmt(_)
        | NodeEnum::RenameStmt(_)
        | NodeEnum::CommentStmt(_)
        | NodeEnum::GrantStmt(_)
        | NodeEnum::AlterObjectSchemaStmt(_)
        | NodeEnum::CreateEnumStmt(_)
        | NodeEnum::AlterEnumStmt(_)
        | NodeEnum::CompositeTypeStmt(_)
        | NodeEnum::CreateRangeStmt(_)
        | NodeEnum::CreateFunctionStmt(_)
        | NodeEnum::AlterFunctionStmt(_)
        | NodeEnum::CreateTrigStmt(_)
        | NodeEnum::CreatePolicyStmt(_)
        | NodeEnum::AlterPolicyStmt(_)
        | NodeEnum::TruncateStmt(_) => None,
        NodeEnum::CreateTableAsStmt(_) => Some("CREATE TABLE AS computes rows from a query"),
        NodeEnum::CreateEventTrigStmt(_) | NodeEnum::AlterEventTrigStmt(_) => {
            Some("replicas have no event triggers: DDL would do more at the primary")
        }
        _ => return None,
    })
}

/// Reason why a relation does not exist at every server with its rows.
fn lasts(relation: Option<&RangeVar>) -> Option<&'static str> {
    match relation.map(|relation| relation.relpersistence.as_str()) {
        Some("t") => Some("a temporary object exists at one server only"),
        Some("u") => Some("an unlogged object exists at one server only"),
        _ => None,
    }
}

/// Reason why a sequence may differ: sessions that preallocate numbers leave other numbers to other sessions.
/// CACHE 1 rules that out.
fn cached(options: &[Node]) -> Option<&'static str> {
    let is_one = |value: &Node| matches!(&value.node, Some(NodeEnum::Integer(value)) if value.ival == 1);
    let takes_more = |option: &Node| match &option.node {
        Some(NodeEnum::DefElem(option)) => {
            option.defname == "cache" && !option.arg.as_deref().is_some_and(is_one)
        }
        _ => false,
    };
    options.iter().any(takes_more).then_some("a sequence with a CACHE gives each session other numbers")
}

/// Reason why the sequences of identity columns, among the elements of a new table, may differ.
fn numbers(elements: &[Node]) -> Option<&'static str> {
    let of_constraint = |constraint: &Node| match &constraint.node {
        Some(NodeEnum::Constraint(constraint)) => cached(&constraint.options),
        _ => None,
    };
    elements.iter().find_map(|element| match &element.node {
        Some(NodeEnum::ColumnDef(column)) => column.constraints.iter().find_map(of_constraint),
        _ => None,
    })
}

fn alters(table: &AlterTableStmt) -> Option<&'static str> {
    table.cmds.iter().find_map(|command| match &command.node {
        Some(NodeEnum::AlterTableCmd(command)) => of_command(command),
        _ => Some("a part of the command is unknown"),
    })
}

fn of_command(command: &AlterTableCmd) -> Option<&'static str> {
    match command.subtype() {
        A::AtAddColumn => match command.def.as_deref().and_then(|def| def.node.as_ref()) {
            Some(NodeEnum::ColumnDef(column)) => fills(column),
            _ => Some("a part of the command is unknown"),
        },
        A::AtColumnDefault
        | A::AtDropNotNull
        | A::AtSetNotNull
        | A::AtSetStatistics
        | A::AtSetOptions
        | A::AtResetOptions
        | A::AtSetStorage
        | A::AtDropColumn
        | A::AtAddIndex
        | A::AtAddConstraint
        | A::AtAlterConstraint
        | A::AtValidateConstraint
        | A::AtDropConstraint
        | A::AtSetRelOptions
        | A::AtResetRelOptions
        | A::AtReplicaIdentity
        | A::AtEnableRowSecurity
        | A::AtDisableRowSecurity
        | A::AtForceRowSecurity
        | A::AtNoForceRowSecurity => None,
        A::AtAttachPartition => match command.def.as_deref().and_then(|def| def.node.as_ref()) {
            Some(NodeEnum::PartitionCmd(attached)) => bounds(attached.bound.as_ref()),
            _ => Some("a part of the command is unknown"),
        },
        A::AtAlterColumnType => match command.def.as_deref().and_then(|def| def.node.as_ref()) {
            Some(NodeEnum::ColumnDef(column)) if column.raw_default.is_none() => None,
            _ => Some("the command computes new values for existing rows"),
        },
        _ => Some("a part of the command is unknown"),
    }
}

/// Reason why a new column may differ: it is added to existing rows, with values that are not the same for
/// all of them.
fn fills(column: &ColumnDef) -> Option<&'static str> {
    let computes = is_computed(column.type_name.as_ref(), &column.constraints);
    computes.then_some("the command computes values for existing rows")
}

/// Reason why a domain may differ: its default fills columns that are added to existing rows later, where
/// ALTER TABLE names only the domain.
fn fills_later(domain: &CreateDomainStmt) -> Option<&'static str> {
    let computes = is_computed(domain.type_name.as_ref(), &domain.constraints);
    computes.then_some("the DEFAULT would be computed for existing rows that get a column of it")
}

/// True if the type or a constraint brings a default that is no constant.
fn is_computed(of_type: Option<&TypeName>, constraints: &[Node]) -> bool {
    let is_one = |name: &Node| matches!(&name.node, Some(NodeEnum::String(name)) if COMPUTED.contains(&name.sval.as_str()));
    let plain = |constraint: &Node| match &constraint.node {
        Some(NodeEnum::Constraint(constraint)) => match constraint.contype() {
            ConstrType::ConstrDefault => constraint.raw_expr.as_deref().is_some_and(is_constant),
            ConstrType::ConstrIdentity | ConstrType::ConstrGenerated => false,
            _ => true,
        },
        _ => false,
    };
    of_type.and_then(|name| name.names.last()).is_none_or(is_one) || !constraints.iter().all(plain)
}

/// True for a literal, perhaps with a cast. A word such as 'now' is none.
fn is_constant(expression: &Node) -> bool {
    use pg_query::protobuf::a_const::Val;
    match &expression.node {
        Some(NodeEnum::AConst(constant)) => match &constant.val {
            Some(Val::Sval(text)) => !tells_the_clock(text.sval.as_bytes()),
            _ => true,
        },
        Some(NodeEnum::TypeCast(cast)) => cast.arg.as_deref().is_some_and(is_constant),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differs_at(text: &str) -> bool {
        differs(text, Strings::Standard).is_some()
    }

    #[test]
    fn definitions_are_alike() {
        for text in [
            "CREATE TABLE t (id serial PRIMARY KEY, at timestamptz DEFAULT now())",
            "CREATE TABLE IF NOT EXISTS t (id int GENERATED ALWAYS AS IDENTITY)",
            "CREATE TABLE t (id int GENERATED BY DEFAULT AS IDENTITY (START 5 CACHE 1) PRIMARY KEY WITH (fillfactor = 70))",
            "CREATE UNIQUE INDEX i ON t (lower(v))",
            "CREATE TABLE p PARTITION OF t FOR VALUES FROM (1, MINVALUE) TO ('b', MAXVALUE)",
            "CREATE TABLE p PARTITION OF t FOR VALUES IN (1, 'snow'::text, NULL)",
            "CREATE TABLE p PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 0)",
            "CREATE TABLE p PARTITION OF t DEFAULT",
            "ALTER TABLE t ATTACH PARTITION p FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')",
            "ALTER INDEX i ATTACH PARTITION j",
            "COMMENT ON TABLE t IS 'now'",
            "CREATE VIEW v AS SELECT * FROM t",
            "CREATE SEQUENCE s START 5",
            "ALTER SEQUENCE s CACHE 1",
            "ALTER TABLE t ADD COLUMN v int NOT NULL DEFAULT 7, DROP COLUMN w",
            "ALTER TABLE t ADD COLUMN v text DEFAULT 'x'::text",
            "ALTER TABLE t ALTER COLUMN v SET DEFAULT now()",
            "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (v) REFERENCES u",
            "ALTER TABLE t ALTER COLUMN v TYPE bigint",
            "DROP TABLE t CASCADE",
            "ALTER TABLE t RENAME TO u",
            "CREATE TYPE mood AS ENUM ('sad')",
            "CREATE DOMAIN label AS text COLLATE \"C\" NOT NULL DEFAULT 'none' CHECK (VALUE <> '')",
            "CREATE DOMAIN few AS int",
            "GRANT SELECT ON t TO PUBLIC",
            "CREATE SCHEMA s",
        ] {
            assert_eq!(differs(text, Strings::Standard), None, "{text}");
        }
    }

    #[test]
    fn values_that_are_computed_for_rows_are_not() {
        for text in [
            "CREATE TABLE t AS SELECT 1",
            "CREATE TABLE t (at timestamptz DEFAULT 'now')",
            "CREATE TABLE t (at date CHECK (at > date 'today'))",
            "ALTER TABLE t ALTER COLUMN at SET DEFAULT 'tomorrow'::date",
            "CREATE VIEW v AS SELECT 'now'::timestamptz AS made",
            "CREATE INDEX i ON t (a) WHERE at > 'Yesterday'",
            "CREATE POLICY p ON t USING (at > 'today')",
            "CREATE TABLE p PARTITION OF t FOR VALUES FROM (now()) TO ('2040-01-01')",
            "ALTER TABLE t ATTACH PARTITION p FOR VALUES IN (current_date)",
            "SELECT 1 INTO t",
            "CREATE MATERIALIZED VIEW m AS SELECT 1",
            "CREATE TEMP TABLE t (a int)",
            "CREATE UNLOGGED TABLE t (a int)",
            "CREATE SEQUENCE s CACHE 10",
            "ALTER SEQUENCE s CACHE 10",
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY (CACHE 10) PRIMARY KEY, v int)",
            "CREATE TABLE t (v int, id int NOT NULL GENERATED BY DEFAULT AS IDENTITY (START 5 CACHE 2))",
            "ALTER TABLE t ADD COLUMN id int GENERATED ALWAYS AS IDENTITY (CACHE 10)",
            "ALTER TABLE t ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (CACHE 10)",
            "ALTER TABLE t ALTER COLUMN id SET CACHE 10",
            "CREATE INDEX CONCURRENTLY i ON t (a)",
            "ALTER TABLE t ADD COLUMN id serial",
            "ALTER TABLE t ADD COLUMN id int GENERATED ALWAYS AS IDENTITY",
            "ALTER TABLE t ADD COLUMN at timestamptz DEFAULT now()",
            "ALTER TABLE t ADD COLUMN at timestamptz DEFAULT 'now'",
            "ALTER TABLE t ADD COLUMN u uuid DEFAULT gen_random_uuid()",
            "ALTER TABLE t ADD COLUMN at information_schema.time_stamp",
            "ALTER TABLE t ALTER COLUMN v TYPE int USING random()::int",
            "CREATE DOMAIN d AS float8 DEFAULT random()",
            "CREATE DOMAIN d AS timestamptz NOT NULL DEFAULT 'now' CHECK (VALUE > '2000-01-01')",
            "CREATE DOMAIN d AS information_schema.time_stamp",
            "ALTER DOMAIN d SET DEFAULT random()",
            "ALTER TABLE t DISABLE TRIGGER x",
            "CREATE SCHEMA s CREATE TABLE t (a int)",
            "CREATE EXTENSION x",
            "CREATE EVENT TRIGGER x ON ddl_command_end EXECUTE FUNCTION f()",
            "ALTER EVENT TRIGGER x ENABLE ALWAYS",
            "ALTER EXTENSION x DROP EVENT TRIGGER y",
            "CREATE ROLE r",
            "no command",
        ] {
            assert!(differs_at(text), "{text}");
        }
    }
}
