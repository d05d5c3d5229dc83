//! COPY: rows from a client become one INSERT with parameters, rows to a client are a query's.

use std::sync::Arc;

use pg_query::NodeEnum;
use pg_query::protobuf::CopyStmt;

use crate::catalog::Catalog;
use crate::execute::Parameter;
use crate::parse;
use crate::problem::Problem;
use crate::statement::Copy;
use crate::statement_plan::{Plan, change, finish};
use crate::translate::{Query, Translator, insert_statement, quoted};

/// A COPY FROM STDIN: an INSERT to execute once for each line.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    /// The INSERT; its parameters are the columns.
    pub insert: Arc<Plan>,
    copy: Copy,
}

/// The query of COPY .. TO.
pub(crate) fn query(copy: &CopyStmt, translator: &mut Translator<'_>) -> Result<Query, Problem> {
    if let Some(NodeEnum::SelectStmt(select)) = copy.query.as_ref().and_then(|node| node.node.as_ref()) {
        return translator.query(select);
    }
    let relation = copy.relation.as_ref().ok_or_else(|| Problem::unsupported("this COPY"))?;
    let names: Vec<String> = copy.attlist.iter().filter_map(crate::data_types::string).map(quoted).collect();
    let list = if names.is_empty() { "*".to_owned() } else { names.join(", ") };
    let schema = if relation.schemaname.is_empty() {
        String::new()
    } else {
        format!("{}.", quoted(&relation.schemaname))
    };
    let text = format!("SELECT {list} FROM {schema}{}", quoted(&relation.relname));
    match parse::statement(&text)? {
        Some(NodeEnum::SelectStmt(select)) => translator.query(&select),
        _ => Err(Problem::unsupported("this COPY")),
    }
}

impl Copy {
    /// The plan of a COPY FROM STDIN.
    pub fn plan(&self, catalog: &Catalog) -> Result<CopyPlan, Problem> {
        let table = Translator::new(catalog, "", &[])?.table("", &self.table)?;
        let all = || table.columns.iter().map(|column| column.name.clone()).collect();
        let columns: Vec<String> = if self.columns.is_empty() { all() } else { self.columns.clone() };
        let names: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
        let places: Vec<String> = (1..=names.len()).map(|place| format!("${place}")).collect();
        let text = format!(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
            quoted(&self.table),
            names.join(", "),
            places.join(", ")
        );
        let Some(NodeEnum::InsertStmt(tree)) = parse::statement(&text)? else {
            return Err(Problem::unsupported("this COPY"));
        };
        let mut translator = Translator::new(catalog, &text, &[])?;
        let write = insert_statement(&mut translator, &tree)?;
        let (columns, action, effect) = change("INSERT", write, catalog);
        Ok(CopyPlan { insert: Arc::new(finish(translator, columns, action, effect)?), copy: self.clone() })
    }
}

impl CopyPlan {
    /// A reader of the client's data.
    pub fn lines(&self) -> CopyLines {
        let columns = self.insert.parameters.len();
        CopyLines {
            copy: self.copy.clone(),
            columns,
            rest: Vec::new(),
            skips: self.copy.has_header,
            is_done: false,
        }
    }
}

/// Takes a client's data apart: bytes in pieces of any length go in, the parameters of rows come out.
#[derive(Clone, Debug)]
pub struct CopyLines {
    copy: Copy,
    columns: usize,
    rest: Vec<u8>,
    skips: bool,
    is_done: bool,
}

impl CopyLines {
    /// Takes a piece of data. Returns the rows that it completes. Error 22P04 for malformed data.
    pub fn take(&mut self, data: &[u8]) -> Result<Vec<Vec<Parameter>>, Problem> {
        self.rest.extend_from_slice(data);
        let mut rows = Vec::new();
        let mut start = 0;
        while let Some(end) = self.line_end(start) {
            let line = self.rest[start..end].to_vec();
            start = end + 1;
            self.line(&line, &mut rows)?;
        }
        self.rest.drain(..start);
        Ok(rows)
    }

    /// Takes the end of the data. Returns the last row, if no end of line was after it.
    pub fn finish(&mut self) -> Result<Vec<Vec<Parameter>>, Problem> {
        let (line, mut rows) = (std::mem::take(&mut self.rest), Vec::new());
        if self.copy.is_csv && line.iter().filter(|byte| **byte == b'"').count() % 2 == 1 {
            return Err(Problem::new("22P04", "unterminated CSV quoted field"));
        }
        if !line.is_empty() {
            self.line(&line, &mut rows)?;
        }
        Ok(rows)
    }

    /// The next end of line; in CSV one outside quotes.
    fn line_end(&self, start: usize) -> Option<usize> {
        let mut is_quoted = false;
        for (place, byte) in self.rest.iter().enumerate().skip(start) {
            match byte {
                b'"' if self.copy.is_csv => is_quoted = !is_quoted,
                b'\n' if !is_quoted => return Some(place),
                _ => {}
            }
        }
        None
    }

    fn line(&mut self, line: &[u8], rows: &mut Vec<Vec<Parameter>>) -> Result<(), Problem> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = std::str::from_utf8(line).map_err(|_| crate::value::not_utf8())?;
        if self.is_done || std::mem::take(&mut self.skips) {
            return Ok(());
        }
        if text == "\\." {
            self.is_done = true;
            return Ok(());
        }
        let fields = if self.copy.is_csv { self.csv(text)? } else { self.plain(text)? };
        if fields.len() != self.columns {
            let text = if fields.len() > self.columns {
                "extra data after last expected column"
            } else {
                "missing data for a column"
            };
            return Err(Problem::new("22P04", text));
        }
        let parameter = |value: Option<String>| Parameter { format: 0, value: value.map(String::into_bytes) };
        rows.push(fields.into_iter().map(parameter).collect());
        Ok(())
    }

    fn plain(&self, line: &str) -> Result<Vec<Option<String>>, Problem> {
        let field = |raw: &str| -> Result<Option<String>, Problem> {
            if raw == self.copy.null {
                return Ok(None);
            }
            unescape(raw).map(Some)
        };
        // A delimiter after a backslash is data.
        let (mut fields, mut start, mut is_escaped) = (Vec::new(), 0, false);
        for (at, letter) in line.char_indices() {
            if letter == self.copy.delimiter && !is_escaped {
                fields.push(field(&line[start..at])?);
                start = at + letter.len_utf8();
            }
            is_escaped = letter == '\\' && !is_escaped;
        }
        fields.push(field(&line[start..])?);
        Ok(fields)
    }

    fn csv(&self, line: &str) -> Result<Vec<Option<String>>, Problem> {
        let mut fields = Vec::new();
        let mut letters = line.chars().peekable();
        loop {
            let (mut value, mut was_quoted, mut is_quoted) = (String::new(), false, false);
            let mut is_last = true;
            while let Some(letter) = letters.next() {
                match letter {
                    '"' if is_quoted && letters.peek() == Some(&'"') => {
                        letters.next();
                        value.push('"');
                    }
                    '"' => {
                        is_quoted = !is_quoted;
                        was_quoted = true;
                    }
                    _ if letter == self.copy.delimiter && !is_quoted => {
                        is_last = false;
                        break;
                    }
                    _ => value.push(letter),
                }
            }
            fields.push((was_quoted || value != self.copy.null).then_some(value));
            if is_last {
                return Ok(fields);
            }
        }
    }
}

fn unescape(raw: &str) -> Result<String, Problem> {
    if !raw.contains('\\') {
        return Ok(raw.to_owned());
    }
    let mut out = Vec::new();
    let mut bytes = raw.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'b') => out.push(8),
            Some(b'f') => out.push(12),
            Some(b'v') => out.push(11),
            Some(b'x' | b'0'..=b'7') => return Err(Problem::unsupported("a numeric escape in COPY")),
            Some(other) => out.push(other),
            None => return Err(Problem::new("22P04", "a COPY line ends in a backslash")),
        }
    }
    String::from_utf8(out).map_err(|_| crate::value::not_utf8())
}
