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
use wire::{Asks, Complaint, Frame, Notification};

mod alone;

/// Interleavings of an ordinary run.
const SEEDS: u64 = 300;
/// Clients that share two connections, or three: one of them is always nobody's own.
const CLIENTS: usize = 4;
/// Steps of one interleaving.
const STEPS: std::ops::Range<usize> = 3..13;
/// Where clients that share two connections are, or three: who listens in one hears nothing of the other.
const DATABASES: [&str; 2] = ["in_turn_of_two", "in_turn_of_three"];

/// What a client hears: values or the SQLSTATE of an error, and how its session stands.
type Heard = (Vec<String>, char);

/// The answer up to ReadyForQuery, and what was notified meanwhile.
fn hear(raw: &mut Raw, notified: &mut Vec<String>) -> Heard {
    let mut values = Vec::new();
    loop {
        let message = raw.message().unwrap_or_else(|| panic!("the session goes on behind {values:?}"));
        let frame = Frame::new(&message).unwrap();
        match frame.tag() {
            b'D' => {
                values.extend(wire::row_texts(&frame).unwrap().into_iter().map(Option::unwrap_or_default))
            }
            b'E' => values.push(String::from_utf8_lossy(Complaint::read(&frame).sqlstate()).into_owned()),
            b'A' => {
                let payload = Notification::read(&frame).unwrap().payload;
                notified.push(String::from_utf8_lossy(payload).into_owned());
            }
            b'Z' => return (values, message[5].into()),
            _ => {}
        }
    }
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
    /// What was notified while it listened.
    to_hear: Vec<String>,
    /// What it has heard.
    notified: Vec<String>,
}

impl Client {
    fn come((open, database): (&Open, &str)) -> Client {
        let (to_hear, notified) = (Vec::new(), Vec::new());
        Client { raw: Raw::ready(open, database), alone: Alone::default(), to_hear, notified }
    }

    /// Asks in the simple protocol.
    fn ask(&mut self, text: &str) -> Heard {
        self.raw.ask(|out| out.query(text.as_bytes()));
        hear(&mut self.raw, &mut self.notified)
    }

    /// It has heard what it was to hear, as far as it was not in a transaction all the time.
    fn has_heard(&self) {
        if self.alone.status() == 'I' {
            assert_eq!(self.notified, self.to_hear);
        } else {
            assert!(self.to_hear.starts_with(&self.notified), "{:?} of {:?}", self.notified, self.to_hear);
        }
    }

    /// It sees what it should see, and nothing else.
    fn look(&mut self) {
        if self.alone.has_failed() {
            assert_eq!(self.ask("SELECT 1"), (vec!["25P02".to_owned()], 'E'));
            return;
        }
        let (seen, status) = self.ask(&alone::look());
        assert_eq!(status, self.alone.status());
        assert_eq!(seen, self.alone.expected());
        // This one may run at a standby.
        let read = "SELECT (date '2024-02-03' + id)::text FROM public.items WHERE id = 1";
        assert_eq!(self.ask(read).0, [self.alone.date()]);
        self.has_heard();
    }

    /// Does something that one server would answer so. What it has notified, if it has.
    fn step(&mut self, rng: &mut StdRng, may_tie: bool, story: &mut Story, who: usize) -> Option<String> {
        let act = self.alone.choose(rng, may_tie);
        story.steps.push(format!("{who}: {act:?}"));
        match &act.how {
            How::Query => {
                let heard = self.ask(&act.text);
                assert_eq!(heard, (act.hears, self.alone.status()), "{}", act.text);
            }
            How::Parse(name) => {
                self.raw.ask(|out| {
                    out.parse(name.as_bytes(), act.text.as_bytes(), &[]);
                    out.sync();
                });
                assert_eq!(
                    hear(&mut self.raw, &mut self.notified),
                    (act.hears, self.alone.status()),
                    "{}",
                    act.text
                );
            }
            How::Run(name) => {
                self.raw.ask(|out| {
                    out.bind_plain(name.as_bytes());
                    out.execute(b"", 0);
                    out.sync();
                });
                assert_eq!(
                    hear(&mut self.raw, &mut self.notified),
                    (act.hears, self.alone.status()),
                    "{name}"
                );
            }
        }
        if !self.alone.listens() {
            assert!(self.to_hear.starts_with(&self.notified), "{:?} of {:?}", self.notified, self.to_hear);
            self.to_hear.clear();
            self.notified.clear();
        }
        act.notifies
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
fn interleave(place: (&Open, &str), shared: usize, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut story = Story { seed, steps: Vec::new() };
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::come(place)).collect();
    for _ in 0..rng.random_range(STEPS) {
        let who = rng.random_range(0..CLIENTS);
        if rng.random_range(0..20) == 0 {
            let gone = std::mem::replace(&mut clients[who], Client::come(place));
            story.steps.push(format!("{who}: {}, and another comes", gone.leave(&mut rng)));
        } else {
            let tied = clients.iter().filter(|client| client.alone.is_tied()).count();
            let may_tie = clients[who].alone.is_tied() || tied + 1 < shared;
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
        let how = client.leave(&mut rng);
        story.steps.push(format!("one {how}"));
    }
    // So many at once have every connection that there is.
    let mut last: Vec<Client> = (0..shared).map(|_| Client::come(place)).collect();
    for (who, client) in last.iter_mut().enumerate() {
        story.steps.push(format!("a new one looks: {who}"));
        assert_eq!(client.ask("BEGIN"), (Vec::new(), 'T'));
        client.alone.begin();
        client.look();
    }
    last.iter_mut().for_each(|client| assert_eq!(client.ask("COMMIT").1, 'I'));
}

/// A number that the caller may wish otherwise.
fn wished(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn whatever_clients_do_in_turn_nobody_sees_anything_of_another() {
    for name in DATABASES {
        database(name);
        SERVERS.query_in(name, "GRANT SELECT ON items TO PUBLIC");
    }
    let (from, seeds) = (wished("LEAK_FROM", 0), wished("LEAK_SEEDS", SEEDS));
    let part = |odd: u64, size: usize| {
        let open = sharing(size);
        let place = (&open, DATABASES[usize::try_from(odd).unwrap()]);
        (from..from + seeds).filter(|seed| seed % 2 == odd).for_each(|seed| interleave(place, size, seed));
        open.reads_at_standbys()
    };
    let reads = std::thread::scope(|scope| {
        let other = scope.spawn(|| part(1, 3));
        part(0, 2) + other.join().expect("a seed that fails says so itself")
    });
    assert!(reads > 0 || seeds < SEEDS, "some reads left");
}
