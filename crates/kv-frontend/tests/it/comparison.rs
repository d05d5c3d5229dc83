//! The same commands at Redis itself and here: replies are the same. Of errors the code is compared.

use crate::Running;
use testkit::redis::{self, Client, Frame};

/// Lines `CONNECTION: COMMAND`, in this order.
const SCRIPT: &str = include_str!("comparison.script");
/// Commands of one random run.
const STEPS: usize = 3_000;

/// A reply as it is compared.
fn compared(frame: Frame) -> String {
    match frame {
        Frame::Error(text) => text.split(' ').next().unwrap_or_default().to_owned(),
        Frame::Array(frames) => {
            format!("[{}]", frames.into_iter().map(compared).collect::<Vec<_>>().join(" "))
        }
        other => redis::shown(&other),
    }
}

/// Two servers with three connections each.
struct Both {
    ours: Vec<Client>,
    theirs: Vec<Client>,
}

impl Both {
    fn connect(ours: &Running, theirs: &redis::Server) -> Both {
        Both {
            ours: (0..3).map(|_| ours.client()).collect(),
            theirs: (0..3).map(|_| theirs.client()).collect(),
        }
    }

    /// The same command at both, whose replies must agree.
    fn ask(&mut self, connection: usize, line: &str, place: &str) {
        let ours = compared(self.ours[connection].ask(line).expect("a reply"));
        let theirs = compared(self.theirs[connection].ask(line).expect("a reply"));
        assert_eq!(ours, theirs, "{place}: connection {connection}: {line}");
    }
}

#[test]
fn a_script_has_the_replies_of_redis() {
    let (ours, theirs) = (Running::start(), redis::Server::start());
    let mut both = Both::connect(&ours, &theirs);
    let lines = SCRIPT.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut count = 0;
    for (at, line) in lines {
        let (connection, command) = line.split_once(": ").expect("CONNECTION: COMMAND");
        let connection = ["a", "b", "c"].iter().position(|name| *name == connection).expect("a, b or c");
        both.ask(connection, command, &format!("line {}", at + 1));
        count += 1;
    }
    assert!(count > 100);
}

/// Three clients that watch, queue, execute and write at random, one command at a time.
#[test]
fn random_clients_have_the_replies_of_redis() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let (ours, theirs) = (Running::start(), redis::Server::start());
    let mut both = Both::connect(&ours, &theirs);
    for step in 0..STEPS {
        let key = |random: &mut fastrand::Rng| ["a", "b", "c", "d"][random.usize(..4)];
        let (one, other, number) = (key(&mut random), key(&mut random), random.i32(-3..4));
        let line = match random.usize(..26) {
            0 | 1 => format!("SET {one} {number}"),
            2 => format!("SET {one} {number} NX"),
            3 => format!("SET {one} {number} XX GET"),
            4 => format!("GET {one}"),
            5 => format!("MGET {one} {other}"),
            6 => format!("DEL {one} {other}"),
            7 => format!("INCRBY {one} {number}"),
            8 => format!("APPEND {one} {number}"),
            9 => format!("STRLEN {one}"),
            10 => format!("EXISTS {one} {other}"),
            11 => format!("MSETNX {one} 1 {other} 2"),
            12 => format!("GETDEL {one}"),
            13 => format!("GETSET {one} {number}"),
            14 => format!("DECR {one}"),
            15 => "NOSUCH".to_owned(),
            16 => format!("GET {one} {other}"),
            17 => "UNWATCH".to_owned(),
            18 | 19 => format!("WATCH {one} {other}"),
            20 | 21 => "MULTI".to_owned(),
            22..=24 => "EXEC".to_owned(),
            _ => "DISCARD".to_owned(),
        };
        both.ask(random.usize(..3), &line, &format!("seed {seed}, step {step}"));
    }
}
