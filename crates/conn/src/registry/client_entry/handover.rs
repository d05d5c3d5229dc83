//! The registry entry of a client that is handed over to a successor process.

use super::{Doing, Seat};
use config::origin::Origin;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::{CancelRequest, Startup};

/// Observable state and cancel key of the entry, in the handover message. Times are microseconds of Unix
/// time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedSeat {
    /// IP address of the client; `None` for a Unix socket.
    origin: Option<String>,
    port: u16,
    user: String,
    database: String,
    application: String,
    minor: u16,
    since_us: u64,
    asked_us: u64,
    requests: u64,
    pid: i32,
    secret: Vec<u8>,
}

/// Progress of a session that was asked to go over to the successor process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Going {
    /// The session is on its way there, or has arrived.
    Goes,
    /// The session stays, for this reason.
    Stays(&'static str),
    /// The session is asked again: there was no descriptor for it.
    LacksDescriptor,
}

fn microseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or_default()
}

fn time(microseconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(microseconds)
}

impl CarriedSeat {
    /// Writes an entry down. `None`: the session has no cancel key, as in a replication connection.
    pub fn of(seat: &Seat) -> Option<CarriedSeat> {
        // Every new field decides here if it goes along.
        let Seat {
            id: _,
            origin,
            port,
            user,
            database,
            application,
            minor,
            tls: _,
            since,
            pid: _,
            opened: _,
            prepared: _,
            running: _,
            key,
            tie: _,
            entered: _,
            doing: _,
            doing_since: _,
            transaction_since: _,
            asked,
            requests,
            queued: _,
            held: _,
            stall: _,
            stall_said: _,
            bell: _,
            spared: _,
            going: _,
            waker: _,
        } = seat;
        let CancelRequest { pid, secret } = key.borrow().clone()?;
        Some(CarriedSeat {
            origin: match origin {
                Origin::Local => None,
                Origin::Machine(address) => Some(address.to_string()),
            },
            port: *port,
            user: user.clone(),
            database: database.clone(),
            application: application.clone(),
            minor: *minor,
            since_us: microseconds(*since),
            asked_us: microseconds(asked.get()),
            requests: requests.get(),
            pid,
            secret,
        })
    }

    /// Role of the client.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Database of the client.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Creates the entry under this number. `None`: the address is malformed.
    pub fn seat(self, id: u64) -> Option<Seat> {
        let origin = match self.origin {
            None => Origin::Local,
            Some(address) => Origin::Machine(address.parse().ok()?),
        };
        let startup = Startup { user: self.user, database: self.database, ..Startup::default() };
        let seat = Seat {
            application: self.application,
            minor: self.minor,
            since: time(self.since_us),
            asked: Cell::new(time(self.asked_us)),
            requests: Cell::new(self.requests),
            entered: Cell::new(true),
            ..Seat::new(id, origin, self.port, false, &startup)
        };
        *seat.key.borrow_mut() = Some(CancelRequest { pid: self.pid, secret: self.secret });
        Some(seat)
    }
}

impl Seat {
    /// Records that the session stays, for this reason. The session is asked again after its next request.
    pub fn stays(&self, why: &'static str) {
        self.going.set(Some(Going::Stays(why)));
    }

    /// Records that there is no descriptor for the handover now.
    pub fn lacks_descriptor(&self) {
        self.going.set(Some(Going::LacksDescriptor));
    }

    /// Records that the session is on its way to the successor process.
    pub fn goes(&self) {
        self.going.set(Some(Going::Goes));
    }

    /// True if the session is on its way to the successor process, or has arrived.
    pub fn has_gone(&self) -> bool {
        self.going.get() == Some(Going::Goes)
    }

    /// Records that the session goes on here.
    pub fn is_back(&self) {
        self.going.set(None);
    }

    /// The reason why the session is not in the successor process yet.
    pub fn why_it_stays(&self) -> &'static str {
        match (self.going.get(), self.doing()) {
            (Some(Going::Stays(why)), _) => why,
            (Some(Going::LacksDescriptor), _) => "no_descriptor",
            (_, Doing::Arriving) => "logs_in",
            (_, Doing::Replicating) => "replication",
            (_, Doing::Idle(_) | Doing::Waiting | Doing::Active) => "in_transaction",
        }
    }

    /// True if the session need not be asked: it has decided to stay, or it is on its way.
    pub fn was_asked(&self) -> bool {
        matches!(self.going.get(), Some(Going::Goes | Going::Stays(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_goes_on_elsewhere_as_others_see_it() {
        let startup = Startup {
            user: "ann".to_owned(),
            database: "shop".to_owned(),
            parameters: vec![("application_name".to_owned(), "till".to_owned())],
            ..Startup::default()
        };
        for origin in [Origin::Local, Origin::Machine("::1".parse().unwrap())] {
            let seat = Seat::new(1, origin, 7, false, &startup);
            assert_eq!(CarriedSeat::of(&seat), None, "nothing cancels it yet");
            *seat.key.borrow_mut() = Some(CancelRequest { pid: 5, secret: vec![1, 2] });
            seat.active();
            let carried = CarriedSeat::of(&seat).unwrap();
            let bytes = postcard::to_stdvec(&carried).unwrap();
            let there = postcard::from_bytes::<CarriedSeat>(&bytes).unwrap().seat(9).unwrap();
            assert_eq!(CarriedSeat::of(&there), Some(carried));
            assert_eq!((there.id, there.origin, there.requests()), (9, origin, 1));
            assert_eq!((&*there.user, &*there.database, &*there.application), ("ann", "shop", "till"));
        }
    }
}
