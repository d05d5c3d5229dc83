//! PostgreSQL's types that the tier stores, with their OIDs, names and classes.

use pg_query::NodeEnum;
use pg_query::protobuf::{Node, TypeName, a_const::Val};

use crate::problem::Problem;

/// A type by its base; lengths and precisions are in [`TypeWithModifier`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// A literal or parameter whose type is still open.
    Unknown,
    /// `boolean`, stored as 0 or 1.
    Bool,
    /// `smallint`.
    Int2,
    /// `integer`.
    Int4,
    /// `bigint`.
    Int8,
    /// `numeric`, stored as canonical text.
    Numeric,
    /// `real`.
    Float4,
    /// `double precision`.
    Float8,
    /// `text`.
    Text,
    /// `character varying`.
    Varchar,
    /// `character`, stored without trailing blanks.
    Bpchar,
    /// `name` of the system catalogue.
    Name,
    /// `"char"` of the system catalogue.
    Char,
    /// `oid` of the system catalogue.
    Oid,
    /// `regclass`: only compared with an OID, or as an output column.
    Regclass,
    /// `date`, stored as days since 2000-01-01.
    Date,
    /// `timestamp`, stored as microseconds since 2000-01-01.
    Timestamp,
    /// `timestamp with time zone`, stored as microseconds since 2000-01-01 00:00 UTC.
    Timestamptz,
    /// `interval`: only as a constant that is added to a timestamp.
    Interval,
    /// `bytea`.
    Bytea,
    /// `uuid`, stored as 16 bytes.
    Uuid,
    /// `json`, stored as text.
    Json,
    /// `jsonb`, stored as PostgreSQL's normal text of it.
    Jsonb,
    /// `void`, the result of some functions.
    Void,
    /// An array of elements: only as a parameter or literal of `= ANY`.
    Array(Element),
}

/// Type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Element {
    /// `boolean[]`
    Bool,
    /// `smallint[]`
    Int2,
    /// `integer[]`
    Int4,
    /// `bigint[]`
    Int8,
    /// `text[]`
    Text,
    /// `character varying[]`
    Varchar,
    /// `numeric[]`
    Numeric,
    /// `uuid[]`
    Uuid,
}

/// A type with its modifier as in `pg_attribute.atttypmod`; -1 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeWithModifier {
    /// The base type.
    pub base: Type,
    /// The modifier.
    pub modifier: i32,
}

/// Each type with OID, array's OID, size of a value in bytes (-1: varies), SQL name and internal name.
const TABLE: &[(Type, u32, u32, i16, &str, &str)] = &[
    (Type::Unknown, 705, 0, -2, "unknown", "unknown"),
    (Type::Bool, 16, 1000, 1, "boolean", "bool"),
    (Type::Int2, 21, 1005, 2, "smallint", "int2"),
    (Type::Int4, 23, 1007, 4, "integer", "int4"),
    (Type::Int8, 20, 1016, 8, "bigint", "int8"),
    (Type::Numeric, 1700, 1231, -1, "numeric", "numeric"),
    (Type::Float4, 700, 1021, 4, "real", "float4"),
    (Type::Float8, 701, 1022, 8, "double precision", "float8"),
    (Type::Text, 25, 1009, -1, "text", "text"),
    (Type::Varchar, 1043, 1015, -1, "character varying", "varchar"),
    (Type::Bpchar, 1042, 1014, -1, "character", "bpchar"),
    (Type::Name, 19, 1003, 64, "name", "name"),
    (Type::Char, 18, 1002, 1, "\"char\"", "char"),
    (Type::Oid, 26, 1028, 4, "oid", "oid"),
    (Type::Regclass, 2205, 0, 4, "regclass", "regclass"),
    (Type::Date, 1082, 1182, 4, "date", "date"),
    (Type::Timestamp, 1114, 1115, 8, "timestamp without time zone", "timestamp"),
    (Type::Timestamptz, 1184, 1185, 8, "timestamp with time zone", "timestamptz"),
    (Type::Interval, 1186, 1187, 16, "interval", "interval"),
    (Type::Bytea, 17, 1001, -1, "bytea", "bytea"),
    (Type::Uuid, 2950, 2951, 16, "uuid", "uuid"),
    (Type::Json, 114, 199, -1, "json", "json"),
    (Type::Jsonb, 3802, 3807, -1, "jsonb", "jsonb"),
    (Type::Void, 2278, 0, 4, "void", "void"),
];

const ELEMENTS: &[(Element, Type)] = &[
    (Element::Bool, Type::Bool),
    (Element::Int2, Type::Int2),
    (Element::Int4, Type::Int4),
    (Element::Int8, Type::Int8),
    (Element::Text, Type::Text),
    (Element::Varchar, Type::Varchar),
    (Element::Numeric, Type::Numeric),
    (Element::Uuid, Type::Uuid),
];

impl Element {
    /// The element's own type.
    pub fn base(self) -> Type {
        ELEMENTS.iter().find(|(element, _)| *element == self).map_or(Type::Text, |(_, base)| *base)
    }
}

impl Type {
    fn row(self) -> &'static (Type, u32, u32, i16, &'static str, &'static str) {
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[0])
    }

    /// The type's OID.
    pub fn oid(self) -> u32 {
        match self {
            Type::Array(element) => element.base().row().2,
            _ => self.row().1,
        }
    }

    /// The type with this OID.
    pub fn from_oid(oid: u32) -> Option<Type> {
        let array = ELEMENTS.iter().find(|(_, base)| base.row().2 == oid);
        let base = TABLE.iter().find(|row| row.1 == oid).map(|row| row.0);
        base.or(array.map(|(element, _)| Type::Array(*element)))
    }

    /// Size as in `pg_type.typlen`.
    pub fn size(self) -> i16 {
        match self {
            Type::Array(_) => -1,
            _ => self.row().3,
        }
    }

    /// The name in messages.
    pub fn name(self) -> String {
        match self {
            Type::Array(element) => format!("{}[]", element.base().row().4),
            _ => self.row().4.to_owned(),
        }
    }

    /// The name in `pg_type`.
    pub fn internal_name(self) -> &'static str {
        self.row().5
    }

    /// The type of arrays of it, for the elements that are supported.
    pub fn array(self) -> Option<Type> {
        ELEMENTS.iter().find(|(_, base)| *base == self).map(|(element, _)| Type::Array(*element))
    }

    /// All base types that `pg_type` shows: type, OID, OID of its array, size, internal name.
    pub(crate) fn all() -> impl Iterator<Item = (Type, u32, u32, i16, &'static str)> {
        TABLE.iter().map(|row| (row.0, row.1, row.2, row.3, row.5))
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Type::Int2 | Type::Int4 | Type::Int8)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Type::Float4 | Type::Float8)
    }

    pub(crate) fn is_number(self) -> bool {
        self.is_integer() || self.is_float() || self == Type::Numeric
    }

    pub(crate) fn is_text(self) -> bool {
        matches!(self, Type::Text | Type::Varchar | Type::Bpchar | Type::Name)
    }

    pub(crate) fn is_time(self) -> bool {
        matches!(self, Type::Date | Type::Timestamp | Type::Timestamptz)
    }

    /// SQLite's type of a column in a STRICT table.
    pub(crate) fn storage(self) -> &'static str {
        match self {
            Type::Float4 | Type::Float8 => "REAL",
            Type::Bytea | Type::Uuid => "BLOB",
            Type::Numeric => "TEXT COLLATE consort_numeric",
            _ if self.is_text() || matches!(self, Type::Json | Type::Jsonb | Type::Char) => "TEXT",
            _ => "INTEGER",
        }
    }

    /// Position among numbers: a common type is the later one.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Type::Int2 => 1,
            Type::Int4 => 2,
            Type::Int8 => 3,
            Type::Numeric => 4,
            Type::Float4 => 5,
            Type::Float8 => 6,
            Type::Date => 11,
            Type::Timestamp => 12,
            Type::Timestamptz => 13,
            _ => 0,
        }
    }

    /// The type that values of both types convert to without being asked, as in PostgreSQL's UNION.
    pub(crate) fn common(self, other: Type) -> Option<Type> {
        match (self, other) {
            _ if self == other => Some(self),
            (Type::Unknown, known) | (known, Type::Unknown) => Some(known),
            _ if self.is_number() && other.is_number() || self.is_time() && other.is_time() => {
                Some(if self.rank() >= other.rank() { self } else { other })
            }
            (Type::Oid | Type::Regclass, _) if other.is_integer() || other == Type::Oid => Some(Type::Oid),
            (_, Type::Oid | Type::Regclass) if self.is_integer() || self == Type::Oid => Some(Type::Oid),
            _ if self.is_text() && other.is_text() => Some(self),
            _ => None,
        }
    }
}

impl TypeWithModifier {
    /// A type without modifier.
    pub fn plain(base: Type) -> TypeWithModifier {
        TypeWithModifier { base, modifier: -1 }
    }

    /// Length of `varchar(n)` or `char(n)` in characters.
    pub fn length(self) -> Option<usize> {
        let is_sized = matches!(self.base, Type::Varchar | Type::Bpchar);
        (is_sized && self.modifier >= 4).then(|| usize::try_from(self.modifier - 4).unwrap_or_default())
    }

    /// Precision and scale of `numeric(p, s)`, in decimal digits.
    pub fn precision_and_scale(self) -> Option<(u32, u32)> {
        let bits = u32::try_from(self.modifier - 4).ok()?;
        (self.base == Type::Numeric && self.modifier >= 4).then_some((bits >> 16, bits & 0x7ff))
    }

    /// The name as `format_type` prints it.
    pub fn name(self) -> String {
        match (self.length(), self.precision_and_scale()) {
            (Some(length), _) => format!("{}({length})", self.base.name()),
            (_, Some((precision, scale))) => format!("numeric({precision},{scale})"),
            _ => self.base.name(),
        }
    }

    /// Reads a type's name from the tree.
    pub(crate) fn read(name: &TypeName) -> Result<TypeWithModifier, Problem> {
        let names: Vec<&str> = name.names.iter().filter_map(string).collect();
        let word = match names.as_slice() {
            ["pg_catalog", word] | [word] => *word,
            _ => return Err(Problem::unsupported(format!("type {}", names.join(".")))),
        };
        let base = match word {
            "bigserial" | "serial8" => Type::Int8,
            "serial" | "serial4" => Type::Int4,
            "smallserial" | "serial2" => Type::Int2,
            "void" | "unknown" | "regproc" | "regtype" | "regnamespace" => {
                return Err(Problem::unsupported(format!("type {word}")));
            }
            _ => Type::all().find(|row| row.4 == word).map(|row| row.0).ok_or_else(|| unknown_type(word))?,
        };
        if name.setof || name.pct_type {
            return Err(Problem::unsupported(format!("type {word} in this form")));
        }
        let modifiers = name.typmods.iter().map(integer).collect::<Option<Vec<i32>>>();
        let modifiers =
            modifiers.ok_or_else(|| Problem::unsupported(format!("this modifier of type {word}")))?;
        let modifier = modifier(base, word, &modifiers)?;
        if name.array_bounds.is_empty() {
            return Ok(TypeWithModifier { base, modifier });
        }
        let array = base.array().ok_or_else(|| Problem::unsupported(format!("array type {word}[]")))?;
        Ok(TypeWithModifier::plain(array))
    }
}

fn unknown_type(word: &str) -> Problem {
    const KNOWN: &[&str] = &[
        "time",
        "timetz",
        "money",
        "bit",
        "varbit",
        "inet",
        "cidr",
        "macaddr",
        "point",
        "box",
        "path",
        "polygon",
        "line",
        "circle",
        "lseg",
        "xml",
        "tsvector",
        "tsquery",
        "int4range",
        "int8range",
        "numrange",
        "daterange",
        "tsrange",
        "tstzrange",
        "oidvector",
        "int2vector",
        "pg_lsn",
        "jsonpath",
    ];
    if KNOWN.contains(&word) {
        return Problem::unsupported(format!("type {word}"));
    }
    Problem::new("42704", format!("type \"{word}\" does not exist"))
}

fn modifier(base: Type, word: &str, modifiers: &[i32]) -> Result<i32, Problem> {
    match (base, modifiers) {
        (Type::Bpchar, []) if word == "bpchar" => Ok(-1),
        (_, []) => Ok(-1),
        (Type::Varchar | Type::Bpchar, [length]) => match length {
            1..=10_485_760 => Ok(length + 4),
            ..1 => Err(Problem::new("22023", format!("length for type {word} must be at least 1"))),
            _ => Err(Problem::new("22023", format!("length for type {word} cannot exceed 10485760"))),
        },
        (Type::Numeric, [precision, rest @ ..]) if rest.len() < 2 => {
            let scale = rest.first().copied().unwrap_or(0);
            if !(1..=1000).contains(precision) {
                let text = format!("NUMERIC precision {precision} must be between 1 and 1000");
                return Err(Problem::new("22023", text));
            }
            if *precision > 38 || !(0..=*precision).contains(&scale) {
                return Err(Problem::unsupported(format!("numeric({precision},{scale})")).hint(
                    "The precision is at most 38 digits and the scale is between 0 and the precision.",
                ));
            }
            Ok(((precision << 16) | scale) + 4)
        }
        (Type::Timestamp | Type::Timestamptz, [6]) => Ok(6),
        _ => Err(Problem::unsupported(format!("a modifier of type {word}"))),
    }
}

/// The text of a string node.
pub(crate) fn string(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::String(text) => Some(&text.sval),
        _ => None,
    }
}

/// The number of an integer constant.
pub(crate) fn integer(node: &Node) -> Option<i32> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            Val::Ival(number) => Some(number.ival),
            _ => None,
        },
        NodeEnum::Integer(number) => Some(number.ival),
        _ => None,
    }
}
