//! Limits of clients: in all (`max_clients`), in one database, of one user, and of one address.

use super::Door;
use super::half_open::network;
use config::origin::Origin;
use conn::log_in::Refusal;
use conn::registry::Seat;
use wire::{Answers, Problem};

/// Error for a client for which no entry is left.
pub(super) fn too_many(door: &Door) -> Problem {
    Problem::fatal("53300", format!("too many clients (max_clients = {})", door.max_clients.get()))
        .hint("Increase max_clients, or open fewer connections.")
}

/// A limit: its key, its value, and a test for the other clients that count with the new one.
type Limit = (&'static str, usize, fn(&Seat, &Seat) -> bool);

/// Admits an authenticated client, if the limits of its kind allow one more: of its database, and of its role. 0: no
/// limit.
///
/// # Errors
/// A limit is reached.
pub(super) fn enter(door: &Door, (of_database, of_user): (usize, usize), seat: &Seat) -> Result<(), Refusal> {
    let limits: [Limit; 3] = [
        ("max_db_client_connections", of_database, |other, seat| other.database == seat.database),
        ("max_user_client_connections", of_user, |other, seat| other.user == seat.user),
        ("max_clients_per_address", door.max_clients_per_address.get(), has_its_address),
    ];
    for (key, most, is_alike) in limits {
        let there = || door.registry.count_like(|other| other.entered.get() && is_alike(other, seat));
        if most > 0 && there() >= most {
            door.count(|metrics| metrics.clients_refused.one("53300"));
            let problem = Problem::fatal("53300", format!("client connections exceeded ({key})"))
                .hint(format!("The limit is {most}. Increase {key}, or open fewer connections."));
            let mut out = Vec::new();
            out.problem(&problem);
            return Err(Refusal::Answered(out));
        }
    }
    seat.entered.set(true);
    Ok(())
}

/// Returns true if both come from one address. A client of a Unix socket has none.
fn has_its_address(other: &Seat, seat: &Seat) -> bool {
    match (other.origin, seat.origin) {
        (Origin::Machine(other), Origin::Machine(address)) => network(other) == network(address),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Startup;

    #[test]
    fn an_address_is_a_network_for_version_6_and_a_unix_socket_has_none() {
        let of = |origin| Seat::new(1, origin, 0, false, &Startup::default());
        let at = |address: &str| of(Origin::Machine(address.parse().unwrap()));
        assert!(has_its_address(&at("10.0.0.1"), &at("::ffff:10.0.0.1")));
        assert!(has_its_address(&at("2001:db8::1"), &at("2001:db8::2")));
        assert!(!has_its_address(&at("2001:db8::1"), &at("2001:db8:0:1::1")));
        assert!(!has_its_address(&at("10.0.0.1"), &at("10.0.0.2")));
        assert!(!has_its_address(&of(Origin::Local), &of(Origin::Local)));
    }
}
