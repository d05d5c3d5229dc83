//! SHOW and SET of Consort's own settings in the extended protocol: the messages are those of a server for a setting that it
//! knows, whichever way a driver sends its statement.

use crate::pooled::sharing;
use crate::session::{answer, query, until_it_leaves_behind};
use crate::stage::{Open, Raw, database};
use scheduler::Writers;
use wire::{Asks, Target};

const SHOW: &str = "SHOW consort.consistency";
/// A setting of the server, which the test gives the same value.
const PLAIN: &str = "SHOW application_name";

/// One request of a driver, with the text of its SHOW.
type Way = fn(&mut Vec<u8>, &str);

fn bind_and_execute(out: &mut Vec<u8>, name: &[u8]) {
    out.bind_plain(name);
    out.describe(Target::Portal, b"");
    out.execute(b"", 0);
    out.sync();
}

/// A statement that is parsed in one request, and used in later ones.
const PREPARED: &[Way] = &[
    |out, show| {
        out.parse(b"s", show.as_bytes(), &[]);
        out.describe(Target::Statement, b"s");
        out.sync();
    },
    |out, _| bind_and_execute(out, b"s"),
    |out, _| {
        out.describe(Target::Statement, b"s");
        out.sync();
    },
    |out, show| {
        // The name is in use: an error, and the rest is skipped.
        out.parse(b"s", show.as_bytes(), &[]);
        out.describe(Target::Statement, b"s");
        out.sync();
    },
    |out, _| bind_and_execute(out, b"s"),
    |out, _| out.query(b"DEALLOCATE s"),
    |out, _| bind_and_execute(out, b"s"),
    |out, show| {
        out.parse(b"s", show.as_bytes(), &[]);
        Asks::close(out, Target::Statement, b"s");
        out.describe(Target::Statement, b"s");
        out.sync();
    },
];

/// A statement that is parsed and executed in one request.
const AT_ONCE: &[Way] = &[
    |out, show| {
        out.parse(b"s", show.as_bytes(), &[]);
        out.describe(Target::Statement, b"s");
        bind_and_execute(out, b"s");
    },
    |out, show| {
        Asks::close(out, Target::Statement, b"s");
        out.parse(b"", show.as_bytes(), &[]);
        bind_and_execute(out, b"");
    },
    |out, show| {
        // Two waits of the driver, one Sync.
        out.parse(b"", show.as_bytes(), &[]);
        out.describe(Target::Statement, b"");
        out.flush();
        bind_and_execute(out, b"");
    },
    |out, show| {
        out.parse(b"", b"BEGIN", &[]);
        out.bind_plain(b"");
        out.execute(b"", 0);
        out.parse(b"t", show.as_bytes(), &[]);
        bind_and_execute(out, b"t");
    },
    |out, _| out.query(b"SELECT 1/0"),
    |out, show| {
        out.parse(b"u", show.as_bytes(), &[]);
        bind_and_execute(out, b"u");
    },
    |out, _| out.query(b"ROLLBACK"),
    |out, _| bind_and_execute(out, b"u"),
    |out, _| bind_and_execute(out, b"t"),
    |out, _| out.query(b"DISCARD ALL"),
    |out, _| bind_and_execute(out, b"t"),
];

fn are_those_of_a_server(open: &Open, plain: &mut Raw, database: &str) {
    let (mut raw, mut other) = (Raw::ready(open, database), Raw::ready(open, database));
    query(plain, "SET application_name = strong");
    for (at, way) in PREPARED.iter().chain(AT_ONCE).enumerate() {
        plain.ask(|out| way(out, PLAIN));
        raw.ask(|out| way(out, SHOW));
        // The settings that a connection reports may be reported again.
        let [expected, said] =
            [answer(plain), answer(&mut raw)].map(|(values, tags)| (values, tags.replace('S', "")));
        assert_eq!(said, expected, "request {at}");
        // In a block the client keeps its connection.
        if plain.status_after("") == 'I' {
            query(&mut other, "SELECT set_config('work_mem', '5MB', false)");
        }
    }
}

#[test]
fn prepared_show_is_answered_as_by_a_server() {
    database("prepared_show");
    let mut plain = Raw::at_primary("prepared_show");
    are_those_of_a_server(&Open::serving(Writers::Anywhere), &mut plain, "prepared_show");
}

#[test]
fn prepared_show_moves_with_a_pooled_client() {
    database("pooled_show");
    let mut plain = Raw::at_primary("pooled_show");
    are_those_of_a_server(&sharing(1), &mut plain, "pooled_show");
}

/// A SET that is prepared has its effect, and so has a SHOW in a snapshot at a standby.
#[test]
fn prepared_set_has_its_effect() {
    database("prepared_set");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "prepared_set");
    raw.ask(|out| {
        out.parse(b"set", b"SET consort.consistency = 'weak'", &[]);
        out.describe(Target::Statement, b"set");
        out.sync();
    });
    assert_eq!(answer(&mut raw), (vec![], "1tnZ".to_owned()));
    assert_eq!(query(&mut raw, SHOW), ["strong"]);
    raw.ask(|out| bind_and_execute(out, b"set"));
    assert_eq!(answer(&mut raw), (vec![], "2nCZ".to_owned()));
    assert_eq!(query(&mut raw, SHOW), ["weak"]);
    query(&mut raw, "RESET consort.consistency");
    query(&mut raw, "SET consort.read_only_snapshots = on");
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    until_it_leaves_behind(&open, &mut raw, &[begin], "SELECT name FROM items WHERE id = 7");
    raw.ask(|out| {
        out.parse(b"show", SHOW.as_bytes(), &[]);
        out.describe(Target::Statement, b"show");
        bind_and_execute(out, b"show");
    });
    assert_eq!(answer(&mut raw), (vec!["strong".to_owned()], "1tT2TDCZ".to_owned()));
    assert_eq!(raw.status_after("COMMIT"), 'I');
    // Several statements in one batch: some may have no effect outside of it.
    raw.ask(|out| {
        out.parse(b"", b"UPDATE items SET name = 'x' WHERE id = 7", &[]);
        out.bind_plain(b"");
        out.execute(b"", 0);
        out.bind_plain(b"show");
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!(answer(&mut raw).0, ["0A000"]);
    // Code cannot execute it.
    assert_eq!(query(&mut raw, "EXECUTE show"), ["26000"]);
}
