//! COPY: rows of the client become INSERTs of one transaction, rows of a query become lines.

use super::answers::{failure, write_copy, write_copy_data, write_copy_done};
use super::executor::{Executor, Rows, now_us};
use super::scheduler::{Parsed, Work};
use super::session::gone;
use super::{Gone, Outcome, Step};
use crate::message::{Column, Failure, Run};
use dialect::Copy;
use wire::HEADER_BYTES;
use wire::tag::{back, front};

/// Values of one INSERT at most.
const MAX_VALUES: usize = 2_000;
/// Bytes of values of one INSERT at most, but for its last row.
const MAX_BYTES: usize = 1 << 20;

/// A value of a line; `None`: NULL.
type Value = Option<Vec<u8>>;

impl Executor {
    /// Takes rows of the client into a table, inside the block.
    pub(super) async fn copy_in(&mut self, copy: &Copy, parsed: &Parsed) -> Outcome<String> {
        let text = format!("SELECT {} FROM {}", list(&copy.columns), quoted(&copy.table));
        let columns = match self.described(Work::Writes, &text, &[]).await? {
            Ok(described) => described.columns.unwrap_or_default(),
            Err(refused) => return Ok(Err(refused)),
        };
        write_copy(self.client.out(), back::COPY_IN, columns.len());
        self.has_copied = true;
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let types: Vec<u32> = columns.iter().map(|column| column.oid).collect();
        let into =
            format!("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ", quoted(&copy.table), list(&names));
        let most = (MAX_VALUES / columns.len().max(1)).max(1);
        let (mut lines, mut copied) = (Lines::new(copy, self.scheduler.tier.options.limits.message_bytes), 0);
        while !lines.is_over {
            if let Err(refused) = self.copied(&mut lines).await? {
                return Ok(Err(refused));
            }
            while lines.has(most) {
                let rows = lines.rows.drain(..most.min(lines.rows.len())).collect::<Vec<_>>();
                if let Err(refused) = self.insert(parsed, (&into, &types), &rows, copied).await? {
                    return Ok(Err(refused));
                }
                copied += rows.len();
            }
        }
        Ok(Ok(format!("COPY {copied}")))
    }

    async fn insert(
        &mut self,
        parsed: &Parsed,
        (into, types): (&str, &[u32]),
        rows: &[Vec<Value>],
        before: usize,
    ) -> Outcome<()> {
        if let Some(at) = rows.iter().position(|row| row.len() != types.len()) {
            let what = if rows[at].len() < types.len() {
                "missing data for a column"
            } else {
                "extra data after last expected column"
            };
            let mut wrong = failure("22P04", what, "");
            wrong.detail = format!(
                "Row {} has {} values, the table has {} columns.",
                before + at + 1,
                rows[at].len(),
                types.len()
            );
            return Ok(Err(wrong));
        }
        let mut text = into.to_owned();
        for at in 0..rows.len() {
            let places = (1..=types.len()).map(|column| format!("${}", at * types.len() + column));
            let places = places.collect::<Vec<_>>().join(", ");
            text.push_str(if at == 0 { "(" } else { ", (" });
            text.push_str(&places);
            text.push(')');
        }
        let run = Run {
            text,
            types: types.iter().copied().cycle().take(types.len() * rows.len()).collect(),
            parameters: rows.iter().flatten().map(|value| (0, value.clone())).collect(),
            result_formats: Vec::new(),
            time_us: now_us(),
            describes: false,
            expects: 0,
        };
        Ok(self.inside(parsed, &run, &mut Rows::default()).await?.map(drop))
    }

    /// Takes one message of the client's data.
    async fn copied(&mut self, lines: &mut Lines<'_>) -> Outcome<()> {
        let limit = self.scheduler.tier.options.limits.message_bytes;
        let length = tokio::select! {
            length = async {
                self.client.send().await?;
                self.client.whole_frame(limit).await
            } => length.map_err(|error| gone(&error))?,
            why = self.seat.sent_away() => return Err(Gone::Away(why)),
            () = self.seat.running.cancelled() => {
                return Ok(Err(failure("57014", "canceling statement due to user request", "")));
            }
        };
        let bytes = &self.client.unread()[..length];
        let (tag, body) = (bytes[0], &bytes[HEADER_BYTES..]);
        let done = match tag {
            front::COPY_DATA => lines.add(body),
            front::COPY_DONE => lines.end(),
            front::COPY_FAIL => {
                let why = body.split(|byte| *byte == 0).next().unwrap_or_default();
                let why = String::from_utf8_lossy(why);
                Err(failure("57014", format!("COPY from stdin failed: {why}"), ""))
            }
            front::TERMINATE => return Err(Gone::Client),
            // Libraries send them at the beginning of the data.
            front::FLUSH | front::SYNC => Ok(()),
            tag => {
                return Err(Gone::Broken(format!(
                    "unexpected message type 0x{tag:02X} during COPY from stdin"
                )));
            }
        };
        self.client.consume(length);
        Ok(done)
    }

    /// Hands the rows of a statement out as lines.
    pub(super) async fn copy_out(&mut self, copy: &Copy, columns: &[Column], rows: &Rows) -> Step<String> {
        write_copy(self.client.out(), back::COPY_OUT, columns.len());
        let mut line = Vec::new();
        if copy.has_header {
            let names = columns.iter().map(|column| Some(column.name.as_bytes()));
            write_line(&mut line, copy, names);
            write_copy_data(self.client.out(), &line);
        }
        let (mut rest, mut count) = (rows.messages.as_slice(), 0_u64);
        while let Some((message, more)) = first_message(rest) {
            rest = more;
            line.clear();
            write_line(&mut line, copy, values(message));
            write_copy_data(self.client.out(), &line);
            count += 1;
            self.relieve().await?;
        }
        write_copy_done(self.client.out());
        Ok(format!("COPY {count}"))
    }
}

/// The first of whole messages: its body, and the messages after it.
fn first_message(messages: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = messages.split_first_chunk::<HEADER_BYTES>()?;
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    rest.split_at_checked(length.checked_sub(4)?)
}

/// The values of a DataRow's body.
fn values(body: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = body.get(2..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, more) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (value, more) = more.split_at_checked(length.unwrap_or(0))?;
        rest = more;
        Some(length.map(|_| value))
    })
}

fn write_line<'a>(out: &mut Vec<u8>, copy: &Copy, values: impl Iterator<Item = Option<&'a [u8]>>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.extend_from_slice(copy.delimiter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        match value {
            None => out.extend_from_slice(copy.null.as_bytes()),
            Some(value) if copy.is_csv => write_csv(out, copy, value),
            Some(value) => value.iter().for_each(|byte| write_escaped(out, copy, *byte)),
        }
    }
    out.push(b'\n');
}

fn write_csv(out: &mut Vec<u8>, copy: &Copy, value: &[u8]) {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\n' | b'\r') || char::from(*byte) == copy.delimiter;
    if value != copy.null.as_bytes() && value != b"\\." && !value.iter().any(is_special) {
        return out.extend_from_slice(value);
    }
    out.push(b'"');
    for byte in value {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Bytes that the text format writes as a backslash and a letter.
const ESCAPES: [(u8, u8); 6] =
    [(8, b'b'), (12, b'f'), (b'\n', b'n'), (b'\r', b'r'), (b'\t', b't'), (11, b'v')];

fn write_escaped(out: &mut Vec<u8>, copy: &Copy, byte: u8) {
    if let Some((_, letter)) = ESCAPES.iter().find(|(known, _)| *known == byte) {
        out.extend_from_slice(&[b'\\', *letter]);
    } else if byte == b'\\' || char::from(byte) == copy.delimiter {
        out.extend_from_slice(&[b'\\', byte]);
    } else {
        out.push(byte);
    }
}

/// Rows of a client's data, as far as they are whole.
struct Lines<'a> {
    copy: &'a Copy,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    /// Maximum length of it, in bytes.
    limit: usize,
    /// Bytes of it that have been looked through.
    seen: usize,
    /// A quote is open at that place.
    in_quotes: bool,
    rows: Vec<Vec<Value>>,
    bytes: usize,
    /// The next line has names.
    is_header: bool,
    is_over: bool,
}

impl<'a> Lines<'a> {
    fn new(copy: &'a Copy, limit: usize) -> Lines<'a> {
        Lines {
            copy,
            rest: Vec::new(),
            limit,
            seen: 0,
            in_quotes: false,
            rows: Vec::new(),
            bytes: 0,
            is_header: copy.has_header,
            is_over: false,
        }
    }

    /// Whether there are rows for an INSERT.
    fn has(&mut self, most: usize) -> bool {
        let is_enough = self.rows.len() >= most || self.bytes >= MAX_BYTES || self.is_over;
        if is_enough && self.rows.len() <= most {
            self.bytes = 0;
        }
        is_enough && !self.rows.is_empty()
    }

    /// Takes more of the data. Each byte is looked at once, in whatever pieces it comes.
    fn add(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.rest.extend_from_slice(data);
        self.bytes += data.len();
        let mut rest = std::mem::take(&mut self.rest);
        let mut start = 0;
        for at in self.seen..rest.len() {
            match rest[at] {
                b'"' if self.copy.is_csv => self.in_quotes = !self.in_quotes,
                b'\n' if !self.in_quotes => {
                    self.line(&rest[start..at])?;
                    start = at + 1;
                }
                _ => {}
            }
        }
        rest.drain(..start);
        if rest.len() > self.limit {
            return Err(too_long(self.limit));
        }
        self.seen = rest.len();
        self.rest = rest;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.is_over = true;
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() { Ok(()) } else { self.line(&rest) }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Failure> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line == b"\\." || std::mem::take(&mut self.is_header) {
            return Ok(());
        }
        let row = if self.copy.is_csv { csv_values(line, self.copy) } else { text_values(line, self.copy) };
        row.map(|row| self.rows.push(row))
    }
}

/// A row without an end.
fn too_long(limit: usize) -> Failure {
    let hint = "Rows end with a line break outside quotes: look for a quote that is not closed.";
    failure("54000", format!("a row of COPY from stdin is longer than {limit} bytes"), hint)
}

fn text_values(line: &[u8], copy: &Copy) -> Result<Vec<Value>, Failure> {
    let (mut row, mut value, mut start, mut at) = (Vec::new(), Vec::new(), 0, 0);
    loop {
        match line.get(at) {
            Some(b'\\') => {
                let (byte, length) = unescaped(&line[at + 1..]);
                value.extend(byte);
                at += 1 + length;
                continue;
            }
            Some(byte) if char::from(*byte) != copy.delimiter => value.push(*byte),
            end => {
                let is_null = line[start..at] == *copy.null.as_bytes();
                row.push((!is_null).then(|| std::mem::take(&mut value)));
                value.clear();
                start = at + 1;
                if end.is_none() {
                    return Ok(row);
                }
            }
        }
        at += 1;
    }
}

/// The byte that an escape stands for, and the escape's length after its backslash.
fn unescaped(rest: &[u8]) -> (Option<u8>, usize) {
    let Some(first) = rest.first() else { return (Some(b'\\'), 0) };
    let digits = |from: usize, most: usize, radix: u32| {
        let fits = |byte: &&u8| char::from(**byte).is_digit(radix);
        let count = rest[from..].iter().take(most).take_while(fits).count();
        let value = rest[from..from + count]
            .iter()
            .fold(0, |value, byte| value * radix + char::from(*byte).to_digit(radix).unwrap_or(0));
        (u8::try_from(value & 0xff).ok(), count)
    };
    match first {
        b'0'..=b'7' => digits(0, 3, 8),
        b'x' if rest.get(1).is_some_and(u8::is_ascii_hexdigit) => {
            let (byte, count) = digits(1, 2, 16);
            (byte, count + 1)
        }
        _ => {
            let known = ESCAPES.iter().find(|(_, letter)| letter == first);
            (Some(known.map_or(*first, |(byte, _)| *byte)), 1)
        }
    }
}

fn csv_values(line: &[u8], copy: &Copy) -> Result<Vec<Value>, Failure> {
    let (mut row, mut value, mut was_quoted, mut in_quotes, mut at) =
        (Vec::new(), Vec::new(), false, false, 0);
    loop {
        match line.get(at) {
            Some(b'"') if in_quotes && line.get(at + 1) == Some(&b'"') => {
                value.push(b'"');
                at += 1;
            }
            Some(b'"') => {
                in_quotes = !in_quotes;
                was_quoted = true;
            }
            Some(byte) if in_quotes || char::from(*byte) != copy.delimiter => value.push(*byte),
            None if in_quotes => {
                return Err(failure("22P04", "unterminated CSV quoted field", "Close each quote."));
            }
            end => {
                let is_null = !was_quoted && value == copy.null.as_bytes();
                row.push((!is_null).then(|| std::mem::take(&mut value)));
                value.clear();
                was_quoted = false;
                if end.is_none() {
                    return Ok(row);
                }
            }
        }
        at += 1;
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "*".to_owned();
    }
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Copy {
        Copy {
            table: "t".to_owned(),
            columns: Vec::new(),
            is_csv: false,
            has_header: false,
            delimiter: '\t',
            null: "\\N".to_owned(),
        }
    }

    fn csv() -> Copy {
        Copy { is_csv: true, has_header: true, delimiter: ',', null: String::new(), ..text() }
    }

    /// The rows of data that come in pieces of this size.
    fn rows(copy: &Copy, data: &[u8], piece: usize) -> Vec<Vec<Value>> {
        let mut lines = Lines::new(copy, 1 << 20);
        data.chunks(piece).for_each(|piece| lines.add(piece).unwrap());
        lines.end().unwrap();
        lines.rows
    }

    fn some(value: &str) -> Value {
        Some(value.as_bytes().to_vec())
    }

    #[test]
    fn text_lines_are_rows_whatever_pieces_they_come_in() {
        let data = b"1\ta\\tb\\\\\n2\t\\N\r\n3\t\\x41\\101\\q\n\\.\n4\t";
        let expected = vec![
            vec![some("1"), some("a\tb\\")],
            vec![some("2"), None],
            vec![some("3"), some("AAq")],
            vec![some("4"), some("")],
        ];
        for piece in [1, 3, 100] {
            assert_eq!(rows(&text(), data, piece), expected);
        }
    }

    #[test]
    fn csv_lines_are_rows_with_quotes_and_line_breaks_in_values() {
        let data = b"id,v\n1,\"a,\"\"b\"\"\nc\"\n2,\n3,\"\"\n";
        let expected =
            vec![vec![some("1"), some("a,\"b\"\nc")], vec![some("2"), None], vec![some("3"), some("")]];
        for piece in [1, 4, 100] {
            assert_eq!(rows(&csv(), data, piece), expected);
        }
        let open = csv();
        let mut lines = Lines { rest: b"1,\"a".to_vec(), is_header: false, ..Lines::new(&open, 1 << 20) };
        assert_eq!(lines.end().unwrap_err().sqlstate, "22P04");
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_it_takes_much_memory() {
        for (copy, data) in [(text(), b"aaaa".as_slice()), (csv(), b"\"a\n\"")] {
            let mut lines = Lines::new(&copy, 1_000);
            let taken = (0..1_000).take_while(|_| lines.add(data).is_ok()).count();
            assert_eq!(taken, 1_000 / data.len());
            assert_eq!(lines.add(&[b'a'; 1_001]).unwrap_err().sqlstate, "54000");
        }
    }

    #[test]
    fn a_long_line_in_small_pieces_is_looked_through_once() {
        let copy = Copy { has_header: false, ..csv() };
        let mut lines = Lines::new(&copy, 1 << 30);
        for piece in 1..1_000 {
            lines.add(b"\"b\n\"").unwrap();
            assert_eq!((lines.seen, lines.rest.len()), (piece * 4, piece * 4));
        }
        lines.add(b",2\n").unwrap();
        assert_eq!((lines.rows.len(), lines.rest.len()), (1, 0));
        assert_eq!(lines.rows[0][1], some("2"));
    }

    #[test]
    fn lines_that_are_written_are_read_as_the_same_values() {
        for copy in [text(), Copy { has_header: false, ..csv() }] {
            let values = [some("a\tb\n,\"\\\r"), None, some(""), some("\\N"), some("\\.")];
            let mut line = Vec::new();
            write_line(&mut line, &copy, values.iter().map(Option::as_deref));
            assert_eq!(rows(&copy, &line, 2), vec![values.to_vec()]);
        }
    }

    #[test]
    fn values_of_a_row_are_told_from_null() {
        use wire::Answers;
        let mut messages = Vec::new();
        messages.data_row(&[Some(b"a"), None, Some(b"")]);
        let (body, rest) = first_message(&messages).unwrap();
        assert_eq!(values(body).collect::<Vec<_>>(), [Some(b"a".as_slice()), None, Some(b"")]);
        assert!(rest.is_empty() && first_message(rest).is_none());
    }
}
