//! Claims of papers alongside the measurements.

use std::collections::BTreeMap;

use crate::spread::Spread;
use serde::Serialize;
use workloads::workload::Line;

use super::point::Point;
use super::table::{Claim, Experiment, Figure, Part};

/// Least share of its quota that a server uses when it is the bottleneck of a setup.
const BUSY: f64 = 0.8;

/// Share of all cores' time from which on the results on separate machines cannot be inferred.
const FULL: f64 = 0.93;

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// The claim holds here, too.
    Kept,
    /// The claim does not hold here.
    NotKept,
    /// Some rounds meet the claim, and others do not.
    Undecided,
    /// No result here could decide the claim.
    CannotBeShown,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::NotKept => "NOT KEPT",
            Self::Undecided => "undecided",
            Self::CannotBeShown => "cannot be shown here",
        }
    }
}

/// A claim, judged.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Judged {
    /// The paper's claim.
    pub(super) says: String,
    /// Setup and part of the claim.
    pub(super) of: String,
    /// Between which bounds.
    pub(super) wanted: String,
    /// The measurements, round by round.
    pub(super) measured: Option<Spread>,
    pub(super) verdict: Verdict,
    /// Reason why the claim cannot be shown, or a reason for caution.
    pub(super) why: Option<String>,
}

/// A figure of a point, or of a part of its transactions.
pub(super) fn figure(of: Figure, point: &Point, part: Option<&Part>, experiment: &Experiment) -> Option<f64> {
    let Counted { ended, failed, retries, mean_ms } = counted(point, part);
    match of {
        Figure::Throughput => Some(ended / point.report.seconds.max(0.001)),
        Figure::Response => Some(mean_ms),
        Figure::Failed => Some(failed),
        Figure::Aborted => Some(failed + retries),
        Figure::AbortedShare => Some((failed + retries) / (ended + failed + retries).max(1.0)),
        Figure::AfterFault => {
            let fault = experiment.fault.as_ref()?;
            let after = fault.at_s + fault.back_after_s.unwrap_or(0) + fault.settles_s;
            to_before(point, experiment, (after, experiment.warm_up_s + experiment.time_s))
        }
        Figure::DuringFault => {
            let fault = experiment.fault.as_ref()?;
            to_before(point, experiment, (fault.at_s + fault.settles_s, fault.at_s + fault.back_after_s?))
        }
        Figure::AtReplicas => point.report.served.as_ref().map(|served| served.at_standbys),
        Figure::FirstRead => point.recovery?.first_read_s.or(Some(f64::INFINITY)),
        Figure::CaughtUp => point.recovery?.caught_up_s.or(Some(f64::INFINITY)),
        Figure::Estimate => point.recovery?.estimated,
        Figure::ReadsAborted => point.tier.map(|tier| tier.aborted as f64 / (tier.reads as f64).max(1.0)),
        Figure::NewMaster => point.recovery?.master_s.or(Some(f64::INFINITY)),
        Figure::SpareReads => point.recovery?.spare_reads,
        Figure::AppliedASecond => point.recovery?.applied_a_second,
        Figure::CommitsASync => point.commits_a_sync,
    }
}

/// Outcomes of transactions.
struct Counted {
    ended: f64,
    failed: f64,
    /// Transactions that were started again, each time counted.
    retries: f64,
    mean_ms: f64,
}

fn counted(point: &Point, part: Option<&Part>) -> Counted {
    let ended = |line: &Line| (line.committed + line.rolled_back) as f64;
    let Some(part) = part else {
        let all = &point.report.all;
        return Counted {
            ended: ended(all),
            failed: all.failed as f64,
            retries: all.retries as f64,
            mean_ms: all.mean_us as f64 / 1000.0,
        };
    };
    let lines = || point.report.transactions.iter().filter(|line| line.transaction.starts_with(&part.begins));
    let all: f64 = lines().map(ended).sum();
    let spent_ms: f64 = lines().map(|line| ended(line) * line.mean_us as f64 / 1000.0).sum();
    let failed = lines().map(|line| line.failed as f64).sum();
    let retries = lines().map(|line| line.retries as f64).sum();
    Counted { ended: all, failed, retries, mean_ms: spent_ms / all.max(1.0) }
}

/// Transactions that ended well, a second.
pub(super) fn throughput(point: &Point) -> f64 {
    counted(point, None).ended / point.report.seconds.max(0.001)
}

/// From the course of the run: these seconds to those before the fault.
fn to_before(point: &Point, experiment: &Experiment, (from, to): (u64, u64)) -> Option<f64> {
    let fault = experiment.fault.as_ref()?;
    let second = |second: u64| usize::try_from(second).unwrap_or(usize::MAX);
    let mut timeline = point.report.timeline.clone();
    // Nothing ends in a second that is not there.
    let whole = second(experiment.warm_up_s + experiment.time_s);
    timeline.ended.resize(timeline.ended.len().max(whole), 0);
    let before = timeline.rate(second(experiment.warm_up_s), second(fault.at_s))?;
    let those = timeline.rate(second(from), second(to))?;
    (before > 0.0).then(|| those / before)
}

/// The figures of a setup under a load, round by round; in proportion to another setup of the same round.
pub(super) fn figures(claim: &Claim, points: &[Point], experiment: &Experiment) -> Vec<f64> {
    let named = |name: &String| experiment.parts.iter().find(|part| part.name == *name);
    let part = claim.part.as_ref().and_then(named);
    let of = |setup: &str| -> BTreeMap<u64, f64> {
        let its = points.iter().filter(|point| point.setup == setup && point.load == claim.load);
        its.filter_map(|point| Some((point.round, figure(claim.of, point, part, experiment)?))).collect()
    };
    let (ours, others) = (of(&claim.setup), claim.against.as_deref().map(of));
    let ratio = |(round, ours): (u64, f64)| match &others {
        None => Some(ours),
        Some(others) => others.get(&round).filter(|other| **other > 0.0).map(|other| ours / other),
    };
    ours.into_iter().filter_map(ratio).collect()
}

/// Judges a claim.
pub(super) fn judge(claim: &Claim, points: &[Point], experiment: &Experiment) -> Judged {
    let figures = figures(claim, points, experiment);
    let measured = Spread::of(figures.iter().copied());
    let met = figures.iter().filter(|figure| claim.is_met_by(**figure)).count();
    let bound = what_else_was_the_bound(claim, points);
    let (verdict, why) = match (&claim.beyond, measured, bound) {
        (Some(why), _, _) => (Verdict::CannotBeShown, Some(why.clone())),
        (None, None, _) => (Verdict::CannotBeShown, Some("nothing was measured".to_owned())),
        (None, Some(_), bound) if met == figures.len() => (Verdict::Kept, bound),
        (None, Some(_), bound @ Some(_)) => (Verdict::CannotBeShown, bound),
        (None, Some(_), None) if met == 0 => (Verdict::NotKept, None),
        (None, Some(_), None) => (Verdict::Undecided, None),
    };
    let against = claim.against.as_ref().map_or_else(String::new, |against| format!(" to that of {against}"));
    let part = claim.part.as_ref().map_or_else(String::new, |part| format!(", {part}"));
    Judged {
        says: claim.says.clone(),
        of: format!("{}{part}: {} of {}{against}", claim.load, claim.of.name(), claim.setup),
        wanted: wanted(claim),
        measured,
        verdict,
        why,
    }
}

fn wanted(claim: &Claim) -> String {
    match (claim.least, claim.most) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => "-".to_owned(),
    }
}

/// If no node was at its quota and the machine itself had nothing left, it was the machine that bounded the setup.
fn what_else_was_the_bound(claim: &Claim, points: &[Point]) -> Option<String> {
    let setups = || [Some(&claim.setup), claim.against.as_ref()].into_iter().flatten();
    setups().find_map(|setup| bound_of(setup, &claim.load, points))
}

fn bound_of(setup: &str, load: &str, points: &[Point]) -> Option<String> {
    let its = || points.iter().filter(|point| point.setup == setup && point.load == load);
    let busiest = Spread::of(its().map(Point::busiest))?;
    let machine = Spread::of(its().map(|point| point.machine_busy))?;
    (busiest.median < BUSY && machine.median > FULL).then(|| {
        format!(
            "under {setup} all cores were busy ({:.0} %) while the busiest node used {:.0} % of its quota",
            machine.median * 100.0,
            busiest.median * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::faults::Recovery;
    use super::super::point::{NodeUse, Verified};
    use super::*;
    use workloads::workload::{Report, Timeline};

    fn point(setup: &str, round: u64, committed: u64) -> Point {
        let all = Line { committed, mean_us: 2000, failed: 1, ..Line::default() };
        let timeline = Timeline { ended: vec![10, 10, 10, 10, 0, 0, 0, 5, 5, 5], failed: vec![0; 10] };
        Point {
            round,
            setup: setup.to_owned(),
            load: "shopping".to_owned(),
            report: Report { all, timeline, seconds: 1.0, ..Report::default() },
            nodes: [("primary".to_owned(), NodeUse { of_a_core: 0.05, of_its_quota: Some(0.5) })].into(),
            machine_busy: 0.5,
            verified: Verified::default(),
            commits_a_sync: Some(4.0),
            recovery: Some(Recovery { first_read_s: Some(2.0), ..Recovery::default() }),
            may_be_old: false,
            tier: None,
        }
    }

    fn experiment() -> Experiment {
        let all = super::super::table::all().unwrap();
        all.into_iter().find(|experiment| experiment.fault.is_some()).unwrap()
    }

    fn claim(least: Option<f64>, most: Option<f64>) -> Claim {
        Claim {
            says: "twice".to_owned(),
            load: "shopping".to_owned(),
            part: None,
            setup: "B".to_owned(),
            against: Some("A".to_owned()),
            of: Figure::Throughput,
            least,
            most,
            beyond: None,
        }
    }

    #[test]
    fn ratios_are_of_the_same_round_and_all_rounds_decide() {
        let points =
            [point("A", 1, 100), point("B", 1, 210), point("B", 2, 150), point("A", 2, 50), point("B", 3, 9)];
        let judged = judge(&claim(Some(2.0), None), &points, &experiment());
        assert_eq!(judged.measured, Some(Spread { median: 2.55, least: 2.1, most: 3.0 }));
        assert_eq!((judged.verdict, judged.wanted.as_str()), (Verdict::Kept, "at least 2"));
        assert_eq!(judge(&claim(Some(2.5), None), &points, &experiment()).verdict, Verdict::Undecided);
        assert_eq!(judge(&claim(Some(3.1), None), &points, &experiment()).verdict, Verdict::NotKept);
        assert_eq!(judge(&claim(Some(1.0), Some(2.0)), &points, &experiment()).verdict, Verdict::NotKept);
    }

    #[test]
    fn what_cannot_be_shown_says_why() {
        let beyond = Claim { beyond: Some("no such thing".to_owned()), ..claim(Some(1.0), None) };
        let judged = judge(&beyond, &[point("A", 1, 1), point("B", 1, 9)], &experiment());
        assert_eq!((judged.verdict, judged.why.as_deref()), (Verdict::CannotBeShown, Some("no such thing")));
        assert_eq!(judge(&claim(None, None), &[], &experiment()).verdict, Verdict::CannotBeShown);
        let mut points = [point("A", 1, 100), point("B", 1, 110)];
        points[1].machine_busy = 0.99;
        let judged = judge(&claim(Some(2.0), None), &points, &experiment());
        assert!(judged.why.unwrap().contains("under B all cores were busy (99 %)"));
        // A node at its quota is the bound, however full the machine is.
        points[1].nodes.get_mut("primary").unwrap().of_its_quota = Some(0.95);
        assert_eq!(judge(&claim(Some(2.0), None), &points, &experiment()).verdict, Verdict::NotKept);
    }

    #[test]
    fn what_follows_a_fault_is_compared_with_what_was_before() {
        let mut experiment = experiment();
        (experiment.warm_up_s, experiment.time_s) = (1, 9);
        let fault = experiment.fault.as_mut().unwrap();
        (fault.at_s, fault.back_after_s) = (4, None);
        assert_eq!(figure(Figure::AfterFault, &point("A", 1, 1), None, &experiment), Some(0.5));
        let fault = experiment.fault.as_mut().unwrap();
        (fault.at_s, fault.back_after_s) = (3, Some(6));
        assert_eq!(
            figure(Figure::DuringFault, &point("A", 1, 1), None, &experiment),
            Some(10.0 / 3.0 / 10.0)
        );
        experiment.time_s = 10;
        experiment.fault.as_mut().unwrap().back_after_s = None;
        let figure = |of| figure(of, &point("A", 1, 1), None, &experiment);
        assert_eq!(
            figure(Figure::AfterFault),
            Some(15.0 / 5.0 / 10.0),
            "seconds in which nothing ended count"
        );
        assert_eq!((figure(Figure::FirstRead), figure(Figure::CaughtUp)), (Some(2.0), Some(f64::INFINITY)));
    }

    #[test]
    fn parts_of_a_load_are_counted_by_their_names() {
        let mut point = point("A", 1, 100);
        let line = |name: &str, committed, mean_us| Line {
            transaction: name.to_owned(),
            committed,
            mean_us,
            ..Line::default()
        };
        point.report.transactions =
            vec![line("payment", 90, 1000), line("q1", 4, 1000), line("q22", 6, 6000)];
        let part = Part { name: "queries".to_owned(), begins: "q".to_owned() };
        let figure = |of| figure(of, &point, Some(&part), &experiment());
        assert_eq!((figure(Figure::Throughput), figure(Figure::Response)), (Some(10.0), Some(4.0)));
    }
}
