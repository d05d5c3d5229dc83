//! Transfer of the client's prepared statements to the primary before it needs them: the unnamed one that a
//! standby has parsed, and named ones at a pooled connection.
//!
//! PostgreSQL fixes the types of a statement's parameters and its columns at its Parse
//! (`RevalidateCachedQuery`). So the server describes a named statement after its Parse. A connection that
//! parses it later receives the same types, and describes it too.
//!
//! A change of columns is found before the client's request (`session/statement_columns.rs`). A difference
//! found here is newer than that check, and the client's request may have run: its connection then ends.

use super::{Expect, Primary, QUESTION};
use backend::prepared_statements::{Lack, Owed, Statements, description, stand_in};
use backend::statement_description::Described;
use std::rc::Rc;
use wire::{Asks, Frame, Parse, Target};

impl Primary {
    /// Prepares the use of a statement by a Bind or a Describe. The primary must know before which statement
    /// the client means, but no earlier: parsing it in the client's transaction takes a snapshot and locks.
    pub(super) fn statement_used(&mut self, name: &[u8], describes: bool, statements: &mut Statements) {
        if !name.is_empty() && !describes {
            statements.counted.binds += 1;
        }
        if let Some(error) = statements.refused(name, describes) {
            self.expects.push_back(Expect::Refused(error));
            self.open = true;
            return;
        }
        if !name.is_empty() {
            self.learn(name, statements);
            statements.names_are_looked_up(name);
        } else if self.owe(statements) {
            self.expects.push_back(Expect::Ours);
        }
        self.answer_comes();
    }

    /// Makes sure that a pooled connection has this named statement, or none of that name, before its use.
    pub fn learn(&mut self, name: &[u8], statements: &mut Statements) {
        let by_sql = statements.lacks_by_sql(name);
        let Some(mut lack) = statements.lacks(name) else { return };
        if by_sql {
            // Only a request of its own can prepare it (`session/sql_prepare.rs`).
            lack.parses = None;
            statements.unlearned(name);
        }
        let told = self.tell(name, &lack, statements);
        self.expects.extend((0..told).map(|_| Expect::Learns(name.into())));
        if let Some(told) = lack.told() {
            self.describe(name, Some(told));
        }
    }

    /// Makes sure that a pooled connection has the client's statement of this name, or none, before the
    /// client parses another under it.
    pub(super) fn make_room(&mut self, name: &[u8], statements: &mut Statements) {
        statements.refuses_no_more(name);
        let Some(lack) = statements.lacks(name) else { return };
        let told = self.tell(name, &lack, statements);
        self.expects.extend((0..told).map(|_| Expect::Learns(name.into())));
        if lack.parses.is_some() {
            // The statement only makes room for the other one: its columns do not matter.
            statements.unlearned(name);
        }
    }

    /// Sends the messages that bring this name to the client's statement. Returns their number.
    fn tell(&mut self, name: &[u8], lack: &Lack, statements: &mut Statements) -> usize {
        let out = self.peer.out();
        if lack.closes {
            Asks::close(out, Target::Statement, name);
        }
        if let Some(kept) = &lack.parses {
            statements.counted.server_parses += 1;
            let text = &kept.statement.text;
            out.parse(name, stand_in(text).unwrap_or(text), kept.types());
        }
        usize::from(lack.closes) + usize::from(lack.parses.is_some())
    }

    /// Has the server describe the statement that it has just parsed under this name.
    pub(super) fn describe(&mut self, name: &[u8], told: Option<Rc<Described>>) {
        self.peer.out().describe(Target::Statement, name);
        self.expects.push_back(Expect::Described { name: name.into(), told });
    }

    /// Applies [`learn`](Primary::learn) to these named statements, before SQL that may refer to them.
    pub fn learn_all(&mut self, names: Vec<Box<[u8]>>, statements: &mut Statements) {
        for name in names {
            if statements.refused(&name, false).is_some() {
                continue;
            }
            if let Some(lack) = statements.lacks(&name) {
                self.tell(&name, &lack, statements);
                let told = lack.told();
                if told.is_some() {
                    self.peer.out().describe(Target::Statement, &name);
                }
                self.peer.out().sync();
                self.expects.push_back(Expect::Learnt { name, told });
            }
        }
    }

    /// Brings this name to the client's statement, and no more, as an internal query. The server's
    /// description is kept, or its error.
    pub fn ask_learnt(&mut self, name: &[u8], lack: &Lack, statements: &mut Statements) {
        self.tell(name, lack, statements);
        self.ask_what_is(name);
    }

    /// Has the server prepare, by this text, the statement whose description the client received as `told`.
    /// The answers count as those of a named statement that the connection learns in a request of its own.
    pub fn ask_prepared(&mut self, name: &[u8], text: &str, closes: bool, told: Rc<Described>) {
        if closes {
            self.ask_closed(name);
        }
        self.ask(text);
        let out = self.peer.out();
        out.describe(Target::Statement, name);
        out.sync();
        self.expects.push_back(Expect::Learnt { name: name.into(), told: Some(told) });
    }

    /// Has the server describe its statement of this name, as an internal query. The description is kept, or
    /// the error.
    pub fn ask_what_is(&mut self, name: &[u8]) {
        let out = self.peer.out();
        out.describe(Target::Statement, name);
        out.sync();
        self.seen.error = None;
        self.seen.aside.clear();
        self.expects.push_back(Expect::Bound);
    }

    /// Has the server parse an empty statement under this name, for SQL to deallocate, as an internal query.
    pub fn ask_place(&mut self, name: &[u8]) {
        let out = self.peer.out();
        out.parse(name, b"", &[]);
        out.sync();
        self.expects.push_back(Expect::Question);
    }

    /// Closes a statement, as an internal query.
    pub fn ask_closed(&mut self, name: &[u8]) {
        let out = self.peer.out();
        Asks::close(out, Target::Statement, name);
        out.sync();
        self.expects.push_back(Expect::Question);
    }

    /// Brings the primary's unnamed statement to the client's; `false`: they are equal already.
    pub(super) fn owe(&mut self, statements: &mut Statements) -> bool {
        match statements.owed() {
            Owed::Nothing => return false,
            Owed::Parse(statement) => {
                let text = stand_in(&statement.text).unwrap_or(&statement.text);
                self.peer.out().parse(b"", text, &statement.types);
            }
            Owed::Close => Asks::close(self.peer.out(), Target::Statement, b""),
        }
        true
    }
}

/// Sends a Parse of the client, or that of the stand-in for a statement that only Consort understands.
pub(super) fn send_parse(primary: &mut Primary, frame: &Frame<'_>, parse: &Parse<'_>) {
    match stand_in(parse.text) {
        Some(text) => primary.peer.out().parse(parse.name, text, &[]),
        None => primary.peer.out().extend_from_slice(frame.bytes()),
    }
}

/// Answers a Describe of a statement that only Consort understands. `false`: the server answers it.
pub(super) fn describes_own(primary: &mut Primary, name: &[u8], statements: &Statements) -> bool {
    let parsed = primary.expects.iter().rev().find_map(|expect| match expect {
        Expect::Parse(of, statement, _) if **of == *name => Some(statement.as_ref()),
        Expect::Close(of) if **of == *name => Some(None),
        _ => None,
    });
    let statement = parsed.unwrap_or_else(|| statements.get(name));
    let answer = statement.and_then(|statement| description(&statement.text, &statement.types));
    let Some(answer) = answer else { return false };
    // The answers keep their order, and an error before this one skips it.
    Asks::close(primary.peer.out(), Target::Statement, QUESTION);
    primary.expects.push_back(Expect::Instead(answer));
    primary.open = true;
    true
}
