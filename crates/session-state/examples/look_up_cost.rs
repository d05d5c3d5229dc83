//! Cost of a statement before it is routed, in nanoseconds (best of nine runs): computing its shape, and
//! looking up its analysis.
//!
//! `cargo run --release -p session-state --example look_up_cost`
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures; the crate does not ask the time"
)]

use history::DatabaseId;
use session_state::utility::{Held, Utilities};
use statement_analysis::cache::SettingsId;
use statement_analysis::cache::{Cache, CacheKey, Found, Outcome};
use statement_analysis::shape::{Shape, Strings};
use std::hint::black_box;
use std::time::Instant;

fn best(mut run: impl FnMut()) -> f64 {
    const TIMES: u32 = 20_000;
    let mut once = || {
        let start = Instant::now();
        (0..TIMES).for_each(|_| run());
        start.elapsed().as_nanos() as f64 / f64::from(TIMES)
    };
    (0..9).map(|_| once()).fold(f64::MAX, f64::min)
}

fn statements() -> Vec<(&'static str, String)> {
    let list: Vec<String> = (0..200).map(|n| (n * 7919).to_string()).collect();
    vec![
        ("pgbench select", "SELECT abalance FROM pgbench_accounts WHERE aid = 47110;".to_owned()),
        ("the same, $1", "SELECT abalance FROM pgbench_accounts WHERE aid = $1;".to_owned()),
        (
            "pgbench update",
            "UPDATE pgbench_accounts SET abalance = abalance + -1234 WHERE aid = 47110;".to_owned(),
        ),
        (
            "pgbench insert",
            "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (7, 1, 47110, -1234, CURRENT_TIMESTAMP);"
                .to_owned(),
        ),
        (
            "ORM, 640 bytes",
            "SELECT \"users\".\"id\" AS t0_r0, \"users\".\"name\" AS t0_r1, \"users\".\"email\" AS t0_r2, \"orders\".\"id\" AS \
             t1_r0, \"orders\".\"total\" AS t1_r1, \"orders\".\"created_at\" AS t1_r2, \"items\".\"id\" AS t2_r0, \"items\".\"sku\" AS \
             t2_r1 FROM \"users\" LEFT OUTER JOIN \"orders\" ON \"orders\".\"user_id\" = \"users\".\"id\" LEFT OUTER JOIN \"items\" ON \
             \"items\".\"order_id\" = \"orders\".\"id\" WHERE \"users\".\"active\" = TRUE AND \"users\".\"email\" = 'someone@example.com' AND \
             \"orders\".\"total\" > 100.50 AND \"orders\".\"state\" IN ('paid', 'sent', 'returned') ORDER BY \"orders\".\"created_at\" \
             DESC, \"users\".\"id\" ASC LIMIT 25 OFFSET 50"
                .to_owned(),
        ),
        ("IN of 200", format!("SELECT a, b FROM t WHERE id IN ({})", list.join(", "))),
    ]
}

fn key<'a>(shape: &'a Shape, text: &'a str) -> CacheKey<'a> {
    let (settings, database) = (SettingsId::new(1), DatabaseId::new(5));
    CacheKey { shape, text, types: &[], settings, database, catalog: 1 }
}

fn main() {
    println!("{:<20} {:>6} {:>8} {:>10}", "statement", "bytes", "shape", "+ look-up");
    let mut cache: Cache<u64> = Cache::new(16 << 20);
    for n in 0..1_000 {
        let text = format!("SELECT a{n} FROM t WHERE b = $1");
        let shape = Shape::of(&text, Strings::Standard);
        if let Some(ticket) = cache.begin(&key(&shape, text.as_str())) {
            cache.finish(ticket, Outcome::Ready { value: n, bytes: 1_000 });
        }
    }
    for (name, text) in statements() {
        let mut shape = Shape::of(&text, Strings::Standard);
        assert!(shape.sure().is_ok());
        if let Some(ticket) = cache.begin(&key(&shape, text.as_str())) {
            cache.finish(ticket, Outcome::Ready { value: 0, bytes: 1_000 });
        }
        let read = best(|| shape.read(black_box(&text), Strings::Standard));
        let looked = best(|| {
            shape.read(black_box(&text), Strings::Standard);
            assert!(matches!(cache.get(&key(&shape, text.as_str())), Found::Ready(_)));
        });
        println!("{name:<20} {:>6} {read:>8.0} {looked:>10.0}", text.len());
    }
    let mut utilities = Utilities::new(1 << 20);
    for text in ["BEGIN", "COMMIT;", "SET LOCAL app.tenant = '7'"] {
        let mut shape = Shape::new();
        let looked = best(|| {
            shape.read(black_box(text), Strings::Standard);
            assert!(matches!(utilities.look(&shape, text, Strings::Standard), Held::Statements(_)));
        });
        println!("{text:<27} {:>18} {looked:>0.0}", "by exact text");
    }
}
