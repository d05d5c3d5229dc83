//! The stories of the directed schedules in which replicas are fed.

use crate::bugs::Planted;
use crate::client::How;
use crate::directed::{Stage, as_is, row, set, stage_of, visible_after};
use crate::env::{Delays, Env};
use crate::model::schema::{Table, database};
use crate::model::statement::{Change, Select};
use crate::record::Breach;
use crate::run::Outcome;
use crate::world::{Ways, World};
use Table::{Full, Made, Plain};
use scheduler::Options;
use scheduler::Writers::{self, Anywhere, ThroughConsort};

/// Two replicas that are fed, and no standby.
fn fed_stage<F: Future<Output = ()> + 'static>(
    planted: Planted,
    writers: Writers,
    set: impl FnOnce(&mut Delays, &mut Options),
    script: impl FnOnce(Stage) -> F,
) -> Outcome {
    let (mut delays, mut options) = (Delays::quick(), Options::default());
    set(&mut delays, &mut options);
    let env = Env::new(1, delays, planted.model);
    stage_of(World::new(&env, (0, 2), None, planted), writers, options, script)
}

/// The WAL has a, b, c. The primary shows c, then a, while b hangs; one snapshot probe sees both at once. A
/// state with a alone was never shown.
pub(crate) fn forked(planted: Planted) -> Outcome {
    fed_stage(planted, Anywhere, as_is, |stage| async move {
        stage.client().read(&row(1)).await;
        stage.pause(5_000).await;
        stage.world.gauge_request.set(5_000);
        stage.bypasses_beside(set(0), visible_after(2_500));
        stage.pause(200).await;
        stage.bypasses_beside(set(1), visible_after(40_000));
        stage.pause(200).await;
        stage.bypasses_beside(set(2), visible_after(500));
        stage.pause(20_000).await;
        stage.world.gauge_request.set(0);
        stage.client().read(&Select::both((Full, 0), (Full, 2))).await;
        stage.pause(40_000).await;
        stage.client().read(&row(1)).await;
    })
}

/// A commit hangs, others overtake it: what they wrote must come to the replicas.
pub(crate) fn one_hangs(planted: Planted) -> Outcome {
    fed_stage(planted, Anywhere, as_is, |stage| async move {
        stage.bypasses_beside(set(0), visible_after(60_000));
        stage.pause(1_000).await;
        stage.bypass(0).write(&[set(1)], How::default()).await;
        stage.pause(20_000).await;
        let states = stage.world.primary().states(database(0));
        let (_, newest) = states.last().expect("never empty");
        if stage.world.standbys.iter().any(|replica| replica.look(database(0)) != **newest) {
            let stopped = Breach::NotLive("while one commit hangs, nothing is published");
            stage.world.record.borrow_mut().breaches.push(stopped);
        }
        stage.pause(60_000).await;
    })
}

/// Fed replicas crash before they have flushed what they showed, and are not fed for a while.
pub(crate) fn replicas_return_older(planted: Planted) -> Outcome {
    let rarely_flushed = |delays: &mut Delays, _: &mut Options| delays.wal_writer = (500_000, 500_000);
    fed_stage(planted, ThroughConsort, rarely_flushed, |stage| async move {
        for place in [1, 2, 0] {
            stage.client().write(&[set(place)], How::default()).await;
        }
        stage.pause(20_000).await;
        stage.replay_stops();
        for replica in stage.world.standbys.clone() {
            stage.beside(async move { replica.crash(500, 4).await });
        }
        stage.pause(6_000).await;
        stage.client().read(&row(0)).await;
        stage.world.standbys.iter().for_each(|replica| replica.pause(false));
        stage.pause(20_000).await;
        stage.client().read(&row(0)).await;
    })
}

/// A client writes past Consort, and nothing is decoded: only the snapshot probe shows the write.
pub(crate) fn fed_written_past(planted: Planted) -> Outcome {
    fed_stage(planted, Anywhere, as_is, |stage| async move {
        stage.client().read(&row(1)).await;
        stage.decoding_stops();
        stage.bypass(0).write(&[set(0)], How::default()).await;
        stage.client().read(&row(0)).await;
    })
}

/// A commit has its version, and no replica shows it.
pub(crate) fn fed_lag(planted: Planted) -> Outcome {
    fed_stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.client().read(&row(0)).await;
        stage.replay_stops();
        stage.client().write(&[set(0)], How::default()).await;
        stage.pause(10_000).await;
        stage.client().read(&row(0)).await;
        stage.client().read(&row(1)).await;
    })
}

/// A read whose result carries the OID of a type of the schema's own, with only servers to which the schema
/// was restored.
pub(crate) fn restored_elsewhere(planted: Planted) -> Outcome {
    fed_stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.client().write(&[Change::row(Made, 0)], How::default()).await;
        stage.pause(10_000).await;
        for place in [0, 1, 2] {
            stage.client().read(&Select::row(Made, place)).await;
            stage.client().read(&Select::Typed(place)).await;
        }
    })
}

/// Replicas that execute in parallel are not fed while six rows are written, each when the one before is
/// visible; then they are given all of it at once. A state that comes of another order was not shown by the
/// primary.
pub(crate) fn given_at_once(planted: Planted) -> Outcome {
    fed_stage(planted, Anywhere, as_is, |stage| async move {
        stage.world.ways.set(Ways { parallel: true, ..Ways::default() });
        stage.world.groups_boundaries.set(true);
        stage.replay_stops();
        for (table, place) in [(Full, 0), (Full, 1), (Full, 2), (Plain, 0), (Plain, 1), (Plain, 2)] {
            stage.bypass(0).write(&[Change::row(table, place)], How::default()).await;
        }
        stage.pause(20_000).await;
        stage.world.standbys.iter().for_each(|replica| replica.pause(false));
        stage.pause(20_000).await;
    })
}
