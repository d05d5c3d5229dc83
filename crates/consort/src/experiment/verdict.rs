//! What papers say beside what was measured.

use std::collections::BTreeMap;

use bench::spread::Spread;
use serde::Serialize;

use super::point::Point;
use super::table::{Claim, Experiment, Figure};

/// After a fault so many seconds belong neither to before nor to after.
const SETTLING_S: u64 = 3;

/// Whoever bounds a setup uses at least this part of its quota.
const BUSY: f64 = 0.8;

/// From this part on of all cores' time nobody can tell what a setup would have done on machines of its own.
const FULL: f64 = 0.93;

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// It is so here, too.
    Kept,
    /// It is not.
    NotKept,
    /// Nothing that runs here could tell.
    CannotBeShown,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::NotKept => "NOT KEPT",
            Self::CannotBeShown => "cannot be shown here",
        }
    }
}

/// A claim, judged.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Judged {
    /// What the paper says.
    pub(super) says: String,
    /// Of what.
    pub(super) of: String,
    /// Between which bounds.
    pub(super) wanted: String,
    /// What was measured, round by round.
    pub(super) measured: Option<Spread>,
    pub(super) verdict: Verdict,
    /// Why it cannot be shown, or what speaks for caution.
    pub(super) why: Option<String>,
}

/// A figure of a point.
pub(super) fn figure(of: Figure, point: &Point, experiment: &Experiment) -> Option<f64> {
    let all = &point.report.all;
    let ended = all.committed + all.rolled_back;
    match of {
        Figure::Throughput => Some(throughput(point)),
        Figure::Response => Some(all.mean_us as f64 / 1000.0),
        Figure::Failed => Some(all.failed as f64),
        Figure::FailedShare => Some(all.failed as f64 / (ended + all.failed).max(1) as f64),
        Figure::AfterFault => after_fault(point, experiment),
    }
}

/// Transactions that ended well, a second.
pub(super) fn throughput(point: &Point) -> f64 {
    let all = &point.report.all;
    (all.committed + all.rolled_back) as f64 / point.report.seconds.max(0.001)
}

/// From the course of the run: the seconds after the fault (and after the node was back) to those before.
fn after_fault(point: &Point, experiment: &Experiment) -> Option<f64> {
    let fault = experiment.fault.as_ref()?;
    let second = |second: u64| usize::try_from(second).unwrap_or(usize::MAX);
    let after = fault.at_s + fault.back_after_s.unwrap_or(0) + SETTLING_S;
    let end = experiment.warm_up_s + experiment.time_s;
    let timeline = &point.report.timeline;
    let before = timeline.rate(second(experiment.warm_up_s), second(fault.at_s))?;
    let after = timeline.rate(second(after), second(end))?;
    (before > 0.0).then(|| after / before)
}

/// The figures of a setup under a load, round by round; in proportion to another setup of the same round.
pub(super) fn figures(claim: &Claim, points: &[Point], experiment: &Experiment) -> Vec<f64> {
    let of = |setup: &str| -> BTreeMap<u64, f64> {
        let its = points.iter().filter(|point| point.setup == setup && point.load == claim.load);
        its.filter_map(|point| Some((point.round, figure(claim.of, point, experiment)?))).collect()
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
    let measured = Spread::of(figures(claim, points, experiment));
    let within = measured.is_some_and(|measured| {
        claim.least.is_none_or(|least| measured.median >= least)
            && claim.most.is_none_or(|most| measured.median <= most)
    });
    let (verdict, why) = match (&claim.beyond, measured) {
        (Some(why), _) => (Verdict::CannotBeShown, Some(why.clone())),
        (None, None) => (Verdict::CannotBeShown, Some("nothing was measured".to_owned())),
        (None, Some(_)) if within => (Verdict::Kept, None),
        (None, Some(_)) => match what_else_was_the_bound(claim, points) {
            Some(why) => (Verdict::CannotBeShown, Some(why)),
            None => (Verdict::NotKept, None),
        },
    };
    let against = claim.against.as_ref().map_or_else(String::new, |against| format!(" to that of {against}"));
    Judged {
        says: claim.says.clone(),
        of: format!("{}: {} of {}{against}", claim.load, claim.of.name(), claim.setup),
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
    let its = || points.iter().filter(|point| point.setup == claim.setup && point.load == claim.load);
    let busiest = Spread::of(its().map(Point::busiest))?;
    let machine = Spread::of(its().map(|point| point.machine_busy))?;
    (busiest.median < BUSY && machine.median > FULL).then(|| {
        format!(
            "all cores were busy ({:.0} %) while the busiest node used {:.0} % of its quota",
            machine.median * 100.0,
            busiest.median * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::point::{NodeUse, Verified};
    use super::*;
    use bench::workload::{Line, Report, Timeline};

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
            setup: "B".to_owned(),
            against: Some("A".to_owned()),
            of: Figure::Throughput,
            least,
            most,
            beyond: None,
        }
    }

    #[test]
    fn ratios_are_of_the_same_round_and_their_middle_is_judged() {
        let points =
            [point("A", 1, 100), point("B", 1, 210), point("B", 2, 150), point("A", 2, 50), point("B", 3, 9)];
        let judged = judge(&claim(Some(2.5), None), &points, &experiment());
        assert_eq!(judged.measured, Some(Spread { median: 2.55, least: 2.1, most: 3.0 }));
        assert_eq!((judged.verdict, judged.wanted.as_str()), (Verdict::Kept, "at least 2.5"));
        assert_eq!(judge(&claim(Some(2.6), None), &points, &experiment()).verdict, Verdict::NotKept);
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
        assert!(judged.why.unwrap().contains("all cores were busy (99 %)"));
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
        assert_eq!(figure(Figure::AfterFault, &point("A", 1, 1), &experiment), Some(0.5));
        experiment.time_s = 60;
        assert_eq!(figure(Figure::AfterFault, &point("A", 1, 1), &experiment), None, "it ended too early");
    }
}
