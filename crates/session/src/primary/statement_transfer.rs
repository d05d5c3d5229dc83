//! What the primary is told of the client's statements before it needs them: the unnamed one that a standby has parsed, and
//! named ones at a connection that others have used.
//!
//! PostgreSQL holds the types of a statement's parameters and its columns fixed from its Parse on (`RevalidateCachedQuery`).
//! So the server describes a named statement behind its Parse, and a connection that parses it later is told the same types,
//! and describes it too. Who must not get other columns is asked before (`session/statement_columns.rs`); what shows here has changed
//! in this very moment, when what the client sent may have run: then its connection ends.

use super::{Expect, Primary};
use backend::prepared_statements::{Lack, Owed, Statements};
use backend::statement_description::Described;
use std::rc::Rc;
use wire::{Asks, Target};

impl Primary {
    /// A message that uses a statement is about to be sent, a Bind or a Describe. Before, the primary must know which one the client means. Not
    /// earlier: to parse it in the client's transaction takes a snapshot and locks.
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

    /// Before a named statement is used, a connection that others have used must have it, or none of its name.
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

    /// Before the client has a statement parsed under a name, such a connection must have its own of that name, or none.
    pub(super) fn make_room(&mut self, name: &[u8], statements: &mut Statements) {
        statements.refuses_no_more(name);
        let Some(lack) = statements.lacks(name) else { return };
        let told = self.tell(name, &lack, statements);
        self.expects.extend((0..told).map(|_| Expect::Learns(name.into())));
        if lack.parses.is_some() {
            // It is only in the way of the other one, and nobody looks at its columns.
            statements.unlearned(name);
        }
    }

    /// Sends what brings this name to what the client calls by it: so many messages.
    fn tell(&mut self, name: &[u8], lack: &Lack, statements: &mut Statements) -> usize {
        let out = self.peer.out();
        if lack.closes {
            Asks::close(out, Target::Statement, name);
        }
        if let Some(kept) = &lack.parses {
            statements.counted.server_parses += 1;
            out.parse(name, &kept.statement.text, kept.types());
        }
        usize::from(lack.closes) + usize::from(lack.parses.is_some())
    }

    /// Has the server describe what it has just parsed under this name.
    pub(super) fn describe(&mut self, name: &[u8], told: Option<Rc<Described>>) {
        self.peer.out().describe(Target::Statement, name);
        self.expects.push_back(Expect::Described { name: name.into(), told });
    }

    /// The same as [`learn`](Primary::learn) for all named statements, before SQL may speak of them.
    pub fn learn_all(&mut self, statements: &mut Statements) {
        for name in statements.names() {
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

    /// Brings this name to what the client calls by it, and no more: what the server says of it is kept, or its error. A
    /// question of our own.
    pub fn ask_learnt(&mut self, name: &[u8], lack: &Lack, statements: &mut Statements) {
        self.tell(name, lack, statements);
        self.ask_what_is(name);
    }

    /// Has the server prepare by this text what the client was told `told` of; as a named statement that it learns by itself.
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

    /// Has the server describe what it has under this name: what it says is kept, or its error. A question of our own.
    pub fn ask_what_is(&mut self, name: &[u8]) {
        let out = self.peer.out();
        out.describe(Target::Statement, name);
        out.sync();
        self.seen.error = None;
        self.seen.aside.clear();
        self.expects.push_back(Expect::Bound);
    }

    /// Has it parse nothing under this name, for SQL to deallocate. A question of our own.
    pub fn ask_place(&mut self, name: &[u8]) {
        let out = self.peer.out();
        out.parse(name, b"", &[]);
        out.sync();
        self.expects.push_back(Expect::Question);
    }

    /// Takes a statement away. A question of our own.
    pub fn ask_closed(&mut self, name: &[u8]) {
        let out = self.peer.out();
        Asks::close(out, Target::Statement, name);
        out.sync();
        self.expects.push_back(Expect::Question);
    }

    /// Brings the primary's unnamed statement to the client's; `false`: it is that.
    pub(super) fn owe(&mut self, statements: &mut Statements) -> bool {
        match statements.owed() {
            Owed::Nothing => return false,
            Owed::Parse(statement) => self.peer.out().parse(b"", &statement.text, &statement.types),
            Owed::Close => Asks::close(self.peer.out(), Target::Statement, b""),
        }
        true
    }
}
