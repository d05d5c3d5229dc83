//! The stories of the directed schedules in which reads see the whole latest state, and commits take turns.

use crate::bugs::Planted;
use crate::client::How;
use crate::directed::{Stage, as_is, row, set, stage_of, visible_after};
use crate::env::{Delays, Env};
use crate::model::primary::{Isolation, Pace};
use crate::model::schema::Table::Full;
use crate::model::statement::Select;
use crate::run::Outcome;
use crate::world::{Ways, World};
use history::Consistency;
use scheduler::Options;
use scheduler::Writers::ThroughConsort;

const WHOLE: Ways = Ways {
    whole: true,
    locking: false,
    deferring: false,
    serial: false,
    parallel: false,
    making: false,
    shown_by: 0,
};

/// Two logical replicas, whole reads, and no client that writes past Consort.
fn whole_stage<F: Future<Output = ()> + 'static>(
    planted: Planted,
    ways: Ways,
    set: impl FnOnce(&mut Delays, &mut Options),
    script: impl FnOnce(Stage) -> F,
) -> Outcome {
    let (mut delays, mut options) = (Delays::quick(), Options::default());
    set(&mut delays, &mut options);
    let env = Env::new(1, delays, planted.model);
    let world = World::new(&env, (0, 2), None, planted);
    world.ways.set(ways);
    stage_of(world, ThroughConsort, options, script)
}

/// A commit is visible at the primary, and its answer hangs; nothing is decoded for a while.
pub(crate) fn answer_hangs(planted: Planted) -> Outcome {
    whole_stage(planted, WHOLE, as_is, |stage| async move {
        stage.client().read(&row(0)).await;
        stage.decoding_stops();
        let mut writer = stage.client();
        stage.beside(async move {
            let pace = Pace { answer: Some(60_000), ..Pace::default() };
            let _ = writer.write(&[set(0)], How { pace, ..How::default() }).await;
        });
        stage.pause(5_000).await;
        let world = stage.world.clone();
        stage.beside(async move {
            world.env.executor.sleep(5_000).await;
            world.pause_decoders(false);
        });
        stage.client().read(&row(0)).await;
        stage.pause(80_000).await;
    })
}

/// A connection breaks in its COMMIT, the backend goes on; another commit.
pub(crate) fn turn_of_the_dead(planted: Planted) -> Outcome {
    whole_stage(planted, Ways { serial: true, ..WHOLE }, as_is, |stage| async move {
        let mut dying = stage.client();
        let how = How { dies_after: Some(100), ..visible_after(10_000) };
        dying.begin(Isolation::Committed).await;
        dying.change(&[set(0)], false).await;
        dying.commit(how).await;
        stage.client().write(&[set(1)], How::default()).await;
        stage.pause(20_000).await;
    })
}

/// A long read at replicas without versions; what it reads is written meanwhile.
pub(crate) fn refreshed_under_a_read(planted: Planted) -> Outcome {
    let long = |delays: &mut Delays, _: &mut Options| delays.work = (3_000, 3_000);
    whole_stage(planted, Ways { locking: true, ..WHOLE }, long, |stage| async move {
        let mut writer = stage.client();
        writer.write(&[set(1)], How::default()).await;
        stage.pause(20_000).await;
        stage.beside(async move {
            let _ = writer.write(&[set(0), set(2)], How::default()).await;
        });
        let mut reader = stage.client();
        reader.read(&Select::both((Full, 0), (Full, 2))).await;
        stage.pause(40_000).await;
    })
}

/// Replicas without versions are refreshed for a while; reads come one after the other that may be however old.
pub(crate) fn read_under_a_refresh(planted: Planted) -> Outcome {
    let long = |delays: &mut Delays, _: &mut Options| {
        (delays.work, delays.apply) = ((1_000, 1_000), (3_000, 3_000));
    };
    whole_stage(planted, Ways { locking: true, ..WHOLE }, long, |stage| async move {
        stage.client().write(&[set(0), set(2)], How::default()).await;
        for _ in 0..30 {
            let mut reader = stage.client();
            reader.consistency = Consistency::Weak;
            stage.beside(async move {
                reader.read(&Select::both((Full, 0), (Full, 2))).await;
            });
            stage.pause(300).await;
        }
        stage.pause(40_000).await;
    })
}

/// A client hangs between two reads of a snapshot at a replica without versions; what it reads is written meanwhile.
pub(crate) fn hangs_in_a_block(planted: Planted) -> Outcome {
    whole_stage(planted, Ways { locking: true, ..WHOLE }, as_is, |stage| async move {
        let mut hangs = stage.client();
        stage.beside(async move {
            hangs.snapshot(&[row(0), row(0)], 50_000).await;
        });
        stage.pause(10_000).await;
        stage.client().write(&[set(0)], How::default()).await;
        stage.client().read(&row(0)).await;
        stage.pause(70_000).await;
    })
}

/// Replicas are not fed; a commit that two of them must show.
pub(crate) fn shown_by_nobody(planted: Planted) -> Outcome {
    whole_stage(planted, Ways { serial: true, shown_by: 2, ..WHOLE }, as_is, |stage| async move {
        stage.client().write(&[set(1)], How::default()).await;
        stage.replay_stops();
        stage.client().write(&[set(0)], How::default()).await;
    })
}
