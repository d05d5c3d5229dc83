//! Statements of each kind at a PostgreSQL server and through the dialect: the same answer, or a clean refusal.

#[path = "corpus/server.rs"]
mod server;

use std::collections::HashMap;
use std::ops::ControlFlow;

use dialect::{Catalog, Context, Parameter, Settings, UNSUPPORTED};
use rusqlite::Connection;
use server::Client;
use testkit::Scratch;

const CORPUS: &str = include_str!("corpus.sql");

/// Separator between a statement and its parameters, which are in text format.
const PARAMETERS: &str = " <- ";

/// Refused statements of a hundred, at most.
const REFUSED_PERCENT: usize = 15;

/// A column: name, type's OID, modifier, size, number in its table.
type Described = (String, u32, i32, i16, i16);

/// The answer to a statement: OIDs of parameters, columns, DataRow messages and the tag, or an SQLSTATE.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Rows { parameters: Vec<u32>, columns: Vec<Described>, rows: Vec<Vec<u8>>, tag: String },
    Error(String),
}

/// The dialect over a database in memory.
struct Database {
    conn: Connection,
    context: Context,
}

impl Database {
    fn new() -> Database {
        let conn = Connection::open_in_memory().expect("memory");
        Catalog::create(&conn).expect("a catalogue");
        let context = dialect::install(&conn).expect("functions");
        context.begin(800_000_000_000_000, 7);
        context.session("postgres", "corpus");
        let mut drawn: HashMap<u32, i64> = HashMap::new();
        context.draws(Box::new(move |draw| {
            let next = drawn.get(&draw.oid).map_or(draw.start, |last| last + draw.increment);
            let value = draw.set.unwrap_or(next);
            drawn.insert(draw.oid, value);
            Ok(value)
        }));
        Database { conn, context }
    }

    fn answer(&self, text: &str, values: &[Option<&str>], format: i16) -> Answer {
        self.conn.execute_batch("SAVEPOINT statement").expect("a savepoint");
        let answer = self.run(text, values, format);
        let end = match answer {
            Ok(_) => "RELEASE statement",
            Err(_) => "ROLLBACK TO statement; RELEASE statement",
        };
        self.conn.execute_batch(end).expect("the savepoint's end");
        answer.unwrap_or_else(|problem| Answer::Error(problem.sqlstate.to_owned()))
    }

    fn run(&self, text: &str, values: &[Option<&str>], format: i16) -> Result<Answer, dialect::Problem> {
        let parameter = |value: &Option<&str>| Parameter {
            format: 0,
            value: value.map(|value| value.as_bytes().to_vec()),
        };
        self.run_with(text, &values.iter().map(parameter).collect::<Vec<_>>(), format)
    }

    fn run_with(
        &self,
        text: &str,
        parameters: &[Parameter],
        format: i16,
    ) -> Result<Answer, dialect::Problem> {
        let statement = dialect::split(text)?.remove(0);
        let catalog = Catalog::load(&self.conn).expect("a catalogue");
        let plan = dialect::plan(&statement, &catalog, &[], &Settings::default())?;
        let mut rows = Vec::new();
        let mut keep = |row: &[u8]| {
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        };
        let done = plan.execute(&self.conn, &self.context, parameters, &[format], &mut keep)?;
        let column = |column: &dialect::Column| {
            (column.name.clone(), column.oid, column.typmod, column.size, column.attribute)
        };
        let columns = plan.columns.iter().map(column).collect();
        Ok(Answer::Rows { parameters: plan.parameters, columns, rows, tag: done.tag })
    }
}

fn in_any_order(statement: &str, answer: Answer) -> Answer {
    match answer {
        Answer::Rows { parameters, columns, mut rows, tag } => {
            if !statement.contains("ORDER BY") {
                rows.sort();
            }
            Answer::Rows { parameters, columns, rows, tag }
        }
        error => error,
    }
}

/// A statement with the texts of its parameters; `\N` is NULL.
fn with_parameters(line: &str) -> (&str, Vec<Option<&str>>) {
    match line.split_once(PARAMETERS) {
        Some((text, values)) => {
            (text, values.split(" | ").map(|value| (value != "\\N").then_some(value)).collect())
        }
        None => (line, Vec::new()),
    }
}

fn is_read(text: &str) -> bool {
    ["SELECT", "WITH", "VALUES"].iter().any(|word| text.starts_with(word))
        && !text.contains("nextval")
        && !text.contains("setval")
}

fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Error(sqlstate) => format!("error {sqlstate}"),
        Answer::Rows { parameters, columns, rows, tag } => {
            let rows: Vec<String> = rows.iter().map(|row| row[7..].escape_ascii().to_string()).collect();
            format!("{tag} {parameters:?} {columns:?}\n      {}", rows.join("\n      "))
        }
    }
}

/// A server with a database of collation C, and the dialect over an empty one.
fn both() -> (Scratch, Client, Database) {
    let servers = Scratch::start(0);
    servers.query("CREATE DATABASE corpus TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8'");
    let client = Client::connect(servers.primary(), "corpus");
    (servers, client, Database::new())
}

/// Numbers below a bound, from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// A decimal of up to 16 digits with up to 8 after the point.
    fn decimal(&mut self) -> String {
        let digits = 10_u64.pow(u32::try_from(self.below(16)).expect("small") + 1);
        let (number, scale) = (self.below(digits), self.below(9));
        let text = format!("{number:09}");
        let (whole, fraction) = text.split_at(text.len() - usize::try_from(scale).expect("small"));
        let sign = if self.below(3) == 0 { "-" } else { "" };
        if scale == 0 {
            format!("'{sign}{whole}'::numeric")
        } else {
            format!("'{sign}{whole}.{fraction}'::numeric")
        }
    }

    fn word(&mut self) -> String {
        (0..self.below(5))
            .map(|_| ["a", "b", "%", "_", "\\", "ä", "A"][usize::try_from(self.below(7)).expect("small")])
            .collect()
    }

    /// A statement whose answer depends on many rules of values.
    fn statement(&mut self) -> String {
        let (a, b) = (self.decimal(), self.decimal());
        let (day, us) = (self.below(80_000), self.below(86_400_000_000));
        let time = format!("(timestamp '1900-01-01' + interval '{day} days' + interval '{us} microseconds')");
        match self.below(6) {
            0 => format!("SELECT {a} + {b}, {a} - {b}, {a} * {b}, {a} < {b}, {a} = {b}, {a}::text"),
            1 => format!("SELECT {a} / {b}"),
            2 => format!(
                "SELECT {a} % {b}, round({a}, 3), trunc({a}, 1), floor({a}), ceil({a}), round({a}), abs({a})"
            ),
            3 => format!(
                "SELECT {a}::float8, {a}::float4, {a}::float8 * {b}::float8, {a}::float8::numeric, {a}::float8::text"
            ),
            4 => {
                let (text, pattern) = (self.word(), self.word());
                format!(
                    "SELECT '{text}' LIKE '{pattern}', '{text}' ILIKE '{pattern}', '{text}' < '{pattern}', upper('{text}')"
                )
            }
            _ => format!(
                "SELECT {time}, {time}::date, date_trunc('week', {time}), extract(doy FROM {time}), \
                 extract(epoch FROM {time}), {time} + interval '13 months', extract(isodow FROM {time}), date_trunc('quarter', {time})"
            ),
        }
    }
}

#[test]
fn generated_values_have_the_servers_answers() {
    let (_servers, mut client, database) = both();
    let (mut random, mut wrong, mut refused) = (Random(11), Vec::new(), 0);
    for _ in 0..1_500 {
        let text = random.statement();
        for format in 0..2 {
            let ours = database.answer(&text, &[], format);
            if ours == Answer::Error(UNSUPPORTED.to_owned()) {
                refused += 1;
                break;
            }
            let theirs = client.answer(&text, &[], format);
            if ours != theirs {
                wrong.push(format!("{text}\n  ours   {}\n  theirs {}", shown(&ours), shown(&theirs)));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(refused, 0);
}

/// Types with a value of each in text format.
const VALUES: &[(&str, &str)] = &[
    ("bool", "t"),
    ("int2", "-300"),
    ("int4", "-70000"),
    ("int8", "9223372036854775807"),
    ("float4", "-1.25e+20"),
    ("float8", "1.0000000000000002"),
    ("numeric", "-12345678901234567890.000100"),
    ("numeric", "0.00"),
    ("numeric", "100000000"),
    ("numeric", "0.00000001"),
    ("text", "ü \\ ' \""),
    ("varchar", "abc"),
    ("date", "0044-03-15"),
    ("date", "-infinity"),
    ("timestamp", "1999-12-31 23:59:59.999999"),
    ("timestamptz", "9999-01-01 00:00:00+00"),
    ("uuid", "00112233-4455-6677-8899-aabbccddeeff"),
    ("bytea", "\\x00ff10"),
    ("json", "{\"a\": [1, 2]}"),
    ("jsonb", "{\"a\": [1, 2.50], \"bb\": null}"),
];

#[test]
fn values_survive_both_formats() {
    let (_servers, mut client, database) = both();
    for (name, text) in VALUES {
        let statement = format!("SELECT $1::{name}");
        let theirs = client.answer(&statement, &[Some(text)], 1);
        assert_eq!(database.answer(&statement, &[Some(text)], 1), theirs, "{name} {text}");
        let Answer::Rows { rows, .. } = theirs else { panic!("{name}: an error") };
        let bytes = rows[0][11..].to_vec();
        let back = database.run_with(&statement, &[Parameter { format: 1, value: Some(bytes) }], 0);
        assert_eq!(back, Ok(client.answer(&statement, &[Some(text)], 0)), "{name} {text} in binary format");
    }
    let wrong: [(&str, &[u8]); 5] =
        [("int4", &[1, 2]), ("numeric", &[0, 9]), ("uuid", &[1]), ("jsonb", &[9]), ("text", &[0xff])];
    for (name, bytes) in wrong {
        let parameter = Parameter { format: 1, value: Some(bytes.to_vec()) };
        assert!(database.run_with(&format!("SELECT $1::{name}"), &[parameter], 0).is_err(), "{name}");
    }
}

#[test]
fn corpus_has_the_servers_answers() {
    let (_servers, mut client, database) = both();
    let (mut count, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for line in CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with("--")) {
        let (text, values) = with_parameters(line);
        count += 1;
        // Reads are asked for in both formats.
        for format in if is_read(text) { 0..2 } else { 0..1 } {
            let ours = database.answer(text, &values, format);
            if ours == Answer::Error(UNSUPPORTED.to_owned()) {
                refused.push(line);
                break;
            }
            let theirs = in_any_order(text, client.answer(text, &values, format));
            let ours = in_any_order(text, ours);
            if ours != theirs {
                wrong.push(format!("{line}\n  ours   {}\n  theirs {}", shown(&ours), shown(&theirs)));
                break;
            }
        }
    }
    println!("{count} statements, {} refused, {} wrong", refused.len(), wrong.len());
    refused.iter().for_each(|line| println!("refused: {line}"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        refused.len() * 100 <= count * REFUSED_PERCENT,
        "{} of {count} statements are refused",
        refused.len()
    );
}
