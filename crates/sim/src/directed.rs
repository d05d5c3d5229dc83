//! Directed schedules: for each planted bug the shortest story in which it shows. Each is run without the bug too, and
//! must then be clean. Random seeds alone would not keep every hole closed: some need a run in millions.

use crate::bugs::Planted;
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
use scheduler::{Options, Writers};
use std::cell::Cell;
use std::rc::Rc;
use Table::{Full, Outside, Parent, Plain};
use Writers::{Anywhere, ThroughConsort};

/// The group of the scripts.
const SCRIPT: u32 = 950;
/// When the script begins: everything is connected by then.
const WARM: Micros = 10_000;
/// When it must be over.
const END: Micros = 1_000_000;

/// What a script acts on.
#[derive(Clone)]
pub struct Stage {
    world: Rc<World>,
    consort: Rc<Consort>,
    options: Options,
    writers: Writers,
}

impl Stage {
    fn client(&self) -> Client {
        Client::new(&self.consort, 1, database(0))
    }

    fn bypass(&self, place: usize) -> Bypass {
        Bypass::new(&self.world, database(place))
    }

    async fn pause(&self, micros: Micros) {
        self.world.env.executor.sleep(micros).await;
    }

    /// No standby replays any more.
    fn replay_stops(&self) {
        self.world.standbys.iter().for_each(|standby| standby.pause(true));
    }

    fn decoding_stops(&self) {
        self.world.pause_decoders(true);
    }

    /// Starts this beside the script.
    fn beside(&self, act: impl Future<Output = ()> + 'static) {
        self.world.env.executor.spawn(SCRIPT, act);
    }

    /// A write by somebody else, beside the script.
    fn writes_beside(&self, change: Change, how: How) {
        let mut client = self.client();
        self.beside(async move { let _ = client.write(&[change], how).await; });
    }

    fn bypasses_beside(&self, change: Change, how: How) {
        let bypass = self.bypass(0);
        self.beside(async move { let _ = bypass.write(&[change], how).await; });
    }
}

/// One schedule.
pub struct Schedule {
    /// Its name.
    pub name: &'static str,
    /// The bugs that it shows.
    pub bugs: &'static [&'static str],
    /// What happens.
    pub story: &'static str,
    play: fn(Planted) -> Outcome,
}

impl Schedule {
    /// Plays it with these bugs.
    pub fn play(&self, planted: Planted) -> Outcome {
        (self.play)(planted)
    }
}

fn stage<F: Future<Output = ()> + 'static>(
    planted: Planted,
    writers: Writers,
    set: impl FnOnce(&mut Delays, &mut Options),
    script: impl FnOnce(Stage) -> F,
) -> Outcome {
    let (mut delays, mut options) = (Delays::quick(), Options::default());
    set(&mut delays, &mut options);
    let env = Env::new(1, delays, planted.model);
    let world = World::new(&env, 2, planted);
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

fn as_is(_: &mut Delays, _: &mut Options) {}

fn row(place: usize) -> Select {
    Select::row(Full, place)
}

fn set(place: usize) -> Change {
    Change::row(Full, place)
}

fn visible_after(micros: Micros) -> How {
    How { pace: Pace { visible: Some(micros), ..Pace::default() }, ..How::default() }
}

/// A standby stops, something is written and decoded, and then read: the statement's footprint must say so.
fn footprint(planted: Planted, before: Option<Change>, change: Change, select: Select) -> Outcome {
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
fn answered_not_decoded(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.client().read(&row(1)).await;
        stage.decoding_stops();
        stage.replay_stops();
        stage.client().write(&[set(0)], How::default()).await;
        stage.pause(1_000).await;
        stage.client().read(&row(0)).await;
    })
}

fn visible_late(planted: Planted, writers: Writers) -> Outcome {
    stage(planted, writers, as_is, |stage| async move {
        stage.writes_beside(set(0), visible_after(20_000));
        stage.pause(3_000).await;
        stage.client().read(&row(0)).await;
        stage.client().read(&row(0)).await;
    })
}

fn sent_not_answered(planted: Planted) -> Outcome {
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

fn dies_in_commit(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, |d, _| d.fsync = (8_000, 8_000), |stage| async move {
        stage.client().read(&row(1)).await;
        stage.replay_stops();
        stage.client().write(&[set(0)], How { dies_after: Some(100), ..How::default() }).await;
        stage.pause(4_000).await;
        stage.decoding_stops();
        stage.pause(8_000).await;
        stage.client().read(&row(0)).await;
    })
}

fn written_past(planted: Planted) -> Outcome {
    let writers = if planted.model.bypass_writer { ThroughConsort } else { Anywhere };
    stage(planted, writers, as_is, |stage| async move {
        stage.decoding_stops();
        stage.replay_stops();
        stage.bypass(0).write(&[set(0)], How::default()).await;
        stage.client().read(&row(0)).await;
    })
}

fn written_by_another(planted: Planted) -> Outcome {
    let writers = if planted.model.second_node { ThroughConsort } else { Anywhere };
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

fn gauge_under_way(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        decoder_beyond_standbys(&stage).await;
        stage.world.gauge_answer.set(1_900);
        let mut other = stage.client();
        stage.beside(async move { let _ = other.read(&row(1)).await; });
        stage.pause(300).await;
        stage.bypass(0).write(&[set(0)], How::default()).await;
        stage.client().read(&row(0)).await;
    })
}

fn asynchronous(planted: Planted) -> Outcome {
    stage(planted, Anywhere, |d, _| d.wal_writer = (200_000, 200_000), |stage| async move {
        let pace = Pace { asynchronous: true, ..Pace::default() };
        stage.bypass(0).write(&[set(0)], How { pace, ..How::default() }).await;
        stage.client().read(&row(0)).await;
    })
}

fn old_primary_answers(planted: Planted) -> Outcome {
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

fn truncated_under_a_block(planted: Planted) -> Outcome {
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

fn decoding_stands_still(planted: Planted) -> Outcome {
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

fn standby_returns_older(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, |d, _| d.replay = (6_000, 6_000), |stage| async move {
        for place in [1, 2, 0] {
            stage.client().write(&[set(place)], How::default()).await;
        }
        stage.pause(60_000).await;
        for standby in stage.world.standbys.clone() {
            stage.beside(async move { standby.crash(500, 4).await });
        }
        stage.pause(6_000).await;
        stage.client().read(&row(0)).await;
    })
}

fn view_redefined(planted: Planted) -> Outcome {
    footprint(planted, Some(Change::Redefine), Change::row(Plain, 0), Select::View)
}

/// The standbys' position is heard beyond a redefinition that is not decoded yet; then what the new view shows is
/// written; a read with the old tree begins before both are decoded.
fn view_redefined_unheard(planted: Planted) -> Outcome {
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

fn tenant(planted: Planted, hidden: bool) -> Outcome {
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

fn fekete(planted: Planted) -> Outcome {
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

fn lost_update(planted: Planted) -> Outcome {
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

fn second_statement(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.replay_stops();
        stage.client().write(&[set(1)], How::default()).await;
        stage.pause(10_000).await;
        stage.client().snapshot(&[row(0), row(1)], 100).await;
    })
}

fn failed_block(planted: Planted) -> Outcome {
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

fn own_writes(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        let mut client = stage.client();
        client.begin(Isolation::Committed).await;
        client.change(&[set(0)], false).await;
        client.read(&row(0)).await;
        client.commit(How::default()).await;
    })
}

fn cut_off(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, |d, _| d.deliver = (5_000, 5_000), |stage| async move {
        for standby in stage.world.standbys.clone() {
            stage.beside(async move { standby.dies_soon(2_000).await });
        }
        stage.client().read(&row(0)).await;
    })
}

/// WAL order a, b; b is visible first. A standby has a alone: such a state was never shown.
fn fork(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        stage.world.proof_limit.set(20_000);
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
fn older_identity_later(planted: Planted) -> Outcome {
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

fn restarted_in_commit(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, |d, _| d.fsync = (10_000, 10_000), |stage| async move {
        stage.replay_stops();
        let mut writer = stage.client();
        stage.consort.spawn(async move { let _ = writer.write(&[set(0)], How::default()).await; });
        stage.pause(1_000).await;
        stage.world.env.executor.kill(1);
        let consort = Consort::start(&stage.world, 0, stage.writers, stage.options);
        stage.pause(4_000).await;
        stage.decoding_stops();
        stage.pause(9_000).await;
        Client::new(&consort, 2, database(0)).read(&row(0)).await;
    })
}

fn restarted_after_commit(planted: Planted) -> Outcome {
    stage(planted, ThroughConsort, as_is, |stage| async move {
        stage.replay_stops();
        stage.client().write(&[set(0)], How::default()).await;
        stage.pause(5_000).await;
        // What comes next moves the slot past the first.
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

fn index_full(planted: Planted) -> Outcome {
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
fn shown_before_position(planted: Planted) -> Outcome {
    stage(planted, Anywhere, |d, _| d.gap = (5_000, 5_000), |stage| async move {
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
    })
}

/// The footprint of a commit decides, not the index: it is decoded after the read was routed.
fn decoded_while_reading(planted: Planted, change: Change, select: Select) -> Outcome {
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
fn position_after_snapshot(planted: Planted) -> Outcome {
    let slow = |d: &mut Delays, _: &mut Options| {
        d.position = (1_000, 1_000);
        d.decode = (600, 600);
        d.replay = (500, 500);
    };
    stage(planted, Anywhere, slow, |stage| async move {
        stage.world.proof_limit.set(20_000);
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
fn old_gauge(planted: Planted) -> Outcome {
    stage(planted, Anywhere, as_is, |stage| async move {
        stage.client().read(&row(1)).await;
        decoder_beyond_standbys(&stage).await;
        stage.bypass(0).write(&[set(0)], How::default()).await;
        stage.client().read(&row(0)).await;
    })
}

/// A commit is visible and does not come out; a newer identity of another database does.
fn guessed_from_a_later_identity(planted: Planted) -> Outcome {
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
fn sent_while_reading(planted: Planted) -> Outcome {
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

/// The second of two rows is not in the doubt of a statement whose tree has not come.
fn tree_late(planted: Planted) -> Outcome {
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

/// All schedules.
pub const ALL: &[Schedule] = &[
    Schedule {
        name: "answered_not_decoded",
        bugs: &["doubt_until_ack", "closed_doubt_until_ack", "doubt_from_commit_word_only", "proof_before_settled"],
        story: "a write is answered, not decoded and not replayed; a read",
        play: answered_not_decoded,
    },
    Schedule {
        name: "sent_not_answered",
        bugs: &["doubt_after_answer"],
        story: "a write is visible, its answer hangs; a read",
        play: sent_not_answered,
    },
    Schedule {
        name: "visible_late",
        bugs: &["standby_live", "deliver_unproven"],
        story: "a standby shows a commit that the primary has not shown; a read",
        play: |planted| visible_late(planted, Anywhere),
    },
    Schedule {
        name: "dies_in_commit",
        bugs: &["forget_dead_commit", "forget_dead_commit_in_order"],
        story: "a connection breaks in COMMIT, the backend goes on; a read",
        play: dies_in_commit,
    },
    Schedule {
        name: "written_past",
        bugs: &["bypass_writer", "standby_unsettled"],
        story: "psql writes, nothing is decoded; a read",
        play: written_past,
    },
    Schedule {
        name: "written_by_another",
        bugs: &["second_node"],
        story: "another Consort writes, nothing is decoded; a read",
        play: written_by_another,
    },
    Schedule {
        name: "gauge_under_way",
        bugs: &["join_gauge_in_flight"],
        story: "a gauge has looked and travels back; psql writes; a read",
        play: gauge_under_way,
    },
    Schedule {
        name: "asynchronous",
        bugs: &["token_flush_lsn"],
        story: "an asynchronous commit is visible and not flushed; a read",
        play: asynchronous,
    },
    Schedule {
        name: "old_primary_answers",
        bugs: &["zombie_primary_gauge"],
        story: "a standby is promoted, gauges still go to the old primary; a write; a read",
        play: old_primary_answers,
    },
    Schedule {
        name: "truncated_under_a_block",
        bugs: &["no_access_share"],
        story: "a block reads at a standby; another truncates; the block reads again",
        play: truncated_under_a_block,
    },
    Schedule {
        name: "decoding_stands_still",
        bugs: &["decoder_stalls"],
        story: "the decoder stands still for 200 ms; a read",
        play: decoding_stands_still,
    },
    Schedule {
        name: "standby_returns_older",
        bugs: &["backend_crash_keeps_low", "incarnation_of_postmaster"],
        story: "standbys crash and return at an older position; a read",
        play: standby_returns_older,
    },
    Schedule {
        name: "column_unknown",
        bugs: &["columns_from_new_row"],
        story: "b changes in a table without full identity; a read of the row",
        play: |planted| footprint(planted, None, Change::Set(Plain, 0, false, true), Select::row(Plain, 0)),
    },
    Schedule {
        name: "generated",
        bugs: &["generated_not_closed"],
        story: "a changes; a read of g, generated from a",
        play: |planted| footprint(planted, None, Change::Set(Full, 0, true, false), Select::Generated(0)),
    },
    Schedule {
        name: "key_moves",
        bugs: &["pk_update_one_row"],
        story: "row 0 gets key 1; a read of key 1",
        play: |planted| decoded_while_reading(planted, Change::MoveKey(Full, 0, 1), row(1)),
    },
    Schedule {
        name: "key_written_otherwise",
        bugs: &["key_not_canonical"],
        story: "row 0 changes; a read of key 0.00",
        play: |planted| footprint(planted, None, set(0), Select::KeyText(0)),
    },
    Schedule {
        name: "not_in_stream",
        bugs: &["matview_at_replica"],
        story: "an unlogged table changes; a read of it",
        play: |planted| footprint(planted, None, Change::row(Outside, 0), Select::Outside),
    },
    Schedule {
        name: "function_reads",
        bugs: &["name_whitelist_only"],
        story: "a table changes that a user's lower() reads; a call of it",
        play: |planted| footprint(planted, None, Change::row(Plain, 0), Select::Function),
    },
    Schedule {
        name: "view_redefined",
        bugs: &["stale_analysis"],
        story: "a view gets another table; that table changes; a read of the view",
        play: view_redefined,
    },
    Schedule {
        name: "view_redefined_unheard",
        bugs: &["stale_analysis_judged"],
        story: "the standbys are past a redefinition that is not decoded; the new table changes; a read of the view",
        play: view_redefined_unheard,
    },
    Schedule {
        name: "policy",
        bugs: &["policy_column_missed"],
        story: "b changes, which only the policy of the row reads; a read of a",
        play: |planted| {
            let hides = Change::Set(Full, 0, false, true);
            footprint(planted, Some(hides), hides, Select::Policy(0))
        },
    },
    Schedule {
        name: "partition",
        bugs: &["partition_not_closed"],
        story: "a partition changes; a read of its parent",
        play: |planted| footprint(planted, None, Change::row(Parent, 0), Select::row(Parent, 0)),
    },
    Schedule {
        name: "revoked",
        bugs: &["revoke_late"],
        story: "the right to read is revoked; a read",
        play: |planted| footprint(planted, None, Change::Grants(true), Select::Privileged(0)),
    },
    Schedule {
        name: "setting_by_function",
        bugs: &["search_path_by_function"],
        story: "a function changes a setting; a read that depends on it",
        play: |planted| tenant(planted, true),
    },
    Schedule {
        name: "custom_setting",
        bugs: &["tenant_guc"],
        story: "SET app.tenant; a read that depends on it",
        play: |planted| tenant(planted, false),
    },
    Schedule {
        name: "clock",
        bugs: &["replica_clock_behind"],
        story: "SELECT now()",
        play: |planted| footprint(planted, None, set(0), Select::Clock),
    },
    Schedule {
        name: "place",
        bugs: &["oid_differs"],
        story: "a result that differs by node",
        play: |planted| footprint(planted, None, set(0), Select::Place),
    },
    Schedule {
        name: "fekete",
        bugs: &["fekete", "default_serializable"],
        story: "the read-only anomaly of Fekete, O'Neil and O'Neil (2004)",
        play: fekete,
    },
    Schedule {
        name: "lost_update",
        bugs: &["rr_later_writes"],
        story: "REPEATABLE READ reads a row; another changes it; it writes the row",
        play: lost_update,
    },
    Schedule {
        name: "second_statement",
        bugs: &["rr_by_first_statement"],
        story: "a snapshot's second statement reads what the first does not",
        play: second_statement,
    },
    Schedule {
        name: "failed_block",
        bugs: &["offload_in_failed_block"],
        story: "BEGIN; an error; a read",
        play: failed_block,
    },
    Schedule {
        name: "own_writes",
        bugs: &["own_writes_ignored"],
        story: "BEGIN; a write; a read of it",
        play: own_writes,
    },
    Schedule {
        name: "cut_off",
        bugs: &["retry_after_first_row"],
        story: "the standby dies in the middle of a result",
        play: cut_off,
    },
    Schedule {
        name: "fork",
        bugs: &["standby_hold_only"],
        story: "WAL order a, b; b is visible first; the standby has a alone; a read of both",
        play: fork,
    },
    Schedule {
        name: "older_identity_later",
        bugs: &["standby_snapshot_function"],
        story: "an older identity commits later than a newer one; the standby has the newer alone; a read",
        play: older_identity_later,
    },
    Schedule {
        name: "restarted_in_commit",
        bugs: &["restart_without_floor"],
        story: "Consort is killed while a commit is flushed, and started again; a read",
        play: restarted_in_commit,
    },
    Schedule {
        name: "restarted_after_commit",
        bugs: &["restart_without_index_floor"],
        story: "Consort is killed after commits that the standbys lack, and started again; a read",
        play: restarted_after_commit,
    },
    Schedule {
        name: "index_full",
        bugs: &["index_evicts_without_floor"],
        story: "more rows are written than the index holds; a read of the first",
        play: index_full,
    },
    Schedule {
        name: "shown_before_position",
        bugs: &["standby_no_plus_one"],
        story: "a standby shows a commit, its position not yet, the primary not yet; reads",
        play: shown_before_position,
    },
    Schedule {
        name: "position_after_snapshot",
        bugs: &["standby_between_counts"],
        story: "a commit is replayed between a read's snapshot and its position",
        play: position_after_snapshot,
    },
    Schedule {
        name: "old_gauge",
        bugs: &["standby_old_gauge", "other_database_counts_as_out"],
        story: "other databases are decoded past the standbys; a commit that is not; a read",
        play: old_gauge,
    },
    Schedule {
        name: "guessed_from_a_later_identity",
        bugs: &["settled_by_finished_without_fallback"],
        story: "an older identity commits last and does not come out; a read",
        play: guessed_from_a_later_identity,
    },
    Schedule {
        name: "lagging_standby",
        bugs: &["closed_no_freshness"],
        story: "a write is decoded and settled, not replayed; a read",
        play: |planted| footprint(planted, None, set(0), row(0)),
    },
    Schedule {
        name: "sent_while_reading",
        bugs: &["closed_doubt_at_arrival_only"],
        story: "a write is sent while a read runs, which sees it before the primary shows it",
        play: sent_while_reading,
    },
    Schedule {
        name: "tree_late",
        bugs: &["analysis_miss_narrow_doubt"],
        story: "a write of two rows, its tree not known; a read of the second",
        play: tree_late,
    },
];
