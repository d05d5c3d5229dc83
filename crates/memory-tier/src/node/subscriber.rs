//! The master's side of a subscription, and copies of changed pages for nodes that join.

use super::engine::Engine;
use crate::message::{self, Received, Ship, Version};
use eager_flow::Next;
use std::io::{self, BufReader, BufWriter, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Pages in one frame of a copy.
const PAGES: usize = 1_000;
/// A node that is asked for a copy waits so long for the version.
const COPY_LIMIT: Duration = Duration::from_secs(10);

/// Ships write sets to a subscriber until it leaves or the epoch ends.
pub(super) fn serve(
    engine: &Arc<Engine>,
    stream: &TcpStream,
    name: String,
    has: Option<Version>,
    epoch: u64,
) -> io::Result<()> {
    let mut out = BufWriter::new(stream);
    let refuse = |out: &mut BufWriter<&TcpStream>, why: &str| {
        message::write(out, &Ship::Refused(why.to_owned()))?;
        out.flush()
    };
    if engine.standing().epoch != epoch || !engine.line.is_of(epoch) {
        return refuse(&mut out, "this node is not the master of that epoch");
    }
    let mut above = match has {
        Some(has) if engine.line.keeps_above(has) => has,
        Some(_) => return refuse(&mut out, "write sets so old are not kept"),
        None => {
            let shown = engine.line.shown();
            message::write(&mut out, &Ship::Decided(shown))?;
            out.flush()?;
            shown
        }
    };
    let number = engine.line.subscribes();
    let is_log = name == crate::LOG;
    let (hears, its_name) = (engine.clone(), name);
    let input = stream.try_clone()?;
    let listener = thread::Builder::new().name("acknowledgements".to_owned()).spawn(move || {
        let mut input = BufReader::new(&input);
        while let Ok(Received(version)) = message::read::<Received>(&mut input) {
            hears.line.received(&hears, epoch, (&its_name, number), version);
        }
        let _ = input.get_ref().shutdown(Shutdown::Both);
        hears.line.leaves(epoch, (&its_name, number));
    })?;
    let shipped = loop {
        match engine.line.next(epoch, above) {
            Next::Sets(sets) => {
                let decided = engine.line.shown();
                let shipped = sets.into_iter().try_for_each(|(version, commit)| {
                    above = version;
                    let changes = if is_log { commit.changes.clone() } else { Vec::new() };
                    let bytes = commit.set.clone();
                    message::write(&mut out, &Ship::Set { version, decided, bytes, changes })
                });
                // An empty one finds out whether the subscriber is there.
                if let Err(error) = shipped.and_then(|()| out.flush()) {
                    break Err(error);
                }
                if listener.is_finished() {
                    break Ok(());
                }
            }
            Next::TooOld => break refuse(&mut out, "write sets so old are not kept"),
            Next::Over => break Ok(()),
        }
    };
    let _ = stream.shutdown(Shutdown::Both);
    let _ = listener.join();
    shipped
}

/// Ships the pages that have changed since a version.
pub(super) fn copy(
    engine: &Engine,
    stream: &TcpStream,
    newer_than: Version,
    at_least: Version,
) -> io::Result<()> {
    let mut out = BufWriter::new(stream);
    if !engine.wait_for(at_least, COPY_LIMIT) {
        message::write(&mut out, &Ship::Refused(format!("version {at_least} has not come")))?;
        return out.flush();
    }
    let last = ship(engine, &mut out, newer_than, at_least)?.unwrap_or_else(Ship::Refused);
    message::write(&mut out, &last)?;
    out.flush()
}

/// Writes the pages of a copy. Returns its last frame, or why the copy cannot be made.
fn ship(
    engine: &Engine,
    out: &mut impl Write,
    newer_than: Version,
    at: Version,
) -> io::Result<Result<Ship, String>> {
    let mut some = Vec::with_capacity(PAGES);
    let mut at = at;
    let images = loop {
        match engine.store.images(newer_than, at) {
            Ok(images) => break images,
            // What was folded is below an acknowledged version, which does as well.
            Err(pages::Error::Gone { oldest, .. }) if oldest > at => at = oldest,
            Err(error) => return Ok(Err(error.to_string())),
        }
    };
    for image in images {
        match image {
            Ok((number, version, page)) => some.push((number, version, page.to_vec())),
            Err(error) => return Ok(Err(error.to_string())),
        }
        if some.len() == PAGES {
            message::write(out, &Ship::Pages(std::mem::take(&mut some)))?;
        }
    }
    message::write(out, &Ship::Pages(some))?;
    Ok(Ok(Ship::Whole(at)))
}
