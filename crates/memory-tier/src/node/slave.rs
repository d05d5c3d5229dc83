//! A slave's subscription: it receives write sets, and says so before it applies them. Pages are made when they are read.

use super::engine::Engine;
use crate::message::{self, Part, Purpose, Received, SILENCE_LIMIT, Ship, Version};
use pages::{PAGE_SIZE, WriteSet};
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Pause before the next attempt to reach the master.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A slave's place.
#[derive(Clone)]
struct Place {
    epoch: u64,
    name: String,
    master: String,
    support: String,
}

/// Follows the master for as long as the epoch lasts, in a thread of its own.
pub(super) fn follow(engine: &Arc<Engine>, epoch: u64, part: &Part) -> io::Result<()> {
    let Part::Slave { name, master, support } = part.clone() else { return Ok(()) };
    let place = Place { epoch, name, master, support };
    let engine = engine.clone();
    thread::Builder::new().name("slave".to_owned()).spawn(move || {
        while engine.standing().epoch == place.epoch {
            if let Err(error) = subscribe(&engine, &place) {
                tracing::info!(master = place.master, %error, "not subscribed at the master; trying again");
            }
            thread::sleep(AGAIN_AFTER);
        }
    })?;
    Ok(())
}

/// One subscription, from its begin to its end.
fn subscribe(engine: &Engine, place: &Place) -> io::Result<()> {
    let has = engine.store.received();
    match receive(engine, place, Some(has))? {
        Ended::Over => Ok(()),
        // From now on first, then the pages of before: nothing is missing between the two.
        Ended::TooOld => receive(engine, place, None).map(drop),
    }
}

enum Ended {
    Over,
    TooOld,
}

fn receive(engine: &Engine, place: &Place, has: Option<Version>) -> io::Result<Ended> {
    let purpose = Purpose::Subscription { name: place.name.clone(), has, epoch: place.epoch };
    let stream = engine.connect(&place.master, purpose)?;
    let mut input = BufReader::with_capacity(256 << 10, &stream);
    if has.is_none() {
        let Ship::Decided(decided) = message::read(&mut input)? else { return Ok(Ended::Over) };
        // The support may have been left out meanwhile.
        copy(engine, place.epoch, &place.support, decided)
            .or_else(|_| copy(engine, place.epoch, &place.master, decided))?;
    }
    acknowledge(engine, &stream)?;
    loop {
        match message::read(&mut input)? {
            Ship::Set { version, decided, bytes, changes: _ } => {
                take(engine, place.epoch, version, &bytes)?;
                engine.store.acknowledge(decided.min(engine.store.received()));
                // One answer for all that has come.
                if input.buffer().is_empty() {
                    acknowledge(engine, &stream)?;
                }
            }
            Ship::Refused(why) => {
                tracing::info!(why, "the master has refused the subscription");
                return Ok(if has.is_some() { Ended::TooOld } else { Ended::Over });
            }
            Ship::Decided(_) | Ship::Pages(_) | Ship::Whole(_) => return Ok(Ended::Over),
        }
    }
}

fn acknowledge(engine: &Engine, stream: &TcpStream) -> io::Result<()> {
    let mut out = stream;
    out.write_all(&message::frame(&Received(engine.store.received())))
}

/// Receives a write set, unless the copy has it already.
fn take(engine: &Engine, epoch: u64, version: Version, bytes: &[u8]) -> io::Result<()> {
    let set = WriteSet::decode(bytes).map_err(|_| wrong("a write set is damaged"))?;
    engine
        .receives(epoch, || {
            if version <= engine.store.received() {
                return Ok(());
            }
            engine.store.receive(set).map_err(|gap| gap.to_string())
        })
        .map_err(|why| wrong(&why))
}

/// Copies the pages that have changed since the node's own version.
fn copy(engine: &Engine, epoch: u64, from: &str, at_least: Version) -> io::Result<()> {
    let newer_than = engine.store.received();
    let stream = engine.connect(from, Purpose::Pages { newer_than, at_least })?;
    // A node that is stopped, or lost its power, does not close the connection.
    stream.set_read_timeout(Some(SILENCE_LIMIT))?;
    let mut input = BufReader::with_capacity(1 << 20, &stream);
    let mut images = Vec::new();
    let at = loop {
        match message::read(&mut input)? {
            Ship::Pages(pages) => {
                for (number, version, bytes) in pages {
                    images.push((number, version, page(&bytes)?));
                }
            }
            Ship::Whole(at) => break at,
            Ship::Refused(why) => return Err(wrong(&why)),
            Ship::Set { .. } | Ship::Decided(_) => return Err(wrong("a copy has no such part")),
        }
    };
    tracing::info!(pages = images.len(), newer_than, at, "changed pages are copied");
    engine.changes_history();
    engine
        .receives(epoch, || engine.store.load(at, images.into_iter()).map_err(|error| error.to_string()))
        .map_err(|why| wrong(&why))
}

/// The bytes of one page.
pub(super) fn page(bytes: &[u8]) -> io::Result<Box<[u8; PAGE_SIZE]>> {
    let mut page = Box::new([0; PAGE_SIZE]);
    (bytes.len() == PAGE_SIZE).then(|| page.copy_from_slice(bytes)).ok_or_else(|| wrong("no whole page"))?;
    Ok(page)
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}
