//! A client of PostgreSQL that keeps messages as they come.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use local_cluster::Node;

use crate::Answer;

/// A connection.
pub(crate) struct Client {
    stream: UnixStream,
}

fn message(letter: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![letter];
    out.extend_from_slice(&u32::try_from(body.len() + 4).expect("a short message").to_be_bytes());
    out.extend_from_slice(body);
    out
}

fn text_at(body: &[u8], at: usize) -> (String, usize) {
    let end = at + body[at..].iter().position(|byte| *byte == 0).expect("an end");
    (String::from_utf8_lossy(&body[at..end]).into_owned(), end + 1)
}

fn i16_at(body: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([body[at], body[at + 1]])
}

fn u32_at(body: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(body[at..at + 4].try_into().expect("four bytes"))
}

impl Client {
    /// Connects as superuser, with the time zone UTC.
    pub(crate) fn connect(node: &Node, database: &str) -> Client {
        let path = node.socket_folder().join(format!(".s.PGSQL.{}", node.port()));
        let mut stream = UnixStream::connect(path).expect("a socket");
        let body = format!("user\0postgres\0database\0{database}\0TimeZone\0UTC\0\0");
        let mut startup = u32::try_from(body.len() + 8).expect("short").to_be_bytes().to_vec();
        startup.extend_from_slice(&196_608_u32.to_be_bytes());
        startup.extend_from_slice(body.as_bytes());
        stream.write_all(&startup).expect("a start-up message");
        let mut client = Client { stream };
        client.until_ready();
        client
    }

    fn next(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).expect("a message");
        let mut body = vec![0; u32_at(&head, 1) as usize - 4];
        self.stream.read_exact(&mut body).expect("its body");
        (head[0], body)
    }

    fn until_ready(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut messages = Vec::new();
        loop {
            let (letter, body) = self.next();
            if letter == b'Z' {
                return messages;
            }
            messages.push((letter, body));
        }
    }

    /// Answer to one statement by the extended protocol.
    pub(crate) fn answer(&mut self, text: &str, values: &[Option<&str>], format: i16) -> Answer {
        let mut out = message(b'P', format!("\0{text}\0\0\0").as_bytes());
        out.extend(message(b'D', b"S\0"));
        let mut bind = vec![0, 0, 0, 0];
        bind.extend_from_slice(&u16::try_from(values.len()).expect("few").to_be_bytes());
        for value in values {
            match value {
                Some(value) => {
                    bind.extend_from_slice(&u32::try_from(value.len()).expect("short").to_be_bytes());
                    bind.extend_from_slice(value.as_bytes());
                }
                None => bind.extend_from_slice(&(-1_i32).to_be_bytes()),
            }
        }
        bind.extend_from_slice(&[0, 1]);
        bind.extend_from_slice(&format.to_be_bytes());
        out.extend(message(b'B', &bind));
        out.extend(message(b'E', &[0, 0, 0, 0, 0]));
        out.extend(message(b'S', b""));
        self.stream.write_all(&out).expect("a statement");
        let (mut parameters, mut columns, mut rows, mut tag) =
            (Vec::new(), Vec::new(), Vec::new(), String::new());
        let mut error = None;
        for (letter, body) in self.until_ready() {
            match letter {
                b't' => {
                    parameters = (0..i16_at(&body, 0))
                        .map(|place| u32_at(&body, 2 + 4 * place.unsigned_abs() as usize))
                        .collect()
                }
                b'T' => {
                    let mut at = 2;
                    for _ in 0..i16_at(&body, 0) {
                        let (name, next) = text_at(&body, at);
                        let number = if u32_at(&body, next) < 16_384 { 0 } else { i16_at(&body, next + 4) };
                        let (oid, size) = (u32_at(&body, next + 6), i16_at(&body, next + 10));
                        columns.push((name, oid, u32_at(&body, next + 12).cast_signed(), size, number));
                        at = next + 18;
                    }
                }
                b'D' => rows.push(message(b'D', &body)),
                b'C' => tag = text_at(&body, 0).0,
                b'E' => {
                    let mut at = 0;
                    while body[at] != 0 {
                        let (field, next) = text_at(&body, at + 1);
                        if body[at] == b'C' {
                            error = Some(field);
                        }
                        at = next;
                    }
                }
                _ => {}
            }
        }
        error.map_or(Answer::Rows { parameters, columns, rows, tag }, Answer::Error)
    }
}
