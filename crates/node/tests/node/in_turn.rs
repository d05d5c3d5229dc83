//! Nothing leaks to the next client: random interleavings of clients that share connections at the primary,
//! over real servers. After each step another client queries all state of its session that a select can show,
//! and sees the state that one server would show it.
//!
//! Each interleaving follows from its seed, which a failure prints. It ends with a look at every pooled
//! connection, so that a leak is found in it and not in the next one. `LEAK_SEEDS=100000` runs more of them,
//! `LEAK_FROM=4711 LEAK_SEEDS=1` one again.

use crate::in_turn::alone::{Act, Alone, How};
use crate::pooled::{pooling, shared, sharing};
use crate::stage::{Open, Raw, SERVERS, database, message};
use config::pooling::{PoolMode, Pooling, Pools};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Once;
use wire::tag::front;
use wire::{Asks, Complaint, Frame, Notification};

mod alone;

/// Interleavings of an ordinary run.
const SEEDS: u64 = 300;
/// Clients that share two connections, or three: one of them is always without one.
const CLIENTS: usize = 4;
/// Steps of one interleaving.
const STEPS: std::ops::Range<usize> = 3..13;
/// Databases of the clients that share two connections, or three: listeners in one hear nothing of the other.
const DATABASES: [&str; 2] = ["in_turn_of_two", "in_turn_of_three"];
/// Database of single statements.
const WITHOUT_BLOCKS: &str = "in_turn_without_blocks";
/// No interleaving has so many clients.
const MOST_CLIENTS: i64 = 100;
/// Whose rows those are that clients copy when they go.
const NOBODY: &str = "-1\t1\n";

/// A client's answer: values or the SQLSTATE of an error, and the transaction status of its session.
type Heard = (Vec<String>, char);

/// Database and servers of an interleaving.
#[derive(Clone, Copy)]
struct Place<'a> {
    open: &'a Open,
    database: &'a str,
    /// Size of the connection pool.
    shared: usize,
    /// Clients may begin blocks.
    blocks: bool,
}

/// Makes a database for clients in turn.
fn prepare(name: &str) {
    static ROLES: Once = Once::new();
    ROLES.call_once(|| drop(SERVERS.query(alone::MAKES_ROLES)));
    database(name);
    SERVERS.query_in(name, alone::MAKES_TABLE);
}

/// Steps so far, to explain why an interleaving failed.
struct Story {
    seed: u64,
    steps: Vec<String>,
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("LEAK_FROM={} LEAK_SEEDS=1 replays:\n{}", self.seed, self.steps.join("\n"));
        }
    }
}

/// A client, and what it would have if it were alone with one server.
struct Client {
    raw: Raw,
    alone: Alone,
    /// Notifications that were sent while it listened.
    to_hear: Vec<String>,
    /// Notifications that it has received.
    notified: Vec<String>,
}

impl Client {
    fn come(place: Place<'_>, who: i64) -> Client {
        let (to_hear, notified) = (Vec::new(), Vec::new());
        let raw = Raw::ready(place.open, place.database);
        Client { raw, alone: Alone::new(who, place.blocks), to_hear, notified }
    }

    /// Asks in the simple protocol.
    fn ask(&mut self, text: &str) -> Heard {
        self.raw.ask(|out| out.query(text.as_bytes()));
        self.hear(&[])
    }

    /// The answer up to ReadyForQuery; what is copied to the server is sent when that asks for it.
    fn hear(&mut self, copied: &[u8]) -> Heard {
        let mut values = Vec::new();
        loop {
            let message =
                self.raw.message().unwrap_or_else(|| panic!("the session goes on behind {values:?}"));
            let frame = Frame::new(&message).unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match frame.tag() {
                b'D' => {
                    values.extend(wire::row_texts(&frame).unwrap().into_iter().map(Option::unwrap_or_default))
                }
                b'd' => values.push(text(frame.body().trim_ascii_end())),
                b'E' => values.push(text(Complaint::read(&frame).sqlstate())),
                b'G' => self.raw.send(copied),
                b'A' => self.notified.push(text(Notification::read(&frame).unwrap().payload)),
                b'Z' => return (values, message[5].into()),
                _ => {}
            }
        }
    }

    /// Does a step, and checks that the answer is one server's.
    fn act(&mut self, act: &Act) {
        let heard = match &act.how {
            How::Query => self.ask(&act.text),
            How::Parse(name) => {
                self.raw.ask(|out| {
                    out.parse(name.as_bytes(), act.text.as_bytes(), &[]);
                    out.sync();
                });
                self.hear(&[])
            }
            How::Run(name) => {
                self.raw.ask(|out| {
                    out.bind_plain(name.as_bytes());
                    out.execute(b"", 0);
                    out.sync();
                });
                self.hear(&[])
            }
            How::Copy { rows, fails, extended, at_once } => {
                let mut asked = Vec::new();
                if *extended {
                    asked.parse(b"", act.text.as_bytes(), &[]);
                    asked.bind_plain(b"");
                    asked.execute(b"", 0);
                    asked.sync();
                } else {
                    asked.query(act.text.as_bytes());
                }
                let mut copied = copied(rows, *fails);
                if *extended {
                    copied.sync();
                }
                if *at_once {
                    asked.append(&mut copied);
                }
                self.raw.send(&asked);
                self.hear(&copied)
            }
        };
        assert_eq!(heard, (act.hears.clone(), self.alone.status()), "{} {:?}", act.text, act.how);
    }

    /// Checks that it has received its notifications, unless it was in a transaction all the time.
    fn has_heard(&self) {
        if self.alone.status() == 'I' {
            assert_eq!(self.notified, self.to_hear);
        } else {
            assert!(self.to_hear.starts_with(&self.notified), "{:?} of {:?}", self.notified, self.to_hear);
        }
    }

    /// Checks that it sees its own state, and nothing else.
    fn look(&mut self) {
        if self.alone.has_failed() {
            assert_eq!(self.ask("SELECT 1"), (vec!["25P02".to_owned()], 'E'));
            return;
        }
        let (seen, status) = self.ask(&alone::look(self.alone.who()));
        assert_eq!(status, self.alone.status());
        assert_eq!(seen, self.alone.expected());
        // This one may run at a standby.
        let read = "SELECT (date '2024-02-03' + id)::text FROM public.items WHERE id = 1";
        assert_eq!(self.ask(read).0, [self.alone.date()]);
        self.has_heard();
    }

    /// Does a step that one server would answer so. Returns its notification, if it has sent one.
    fn step(&mut self, rng: &mut StdRng, may_tie: bool, story: &mut Story, who: usize) -> Option<String> {
        let act = self.alone.choose(rng, may_tie);
        story.steps.push(format!("{who}: {act:?}"));
        self.act(&act);
        if !self.alone.listens() {
            assert!(self.to_hear.starts_with(&self.notified), "{:?} of {:?}", self.notified, self.to_hear);
            self.to_hear.clear();
            self.notified.clear();
        }
        act.notifies
    }

    /// Goes without a word, or in the middle of one.
    fn leave(mut self, rng: &mut StdRng) -> &'static str {
        let (how, write): (_, fn(&mut Vec<u8>)) = match rng.random_range(0..8) {
            0 => ("goes", |_| {}),
            1 => ("takes its leave", |out| out.terminate()),
            2 => ("goes in the middle of a statement", |out| {
                out.query(b"SET work_mem = '9MB'; SELECT pg_sleep(0.01)")
            }),
            3 => ("goes in a block", |out| out.query(b"BEGIN; SET LOCAL app.mine = 'left'")),
            4 => ("goes in the middle of a message", |out| {
                out.extend_from_slice(b"Q\0\0\0\x40SET app.mine = 'left'")
            }),
            5 => ("goes in the middle of a COPY", |out| {
                out.query(b"COPY public.copied FROM STDIN");
                out.extend_from_slice(&message(front::COPY_DATA, NOBODY.as_bytes()));
            }),
            6 => ("goes and has read nothing of a COPY", |out| {
                out.query(b"COPY (SELECT repeat('x', 1000) FROM generate_series(1, 3000)) TO STDOUT")
            }),
            _ => ("goes in the middle of a batch", |out| {
                out.parse(b"P_left", b"SELECT set_config('app.mine', 'left', false)", &[]);
                out.bind_plain(b"P_left");
                out.execute(b"", 0);
            }),
        };
        self.raw.ask(write);
        how
    }
}

/// A client's messages to copy these rows, with an end.
fn copied(rows: &[String], fails: bool) -> Vec<u8> {
    let mut copied: Vec<u8> = rows.iter().flat_map(|row| message(front::COPY_DATA, row.as_bytes())).collect();
    copied.extend(match fails {
        true => message(front::COPY_FAIL, b"no more\0"),
        false => message(front::COPY_DONE, b""),
    });
    copied
}

/// One interleaving; its clients are gone afterwards, and every connection is clean.
fn interleave(place: Place<'_>, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut story = Story { seed, steps: Vec::new() };
    let first = i64::try_from(seed).unwrap() * MOST_CLIENTS;
    let mut numbers = first..first + MOST_CLIENTS;
    let mut comes = || Client::come(place, numbers.next().expect("there are fewer clients"));
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| comes()).collect();
    let mut copied = 0;
    for _ in 0..rng.random_range(STEPS) {
        let who = rng.random_range(0..CLIENTS);
        if rng.random_range(0..20) == 0 {
            let gone = std::mem::replace(&mut clients[who], comes());
            copied += gone.alone.copied();
            story.steps.push(format!("{who}: {}, and another comes", gone.leave(&mut rng)));
        } else {
            let tied = clients.iter().filter(|client| client.alone.is_tied()).count();
            let may_tie = clients[who].alone.is_tied() || tied + 1 < place.shared;
            let notified = clients[who].step(&mut rng, may_tie, &mut story, who);
            for client in clients.iter_mut().filter(|client| client.alone.listens()) {
                client.to_hear.extend(notified.clone());
            }
        }
        let other = (who + rng.random_range(1..CLIENTS)) % CLIENTS;
        story.steps.push(format!("{other} looks"));
        clients[other].look();
    }
    for (who, client) in clients.iter_mut().enumerate() {
        story.steps.push(format!("{who} looks at last"));
        client.look();
    }
    for client in clients {
        copied += client.alone.copied();
        let how = client.leave(&mut rng);
        story.steps.push(format!("one {how}"));
    }
    // This number of clients has every connection that there is.
    let mut last: Vec<Client> = (0..place.shared).map(|_| comes()).collect();
    for (who, client) in last.iter_mut().enumerate() {
        story.steps.push(format!("a new one looks: {who}"));
        let holds = client.alone.hold();
        client.act(&holds);
        client.look();
    }
    for client in &mut last {
        let releases = client.alone.release();
        client.act(&releases);
    }
    let theirs = format!("who < 0 OR who >= {first} AND who < {}", first + MOST_CLIENTS);
    let (there, _) = last[0].ask(&format!("SELECT count(*) FROM public.copied WHERE {theirs}"));
    assert_eq!(there, [copied.to_string()], "rows that clients have copied");
}

/// A number that the caller may wish otherwise.
fn wished(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn whatever_clients_do_in_turn_nobody_sees_anything_of_another() {
    DATABASES.into_iter().for_each(prepare);
    let (from, seeds) = (wished("LEAK_FROM", 0), wished("LEAK_SEEDS", SEEDS));
    let part = |odd: u64, size: usize| {
        let open = sharing(size);
        let database = DATABASES[usize::try_from(odd).unwrap()];
        let place = Place { open: &open, database, shared: size, blocks: true };
        (from..from + seeds).filter(|seed| seed % 2 == odd).for_each(|seed| interleave(place, seed));
        open.reads_at_standbys()
    };
    let reads = std::thread::scope(|scope| {
        let other = scope.spawn(|| part(1, 3));
        part(0, 2) + other.join().expect("a seed that fails says so itself")
    });
    assert!(reads > 0 || seeds < SEEDS, "some reads left");
}

/// A third as many of them as where clients may begin blocks.
#[test]
fn whatever_clients_do_in_statement_mode_nobody_sees_anything_of_another() {
    prepare(WITHOUT_BLOCKS);
    let (from, seeds) = (wished("LEAK_FROM", 0), wished("LEAK_SEEDS", SEEDS).div_ceil(3));
    let open = pooling(Pools::of_all(Pooling { mode: PoolMode::Statement, ..shared(2) }));
    let place = Place { open: &open, database: WITHOUT_BLOCKS, shared: 2, blocks: false };
    (from..from + seeds).for_each(|seed| interleave(place, seed));
}
