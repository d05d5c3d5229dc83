//! How many clients there may be in one database, and of one user.

use super::{Door, Seat};
use crate::log_in::Refusal;
use crate::pooling::Pooling;
use wire::{Answers, Problem};

/// A client that has proven who it is enters, if there may be one more of its kind.
///
/// # Errors
/// There may not.
pub(super) fn enter(door: &Door, pooling: &Pooling, seat: &Seat) -> Result<(), Refusal> {
    let seats = door.seats.borrow();
    let entered = |is_alike: fn(&Seat, &Seat) -> bool| {
        seats.values().filter(|other| other.entered.get() && is_alike(other, seat)).count()
    };
    for (key, most, there) in [
        (
            "max_db_client_connections",
            pooling.database_clients,
            entered(|other, seat| other.database == seat.database),
        ),
        ("max_user_client_connections", pooling.user_clients, entered(|other, seat| other.user == seat.user)),
    ] {
        if most > 0 && there >= most {
            door.count(|metrics| metrics.clients_refused.one("53300"));
            let problem = Problem::fatal("53300", format!("client connections exceeded ({key})"))
                .hint(format!("{key} is {most} here: raise it, or open fewer connections."));
            let mut out = Vec::new();
            out.problem(&problem);
            return Err(Refusal::Answered(out));
        }
    }
    seat.entered.set(true);
    Ok(())
}
