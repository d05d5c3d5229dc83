//! The front's orders: the node's part, its state, its pages.

use super::engine::Engine;
use super::slave;
use super::transaction::Making;
use crate::message::{self, Order, Part, Report, Version};
use eager_flow::{Bugs, Standing};
use pages::WriteSet;
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Answers orders until the front leaves.
pub(super) fn serve(engine: &Arc<Engine>, stream: TcpStream) -> io::Result<()> {
    let mut input = BufReader::new(&stream);
    let mut loaded = Vec::new();
    loop {
        let order: Order = message::read(&mut input)?;
        let report = obey(engine, order, &mut loaded).unwrap_or_else(Report::Refused);
        (&stream).write_all(&message::frame(&report))?;
    }
}

/// Pages of a checkpoint that is not whole yet.
type Loaded = Vec<(u32, Version, Box<[u8; pages::PAGE_SIZE]>)>;

fn obey(engine: &Arc<Engine>, order: Order, loaded: &mut Loaded) -> Result<Report, String> {
    match order {
        Order::Report => {}
        Order::Become { known, epoch, decided, part } => begin(engine, (known, epoch), decided, part)?,
        Order::Members { epoch, names } => engine.line.members(engine, epoch, names)?,
        Order::Take { epoch, sets } => {
            for bytes in sets {
                let set = WriteSet::decode(&bytes).map_err(|_| "a write set is damaged".to_owned())?;
                engine.receives(epoch, || engine.store.receive(set).map_err(|gap| gap.to_string()))?;
            }
        }
        Order::Load { epoch, pages, whole } => {
            for (number, version, bytes) in pages {
                loaded.push((number, version, slave::page(&bytes).map_err(|error| error.to_string())?));
            }
            if let Some(at) = whole {
                let pages = std::mem::take(loaded);
                engine.changes_history();
                engine.receives(epoch, || {
                    engine.store.load(at, pages.into_iter()).map_err(|error| error.to_string())
                })?;
            }
        }
        Order::Hash { at } => {
            if engine.store.received() < at {
                return Err(format!("version {at} has not come"));
            }
            return engine.store.hash(at).map(Report::Hash).map_err(|error| error.to_string());
        }
        Order::Cancel { session } => engine.cancel(session),
    }
    Ok(Report::State(engine.state()))
}

/// Takes a part. Versions above the decided one are dropped; no reader sees them.
fn begin(
    engine: &Arc<Engine>,
    (known, epoch): (u64, u64),
    decided: Version,
    part: Part,
) -> Result<(), String> {
    engine.stands((known, epoch), part.clone(), || {
        let drops_above = Standing::drops_above(engine.store.received(), decided, Bugs::default());
        if let Some(decided) = drops_above
            && let Err(error) = engine.store.discard_above(decided)
        {
            // What is here is not of the order, and cannot be taken back: the memory has to be lost.
            tracing::error!(%error, decided, "the node holds versions that were never decided; it ends");
            std::process::exit(1);
        }
        engine.sequences.forget_all();
        if let Part::Master { members, rows } = &part {
            let mut making =
                Making::open(&engine.store, &engine.sequences, *rows).map_err(|failure| failure.message)?;
            let from = engine.store.received();
            let first =
                if making.is_empty() { making.found().map_err(|failure| failure.message)? } else { None };
            engine.line.begins(epoch, members, making, from);
            if let Some(made) = first {
                engine.line.push(engine, epoch, made).map_err(|failure| failure.message)?;
            }
        }
        Ok(())
    })?;
    tracing::info!(epoch, ?part, received = engine.store.received(), "part taken");
    slave::follow(engine, epoch, &part).map_err(|error| error.to_string())
}
