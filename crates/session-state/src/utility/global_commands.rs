//! Commands for which no event trigger fires: on roles and memberships, databases and tablespaces, REASSIGN
//! OWNED. PostgreSQL's own grammar recognizes them, once the first words allow it.

use super::parse_tree;
use pg_query::NodeEnum;
use pg_query::protobuf::{CreatedbStmt, Node, ObjectType, Token};
use statement_analysis::shape::Strings;

/// Template of a new database whose command names none.
const USUAL_TEMPLATE: &str = "template1";

/// Effects of a command beyond one database.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Everywhere {
    /// True if the command has such effects.
    pub(super) everywhere: bool,
    /// Databases to which no session may be connected meanwhile.
    pub(super) alone: Vec<String>,
}

/// True if a command that begins with these words may be one of these: none of them contains an expression.
pub(super) fn may_be(first: Token, second: Option<Token>) -> bool {
    match first {
        Token::Grant | Token::Revoke | Token::Reassign => true,
        Token::Create | Token::Alter | Token::Drop => matches!(
            second,
            Some(
                Token::Role
                    | Token::User
                    | Token::GroupP
                    | Token::Database
                    | Token::Tablespace
                    | Token::Owned
            )
        ),
        _ => false,
    }
}

/// Effects of the command beyond one database. A command that the grammar refuses counts as having them.
pub(super) fn of(piece: &str, strings: Strings) -> Everywhere {
    let unknown = Everywhere { everywhere: true, alone: Vec::new() };
    parse_tree::parsed(piece, strings).map_or(unknown, |node| of_node(&node))
}

fn of_node(node: &NodeEnum) -> Everywhere {
    let alone = |name: &str| Everywhere { everywhere: true, alone: vec![name.to_owned()] };
    let if_so = |everywhere| Everywhere { everywhere, alone: Vec::new() };
    match node {
        NodeEnum::DropdbStmt(statement) => alone(&statement.dbname),
        NodeEnum::CreatedbStmt(statement) => alone(template(statement)),
        NodeEnum::RenameStmt(statement) if statement.rename_type() == ObjectType::ObjectDatabase => {
            alone(&statement.subname)
        }
        NodeEnum::AlterDatabaseStmt(statement) if option(&statement.options, "tablespace").is_some() => {
            alone(&statement.dbname)
        }
        NodeEnum::RenameStmt(statement) => if_so(is_shared(statement.rename_type())),
        NodeEnum::AlterOwnerStmt(statement) => if_so(is_shared(statement.object_type())),
        NodeEnum::GrantStmt(statement) => if_so(is_shared(statement.objtype())),
        NodeEnum::GrantRoleStmt(_)
        | NodeEnum::CreateRoleStmt(_)
        | NodeEnum::AlterRoleStmt(_)
        | NodeEnum::AlterRoleSetStmt(_)
        | NodeEnum::DropRoleStmt(_)
        | NodeEnum::AlterDatabaseStmt(_)
        | NodeEnum::AlterDatabaseSetStmt(_)
        | NodeEnum::AlterDatabaseRefreshCollStmt(_)
        | NodeEnum::CreateTableSpaceStmt(_)
        | NodeEnum::DropTableSpaceStmt(_)
        | NodeEnum::AlterTableSpaceOptionsStmt(_)
        | NodeEnum::DropOwnedStmt(_)
        | NodeEnum::ReassignOwnedStmt(_) => if_so(true),
        _ => if_so(false),
    }
}

/// True if an object of this kind belongs to the whole server, not to one database.
fn is_shared(kind: ObjectType) -> bool {
    matches!(
        kind,
        ObjectType::ObjectDatabase
            | ObjectType::ObjectTablespace
            | ObjectType::ObjectRole
            | ObjectType::ObjectParameterAcl
    )
}

fn template(statement: &CreatedbStmt) -> &str {
    match option(&statement.options, "template") {
        Some(Some(NodeEnum::String(name))) => &name.sval,
        _ => USUAL_TEMPLATE,
    }
}

/// The value of an option, if it is there.
fn option<'a>(options: &'a [Node], name: &str) -> Option<Option<&'a NodeEnum>> {
    options.iter().find_map(|option| match &option.node {
        Some(NodeEnum::DefElem(option)) if option.defname == name => {
            Some(option.arg.as_ref().and_then(|value| value.node.as_ref()))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::{Utility, What, split};

    fn ddl(text: &str) -> (bool, Vec<String>) {
        match &split(text, Strings::Standard)[..] {
            [statement] => match &statement.what {
                What::Utility(Utility::Ddl { everywhere, alone, .. }) => (*everywhere, alone.clone()),
                other => panic!("{text}: {other:?}"),
            },
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_fires_no_event_trigger() {
        for text in [
            "CREATE ROLE a",
            "alter user a set x = 1",
            "ALTER ROLE ALL SET search_path = b",
            "ALTER ROLE a RENAME TO b",
            "ALTER GROUP a ADD USER b",
            "DROP GROUP a",
            "GRANT a TO b",
            "revoke a from b -- no longer on call",
            "REVOKE ADMIN OPTION FOR \"x on y\" FROM b",
            "GRANT CONNECT ON DATABASE d TO b",
            "GRANT SET ON PARAMETER log_statement TO b",
            "REASSIGN OWNED BY a TO b",
            "drop owned by a",
            "/* c */ ALTER -- x\n DATABASE d SET a = 1",
            "ALTER DATABASE d OWNER TO b",
            "CREATE TABLESPACE s LOCATION '/s'",
        ] {
            assert_eq!(ddl(text), (true, vec![]), "{text}");
        }
        for text in [
            "CREATE TABLE role (a int)",
            "GRANT SELECT ON t TO b",
            "REVOKE SELECT ON ALL TABLES IN SCHEMA s FROM b",
            "DROP VIEW v",
            "CREATE USER MAPPING FOR a SERVER s",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO b",
        ] {
            assert_eq!(ddl(text), (false, vec![]), "{text}");
        }
    }

    #[test]
    fn databases_that_somebody_needs_alone() {
        for (text, name) in [
            ("DROP DATABASE IF EXISTS a", "a"),
            ("drop database AB", "ab"),
            ("CREATE DATABASE b TEMPLATE \"A b\"", "A b"),
            ("CREATE DATABASE b", "template1"),
            ("ALTER DATABASE \"Ä\" RENAME TO b", "Ä"),
            ("ALTER DATABASE a SET TABLESPACE s", "a"),
        ] {
            assert_eq!(ddl(text), (true, vec![name.to_owned()]), "{text}");
        }
        assert_eq!(ddl("ALTER DATABASE a CONNECTION LIMIT 3"), (true, vec![]));
    }
}
