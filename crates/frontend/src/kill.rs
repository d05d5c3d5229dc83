//! Immediate disconnects of clients, and databases that take no new ones: KILL, KILL_CLIENT, DISABLE, ENABLE.

use super::Door;
use conn::registry::{Leave, Seat};
use std::rc::Rc;

impl Door {
    /// Returns true if new clients of this database are refused.
    pub fn is_disabled(&self, database: &str) -> bool {
        self.disabled.borrow().contains(database)
    }

    /// Refuses new clients of this database from now on, or admits them again.
    pub fn disable(&self, database: &str, disabled: bool) {
        tracing::warn!(database, disabled, "database disabled or enabled for new clients");
        let mut all = self.disabled.borrow_mut();
        match disabled {
            true => drop(all.insert(database.to_owned())),
            false => drop(all.remove(database)),
        }
    }

    /// The databases whose new clients are refused.
    pub fn disabled(&self) -> Vec<String> {
        self.disabled.borrow().iter().cloned().collect()
    }

    /// Disconnects at once all clients of this database, or of any, and holds new ones until RESUME. Returns
    /// the backends at the primary that must be terminated for it.
    pub fn kill(self: &Rc<Door>, database: Option<&str>) -> Vec<i32> {
        self.registry.pauses.begin(database);
        let is_one = |seat: &Rc<Seat>| match database {
            Some(database) => seat.database == database,
            None => seat.database != self.options.console_database,
        };
        let seats: Vec<_> = self.registry.seats().into_iter().filter(is_one).collect();
        tracing::warn!(database, clients = seats.len(), "clients killed; new transactions wait until RESUME");
        self.kills.set(self.kills.get() + 1);
        self.registry.send_away(&seats, Leave::Killed)
    }

    /// Disconnects the client of this number at once. Returns the backends at the primary that must be
    /// terminated for it. `None`: there is no such client.
    pub fn kill_client(self: &Rc<Door>, id: u64) -> Option<Vec<i32>> {
        let seat = self.registry.seat(id)?;
        tracing::warn!(id, user = seat.user, database = seat.database, "client killed");
        self.kills.set(self.kills.get() + 1);
        Some(self.registry.send_away(&[seat], Leave::Killed))
    }
}
