//! How many connections a take-over (`node::takeover`) waits for, and what the process that takes over is told of the console's orders.

use super::Door;
use conn::registry::Seat;
use std::rc::Rc;

impl Door {
    /// Connections that are not on their way to another process: those of clients, and those that log in.
    pub fn left(&self) -> usize {
        let seats = self.registry.seats();
        let is_another = |seat: &&Rc<Seat>| seat.has_gone() || seat.database == self.options.console_database;
        self.open_connections.get().saturating_sub(seats.iter().filter(is_another).count())
    }

    /// Whether anybody is here, also one who is on his way and has not arrived.
    pub fn is_anybody_here(&self) -> bool {
        let seats = self.registry.seats();
        let commands = seats.iter().filter(|seat| seat.database == self.options.console_database).count();
        self.open_connections.get() > commands
    }

    /// What the console has ordered of this process and another one would not know: the databases that nobody may enter, and how
    /// often clients were killed.
    pub fn ordered(&self) -> (Vec<String>, u64) {
        (self.disabled(), self.kills.get())
    }
}
