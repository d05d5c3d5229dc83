//! `consort.last_commit` and `consort.not_before`: what Consort answers, and which errors clients get.

use cluster::Cluster;
use cluster::commit_tokens::{TokenFault, check, current};
use history::CommitToken;
use session_state::utility::{Assignment, NewValue, Utility};
use session_state::{Answer, LAST_COMMIT, NOT_BEFORE};
use wire::Problem;

/// Answers SHOW of a token, and refuses SET of one whose commits may be lost. `None`: the session's state has the answer.
pub async fn answer(cluster: &Cluster, utility: &Utility) -> Option<Result<Answer, Problem>> {
    let name = utility.consort_setting()?;
    if cluster.orders_first() && matches!(name, LAST_COMMIT | NOT_BEFORE) {
        return Some(Err(Problem::error("0A000", "the design of this Consort has no commit tokens")));
    }
    match (utility, name) {
        (Utility::Show(column), LAST_COMMIT) => {
            let token = current(cluster).await.ok_or_else(|| problem(TokenFault::Unknown));
            Some(token.map(|token| Answer::Row { column: column.clone(), value: token.to_string() }))
        }
        (Utility::Set(Assignment { value: NewValue::To(value), .. }), NOT_BEFORE) => {
            lost(cluster, value.parse().ok()).map(Err)
        }
        _ => None,
    }
}

/// Returns the error of a statement that may show rows, if the commits that these must show may be lost.
pub fn lost(cluster: &Cluster, token: Option<CommitToken>) -> Option<Problem> {
    check(cluster, token?).err().map(problem)
}

fn problem(fault: TokenFault) -> Problem {
    match fault {
        TokenFault::Lost => Problem::error(
            "55000",
            "the commits of consort.not_before may be lost: their timeline ended earlier",
        )
        .hint("After a failover, SET consort.not_before = '', and read whether the data are there."),
        TokenFault::Unknown => Problem::error("57P03", "the primary's timeline is not known now")
            .hint("Try again when the primary is reachable."),
    }
}
