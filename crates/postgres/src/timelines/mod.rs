//! Whether a standby is on the primary's history up to where it has replayed: a diverged one has rows that the primary never
//! had, or lacks rows that it has, and PostgreSQL lets it answer all the same.
//!
//! Four things are compared, each by its contents. The *timelines* ([`TimelineHistory`]): IDENTIFY_SYSTEM of the streaming
//! replication protocol tells the timeline that a standby has replayed, not the newest that it knows, and TIMELINE_HISTORY tells
//! how that came to be. The *WAL* below the replay position, for two servers may have been promoted at the same position to
//! timelines of the same number. And because a WAL receiver begins at a segment's start, and overwrites what was replayed of
//! that segment with what it receives: the *last checkpoint* in the standby's control file, and the *last transaction* that it
//! saw end, with the position itself, at which a record of the primary's must end.

mod commits;
mod wal;

use crate::Error;
use crate::address::{Address, Control};
use crate::attach::Finding;
use crate::incarnation::{NEWEST_HISTORY, Sighting};
use crate::link::{Link, Rows};
use commits::Ends;
use history::{Epoch, Fork, Incarnation, Lsn, Timeline, TimelineHistory};
use wal::{Checkpoint, Segment};

/// What makes a standby of the primary out of a diverged server.
pub const REMEDY: &str =
    "stop it and run pg_rewind with the primary as its source, or make a new base backup";
/// The same for a standby that may follow a foreign timeline next.
const LEAD_BACK: &str = "let primary_conninfo and restore_command lead to the primary; if it went there already, run \
    pg_rewind or make a new base backup";
/// A longer history file is not read, bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// The history of the primary, in one life of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryHistory {
    /// The life.
    pub incarnation: Incarnation,
    system: u64,
    history: TimelineHistory,
}

/// A standby is on the primary's history, and for as long as this holds it stays there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The life of the primary whose history it is.
    pub primary: Incarnation,
    /// The timeline that the standby has replayed.
    pub timeline: Timeline,
    /// Up to here that timeline is the primary's.
    pub reach: Lsn,
    /// The newest timeline of the primary's history that it may come to.
    pub follows: Timeline,
    /// The process that receives its WAL, if there is one: another one may receive other WAL.
    pub receiver: Option<i32>,
    /// The primary was there, so that WAL was compared where both still have it.
    pub compared_wal: bool,
}

/// What a standby says of itself.
struct Standby {
    link: Link,
    sighting: Sighting,
    history: TimelineHistory,
    /// The newest history that it knows, which it may follow next.
    known: TimelineHistory,
    replayed: Lsn,
    receiver: Option<i32>,
    /// When the last transaction ended that it has replayed since it started, if none has ended while it was asked:
    /// microseconds since 2000.
    last_end: Option<i64>,
    checkpoint: Checkpoint,
}

impl PrimaryHistory {
    /// Asks the primary.
    ///
    /// # Errors
    /// [`Error::Protocol`] if it is a standby; [`Error::Setup`] if the history of its timeline is not there.
    pub async fn read(control: &Control, epoch: Epoch) -> Result<PrimaryHistory, Error> {
        let said = control.rows(Sighting::QUERY).await?;
        let sighting = Sighting::from_row(said.first().map_or(&[], Vec::as_slice), epoch)?;
        if sighting.in_recovery {
            return Err(Error::Protocol("the server is a standby, not the primary".to_owned()));
        }
        let timeline = sighting.incarnation.timeline;
        let file = format!("pg_wal/{:08X}.history", timeline.get());
        let said = control.rows(&format!("SELECT pg_read_file('{file}', 0, {FILE_LIMIT}, true)")).await?;
        let history = match first(&said) {
            None if timeline > FIRST => return Err(no_history(timeline, "primary")),
            text => read_history(timeline, text.unwrap_or_default())?,
        };
        Ok(PrimaryHistory { incarnation: sighting.incarnation, system: sighting.system, history })
    }
}

/// Proves that the standby is on this history of the primary. Its WAL is compared if the primary is there to be asked.
///
/// # Errors
/// [`Error::Setup`] if it has diverged, with what it replayed and the remedy; [`Error::NotReady`] if it comes to another
/// timeline just now.
pub async fn prove(
    standby: &Address,
    primary: &PrimaryHistory,
    asked: Option<&Control>,
) -> Result<Proof, Error> {
    let proof = Standby::look(standby).await?.on(primary, asked).await?;
    proof.map_err(|found| Error::Setup(format!("{}; {}", found.what, found.mend)))
}

/// What is to be said of a standby's history: nothing, if it is the primary's.
///
/// # Errors
/// As [`prove`], but for a standby that has diverged.
pub async fn check(standby: &Address, primary: &Control) -> Result<Option<Finding>, Error> {
    let history = PrimaryHistory::read(primary, Epoch::default()).await?;
    Ok(Standby::look(standby).await?.on(&history, Some(primary)).await?.err())
}

impl Standby {
    /// Asks it on a connection that knows the commands of replication beside SQL. The timeline is asked for before and after
    /// the position: if it is the same, it is that of the position.
    async fn look(address: &Address) -> Result<Standby, Error> {
        let mut link = Link::connect_to_replicate(address).await?;
        let sighting = Sighting::read(&mut link, Epoch::default()).await?;
        if !sighting.in_recovery {
            return Err(Error::Protocol(format!("{address} is no standby")));
        }
        let timeline = replayed_timeline(&mut link).await?;
        let asked = format!(
            "SELECT {LAST_END}; SELECT coalesce(pg_last_wal_replay_lsn(), '0/0'); \
             SELECT {LAST_END}, (SELECT r.pid FROM pg_stat_get_wal_receiver() r), {NEWEST_HISTORY}, {} \
               FROM pg_control_checkpoint() c",
            Checkpoint::COLUMNS
        );
        let said = link.query(&asked).await?.concat();
        if replayed_timeline(&mut link).await? != timeline {
            return Err(Error::NotReady("the standby comes to another timeline just now".to_owned()));
        }
        let text = |column: usize| said.get(column)?.as_deref();
        let newest = text(4).and_then(|text| text.parse().ok()).map_or(timeline, Timeline::new);
        let history = history_of(&mut link, timeline).await?;
        let known = if newest > timeline { history_of(&mut link, newest).await? } else { history.clone() };
        let wrong = || Error::Protocol("the standby says nothing sensible of what it replayed".to_owned());
        Ok(Standby {
            sighting,
            history,
            known,
            replayed: text(1).and_then(|text| text.parse().ok()).ok_or_else(wrong)?,
            receiver: text(3).and_then(|text| text.parse().ok()),
            last_end: text(0).filter(|before| text(2) == Some(before)).and_then(|text| text.parse().ok()),
            checkpoint: said.get(5..).and_then(Checkpoint::read).ok_or_else(wrong)?,
            link,
        })
    }

    /// Whether it is on this history; if not, how it is not.
    async fn on(
        mut self,
        primary: &PrimaryHistory,
        asked: Option<&Control>,
    ) -> Result<Result<Proof, Finding>, Error> {
        if self.sighting.system != primary.system {
            return Ok(Err(diverged(
                "its system identifier differs, so that it is a standby of another primary",
            )));
        }
        let reach = match primary.history.has(&self.history, self.replayed) {
            Ok(reach) => reach,
            Err(fork) => return Ok(Err(diverged(fork))),
        };
        // Before a standby follows a timeline it has that one's history.
        let follows = match primary.history.has(&self.known, Lsn::ZERO) {
            Ok(_) => self.known.current(),
            Err(_) if self.receiver.is_some() => self.history.current(),
            Err(fork) => return Ok(Err(self.may_follow(&fork))),
        };
        if let Some(control) = asked
            && let Some(finding) = self.differs(primary, control).await?
        {
            return Ok(Err(finding));
        }
        Ok(Ok(Proof {
            primary: primary.incarnation,
            timeline: self.history.current(),
            reach,
            follows,
            receiver: self.receiver,
            compared_wal: asked.is_some(),
        }))
    }

    fn may_follow(&self, fork: &Fork) -> Finding {
        let known = self.known.current().get();
        let what = format!(
            "the standby is about to diverge: it receives nothing, and knows timeline {known}, which it may follow ({fork})"
        );
        Finding { what, mend: LEAD_BACK.to_owned(), fatal: true }
    }

    /// How its WAL differs from the primary's, or why that cannot be told.
    async fn differs(
        &mut self,
        primary: &PrimaryHistory,
        control: &Control,
    ) -> Result<Option<Finding>, Error> {
        let end = control.rows("SELECT pg_current_wal_insert_lsn()").await?;
        if first(&end).and_then(|end| end.parse().ok()).is_some_and(|end: Lsn| self.replayed > end) {
            return Ok(Some(diverged("it replayed more than the primary has written")));
        }
        if self.replayed == Lsn::ZERO {
            return Ok(None);
        }
        let bytes = self.sighting.segment_bytes;
        let own = Segment::below(self.replayed, &self.history, bytes);
        let theirs = Segment::below(self.replayed, &primary.history, bytes);
        let own = self.link.query(&own.digest()).await?;
        let digest = control.rows(&theirs.digest()).await?;
        let Some(digest) = first(&digest) else {
            return Ok(Some(uncompared("the primary has no WAL any more of where the standby stands")));
        };
        if first(&own).is_some_and(|own| own != digest) {
            return Ok(Some(diverged("the WAL below its replay position is not the primary's")));
        }
        if let Some(time) = self.last_end
            && let Some(finding) = last_end(control, &theirs, &primary.history, bytes).await?.lacks(time)
        {
            return Ok(Some(finding));
        }
        let at = self.checkpoint.at;
        let segment = Segment::below(Lsn::new(at.get() + 1), &primary.history, bytes);
        let pages = control.rows(&segment.pages()).await?;
        let is_there = first(&pages).and_then(|pages| self.checkpoint.is_in(pages));
        Ok((is_there == Some(false))
            .then(|| diverged(format!("the primary has no such checkpoint as it has at {at}"))))
    }
}

/// The ends of transactions about a position of the primary's WAL.
enum Last {
    Found(Ends),
    /// None ends in the segments that are searched, or they are not there any more.
    Unknown,
    /// The same, and no record ends at the position.
    NoBoundary,
}

impl Last {
    /// Why a standby that stands there has not replayed these as it should, if its last transaction ended at this time.
    fn lacks(&self, time: i64) -> Option<Finding> {
        let no_boundary = || diverged("no record of the primary's WAL ends where the standby stands");
        match self {
            Last::Found(ends) if ends.below.last() == Some(&time) || ends.next == Some(time) => {
                (!ends.is_boundary).then(no_boundary)
            }
            // A standby notes when a transaction ended after its position has moved.
            Last::Found(ends) if ends.below.contains(&time) => {
                Some(uncompared("it replays the end of a transaction just now"))
            }
            Last::Found(_) => Some(diverged("the primary's WAL has no such transaction as it replayed last")),
            Last::Unknown => {
                Some(uncompared("no transaction ends in the primary's last WAL below the standby's position"))
            }
            Last::NoBoundary => Some(no_boundary()),
        }
    }
}

/// Segments before that of the position in which the end of a transaction is looked for: a bulk load, or a quiet server that
/// switches segments, has none for long.
const SEARCHED_SEGMENTS: usize = 2;

async fn last_end(
    control: &Control,
    segment: &Segment,
    history: &TimelineHistory,
    segment_bytes: u64,
) -> Result<Last, Error> {
    let mut ends = Ends::default();
    for all in [false, true] {
        let pages = control.rows(&segment.around(all)).await?;
        if let Some(found) = first(&pages).and_then(|pages| segment.ends(pages, all)) {
            ends = found;
        }
        if !ends.below.is_empty() {
            return Ok(Last::Found(ends));
        }
    }
    if !ends.is_boundary {
        return Ok(Last::NoBoundary);
    }
    let mut after = None;
    for _ in 0..SEARCHED_SEGMENTS {
        let here = after.as_ref().unwrap_or(segment);
        let Some(before) = here.before(history, segment_bytes) else { break };
        let pages = control.rows(&before.whole(here)).await?;
        let Some(pages) = first(&pages) else { break };
        if let Some(last) = Segment::last_end(pages) {
            return Ok(Last::Found(Ends { below: vec![last], ..ends }));
        }
        after = Some(before);
    }
    Ok(Last::Unknown)
}

/// When the last transaction ended that a standby has replayed since it started.
const LAST_END: &str =
    "(extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000000)::bigint - 946684800000000";

/// The timeline that has no history.
const FIRST: Timeline = Timeline::new(1);

fn diverged(how: impl std::fmt::Display) -> Finding {
    Finding {
        what: format!("the standby has diverged from the primary: {how}"),
        mend: REMEDY.to_owned(),
        fatal: true,
    }
}

/// A standby of which nothing is known serves nothing. It is compared again and again.
fn uncompared(why: &str) -> Finding {
    Finding {
        what: format!("the standby cannot be compared with the primary: {why}"),
        mend: "it is compared again, and serves once it has replayed a transaction of WAL that the primary still has".to_owned(),
        fatal: false,
    }
}

/// The first value of an answer, if it is not null.
fn first(rows: &Rows) -> Option<&str> {
    rows.first()?.first()?.as_deref()
}

/// The timeline of the last record that the standby has replayed.
async fn replayed_timeline(link: &mut Link) -> Result<Timeline, Error> {
    let said = link.query("IDENTIFY_SYSTEM").await?;
    let timeline = said.first().and_then(|row| row.get(1)?.as_deref()?.parse().ok());
    let wrong = || Error::Protocol("the standby does not say which timeline it has replayed".to_owned());
    timeline.map(Timeline::new).ok_or_else(wrong)
}

/// How the standby came to a timeline that it knows.
async fn history_of(link: &mut Link, timeline: Timeline) -> Result<TimelineHistory, Error> {
    if timeline <= FIRST {
        return Ok(TimelineHistory::first(timeline));
    }
    let said = link
        .query(&format!("TIMELINE_HISTORY {}", timeline.get()))
        .await
        .map_err(|error| if error.is(UNDEFINED_FILE) { no_history(timeline, "standby") } else { error })?;
    let text = said.first().and_then(|row| row.get(1)?.as_deref());
    read_history(timeline, text.unwrap_or_default())
}

/// SQLSTATE of a file that is not there.
const UNDEFINED_FILE: &str = "58P01";

fn read_history(timeline: Timeline, text: &str) -> Result<TimelineHistory, Error> {
    TimelineHistory::parse(timeline, text)
        .map_err(|error| Error::Setup(format!("pg_wal/{:08X}.history: {error}", timeline.get())))
}

fn no_history(timeline: Timeline, server: &str) -> Error {
    Error::Setup(format!(
        "the history of timeline {0} is missing at the {server}, so that no standby can be compared with the primary: copy \
         {0:08X}.history to its pg_wal from the archive or another server",
        timeline.get()
    ))
}
