//! Conversions between types: implicit ones, those of an assignment, and explicit casts.

use rusqlite::types::Value;

use super::{Expr, Source, Translator};
use crate::data_types::{Type, TypeWithModifier};
use crate::literal::{literal, string_literal};
use crate::numeric::Decimal;
use crate::problem::Problem;
use crate::value::{self, sized};

/// How far a conversion may go, as in `pg_cast.castcontext`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cast {
    Implicit,
    Assignment,
    Explicit,
}

fn constant(of: Type, text: &str) -> Result<String, Problem> {
    let value = value::from_text(of, text)?;
    Ok(match value {
        // A literal of a whole number without point is an integer to SQLite.
        Value::Real(number) if number.is_finite() => {
            let sql = literal(&Value::Real(number));
            if sql.contains('e') { sql } else { format!("{sql}.0") }
        }
        other => literal(&other),
    })
}

impl Translator<'_> {
    /// The value as another type. `None` if there is no such conversion in this context.
    pub(crate) fn convert(
        &mut self,
        expr: Expr,
        to: TypeWithModifier,
        cast: Cast,
    ) -> Result<Option<Expr>, Problem> {
        let converted = match expr.source.clone() {
            Source::Literal(text) if expr.is_unknown() => Expr {
                source: Source::Literal(text.clone()),
                is_not_null: true,
                ..expr.with(constant(to.base, &text)?, TypeWithModifier::plain(to.base))
            },
            Source::Null if expr.is_unknown() => {
                Expr { source: Source::Null, ..expr.with("NULL", TypeWithModifier::plain(to.base)) }
            }
            Source::Parameter(place) if expr.is_unknown() => {
                self.parameters[place] = Some(to.base);
                let kind = TypeWithModifier::plain(to.base);
                Expr { kind, ..expr }
            }
            Source::Number(text) if to.base.is_float() => {
                expr.with(constant(to.base, &text)?, TypeWithModifier::plain(to.base))
            }
            _ => match self.convert_known(&expr, to.base, cast) {
                Some(Conversion::Same) => {
                    let kind =
                        if to.base == expr.base() { expr.kind } else { TypeWithModifier::plain(to.base) };
                    Expr { kind, ..expr }
                }
                Some(Conversion::Sql(sql)) => expr.with(sql, TypeWithModifier::plain(to.base)),
                None => return Ok(None),
            },
        };
        resize(converted, to, cast).map(Some)
    }

    fn convert_known(&self, expr: &Expr, to: Type, cast: Cast) -> Option<Conversion> {
        use Type::{
            Bool, Bpchar, Bytea, Char, Date, Float4, Float8, Int4, Int8, Json, Jsonb, Name, Numeric, Oid,
            Text, Timestamp, Timestamptz,
        };
        let (from, sql) = (expr.base(), &expr.sql);
        let same = Some(Conversion::Same);
        let call = |text: String| Some(Conversion::Sql(text));
        let name = to.name();
        let (assigns, explicit) = (cast >= Cast::Assignment, cast == Cast::Explicit);
        match (from, to) {
            _ if from == to => same,
            (Bpchar, _) if to.is_text() => same,
            (_, Bpchar) if from.is_text() => call(format!("pg_rtrim({sql})")),
            _ if from.is_text() && to.is_text() => same,
            (Type::Int2 | Int4 | Int8 | Type::Regclass, Oid) | (Oid, Int8 | Type::Regclass) => same,
            (Oid, Int4) if assigns => same,
            _ if from.is_integer() && to.is_integer() => {
                if from.rank() <= to.rank() {
                    same
                } else if assigns {
                    call(format!("pg_{}({sql})", to.internal_name()))
                } else {
                    None
                }
            }
            (_, Float8) if from.is_integer() => call(format!("CAST({sql} AS REAL)")),
            (_, Float4) if from.is_integer() => call(format!("pg_f4({sql})")),
            (_, Numeric) if from.is_integer() && sql.bytes().all(|byte| byte.is_ascii_digit()) => {
                call(string_literal(sql))
            }
            (_, Numeric) if from.is_integer() => call(format!("CAST({sql} AS TEXT)")),
            (Numeric, Float8) => call(format!("pg_nfloat({sql})")),
            (Numeric, Float4) => call(format!("pg_nreal({sql})")),
            (Float4, Float8) => same,
            (Float8, Float4) if assigns => call(format!("pg_f4({sql})")),
            (Numeric, _) if to.is_integer() && assigns => call(format!("pg_nint({sql}, '{name}')")),
            (_, Numeric) if from.is_float() && assigns => {
                call(format!("pg_fnum({sql}, {})", i32::from(from == Float4)))
            }
            _ if from.is_float() && to.is_integer() && assigns => call(format!("pg_fint({sql}, '{name}')")),
            (Int4, Bool) if explicit => call(format!("({sql} <> 0)")),
            (Bool, Int4) if explicit => same,
            (Date, Timestamp | Timestamptz) => call(format!("pg_date_ts({sql})")),
            (Timestamp, Timestamptz) => same,
            (Timestamptz, Timestamp) if assigns => same,
            (Timestamp | Timestamptz, Date) if assigns => call(format!("pg_ts_date({sql})")),
            (Jsonb, Json) if assigns => same,
            (Json, Jsonb) if assigns => call(format!("pg_in({sql}, {})", Jsonb.oid())),
            (Name | Char, _) | (_, Name | Char) => {
                (from.is_text() || to.is_text() || from == Char).then_some(Conversion::Same)
            }
            (Type::Regclass, _) => None,
            (_, Text | Type::Varchar)
                if assigns && !matches!(from, Type::Array(_) | Type::Interval | Type::Void) =>
            {
                call(format!("pg_out({sql}, {})", from.oid()))
            }
            _ if from.is_text()
                && explicit
                && !matches!(to, Type::Array(_) | Type::Interval | Bytea | Oid | Type::Void) =>
            {
                call(format!("pg_in({sql}, {})", to.oid()))
            }
            _ => None,
        }
    }

    /// The value for a column. Error 42804 if its type does not fit.
    pub(crate) fn assign(&mut self, expr: Expr, to: TypeWithModifier, column: &str) -> Result<Expr, Problem> {
        let from = expr.base();
        self.convert(expr, to, Cast::Assignment)?.ok_or_else(|| {
            let text = format!(
                "column \"{column}\" is of type {} but expression is of type {}",
                to.base.name(),
                from.name()
            );
            Problem::new("42804", text).hint("You will need to rewrite or cast the expression.")
        })
    }

    /// The value as the type that several expressions have in common.
    pub(crate) fn implicit(&mut self, expr: Expr, to: Type) -> Result<Expr, Problem> {
        let from = expr.base();
        self.convert(expr, TypeWithModifier::plain(to), Cast::Implicit)?.ok_or_else(|| {
            Problem::new("42846", format!("cannot cast type {} to {}", from.name(), to.name()))
        })
    }

    /// An explicit cast. Error 42846 if there is none.
    pub(crate) fn cast(&mut self, expr: Expr, to: TypeWithModifier) -> Result<Expr, Problem> {
        let from = expr.base();
        if from == Type::Interval || to.base == Type::Interval {
            return Err(Problem::unsupported("a cast of an interval"));
        }
        self.convert(expr, to, Cast::Explicit)?.ok_or_else(|| {
            if [from, to.base].iter().any(|base| matches!(base, Type::Bytea | Type::Oid | Type::Regclass)) {
                return Problem::unsupported(format!("a cast of type {} to {}", from.name(), to.base.name()));
            }
            Problem::new("42846", format!("cannot cast type {} to {}", from.name(), to.base.name()))
        })
    }

    /// The type of all expressions together, as for UNION and CASE (`select_common_type`). Text if all are open.
    pub(crate) fn common_type(parts: &[Expr], of: &str) -> Result<Type, Problem> {
        let mut common = Type::Unknown;
        for part in parts {
            common = common.common(part.base()).ok_or_else(|| {
                let text =
                    [of, " types ", &common.name(), " and ", &part.base().name(), " cannot be matched"]
                        .concat();
                Problem::new("42804", text)
            })?;
        }
        Ok(if common == Type::Unknown { Type::Text } else { common })
    }

    /// All expressions as their common type, with the length that all of them share.
    pub(crate) fn unify(
        &mut self,
        parts: Vec<Expr>,
        of: &str,
    ) -> Result<(Vec<Expr>, TypeWithModifier), Problem> {
        let base = Translator::common_type(&parts, of)?;
        let mut unified = Vec::with_capacity(parts.len());
        for part in parts {
            unified.push(self.implicit(part, base)?);
        }
        let mut sized =
            unified.iter().filter(|part| part.source != Source::Null).map(|part| part.kind.modifier);
        let first = sized.next().unwrap_or(-1);
        let modifier = if sized.all(|modifier| modifier == first) { first } else { -1 };
        Ok((unified, TypeWithModifier { base, modifier }))
    }

    /// A condition. Error 42804 if it is of another type.
    pub(crate) fn condition(&mut self, expr: Expr, of: &str) -> Result<Expr, Problem> {
        let from = expr.base();
        self.convert(expr, TypeWithModifier::plain(Type::Bool), Cast::Implicit)?.ok_or_else(|| {
            Problem::new("42804", format!("argument of {of} must be type boolean, not type {}", from.name()))
        })
    }
}

/// Applies a length or precision; to a constant at once, so that its errors come before the first row.
fn resize(expr: Expr, to: TypeWithModifier, cast: Cast) -> Result<Expr, Problem> {
    if to.modifier < 0 || to.modifier == expr.kind.modifier || cast == Cast::Implicit {
        return Ok(expr);
    }
    let name = if to.base == Type::Bpchar { "character" } else { "character varying" };
    let sql = match (to.base, to.length(), to.precision_and_scale(), &expr.source) {
        (_, _, _, Source::Null) => return Ok(Expr { kind: to, ..expr }),
        (_, _, Some((precision, scale)), Source::Literal(text) | Source::Number(text)) => {
            string_literal(&Decimal::parse(text)?.fit(precision, scale)?.to_string())
        }
        (_, _, Some((precision, scale)), _) => format!("pg_nfit({}, {precision}, {scale})", expr.sql),
        (Type::Varchar, Some(length), ..) if cast == Cast::Explicit => {
            format!("pg_cut({}, {length})", expr.sql)
        }
        (Type::Bpchar, Some(length), ..) if cast == Cast::Explicit => {
            format!("pg_rtrim(pg_cut({}, {length}))", expr.sql)
        }
        (Type::Varchar, Some(length), _, Source::Literal(text)) => {
            string_literal(&sized(text, length, name)?)
        }
        (Type::Bpchar, Some(length), _, Source::Literal(text)) => {
            string_literal(&sized(text.trim_end_matches(' '), length, name)?)
        }
        (Type::Varchar, Some(length), ..) => format!("pg_varchar({}, {length})", expr.sql),
        (Type::Bpchar, Some(length), ..) => format!("pg_bpchar({}, {length})", expr.sql),
        _ => return Ok(Expr { kind: to, ..expr }),
    };
    Ok(expr.with(sql, to))
}

enum Conversion {
    Same,
    Sql(String),
}
