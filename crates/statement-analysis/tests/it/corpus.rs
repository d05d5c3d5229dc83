//! Statements with the expected answer of each: its footprint, whether it may be offloaded, and why not. The
//! analysis made the answers, and they were reviewed; `CONSORT_BLESS=1` writes them again.

use crate::analyst::Analyst;
use crate::server::Server;
use history::{ColumnSet, RelationId};
use statement_analysis::oid::FIRST_USER_OID;
use statement_analysis::template::{
    AccessTemplate, ClockWords, FootprintTemplate, Kind, RowsTemplate, Slot, Source, Template,
};
use statement_analysis::{Catalog, Parameter, Values};
use std::fmt::Write;
use std::path::Path;

/// The issue asks for this many.
const LEAST: usize = 400;

#[test]
fn every_statement_has_its_answer() {
    let server = Server::start();
    let bless = std::env::var("CONSORT_BLESS").is_ok_and(|value| !value.is_empty());
    let (mut statements, mut wrong) = (0, String::new());
    crate::block_on(async {
        let mut analyst = server.connect("postgres").await;
        let folders = crate::corpus(&mut analyst).await;
        crate::run_files(&mut analyst, &folders, "schema.sql").await;
        let mut catalog = crate::catalog(&mut analyst).await;
        assert_eq!(catalog.declare_harmless("public", "declared"), (1, None));
        let (found, others) = catalog.declare_extension_harmless("citext");
        assert!(found > 10 && others.is_none(), "{found} {others:?}");
        for file in crate::statement_files(&folders) {
            let old = std::fs::read_to_string(&file).unwrap();
            let mut connection = server.connect("postgres").await;
            connection.listen().await;
            let (new, count) = answer_all(&old, &mut connection, &catalog).await;
            statements += count;
            if bless {
                std::fs::write(&file, &new).unwrap();
            } else if old != new {
                wrong += &difference(&file, &old, &new);
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong}");
    assert!(statements >= LEAST, "{statements} statements");
}

fn difference(file: &Path, old: &str, new: &str) -> String {
    let mut text = format!("{}:\n", file.display());
    for (number, (old, new)) in old.lines().zip(new.lines()).enumerate().filter(|(_, (old, new))| old != new)
    {
        let _ = writeln!(text, "{}: expected {old}\n{:5} is       {new}", number + 1, "");
    }
    text
}

/// The file with all answers as they are now. A paragraph is a statement; lines that begin with `=>` are its answer, with
/// `#` are comments, and with `@` are run as they are.
async fn answer_all(text: &str, analyst: &mut Analyst, catalog: &Catalog) -> (String, usize) {
    let (mut new, mut count) = (String::new(), 0);
    let mut statement = String::new();
    for line in text.lines().chain([""]) {
        if line.starts_with("=>") {
            continue;
        }
        if line.is_empty() && !statement.trim().is_empty() {
            let _ = writeln!(new, "=> {}", answer(statement.trim_end(), analyst, catalog).await);
            count += 1;
            statement.clear();
        } else if let Some(setting) = line.strip_prefix('@') {
            analyst.run(setting).await;
        } else if !line.starts_with('#') {
            statement += line;
            statement.push('\n');
        }
        new += line;
        new.push('\n');
    }
    (new.trim_end().to_owned() + "\n", count)
}

async fn answer(statement: &str, analyst: &mut Analyst, catalog: &Catalog) -> String {
    let (mut template, shape) = match crate::judged(statement, analyst, catalog).await {
        Ok(judged) => judged,
        Err(error) => return format!("error: {error}"),
    };
    let mut texts = Vec::new();
    shape.texts(statement, &mut texts);
    let parameters = vec![Parameter::Null; template.parameters.len()];
    template.stays.extend(template.stay_with(&Values {
        literals: &texts,
        parameters: &parameters,
        utf8: true,
    }));
    describe(&template, catalog)
}

fn describe(template: &Template, catalog: &Catalog) -> String {
    let kind = match template.kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Utility => "utility",
    };
    let mut text = format!("{kind} | reads {}", footprint(&template.reads, catalog));
    if !template.writes.is_nothing() {
        let _ = write!(text, " | writes {}", footprint(&template.writes, catalog));
    }
    let leaves = template.stays.is_empty();
    match template.stays.iter().map(|stay| stay.name()).collect::<Vec<_>>() {
        stays if stays.is_empty() => text += " | may leave",
        stays => {
            let _ = write!(text, " | stays: {}", stays.join(", "));
        }
    }
    if let Some(chance) = template.chance {
        let _ = write!(text, " | chance: {}", chance.name());
    }
    if template.kind == Kind::Write {
        match template.again.table {
            Ok(_) => text += " | again",
            Err(why) => {
                let _ = write!(text, " | not again: {}", why.name());
            }
        }
    }
    let at_copies = template.at_copies;
    let marks = [
        (leaves && at_copies.never, "not at copies"),
        (leaves && at_copies.text_parameters, "text parameters at copies"),
        (leaves && at_copies.text_results, "text results at copies"),
        (template.dirties, "dirties"),
        (template.validity.exact && template.kind != Kind::Utility, "exact"),
        (template.clock_words != ClockWords::default(), "clock words"),
    ];
    for (_, mark) in marks.iter().filter(|(there, _)| *there && template.kind != Kind::Utility) {
        let _ = write!(text, " | {mark}");
    }
    text
}

fn footprint(footprint: &FootprintTemplate, catalog: &Catalog) -> String {
    let FootprintTemplate::Tables(tables) = footprint else { return "everything".to_owned() };
    if tables.is_empty() {
        return "nothing".to_owned();
    }
    let mut named: Vec<String> = Vec::new();
    for (relation, accesses) in tables {
        for access in accesses {
            named.push(one(*relation, access, catalog));
        }
    }
    named.sort();
    named.join(" ")
}

fn one(relation: RelationId, access: &AccessTemplate, catalog: &Catalog) -> String {
    let known = catalog.relations.get(&relation);
    let name = |attribute: i16| {
        let column = known.and_then(|known| known.columns.get(&attribute));
        column.map_or_else(|| attribute.to_string(), |column| column.name.clone())
    };
    let columns = match access.columns.attributes() {
        None => "*".to_owned(),
        Some(attributes) => attributes.map(name).collect::<Vec<_>>().join(","),
    };
    assert!(access.columns == ColumnSet::All || !columns.contains('*'));
    let rows = match &access.rows {
        RowsTemplate::All => String::new(),
        RowsTemplate::Keys(keys) => {
            let key = |values: &Vec<Slot>| values.iter().map(slot).collect::<Vec<_>>().join("|");
            let keys = keys.iter().map(|template| template.0.iter().map(key).collect::<Vec<_>>().join("&"));
            format!("[{}]", keys.collect::<Vec<_>>().join(" "))
        }
    };
    let existence = if access.existence { "+-" } else { "" };
    let columns = if access.existence { String::new() } else { format!("({columns})") };
    let unknown = known.is_none() && relation.get() >= FIRST_USER_OID;
    let table = if unknown { "unknown".to_owned() } else { catalog.relation_name(relation) };
    format!("{table}{columns}{rows}{existence}")
}

/// `#0` is the first literal, `$1` the first parameter, `#0..` and `$1..` the elements of an array.
fn slot(slot: &Slot) -> String {
    match &slot.source {
        Source::Literal { number, negative } => format!("{}#{number}", if *negative { "-" } else { "" }),
        Source::LiteralArray(number) => format!("#{number}.."),
        Source::Parameter { number, .. } => format!("${number}"),
        Source::ParameterArray(number) => format!("${number}.."),
        Source::Fixed(value) => format!("{value:?}"),
    }
}
