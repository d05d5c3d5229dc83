//! Any text as a client's message: its shape, its statements, the kind of each of them, and its effect on a
//! session.

use session_state::utility::{
    Held, Statement, Utilities, Utility, What, call_arguments, replicated_ddl, split, tagged,
};
use session_state::{BlockStatus, Interner, Own, SessionState, Startup, set_by_function};
use statement_analysis::Parameter;
use statement_analysis::declared_tables::Declared;
use statement_analysis::shape::{Shape, Strings};

/// Tags of commands that are looked for in a text.
const TAGS: [&str; 4] = ["CREATE TABLE", "DROP INDEX", "ALTER TABLE", "CREATE MATERIALIZED VIEW"];

/// Checks one input. The first byte selects the meaning of a backslash, and how the session's statements end.
pub(crate) fn check(bytes: &[u8]) {
    let [how, text @ ..] = bytes else { return };
    let strings = if how & 1 == 0 { Strings::Standard } else { Strings::Escaping };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let shape = Shape::of(text, strings);
    read(&shape, text);
    let mut looked = Utilities::new(4096);
    let held = looked.look(&shape, text, strings);
    assert_eq!(looked.look(&shape, text, strings), held, "what is remembered is what was found");
    if let Held::Statements(statements) = held {
        assert_eq!(*statements, split(text, strings));
        statements.iter().for_each(|statement| understand(text, statement, strings));
        follow(text, &statements, *how);
    }
    for tag in TAGS {
        tagged(text, tag, strings);
    }
    if let Some(declared) = Declared::read(text) {
        assert_eq!(Declared::read(declared.text()).as_ref(), Some(&declared));
    }
    start(text);
}

/// Literals lie in the text, one after the other.
fn read(shape: &Shape, text: &str) {
    let mut texts = Vec::new();
    shape.texts(text, &mut texts);
    assert_eq!(texts.len(), shape.literals().len());
    assert!(shape.ranges().windows(2).all(|two| two[0].end <= two[1].start));
    assert!(shape.sure().is_ok() || (texts.is_empty() && shape.key().is_empty()));
    let _ = (shape.said(text), shape.declaration(text), shape.hint());
    let value = Parameter::Text(b"consort.consistency");
    set_by_function(shape, text, &[value, Parameter::Null]);
}

/// Checks that the parts of a statement lie in the text.
fn understand(text: &str, statement: &Statement, strings: Strings) {
    let piece = &text[statement.range.clone()];
    call_arguments::called(piece, strings);
    replicated_ddl::differs(piece, strings);
    let What::Utility(utility) = &statement.what else { return };
    let _ = (utility.name(), utility.may_write(), utility.doubt_at_statement(), utility.relations());
    utility.may_commit(BlockStatus::Idle);
    if let Some(inner) = utility.inner() {
        assert!(statement.range.start <= inner.start && inner.end <= statement.range.end);
        read(&Shape::of(&text[inner], strings), &text[utility.inner().expect("it was there")]);
    }
}

/// Runs a session in which these statements succeeded, or not.
fn follow(text: &str, statements: &[Statement], how: u8) {
    let mut interner = Interner::new(64);
    let none: [(&str, &str); 0] = [];
    let startup = Startup::of(none, Own::default()).expect("nothing is asked");
    let mut session = SessionState::new(&startup, &mut interner);
    for (at, Statement { what, .. }) in statements.iter().enumerate() {
        let status = *[b'I', b'T', b'E'].get((usize::from(how >> 1) + at) % 4).unwrap_or(&b'T');
        match what {
            What::Tree => session.judged(None),
            What::Utility(utility) if utility.consort_setting().is_some() => {
                let _ = session.consort(utility);
            }
            What::Utility(utility) if how & 64 != 0 && at % 3 == 2 => session.failed(utility),
            What::Utility(utility) => session.completed(utility, &mut interner),
        }
        session.ready(status, &mut interner);
        let _ = (session.may_leave(), session.may_move(), session.probe(), session.isolation());
        let _ = (session.idle_limit(), session.strings(), session.known_settings());
        let _ = (session.text_is_plain(text.as_bytes()), session.settings().to_become(session.settings()));
    }
    let _ = statements.iter().any(|statement| statement.what == What::Utility(Utility::Unknown));
}

/// Reads the text as a client's start-up options.
fn start(text: &str) {
    let mut words = text.splitn(3, '\n');
    let pairs = [
        ("options", words.next()),
        ("consort.consistency", words.next()),
        (words.next().unwrap_or("x"), Some(text)),
    ];
    for pair in pairs.iter().filter_map(|(name, value)| Some((*name, (*value)?))) {
        let Ok(startup) = Startup::of([pair], Own::default()) else { continue };
        assert!(startup.forward.iter().all(|(name, _)| !name.to_ascii_lowercase().starts_with("consort.")));
    }
}
