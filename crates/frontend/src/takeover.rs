//! Connections that a take-over (`node::takeover`) waits for, and orders of the console that the successor
//! process must know.

use super::Door;
use conn::registry::Seat;
use std::rc::Rc;

impl Door {
    /// Number of connections that are not on their way to another process: those of clients, and those that
    /// log in.
    pub fn left(&self) -> usize {
        let seats = self.registry.seats();
        let is_another = |seat: &&Rc<Seat>| seat.has_gone() || seat.database == self.options.console_database;
        self.open_connections.get().saturating_sub(seats.iter().filter(is_another).count())
    }

    /// Returns true if any client is connected, other than console sessions, including one that is still
    /// logging in.
    pub fn is_anybody_here(&self) -> bool {
        let seats = self.registry.seats();
        let commands = seats.iter().filter(|seat| seat.database == self.options.console_database).count();
        self.open_connections.get() > commands
    }

    /// Orders of the console to this process that another process would not know: the disabled databases, and
    /// the number of kills of clients.
    pub fn ordered(&self) -> (Vec<String>, u64) {
        (self.disabled(), self.kills.get())
    }
}
