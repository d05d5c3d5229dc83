//! Nothing leaks to the next client: random interleavings of clients that share connections at the primary, over real
//! servers. After each step another client looks at all that a select can tell of its session, and sees what one server
//! would show it.
//!
//! Each interleaving follows from its seed, which a failure prints. It ends with a look at every shared connection, so that
//! what it has left behind is found in it and not in the next one. `LEAK_SEEDS=100000` runs more of them, `LEAK_FROM=4711
//! LEAK_SEEDS=1` one again.

use crate::in_turn::alone::{Alone, How};
use crate::pooled::sharing;
use crate::stage::{Open, Raw, SERVERS, database};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wire::{Asks, Complaint, Frame};

mod alone;

/// Interleavings of an ordinary run.
const SEEDS: u64 = 300;
/// Clients that share two connections, or three: one of them is always nobody's own.
const CLIENTS: usize = 4;
/// Steps of one interleaving.
const STEPS: std::ops::Range<usize> = 3..13;
const DATABASE: &str = "in_turn";

/// What a client hears: values or the SQLSTATE of an error, and how its session stands.
type Heard = (Vec<String>, char);

/// The answer up to ReadyForQuery.
fn hear(raw: &mut Raw) -> Heard {
    let mut values = Vec::new();
    loop {
        let message = raw.message().unwrap_or_else(|| panic!("the session goes on behind {values:?}"));
        let frame = Frame::new(&message).unwrap();
        match frame.tag() {
            b'D' => {
                values.extend(wire::row_texts(&frame).unwrap().into_iter().map(Option::unwrap_or_default))
            }
            b'E' => values.push(String::from_utf8_lossy(Complaint::read(&frame).sqlstate()).into_owned()),
            b'Z' => return (values, message[5].into()),
            _ => {}
        }
    }
}

/// Asks in the simple protocol.
fn ask(raw: &mut Raw, text: &str) -> Heard {
    raw.ask(|out| out.query(text.as_bytes()));
    hear(raw)
}

/// What was done, for whoever reads why an interleaving failed.
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
}

impl Client {
    fn come(open: &Open) -> Client {
        Client { raw: Raw::ready(open, DATABASE), alone: Alone::default() }
    }

    /// It sees what it should see, and nothing else.
    fn look(&mut self) {
        if self.alone.has_failed() {
            assert_eq!(ask(&mut self.raw, "SELECT 1"), (vec!["25P02".to_owned()], 'E'));
            return;
        }
        let (seen, status) = ask(&mut self.raw, &alone::look());
        assert_eq!(status, self.alone.status());
        assert_eq!(seen, self.alone.expected());
        // This one may run at a standby.
        let read = "SELECT (date '2024-02-03' + id)::text FROM public.items WHERE id = 1";
        assert_eq!(ask(&mut self.raw, read).0, [self.alone.date()]);
    }

    /// Does something that one server would answer so.
    fn step(&mut self, rng: &mut StdRng, may_tie: bool, story: &mut Story, who: usize) {
        let act = self.alone.choose(rng, may_tie);
        story.steps.push(format!("{who}: {act:?}"));
        match &act.how {
            How::Query => {
                let heard = ask(&mut self.raw, &act.text);
                assert_eq!(heard, (act.hears, self.alone.status()), "{}", act.text);
            }
            How::Parse(name) => {
                self.raw.ask(|out| {
                    out.parse(name.as_bytes(), act.text.as_bytes(), &[]);
                    out.sync();
                });
                assert_eq!(hear(&mut self.raw), (act.hears, self.alone.status()), "{}", act.text);
            }
            How::Run(name) => {
                self.raw.ask(|out| {
                    out.bind_plain(name.as_bytes());
                    out.execute(b"", 0);
                    out.sync();
                });
                assert_eq!(hear(&mut self.raw), (act.hears, self.alone.status()), "{name}");
            }
        }
    }

    /// Goes without a word, or in the middle of one.
    fn leave(mut self, rng: &mut StdRng) -> &'static str {
        let (how, write): (_, fn(&mut Vec<u8>)) = match rng.random_range(0..6) {
            0 => ("goes", |_| {}),
            1 => ("takes its leave", |out| out.terminate()),
            2 => ("goes in the middle of a statement", |out| {
                out.query(b"SET work_mem = '9MB'; SELECT pg_sleep(0.01)")
            }),
            3 => ("goes in a block", |out| out.query(b"BEGIN; SET LOCAL app.mine = 'left'")),
            4 => ("goes in the middle of a message", |out| {
                out.extend_from_slice(b"Q\0\0\0\x40SET app.mine = 'left'")
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

/// One interleaving; its clients are gone behind it, and every connection is clean.
fn interleave(open: &Open, shared: usize, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut story = Story { seed, steps: Vec::new() };
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::come(open)).collect();
    for _ in 0..rng.random_range(STEPS) {
        let who = rng.random_range(0..CLIENTS);
        if rng.random_range(0..20) == 0 {
            let gone = std::mem::replace(&mut clients[who], Client::come(open));
            story.steps.push(format!("{who}: {}, and another comes", gone.leave(&mut rng)));
        } else {
            let tied = clients.iter().filter(|client| client.alone.is_tied()).count();
            let may_tie = clients[who].alone.is_tied() || tied + 1 < shared;
            clients[who].step(&mut rng, may_tie, &mut story, who);
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
        let how = client.leave(&mut rng);
        story.steps.push(format!("one {how}"));
    }
    // So many at once have every connection that there is.
    let mut last: Vec<Client> = (0..shared).map(|_| Client::come(open)).collect();
    for (who, client) in last.iter_mut().enumerate() {
        story.steps.push(format!("a new one looks: {who}"));
        assert_eq!(ask(&mut client.raw, "BEGIN"), (Vec::new(), 'T'));
        client.alone.begin();
        client.look();
    }
    last.iter_mut().for_each(|client| assert_eq!(ask(&mut client.raw, "COMMIT").1, 'I'));
}

/// A number that the caller may wish otherwise.
fn wished(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn whatever_clients_do_in_turn_nobody_sees_anything_of_another() {
    database(DATABASE);
    SERVERS.query_in(DATABASE, "GRANT SELECT ON items TO PUBLIC");
    let (from, seeds) = (wished("LEAK_FROM", 0), wished("LEAK_SEEDS", SEEDS));
    let part = |odd: u64, size: usize| {
        let open = sharing(size);
        (from..from + seeds).filter(|seed| seed % 2 == odd).for_each(|seed| interleave(&open, size, seed));
        open.reads_at_standbys()
    };
    let reads = std::thread::scope(|scope| {
        let other = scope.spawn(|| part(1, 3));
        part(0, 2) + other.join().expect("a seed that fails says so itself")
    });
    assert!(reads > 0 || seeds < SEEDS, "some reads left");
}
