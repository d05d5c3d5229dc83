//! Proof that a standby is on the primary's history up to its replay position. A diverged standby has rows
//! that the primary never had, or lacks rows that it has, and PostgreSQL lets it answer all the same.
//!
//! Four things are compared, each by its contents. The *timelines* ([`TimelineHistory`]): IDENTIFY_SYSTEM of
//! the streaming replication protocol reports the timeline that a standby has replayed, not the newest that
//! it knows. TIMELINE_HISTORY reports its history. The *WAL* below the replay position, for two servers may
//! have been promoted at the same position to timelines of the same number. And because a WAL receiver begins
//! at a segment's start, and overwrites the replayed part of that segment with what it receives: the *last
//! checkpoint* in the standby's control file, and the *last transaction* that it saw end, with the position
//! itself, at which a record of the primary's must end.

mod commits;
mod wal;

use crate::Error;
use crate::address::{Address, Control};
use crate::attach::Finding;
use crate::incarnation::{NEWEST_HISTORY, Sighting};
use crate::link::{Link, Rows};
use crate::roles::MAY_READ_WAL;
use commits::Ends;
use history::{CommitToken, Epoch, Fork, Incarnation, Lsn, Timeline, TimelineHistory};
use wal::{Checkpoint, Segment};

/// Remedy that makes a standby of the primary out of a diverged server.
pub const REMEDY: &str =
    "stop it and run pg_rewind with the primary as its source, or make a new base backup";
/// Remedy for a standby that may follow a foreign timeline next.
const LEAD_BACK: &str = "point primary_conninfo and restore_command to the primary; if the standby has \
                         diverged already, run pg_rewind or make a new base backup";
/// Maximum bytes of a history file that is read.
const FILE_LIMIT: u64 = 1 << 20;

/// The history of the primary, in one incarnation of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryHistory {
    /// Incarnation of the primary.
    pub incarnation: Incarnation,
    system: u64,
    history: TimelineHistory,
}

/// Proof that a standby is on the primary's history, and stays there for as long as this holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The incarnation of the primary whose history it is.
    pub primary: Incarnation,
    /// The timeline that the standby has replayed.
    pub timeline: Timeline,
    /// Position up to which that timeline is the primary's.
    pub reach: Lsn,
    /// Newest timeline of the primary's history that the standby may come to.
    pub follows: Timeline,
    /// Process that receives its WAL, if there is one: another one may receive other WAL.
    pub receiver: Option<i32>,
    /// True if the primary was reachable, so that WAL was compared where both still have it.
    pub compared_wal: bool,
}

/// A standby's description of itself.
struct Standby {
    link: Link,
    sighting: Sighting,
    history: TimelineHistory,
    /// Newest history that the standby knows, which it may follow next.
    known: TimelineHistory,
    replayed: Lsn,
    receiver: Option<i32>,
    /// End time of the last transaction that it has replayed since it started, if none has ended during the
    /// queries: microseconds since 2000.
    last_end: Option<i64>,
    checkpoint: Checkpoint,
}

impl PrimaryHistory {
    /// True if the primary has all commits of this token.
    pub fn has_token(&self, token: CommitToken) -> bool {
        self.history.is_on(token.timeline, token.lsn)
    }

    /// Reads the history of the primary.
    ///
    /// # Errors
    /// [`Error::Protocol`] if it is a standby; [`Error::Setup`] if the history of its timeline is missing.
    pub async fn read(primary: &Address, control: &Control, epoch: Epoch) -> Result<PrimaryHistory, Error> {
        let said = control.rows(Sighting::QUERY).await?;
        let sighting = Sighting::from_row(said.first().map_or(&[], Vec::as_slice), epoch)?;
        if sighting.in_recovery {
            return Err(Error::Protocol("the server is a standby, not the primary".to_owned()));
        }
        let timeline = sighting.incarnation.timeline;
        let found =
            |history| PrimaryHistory { incarnation: sighting.incarnation, system: sighting.system, history };
        if !may_read_wal(control).await? {
            // A role that may not read files may ask a WAL sender.
            let history = match timeline {
                first if first <= FIRST => TimelineHistory::first(first),
                _ => history_of(&mut Link::connect_to_replicate(primary).await?, timeline, "primary").await?,
            };
            return Ok(found(history));
        }
        let file = format!("pg_wal/{:08X}.history", timeline.get());
        let said = control.rows(&format!("SELECT pg_read_file('{file}', 0, {FILE_LIMIT}, true)")).await?;
        let history = match first(&said) {
            None if timeline > FIRST => return Err(no_history(timeline, "primary")),
            text => read_history(timeline, text.unwrap_or_default())?,
        };
        Ok(found(history))
    }
}

/// Proves that the standby is on this history of the primary. Its WAL is compared if the primary is
/// reachable.
///
/// # Errors
/// [`Error::Setup`] if it has diverged, with its replayed timeline and the remedy; [`Error::NotReady`] if it
/// is just moving to another timeline.
pub async fn prove(
    standby: &Address,
    primary: &PrimaryHistory,
    asked: Option<&Control>,
) -> Result<Proof, Error> {
    let proof = Standby::look(standby).await?.on(primary, asked).await?;
    proof.map_err(|found| Error::Setup(format!("{}; {}", found.what, found.mend)))
}

/// Returns the finding about a standby's history; `None` if it is the primary's.
///
/// # Errors
/// As [`prove`], but for a standby that has diverged.
pub async fn check(
    standby: &Address,
    (address, primary): (&Address, &Control),
) -> Result<Option<Finding>, Error> {
    let history = PrimaryHistory::read(address, primary, Epoch::default()).await?;
    Ok(Standby::look(standby).await?.on(&history, Some(primary)).await?.err())
}

impl Standby {
    /// Queries the standby on a connection that knows the commands of replication in addition to SQL. The
    /// timeline is queried before and after the position: if it is the same, it is that of the position.
    async fn look(address: &Address) -> Result<Standby, Error> {
        let mut link = Link::connect_to_replicate(address).await?;
        let sighting = Sighting::read(&mut link, Epoch::default()).await?;
        if !sighting.in_recovery {
            return Err(Error::Protocol(format!("{address} is not a standby")));
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
            return Err(Error::NotReady("the standby is switching to another timeline".to_owned()));
        }
        let text = |column: usize| said.get(column)?.as_deref();
        let newest = text(4).and_then(|text| text.parse().ok()).map_or(timeline, Timeline::new);
        let history = history_of(&mut link, timeline, "standby").await?;
        let known = match newest > timeline {
            true => history_of(&mut link, newest, "standby").await?,
            false => history.clone(),
        };
        let wrong = || Error::Protocol("cannot parse the standby's replay position".to_owned());
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

    /// Proves that it is on this history, or returns the difference.
    async fn on(
        mut self,
        primary: &PrimaryHistory,
        asked: Option<&Control>,
    ) -> Result<Result<Proof, Finding>, Error> {
        if self.sighting.system != primary.system {
            return Ok(Err(diverged("its system identifier differs: it is a standby of another primary")));
        }
        let reach = match primary.history.has(&self.history, self.replayed) {
            Ok(reach) => reach,
            Err(fork) => return Ok(Err(diverged(fork))),
        };
        // A standby has the history of a timeline before it follows it.
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
            "the standby is about to diverge: it receives no WAL and may follow timeline {known} ({fork})"
        );
        Finding { what, mend: LEAD_BACK.to_owned(), fatal: true }
    }

    /// Returns the difference between its WAL and the primary's, or the reason why that is unknown.
    async fn differs(
        &mut self,
        primary: &PrimaryHistory,
        control: &Control,
    ) -> Result<Option<Finding>, Error> {
        let end = control.rows("SELECT pg_current_wal_insert_lsn()").await?;
        if first(&end).and_then(|end| end.parse().ok()).is_some_and(|end: Lsn| self.replayed > end) {
            return Ok(Some(diverged("its replay position is ahead of the primary's WAL")));
        }
        if self.replayed == Lsn::ZERO || !may_read_wal(control).await? {
            return Ok(None);
        }
        let bytes = self.sighting.segment_bytes;
        let own = Segment::below(self.replayed, &self.history, bytes);
        let theirs = Segment::below(self.replayed, &primary.history, bytes);
        let own = self.link.query(&own.digest()).await?;
        let digest = control.rows(&theirs.digest()).await?;
        let Some(digest) = first(&digest) else {
            return Ok(Some(uncompared("the primary no longer has the WAL at the standby's position")));
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
            .then(|| diverged(format!("the primary lacks the standby's checkpoint at {at}"))))
    }
}

/// Ends of transactions around a position of the primary's WAL.
enum Last {
    Found(Ends),
    /// No transaction ends in the searched segments, or they are removed.
    Unknown,
    /// No transaction ends there, and no record ends at the position.
    NoBoundary,
}

impl Last {
    /// Returns the reason why a standby at that position has not replayed these as it should, if its last
    /// transaction ended at this time.
    fn lacks(&self, time: i64) -> Option<Finding> {
        let no_boundary = || diverged("no record of the primary's WAL ends at the standby's position");
        match self {
            Last::Found(ends) if ends.below.last() == Some(&time) || ends.next == Some(time) => {
                (!ends.is_boundary).then(no_boundary)
            }
            // A standby notes when a transaction ended after its position has moved.
            Last::Found(ends) if ends.below.contains(&time) => {
                Some(uncompared("the standby is replaying the end of a transaction"))
            }
            Last::Found(_) => {
                Some(diverged("the primary's WAL lacks the transaction that the standby replayed last"))
            }
            Last::Unknown => {
                Some(uncompared("no transaction ends in the primary's last WAL below the standby's position"))
            }
            Last::NoBoundary => Some(no_boundary()),
        }
    }
}

/// Segments before that of the position in which the end of a transaction is searched: a bulk load, or a
/// quiet server that switches segments, has none for long.
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

/// Query of the end time of the last transaction that a standby has replayed since it started.
const LAST_END: &str =
    "(extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000000)::bigint - 946684800000000";

/// First timeline, which has no history.
const FIRST: Timeline = Timeline::new(1);

fn diverged(how: impl std::fmt::Display) -> Finding {
    Finding {
        what: format!("the standby has diverged from the primary: {how}"),
        mend: REMEDY.to_owned(),
        fatal: true,
    }
}

/// Finding for an uncompared standby, which serves nothing. The comparison is repeated.
fn uncompared(why: &str) -> Finding {
    Finding {
        what: format!("the standby cannot be compared with the primary: {why}"),
        mend: "no action needed: the standby serves reads once it has replayed a transaction of WAL that \
               the primary still has"
            .to_owned(),
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
    let wrong = || Error::Protocol("the standby does not report which timeline it has replayed".to_owned());
    timeline.map(Timeline::new).ok_or_else(wrong)
}

/// True if the role of this connection may read WAL, so that it is compared. `consort check` reports a role that may not.
async fn may_read_wal(control: &Control) -> Result<bool, Error> {
    Ok(control.query_one(MAY_READ_WAL, &[]).await?.get(0))
}

/// Returns the history of a timeline that the server knows, the primary or a standby.
async fn history_of(link: &mut Link, timeline: Timeline, server: &str) -> Result<TimelineHistory, Error> {
    if timeline <= FIRST {
        return Ok(TimelineHistory::first(timeline));
    }
    let said = link
        .query(&format!("TIMELINE_HISTORY {}", timeline.get()))
        .await
        .map_err(|error| if error.is(UNDEFINED_FILE) { no_history(timeline, server) } else { error })?;
    let text = said.first().and_then(|row| row.get(1)?.as_deref());
    read_history(timeline, text.unwrap_or_default())
}

/// SQLSTATE of a missing file.
const UNDEFINED_FILE: &str = "58P01";

fn read_history(timeline: Timeline, text: &str) -> Result<TimelineHistory, Error> {
    TimelineHistory::parse(timeline, text)
        .map_err(|error| Error::Setup(format!("pg_wal/{:08X}.history: {error}", timeline.get())))
}

fn no_history(timeline: Timeline, server: &str) -> Error {
    Error::Setup(format!(
        "the history of timeline {0} is missing at the {server}, so no standby can be compared with the \
         primary: copy {0:08X}.history to its pg_wal from the archive or another server",
        timeline.get()
    ))
}
