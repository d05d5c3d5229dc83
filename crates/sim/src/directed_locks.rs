//! Directed schedules of blocks that defer the locks of their first reads.

use crate::bugs::Planted;
use crate::client::How;
use crate::directed::{Stage, as_is, row, stage};
use crate::model::primary::Isolation;
use crate::model::schema::Table::{Full, Plain};
use crate::model::statement::Change;
use crate::run::Outcome;
use crate::world::Ways;
use scheduler::Writers::{Anywhere, ThroughConsort};

fn defers(stage: &Stage) {
    let ways = &stage.world.ways;
    ways.set(Ways { deferring: true, ..ways.get() });
}

pub(crate) fn truncated_under_deferred_locks(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        defers(&stage);
        let mut client = stage.client();
        client.begin(Isolation::Committed).await;
        client.read(&row(0)).await;
        stage.client().write(&[Change::Truncate(Full)], How::default()).await;
        stage.pause(2_000).await;
        client.read(&row(0)).await;
        client.commit(How::default()).await;
    })
}

pub(crate) fn truncated_and_not_decoded(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        defers(&stage);
        let mut client = stage.client();
        client.begin(Isolation::Committed).await;
        client.read(&row(0)).await;
        stage.decoding_stops();
        stage.bypass(0).write(&[Change::Truncate(Full)], How::default()).await;
        let world = stage.world.clone();
        stage.beside(async move {
            world.env.executor.sleep(100_000).await;
            world.pause_decoders(false);
        });
        client.change(&[Change::row(Plain, 1)], false).await;
        client.commit(How::default()).await;
    })
}

pub(crate) fn locked_before_a_deferred_read(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        defers(&stage);
        let mut locker = stage.client();
        locker.begin(Isolation::Committed).await;
        locker.change(&[Change::Lock(Full)], false).await;
        let mut client = stage.client();
        stage.beside(async move {
            client.begin(Isolation::Committed).await;
            client.read(&row(0)).await;
            client.commit(How::default()).await;
        });
        stage.pause(20_000).await;
        locker.commit(How::default()).await;
        stage.pause(20_000).await;
    })
}
