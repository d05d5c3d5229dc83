//! Meaning of named statements while the objects of their names change between executions: PostgreSQL looks
//! names up again only after certain events, and its answers show it. Each history runs at one server and
//! through Consort, in two databases that are alike, and both answer the same. Their servers are apart: DDL of
//! other tests, in any database, may make PostgreSQL look every name up again at one of the two sessions
//! (`findings/prepared-statement-renamed-by-ddl-in-another-database.sh`).

use crate::messages::{parse_named, run_named};
use crate::pooled::shared;
use crate::session::query;
use crate::stage::{Open, Raw, apart, until};
use cluster::Cluster;
use config::pooling::Pools;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use scheduler::Writers;
use testkit::Scratch;

/// Histories of an ordinary run, and their steps.
const SEEDS: u64 = 8;
const STEPS: usize = 40;
/// A read is tried so often to leave the primary.
const TRIES: usize = 4;

/// Initial objects of either database.
const MAKES: &str = "CREATE SCHEMA a; CREATE TABLE public.t AS SELECT 'public'::text AS v; \
    CREATE FUNCTION public.f() RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'public f'::text$$";

/// The statements, by their names.
const NAMED: [(&str, &str); 2] = [("reads", "SELECT v FROM t"), ("calls", "SELECT v || f() FROM t")];

/// Steps besides executing a statement.
const TURNS: &[&str] = &[
    "CREATE TEMP TABLE t AS SELECT 'temporary'::text AS v",
    "CREATE TEMP VIEW t AS SELECT 'temporary view'::text AS v",
    "DROP TABLE pg_temp.t",
    "DROP VIEW pg_temp.t",
    "DISCARD TEMP",
    "CREATE TABLE a.t AS SELECT 'a'::text AS v",
    "DROP TABLE a.t",
    "CREATE FUNCTION a.f() RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'a f'::text$$",
    "DROP FUNCTION a.f()",
    "ALTER TABLE public.t ADD COLUMN IF NOT EXISTS w int",
    "ALTER TABLE public.t DROP COLUMN IF EXISTS w",
    "SET search_path = a, public",
    "SET search_path = a, public",
    "SET search_path = public",
    "SET search_path = pg_temp, a, public",
    "RESET search_path",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "ROLLBACK",
];

/// A client of one server and one of Consort, each in its database.
struct Pair {
    plain: Raw,
    ours: Raw,
    story: Vec<String>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.story.join("\n"));
        }
    }
}

impl Pair {
    /// Creates the databases again.
    fn come(servers: &Scratch, open: &Open, name: &str) -> Pair {
        let (plain, ours) = (format!("{name}_plain"), format!("{name}_ours"));
        for database in [&plain, &ours] {
            servers.query(&format!("CREATE DATABASE {database}"));
            servers.query_in(database, MAKES);
        }
        let mut pair =
            Pair { plain: Raw::past(servers, &plain), ours: Raw::ready(open, &ours), story: Vec::new() };
        followed(open, &ours);
        for (named, text) in NAMED {
            pair.both(&format!("parses {named}"), |raw| vec![parse_named(raw, named.as_bytes(), text)]);
        }
        pair
    }

    /// Both get the same answers.
    fn both(&mut self, step: &str, does: impl Fn(&mut Raw) -> Vec<String>) -> Vec<String> {
        let expected = does(&mut self.plain);
        self.story.push(format!("{step} -- {expected:?}"));
        assert_eq!(does(&mut self.ours), expected, "{step}");
        expected
    }

    fn query(&mut self, text: &str) {
        self.both(text, |raw| query(raw, text));
    }

    /// Executes a statement until it has left the primary, or often enough.
    fn execute(&mut self, open: &Open, named: &str) -> Vec<String> {
        let before = open.reads_at_standbys();
        let mut heard = Vec::new();
        for _ in 0..TRIES {
            heard = self.both(&format!("executes {named}"), |raw| run_named(raw, named.as_bytes()));
            if open.reads_at_standbys() > before {
                break;
            }
        }
        self.story.push(format!("  (left: {})", open.reads_at_standbys() > before));
        heard
    }
}

/// Waits until reads of this database may leave.
fn followed(open: &Open, database: &str) {
    until(|| {
        let name = database.to_owned();
        open.cluster(move |cluster: &Cluster| {
            let of = cluster.database(&name);
            let id = of.id().filter(|_| of.not_serving().is_none());
            id.is_some_and(|id| cluster.scheduler().order().clear(id))
        })
    });
}

fn history(servers: &Scratch, open: &Open, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let name = format!("shadowing_{seed}");
    let mut pair = Pair::come(servers, open, &name);
    for _ in 0..STEPS {
        match random.random_range(0..10) {
            0..=4 => {
                let turn = TURNS[random.random_range(0..TURNS.len())];
                pair.query(turn);
            }
            5..=8 => {
                followed(open, &format!("{name}_ours"));
                let (named, _) = NAMED[random.random_range(0..NAMED.len())];
                pair.execute(open, named);
            }
            _ => {
                let (named, text) = NAMED[random.random_range(0..NAMED.len())];
                pair.both(&format!("parses {named}"), |raw| {
                    raw.ask(|out| {
                        wire::Asks::close(out, wire::Target::Statement, named.as_bytes());
                        wire::Asks::sync(out);
                    });
                    raw.until_ready();
                    vec![parse_named(raw, named.as_bytes(), text)]
                });
            }
        }
    }
}

/// Histories at random. `SHADOW_FROM=3 SHADOW_SEEDS=1` runs one again.
#[test]
fn named_statements_mean_what_one_server_means() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (from, seeds) = (number("SHADOW_FROM").unwrap_or(0), number("SHADOW_SEEDS").unwrap_or(SEEDS));
    let servers = apart();
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    for seed in from..from + seeds {
        eprintln!("SHADOW_FROM={seed} SHADOW_SEEDS=1");
        history(&servers, &open, seed);
    }
    assert!(open.reads_at_standbys() > seeds, "reads leave: {}", open.why_at_primary());
}

/// The story of a bug: the first executions ran at a standby, so that the primary's plan did not see them.
#[test]
fn named_statement_shadowed_again_stays_public() {
    let servers = apart();
    for (mode, pools) in [("own", Pools::default()), ("shared", Pools::of_all(shared(1)))] {
        let open = Open::before(&servers, Writers::Anywhere, move |setup| setup.pools = pools);
        let mut pair = Pair::come(&servers, &open, &format!("shadowed_again_{mode}"));
        assert_eq!(pair.execute(&open, "reads"), ["public"]);
        pair.query("CREATE TEMP TABLE t AS SELECT 'temporary'::text AS v");
        pair.query("DROP TABLE pg_temp.t");
        assert_eq!(pair.execute(&open, "reads"), ["public"]);
        pair.query("CREATE TEMP TABLE t AS SELECT 'temporary'::text AS v");
        assert_eq!(pair.execute(&open, "reads"), ["public"], "no name is looked up again");
    }
}
