//! Clients are sent away at once, and databases take no new ones: KILL, KILL_CLIENT, DISABLE, ENABLE.

use super::{Doing, Door, Leave, Seat};
use std::rc::Rc;

impl Door {
    /// Whether new clients of this database are refused.
    pub fn is_disabled(&self, database: &str) -> bool {
        self.disabled.borrow().contains(database)
    }

    /// New clients of this database are refused from now on, or let in again.
    pub fn disable(&self, database: &str, disabled: bool) {
        tracing::warn!(database, disabled, "whether new clients are refused");
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

    /// Sends everybody away at once who is in this database, or in any, and holds those who come until RESUME. The processes
    /// at the primary that are to be ended for it.
    pub fn kill(self: &Rc<Door>, database: Option<&str>) -> Vec<i32> {
        self.pauses.begin(database);
        let is_one = |seat: &Rc<Seat>| match database {
            Some(database) => seat.database == database,
            None => seat.database != self.options.console_database,
        };
        let seats: Vec<_> = self.seats().into_iter().filter(is_one).collect();
        tracing::warn!(database, clients = seats.len(), "killed: new transactions wait until RESUME");
        self.kills.set(self.kills.get() + 1);
        self.send_away(&seats, Leave::Killed)
    }

    /// Sends the client of this number away at once. The processes at the primary that are to be ended for it; `None`: there
    /// is no such client.
    pub fn kill_client(self: &Rc<Door>, id: u64) -> Option<Vec<i32>> {
        let seat = self.seats.borrow().get(&id).cloned()?;
        tracing::warn!(id, user = seat.user, database = seat.database, "a client is killed");
        self.kills.set(self.kills.get() + 1);
        Some(self.send_away(&[seat], Leave::Killed))
    }

    /// Sends these away at once. The processes at the primary that are to be ended for it. Who is spared goes by itself when what
    /// it runs is over.
    pub(crate) fn send_away(self: &Rc<Door>, seats: &[Rc<Seat>], why: Leave) -> Vec<i32> {
        seats.iter().for_each(|seat| seat.ring(true, why));
        let not_spared = seats.iter().filter(|seat| !seat.is_spared()).cloned();
        self.cut_off(&not_spared.collect::<Vec<_>>())
    }

    /// Cancels what these sessions run at standbys: nobody is left to hear of its end. The processes of those that run something at
    /// the primary, which are to be ended instead: a COMMIT that waits for a synchronous standby would be acknowledged if it were
    /// cancelled.
    pub fn cut_off(self: &Rc<Door>, seats: &[Rc<Seat>]) -> Vec<i32> {
        let mut at_primary = Vec::new();
        for seat in seats.iter().filter(|seat| seat.doing() == Doing::Active) {
            let Some(key) = seat.key.borrow().clone() else { continue };
            if seat.running.is_away().is_some() {
                let door = self.clone();
                tokio::task::spawn_local(async move { door.cancels.cancel(&key).await });
            } else if seat.pid.get() != 0 {
                // What is to end there must not meet another client.
                seat.running.strike();
                at_primary.push(seat.pid.get());
            }
        }
        at_primary
    }
}
