//! The stories of the directed schedules (`schedules` lists them): for each planted bug the shortest one in which it
//! shows.

use crate::bugs::{Bug, Planted};
use crate::client::{Bypass, Client, How};
use crate::consort::Consort;
use crate::env::{Delays, Env};
use crate::executor::Micros;
use crate::model::primary::{Isolation, Pace};
use crate::model::schema::{Table, database};
use crate::model::statement::{Change, Select};
use crate::record::Breach;
use crate::run::{Outcome, judge};
use crate::world::World;
use Table::{Full, Made, Parent, Plain};
use Writers::{Anywhere, ThroughConsort};
use scheduler::{Options, Writers};
use std::cell::Cell;
use std::rc::Rc;

/// The group of the scripts.
const SCRIPT: u32 = 950;
/// Begin of the script: everything is connected by then.
const WARM: Micros = 10_000;
/// Latest end of the script.
const END: Micros = 1_000_000;

/// State on which a script acts.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) world: Rc<World>,
    consort: Rc<Consort>,
    options: Options,
    writers: Writers,
}

impl Stage {
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.consort, 1, database(0))
    }

    pub(crate) fn bypass(&self, place: usize) -> Bypass {
        Bypass::new(&self.world, database(place))
    }

    pub(crate) async fn pause(&self, micros: Micros) {
        self.world.env.executor.sleep(micros).await;
    }

    /// No standby replays any more.
    pub(crate) fn replay_stops(&self) {
        self.world.standbys.iter().for_each(|standby| standby.pause(true));
    }

    pub(crate) fn decoding_stops(&self) {
        self.world.pause_decoders(true);
    }

    /// Starts this alongside the script.
    pub(crate) fn beside(&self, act: impl Future<Output = ()> + 'static) {
        self.world.env.executor.spawn(SCRIPT, act);
    }

    /// A write by another client, alongside the script.
    fn writes_beside(&self, change: Change, how: How) {
        let mut client = self.client();
        self.beside(async move {
            let _ = client.write(&[change], how).await;
        });
    }

    pub(crate) fn bypasses_beside(&self, change: Change, how: How) {
        let bypass = self.bypass(0);
        self.beside(async move {
            let _ = bypass.write(&[change], how).await;
        });
    }
}

pub(crate) fn stage<F: Future<Output = ()> + 'static>(
    planted: Planted,
    writers: Writers,
    set: impl FnOnce(&mut Delays, &mut Options),
    script: impl FnOnce(Stage) -> F,
) -> Outcome {
    let (mut delays, mut options) = (Delays::quick(), Options::default());
    set(&mut delays, &mut options);
    let env = Env::new(1, delays, planted.model);
    stage_of(World::new(&env, (2, 0), None, planted), writers, options, script)
}

/// Plays a script in a world that is warm.
pub(crate) fn stage_of<F: Future<Output = ()> + 'static>(
    world: Rc<World>,
    writers: Writers,
    options: Options,
    script: impl FnOnce(Stage) -> F,
) -> Outcome {
    let env = world.env.clone();
    let consort = Consort::start(&world, 0, writers, options);
    env.executor.run(WARM);
    let done = Rc::new(Cell::new(false));
    let script = script(Stage { world: world.clone(), consort, options, writers });
    let finished = done.clone();
    env.executor.spawn(SCRIPT, async move {
        script.await;
        finished.set(true);
    });
    env.executor.run(END);
    if !done.get() {
        world.record.borrow_mut().breaches.push(Breach::WaitedTooLong("script", END));
    }
    let outcome = judge(&world, writers == ThroughConsort);
    env.executor.end();
    outcome
}

pub(crate) fn as_is(_: &mut Delays, _: &mut Options) {}

pub(crate) fn row(place: usize) -> Select {
    Select::row(Full, place)
}

pub(crate) fn set(place: usize) -> Change {
    Change::row(Full, place)
}

pub(crate) fn visible_after(micros: Micros) -> How {
    How { pace: Pace { visible: Some(micros), ..Pace::default() }, ..How::default() }
}

/// A standby stops, something is written and decoded, and then read: the statement's footprint must say so.
pub(crate) fn footprint(planted: Planted, before: Option<Change>, change: Change, select: Select) -> Outcome {
    stage(planted, ThroughConsort, as_is, move |stage| async move {
        let mut client = stage.client();
        client.read(&select).await;
        if let Some(before) = before {
            client.write(&[before], How::default()).await;
            stage.pause(10_000).await;
        }
        stage.replay_stops();
        stage.client().write(&[change], How::default()).await;
        stage.pause(10_000).await;
        client.read(&select).await;
    })
}

/// Nothing is decoded or replayed any more; a write is answered; a read.
pub(crate) fn answered_not_decoded(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.client().read(&row(1)).await;
        stage.decoding_stops();
        stage.replay_stops();
        stage.client().write(&[set(0)], How::default()).await;
        stage.pause(1_000).await;
        stage.client().read(&row(0)).await;
    })
}

pub(crate) fn visible_late(planted: Planted, writers: Writers) -> Outcome {
    stage(planted, writers, as_is, |stage| async move {
        stage.writes_beside(set(0), visible_after(20_000));
        stage.pause(3_000).await;
        let mut client = stage.client();
        client.read(&row(0)).await;
        client.begin(Isolation::Repeatable).await;
        client.read(&row(0)).await;
        client.commit(How::default()).await;
    })
}

pub(crate) fn sent_not_answered(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.client().read(&row(1)).await;
        stage.decoding_stops();
        stage.replay_stops();
        let pace = Pace { answer: Some(20_000), ..Pace::default() };
        stage.writes_beside(set(0), How { pace, ..How::default() });
        stage.pause(3_000).await;
        stage.client().read(&row(0)).await;
    })
}

pub(crate) fn dies_in_commit(planted: Planted) -> Outcome {
    stage(
        planted,
        ThroughConsort,
        |d, _| d.fsync = (8_000, 8_000),
        |stage| async move {
            stage.client().read(&row(1)).await;
            stage.replay_stops();
            stage.client().write(&[set(0)], How { dies_after: Some(100), ..How::default() }).await;
            stage.pause(4_000).await;
            stage.decoding_stops();
            stage.pause(8_000).await;
            stage.client().read(&row(0)).await;
        },
    )
}

pub(crate) fn written_past(planted: Planted) -> Outcome {
    let writers = if planted.model.has(Bug::BypassWriter) { ThroughConsort } else { Anywhere };
    stage(planted, writers, as_is, |stage| async move {
        stage.decoding_stops();
        stage.replay_stops();
        stage.bypass(0).write(&[set(0)], How::default()).await;
        stage.client().read(&row(0)).await;
    })
}

pub(crate) fn written_by_another(planted: Planted) -> Outcome {
    let writers = if planted.model.has(Bug::SecondNode) { ThroughConsort } else { Anywhere };
    stage(planted, writers, as_is, |stage| async move {
        let other = Consort::start(&stage.world, 1, stage.writers, stage.options);
        stage.pause(5_000).await;
        stage.decoding_stops();
        stage.replay_stops();
        Client::new(&other, 2, database(0)).write(&[set(0)], How::default()).await;
        stage.client().read(&row(0)).await;
    })
}

/// The decoder of the first database stands still, but beyond where the standbys stand still.
async fn decoder_beyond_standbys(stage: &Stage) {
    stage.replay_stops();
    stage.bypass(2).write(&[set(0)], How::default()).await;
    stage.pause(5_000).await;
    stage.world.decoder_paused.set(Some(database(0)));
}

pub(crate) fn gauge_under_way(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        decoder_beyond_standbys(&stage).await;
        stage.world.gauge_answer.set(1_900);
        let mut other = stage.client();
        stage.beside(async move {
            let _ = other.read(&row(1)).await;
        });
        stage.pause(300).await;
        stage.bypass(0).write(&[set(0)], How::default()).await;
        stage.client().read(&row(0)).await;
    })
}

pub(crate) fn asynchronous(planted: Planted) -> Outcome {
    stage(
        planted,
        Anywhere,
        |d, _| d.wal_writer = (200_000, 200_000),
        |stage| async move {
            let pace = Pace { asynchronous: true, ..Pace::default() };
            stage.bypass(0).write(&[set(0)], How { pace, ..How::default() }).await;
            stage.client().read(&row(0)).await;
        },
    )
}

pub(crate) fn old_primary_answers(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        stage.client().read(&row(1)).await;
        stage.world.gauge_lingers.set(true);
        stage.world.fail_over(&stage.world.standbys[0]);
        stage.pause(5_000).await;
        stage.client().write(&[Change::row(Plain, 0)], How::default()).await;
        stage.pause(5_000).await;
        stage.client().read(&row(1)).await;
        stage.decoding_stops();
        stage.replay_stops();
        stage.client().write(&[set(0)], How::default()).await;
        stage.world.gauge_lingers.set(true);
        stage.client().read(&row(0)).await;
    })
}

pub(crate) fn diverged(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        let [promoted, other] = &stage.world.standbys[..] else { unreachable!("there are two") };
        stage.client().write(&[set(1)], How::default()).await;
        stage.pause(5_000).await;
        promoted.pause(true);
        stage.client().write(&[set(0)], How::default()).await;
        stage.pause(5_000).await;
        stage.world.fail_over(promoted);
        stage.pause(5_000).await;
        // Now the position of the other one lies below what the primary has written.
        for place in [2, 3, 2] {
            stage.client().write(&[set(place)], How::default()).await;
        }
        stage.pause(5_000).await;
        assert!(!other.is_on(&stage.world.primary().history()), "the standby has diverged");
        // Reads go to the standbys in turn.
        stage.client().read(&row(0)).await;
        stage.client().read(&row(0)).await;
    })
}

pub(crate) fn truncated_under_a_block(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        let mut client = stage.client();
        client.begin(Isolation::Committed).await;
        client.read(&row(0)).await;
        stage.client().write(&[Change::Truncate(Full)], How::default()).await;
        stage.pause(2_000).await;
        client.read(&row(0)).await;
        client.commit(How::default()).await;
    })
}

pub(crate) fn decoding_stands_still(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        stage.decoding_stops();
        stage.replay_stops();
        stage.bypass(0).write(&[set(0)], How::default()).await;
        let world = stage.world.clone();
        stage.beside(async move {
            world.env.executor.sleep(200_000).await;
            world.pause_decoders(false);
        });
        stage.client().read(&row(0)).await;
    })
}

pub(crate) fn standby_returns_older(planted: Planted) -> Outcome {
    stage(
        planted,
        ThroughConsort,
        |d, _| d.replay = (6_000, 6_000),
        |stage| async move {
            for place in [1, 2, 0] {
                stage.client().write(&[set(place)], How::default()).await;
            }
            stage.pause(60_000).await;
            for standby in stage.world.standbys.clone() {
                stage.beside(async move { standby.crash(500, 4).await });
            }
            stage.pause(6_000).await;
            stage.client().read(&row(0)).await;
        },
    )
}

pub(crate) fn view_redefined(planted: Planted) -> Outcome {
    footprint(planted, Some(Change::Redefine), Change::row(Plain, 0), Select::View)
}

/// The standbys' position is heard beyond a redefinition that is not decoded yet; then what the new view shows is
/// written; a read with the old tree begins before both are decoded.
pub(crate) fn view_redefined_unheard(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        let mut client = stage.client();
        client.read(&Select::View).await;
        stage.decoding_stops();
        stage.bypass(0).write(&[Change::Redefine], How::default()).await;
        stage.pause(10_000).await;
        stage.replay_stops();
        stage.bypass(0).write(&[Change::row(Plain, 0)], How::default()).await;
        let world = stage.world.clone();
        stage.beside(async move {
            world.env.executor.sleep(100).await;
            world.pause_decoders(false);
        });
        client.read(&Select::View).await;
    })
}

/// A read with the old tree waits for a standby. Then the redefinition is decoded and replayed; what the new view shows was
/// written before the read began, and is not replayed.
pub(crate) fn view_redefined_while_waiting(planted: Planted) -> Outcome {
    let slow_replay = |delays: &mut Delays, _: &mut Options| delays.replay = (3_000, 3_000);
    stage(planted, Anywhere, slow_replay, |stage| async move {
        stage.world.proof_timeout.set(20_000);
        let mut client = stage.client();
        client.read(&Select::View).await;
        stage.replay_stops();
        stage.bypass(0).write(&[Change::row(Full, 0)], How::default()).await;
        stage.pause(10_000).await;
        stage.decoding_stops();
        stage.bypass(0).write(&[Change::Redefine], How::default()).await;
        stage.bypass(0).write(&[Change::row(Plain, 0)], How::default()).await;
        let world = stage.world.clone();
        stage.beside(async move {
            world.env.executor.sleep(100).await;
            world.pause_decoders(false);
            world.standbys.iter().for_each(|standby| standby.pause(false));
            world.env.executor.sleep(14_000).await;
            world.standbys.iter().for_each(|standby| standby.pause(true));
        });
        client.read(&Select::View).await;
    })
}

/// The redefinition is decoded before the primary shows it; a statement is analysed in between.
pub(crate) fn view_analysed_between(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        let mut client = stage.client();
        stage.bypasses_beside(Change::Redefine, visible_after(20_000));
        stage.pause(5_000).await;
        client.read(&Select::View).await;
        stage.pause(40_000).await;
        stage.replay_stops();
        stage.bypass(0).write(&[Change::row(Plain, 0)], How::default()).await;
        stage.pause(10_000).await;
        client.read(&Select::View).await;
        client.read(&Select::View).await;
    })
}

/// A table is made and its rows change: in another transaction, and in the same one.
pub(crate) fn made_and_changed(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        let mut client = stage.client();
        client.write(&[Change::Make], How::default()).await;
        client.write(&[Change::row(Made, 0)], How::default()).await;
        client.begin(Isolation::Committed).await;
        client.change(&[Change::Make, Change::row(Made, 1)], false).await;
        client.commit(How::default()).await;
        stage.pause(10_000).await;
        client.read(&Select::table(Made)).await;
    })
}

pub(crate) fn tenant(planted: Planted, hidden: bool) -> Outcome {
    stage(planted, ThroughConsort, as_is, move |stage| async move {
        let mut client = stage.client();
        client.write(&[set(1)], How::default()).await;
        stage.pause(10_000).await;
        if hidden {
            client.set_tenant_by_function(1).await;
        } else {
            client.set_tenant(1).await;
        }
        client.read(&Select::Tenant).await;
    })
}

pub(crate) fn fekete(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        let (mut deposit, mut withdraw, mut report) = (stage.client(), stage.client(), stage.client());
        withdraw.begin(Isolation::Serializable).await;
        withdraw.read(&Select::both((Full, 0), (Full, 1))).await;
        withdraw.change(&[Change::row(Plain, 0)], false).await;
        deposit.begin(Isolation::Serializable).await;
        deposit.change(&[set(1)], false).await;
        deposit.commit(How::default()).await;
        stage.pause(10_000).await;
        report.begin(Isolation::Serializable).await;
        report.read(&Select::both((Full, 0), (Full, 1))).await;
        report.read(&Select::row(Plain, 0)).await;
        report.commit(How::default()).await;
        withdraw.commit(How::default()).await;
    })
}

pub(crate) fn lost_update(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        let mut client = stage.client();
        let other = stage.clone();
        stage.beside(async move {
            other.pause(5_000).await;
            other.client().write(&[set(0)], How::default()).await;
        });
        client.repeatable(&row(0), 20_000, set(0)).await;
    })
}

pub(crate) fn second_statement(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.replay_stops();
        stage.client().write(&[set(1)], How::default()).await;
        stage.pause(10_000).await;
        stage.client().snapshot(&[row(0), row(1)], 100).await;
    })
}

pub(crate) fn failed_block(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        let (mut owner, mut client) = (stage.client(), stage.client());
        owner.begin(Isolation::Committed).await;
        owner.change(&[set(0)], false).await;
        client.begin(Isolation::Committed).await;
        client.change(&[set(0)], false).await;
        client.read(&row(1)).await;
        client.roll_back().await;
        owner.roll_back().await;
    })
}

pub(crate) fn own_writes(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        let mut client = stage.client();
        client.begin(Isolation::Committed).await;
        client.change(&[set(0)], false).await;
        client.read(&row(0)).await;
        client.commit(How::default()).await;
    })
}

pub(crate) fn cut_off(planted: Planted) -> Outcome {
    stage(
        planted,
        ThroughConsort,
        |d, _| d.deliver = (5_000, 5_000),
        |stage| async move {
            for standby in stage.world.standbys.clone() {
                stage.beside(async move { standby.dies_soon(2_000).await });
            }
            stage.client().read(&row(0)).await;
        },
    )
}

/// WAL order a, b; b is visible first. A standby has a alone: such a state was never shown.
pub(crate) fn fork(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        stage.world.proof_timeout.set(20_000);
        stage.bypasses_beside(set(0), visible_after(6_000));
        stage.pause(1_500).await;
        stage.replay_stops();
        stage.decoding_stops();
        stage.bypass(0).write(&[set(1)], How::default()).await;
        stage.world.gauge_request.set(8_000);
        let world = stage.world.clone();
        stage.beside(async move {
            world.env.executor.sleep(500).await;
            world.pause_decoders(false);
        });
        stage.client().read(&Select::both((Full, 0), (Full, 1))).await;
    })
}

/// The transaction with the older identity commits later; the standby has only the one with the newer identity.
pub(crate) fn older_identity_later(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        let mut client = stage.client();
        client.begin(Isolation::Committed).await;
        client.change(&[set(0)], false).await;
        stage.client().write(&[set(1)], How::default()).await;
        stage.pause(5_000).await;
        stage.replay_stops();
        client.commit(How::default()).await;
        stage.pause(10_000).await;
        stage.client().read(&row(0)).await;
    })
}

pub(crate) fn restarted_in_commit(planted: Planted) -> Outcome {
    stage(
        planted,
        ThroughConsort,
        |d, _| d.fsync = (10_000, 10_000),
        |stage| async move {
            stage.replay_stops();
            let mut writer = stage.client();
            stage.consort.spawn(async move {
                let _ = writer.write(&[set(0)], How::default()).await;
            });
            stage.pause(1_000).await;
            stage.world.env.executor.kill(1);
            let consort = Consort::start(&stage.world, 0, stage.writers, stage.options);
            stage.pause(4_000).await;
            stage.decoding_stops();
            stage.pause(9_000).await;
            Client::new(&consort, 2, database(0)).read(&row(0)).await;
        },
    )
}

pub(crate) fn restarted_after_commit(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.replay_stops();
        stage.client().write(&[set(0)], How::default()).await;
        stage.pause(5_000).await;
        // The next write moves the slot past the first.
        stage.client().write(&[set(1)], How::default()).await;
        stage.pause(5_000).await;
        stage.client().write(&[set(2)], How::default()).await;
        stage.pause(5_000).await;
        stage.world.env.executor.kill(1);
        let consort = Consort::start(&stage.world, 0, stage.writers, stage.options);
        stage.pause(10_000).await;
        Client::new(&consort, 2, database(0)).read(&row(0)).await;
    })
}

pub(crate) fn index_full(planted: Planted) -> Outcome {
    let small = |_: &mut Delays, options: &mut Options| options.max_rows = 4;
    stage(planted, ThroughConsort, small, |stage| async move {
        stage.replay_stops();
        for place in [0, 1, 2] {
            stage.client().write(&[set(place)], How::default()).await;
        }
        for (table, place) in [(Plain, 0), (Plain, 1), (Plain, 2), (Parent, 0), (Parent, 1), (Parent, 2)] {
            stage.client().write(&[Change::row(table, place)], How::default()).await;
            stage.client().write(&[Change::row(table, place)], How::default()).await;
        }
        stage.pause(10_000).await;
        for place in [0, 1, 2] {
            stage.client().read(&row(place)).await;
        }
    })
}

/// The standby shows the commit, its position has not moved past it, and the primary has not shown it.
pub(crate) fn shown_before_position(planted: Planted) -> Outcome {
    stage(
        planted,
        Anywhere,
        |d, _| d.gap = (5_000, 5_000),
        |stage| async move {
            stage.client().read(&row(1)).await;
            stage.decoding_stops();
            stage.bypasses_beside(set(0), visible_after(30_000));
            stage.pause(7_500).await;
            let world = stage.world.clone();
            stage.beside(async move {
                world.env.executor.sleep(60).await;
                world.pause_decoders(false);
            });
            stage.client().read(&row(0)).await;
        },
    )
}

/// The footprint of a commit decides, not the index: it is decoded after the read was routed.
pub(crate) fn decoded_while_reading(planted: Planted, change: Change, select: Select) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        stage.bypass(0).write(&[set(0)], How::default()).await;
        stage.pause(10_000).await;
        stage.decoding_stops();
        stage.replay_stops();
        stage.bypass(0).write(&[change], How::default()).await;
        let world = stage.world.clone();
        stage.beside(async move {
            world.env.executor.sleep(60).await;
            world.pause_decoders(false);
        });
        stage.client().read(&select).await;
    })
}

/// The snapshot is taken before the standby shows the commit, the position is read after it.
pub(crate) fn position_after_snapshot(planted: Planted) -> Outcome {
    let slow = |d: &mut Delays, _: &mut Options| {
        d.position = (1_000, 1_000);
        d.decode = (600, 600);
        d.replay = (500, 500);
    };
    stage(planted, Anywhere, slow, |stage| async move {
        stage.world.proof_timeout.set(20_000);
        stage.replay_stops();
        stage.decoding_stops();
        stage.bypass(0).write(&[set(0)], How::default()).await;
        let (world, standbys) = (stage.world.clone(), stage.world.standbys.clone());
        stage.beside(async move {
            world.env.executor.sleep(60).await;
            standbys.iter().for_each(|standby| standby.pause(false));
            world.pause_decoders(false);
        });
        stage.client().read(&row(0)).await;
    })
}

/// Another database's commit lies above the standbys' position and below the commit: the decoder is past the position.
pub(crate) fn old_gauge(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        stage.client().read(&row(1)).await;
        decoder_beyond_standbys(&stage).await;
        stage.bypass(0).write(&[set(0)], How::default()).await;
        stage.client().read(&row(0)).await;
    })
}

/// A commit is visible and does not come out; a newer identity of another database does.
pub(crate) fn guessed_from_a_later_identity(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        stage.client().read(&row(2)).await;
        decoder_beyond_standbys(&stage).await;
        stage.bypass(0).write(&[set(0)], How::default()).await;
        let other = stage.clone();
        stage.beside(async move {
            other.pause(300).await;
            other.bypass(1).write(&[set(1)], How::default()).await;
        });
        stage.client().read(&row(0)).await;
    })
}

/// The read begins before the write is sent; the standby shows the commit before the primary, and it is not decoded.
pub(crate) fn sent_while_reading(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.client().read(&row(1)).await;
        stage.decoding_stops();
        let other = stage.clone();
        stage.beside(async move {
            other.world.env.delays.borrow_mut().network = (500, 500);
            other.client().read(&row(0)).await;
        });
        let other = stage.clone();
        stage.beside(async move {
            let bypassing_network = Delays { network: (1, 1), fsync: (1, 1), ..Delays::quick() };
            other.pause(60).await;
            *other.world.env.delays.borrow_mut() = bypassing_network;
            other.client().write(&[set(0)], visible_after(50_000)).await;
        });
        stage.pause(100_000).await;
    })
}

/// The second of two rows is not in the in-flight write set of a statement whose tree has not come.
pub(crate) fn tree_late(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.client().read(&row(1)).await;
        stage.world.analysis.set(50_000);
        stage.decoding_stops();
        stage.replay_stops();
        let mut writer = stage.client();
        stage.beside(async move {
            let _ = writer.write(&[set(0), set(1)], How { miss: true, ..How::default() }).await;
        });
        stage.pause(2_000).await;
        stage.client().read(&row(1)).await;
    })
}

/// A write with an old template fires a trigger that is visible and not decoded; it is not flushed when the trigger's
/// making is decoded and settled.
async fn fires_unseen(stage: Stage, in_block: bool) {
    let (mut writer, mut reader) = (stage.client(), stage.client());
    writer.write(&[Change::Fires(0)], How::default()).await;
    reader.read(&Select::row(Plain, 0)).await;
    stage.pause(10_000).await;
    stage.decoding_stops();
    stage.client().write(&[Change::Trigger], How::default()).await;
    // A snapshot probe sees the trigger, and not its write.
    stage.pause(3_000).await;
    let pace = Pace { asynchronous: true, ..Pace::default() };
    let how = How { pace, ..How::default() };
    if in_block {
        writer.begin(Isolation::Committed).await;
        writer.change(&[Change::Fires(0)], false).await;
    } else {
        writer.write(&[Change::Fires(0)], how).await;
    }
    stage.world.pause_decoders(false);
    stage.pause(3_000).await;
    if in_block {
        writer.commit(how).await;
    }
    reader.read(&Select::row(Plain, 0)).await;
}

pub(crate) fn trigger_fires_unseen(planted: Planted, in_block: bool) -> Outcome {
    let rarely_flushed = |d: &mut Delays, _: &mut Options| d.wal_writer = (200_000, 200_000);
    stage(planted, ThroughConsort, rarely_flushed, move |stage| fires_unseen(stage, in_block))
}
