//! Certifications a second on one core, with a full window: `cargo run --release -p certifier --example certifications`.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a program that measures; the crate is pure"
)]

use std::time::{Duration, Instant};

use certifier::{Certifier, Item, Mode, Refused};
use history::Version;

const WINDOW: usize = 100_000;
const ITEMS: usize = 10;
/// Write sets that are measured, after as many as the window has room for.
const MEASURED: usize = 500_000;
/// A transaction's start lies up to so many versions below the newest.
const AGE: u64 = 64;

fn main() {
    println!("window {WINDOW} records, {ITEMS} items each, {MEASURED} certifications");
    println!("a second and mean: processor time; p50, p99, p99.9: as a clock sees single ones");
    let [a, b, c, d, e, f] = ["a second", "mean us", "p50 us", "p99 us", "p99.9 us", "refused"];
    println!("{:32} {a:>10} {b:>8} {c:>8} {d:>8} {e:>8} {f:>8}", "items of a write set");
    measure("10 rows of 10 million", |random| row(random, 10_000_000));
    measure("10 rows of 100,000 (conflicts)", |random| row(random, 100_000));
    let tables = |random: &mut Random| match random.below(10) {
        0..3 => Item::new(mixed(random.below(20)), Mode::Intent),
        3..5 => Item::new(mixed(1_000 + random.below(1_000_000)), Mode::Share),
        _ => row(random, 10_000_000),
    };
    measure("3 tables, 2 parents, 5 rows", tables);
}

fn row(random: &mut Random, rows: u64) -> Item {
    Item::new(mixed(10_000_000 + random.below(rows)), Mode::Write)
}

/// Fills the window, then measures. Write sets are made before the clock runs.
fn measure(name: &str, mut item: impl FnMut(&mut Random) -> Item) {
    let mut random = Random(1);
    let mut write_set = |random: &mut Random| -> [Item; ITEMS] { std::array::from_fn(|_| item(random)) };
    let mut certifier = Certifier::new(Version::ZERO, WINDOW);
    for version in 1..=WINDOW as u64 {
        certifier.restore(Version::new(version), &write_set(&mut random));
    }
    let write_sets: Vec<_> = (0..MEASURED).map(|_| (random.below(AGE), write_set(&mut random))).collect();
    let (mut refused, mut times) = (0, Vec::with_capacity(MEASURED));
    let (begun, mut last) = (cpu_time(), Instant::now());
    for (age, items) in &write_sets {
        let verdict = certifier.certify(Version::new(certifier.newest().get() - age), items);
        match verdict {
            Ok(certified) => assert!(certified.after < certified.version),
            Err(Refused::Conflict { .. }) => refused += 1,
            Err(refused @ Refused::BelowFloor { .. }) => panic!("{refused}"),
        }
        let now = Instant::now();
        times.push(now.duration_since(last));
        last = now;
    }
    let cpu = cpu_time() - begun;
    times.sort_unstable();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let at = |per_mille: usize| us(times[(MEASURED - 1) * per_mille / 1000]);
    let (mean, a_second) = (us(cpu) / MEASURED as f64, MEASURED as f64 / cpu.as_secs_f64());
    let (p50, p99, p999) = (at(500), at(990), at(999));
    println!("{name:32} {a_second:>10.0} {mean:>8.2} {p50:>8.2} {p99:>8.2} {p999:>8.2} {refused:>8}");
}

/// Processor time of this thread, so that what else runs on the machine does not count.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("the first number is the processor time"))
}

/// The generator "splitmix64".
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0) % limit
    }
}

/// A well mixed number, as a hash is.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
