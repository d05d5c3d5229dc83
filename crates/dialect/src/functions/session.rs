//! Functions of the session: sequences, random numbers, names, and guards of statements.

use rusqlite::Result;
use rusqlite::types::{Value, ValueRef};

use super::{PURE, Registry, VOLATILE, integer, words};
use crate::data_types::{Type, TypeWithModifier};
use crate::problem::{NO_ROLES, Problem};

pub(super) fn register(registry: &Registry<'_>) -> Result<()> {
    registry.open("pg_random", 0, VOLATILE, |_, context| Ok(Value::Real(context.state().random())))?;
    registry.open("pg_user", 0, PURE, |_, context| Ok(Value::Text(context.state().user.clone())))?;
    registry.open("pg_database", 0, PURE, |_, context| Ok(Value::Text(context.state().database.clone())))?;
    // Error 0A000 for another role than the session's.
    registry.open("pg_is_user", 1, VOLATILE, |call, context| {
        let name = words(call, 0)?;
        if context.state().user == name {
            return Ok(Value::Integer(1));
        }
        Err(Problem::unsupported(format!("the owner \"{name}\"")).hint(NO_ROLES))
    })?;
    registry.open("pg_nextval", 1, VOLATILE, |call, context| {
        context.state().draw(words(call, 0)?, None).map(Value::Integer)
    })?;
    registry.open("pg_setval", 3, VOLATILE, |call, context| {
        if (0..3).any(|at| call.get_raw(at) == ValueRef::Null) {
            return Ok(Value::Null);
        }
        let set = (integer(call, 1)?, integer(call, 2)? != 0);
        context.state().draw(words(call, 0)?, Some(set)).map(Value::Integer)
    })?;
    registry.open("pg_currval", 1, VOLATILE, |call, context| {
        let name = words(call, 0)?;
        context.state().drawn.get(name).copied().map(Value::Integer).ok_or_else(|| {
            Problem::new(
                "55000",
                format!("currval of sequence \"{name}\" is not yet defined in this session"),
            )
        })
    })?;
    registry.open("pg_lastval", 0, VOLATILE, |_, context| {
        let last = context.state().last_drawn;
        last.map(Value::Integer)
            .ok_or_else(|| Problem::new("55000", "lastval is not yet defined in this session"))
    })?;
    registry.open("pg_format_type", 2, PURE, |call, _| {
        let ValueRef::Integer(oid) = call.get_raw(0) else { return Ok(Value::Null) };
        let modifier = integer(call, 1).ok().and_then(|modifier| i32::try_from(modifier).ok()).unwrap_or(-1);
        let base = u32::try_from(oid).ok().and_then(Type::from_oid);
        Ok(Value::Text(
            base.map_or_else(|| "???".to_owned(), |base| TypeWithModifier { base, modifier }.name()),
        ))
    })?;
    registry.strict("pg_to_regtype", 1, |call| {
        let base = crate::parse::type_name(words(call, 0)?);
        Ok(base.map_or(Value::Null, |base| Value::Integer(base.oid().into())))
    })?;
    registry.open("pg_limit", 2, PURE, |call, _| match call.get_raw(0) {
        ValueRef::Null => Ok(Value::Integer(if integer(call, 1)? == 0 { -1 } else { 0 })),
        ValueRef::Integer(count) if count >= 0 => Ok(Value::Integer(count)),
        _ if integer(call, 1)? == 0 => Err(Problem::new("2201W", "LIMIT must not be negative")),
        _ => Err(Problem::new("2201X", "OFFSET must not be negative")),
    })?;
    // True, or error 21000 if the running statement has proposed these keys before.
    registry.open("pg_once", -1, VOLATILE, |call, context| {
        let mut key = String::new();
        for at in 0..call.len() {
            match call.get_raw(at) {
                ValueRef::Null => return Ok(Value::Integer(1)),
                other => key.push_str(&format!("{other:?};")),
            }
        }
        if context.state().keys.insert(key) {
            return Ok(Value::Integer(1));
        }
        Err(Problem::new("21000", "ON CONFLICT DO UPDATE command cannot affect row a second time")
            .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values."))
    })
}
