//! Combinations of answers that are invalid.

use crate::{Acknowledgement, Design, Durability, Effects, Intake, Orderer, Reads};

/// A rule that a row breaks: the invalid combination, and why.
type Rule = (fn(&Design) -> bool, &'static str);

const RULES: &[Rule] = &[
    (
        |row| row.orderer.is_scheduler() && !row.effects.are_statements(),
        "an order made before execution can replicate statements only",
    ),
    (
        |row| row.intake == Intake::InsideTheTransaction && !row.orderer.is_scheduler(),
        "an order made at the primary's commit cannot run at a replica inside the same transaction",
    ),
    (
        |row| row.orderer.is_scheduler() && !row.intake.executes(),
        "transactions ordered by the scheduler are executed by every replica, in that order",
    ),
    (
        |row| {
            row.intake == Intake::InTableOrder
                && row.reads != Reads::TableVersions
                && row.reads != Reads::AnyAge
        },
        "where tables advance independently, a read without the versions of its tables sees a state that never existed",
    ),
    (
        |row| row.reads == Reads::TableVersions && row.intake != Intake::InTableOrder,
        "a replica that does not keep versions of tables cannot report its version",
    ),
    (
        |row| row.effects.are_statements() && plain(row.intake),
        "a replica that executes statements must check their dependencies",
    ),
    (
        |row| row.reads == Reads::AnyReplica && row.acknowledgement != Acknowledgement::AppliedByAll,
        "a read at any replica sees an acknowledged commit only if all replicas have applied it",
    ),
    (
        |row| {
            row.acknowledgement == Acknowledgement::AppliedByAll && row.intake != Intake::InsideTheTransaction
        },
        "all replicas can apply a commit before its acknowledgement only inside the transaction",
    ),
    (
        |row| row.durability == Durability::EveryEngine && !row.intake.executes(),
        "an engine makes durable its own execution, not changes that are applied later",
    ),
    (
        |row| row.reads == Reads::LatestWaiting && row.effects != Effects::Rows,
        "only a replica that applies rows reports which version it shows",
    ),
    (
        |row| {
            row.orderer == Orderer::Certifier
                && !matches!(row.reads, Reads::OwnSnapshot | Reads::StartSnapshot)
        },
        "a transaction that is certified at its commit must read one snapshot from its start on",
    ),
    (
        |row| row.reads == Reads::OwnSnapshot && row.orderer != Orderer::Certifier,
        "a node's own snapshot may be old: what is written by it must be certified",
    ),
    (
        |row| (row.effects == Effects::Pages) != (row.orderer == Orderer::Master),
        "pages are those of the tier's own engine, whose one writer is its master",
    ),
    (
        |row| {
            row.reads == Reads::LatestMade
                && (row.intake != Intake::OnDemand
                    || row.acknowledgement != Acknowledgement::DurableAndReceivedByAll)
        },
        "a replica can make the latest version only from what it has received before the acknowledgement",
    ),
    (
        |row| (row.effects == Effects::Cells) != (row.intake == Intake::IfNewer),
        "a write that may come late or twice must carry its commit's timestamp, as a cell does",
    ),
    (
        |row| row.reads == Reads::StartSnapshot && row.effects != Effects::Cells,
        "only cells say whether a snapshot includes them",
    ),
    (
        |row| row.effects == Effects::Cells && row.durability != Durability::Ledger,
        "a store without transactions has parts of a commit after a failure: a ledger must have all of it",
    ),
    (
        |row| row.effects == Effects::Cells && row.acknowledgement != Acknowledgement::DurableAndStarted,
        "a commit that the next start does not cover is missing for its own client",
    ),
    (
        |row| row.intake == Intake::AsItComes && row.reads != Reads::AnyAge,
        "a replica that applies its input without order can promise nothing",
    ),
];

/// True if a replica applies its input without checking dependencies.
fn plain(intake: Intake) -> bool {
    matches!(intake, Intake::ByBoundary | Intake::OneByOne | Intake::OneByOneLocking | Intake::AsItComes)
}

impl Design {
    /// Checks that the answers can stand together.
    ///
    /// Errors: the sentence that says why not.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        RULES.iter().find(|(broken, _)| broken(self)).map_or(Ok(()), |(_, why)| Err(why))
    }
}

mod tests {
    use super::*;
    use crate::{BASE, CONFLICT_AWARE, CONSORT, DMV, GANYMED, ONE_COPY, PH1, WEAK};
    use std::collections::BTreeSet;

    #[test]
    fn each_rule_refuses_a_row_that_differs_in_one_answer() {
        let senseless = [
            Design { effects: Effects::Rows, ..ONE_COPY },
            Design { intake: Intake::InsideTheTransaction, ..CONSORT },
            Design { intake: Intake::AsItComes, reads: Reads::AnyAge, ..ONE_COPY },
            Design { reads: Reads::AnyReplica, ..CONFLICT_AWARE },
            Design { reads: Reads::TableVersions, ..CONSORT },
            Design { effects: Effects::Statements, ..GANYMED },
            Design { reads: Reads::AnyReplica, ..GANYMED },
            Design { acknowledgement: Acknowledgement::AppliedByAll, ..CONSORT },
            Design { durability: Durability::EveryEngine, ..CONSORT },
            Design { reads: Reads::LatestWaiting, ..CONSORT },
            Design { reads: Reads::LatestProven, ..WEAK },
            Design { reads: Reads::LatestProven, ..BASE },
            Design { reads: Reads::OwnSnapshot, ..CONSORT },
            Design { effects: Effects::Pages, ..CONSORT },
            Design { acknowledgement: Acknowledgement::Primary, ..DMV },
            Design { intake: Intake::ByBoundary, ..PH1 },
            Design { reads: Reads::StartSnapshot, ..CONSORT },
            Design { durability: Durability::LedgerAndEachEngine, ..PH1 },
            Design { acknowledgement: Acknowledgement::DurableAndOrigin, ..PH1 },
        ];
        let refused: BTreeSet<&str> =
            senseless.iter().map(|row| row.check().expect_err("a design without sense")).collect();
        assert_eq!(refused.len(), RULES.len(), "each by another rule");
    }

    #[test]
    fn one_answer_may_differ_where_that_makes_sense() {
        let several = Design { orderer: Orderer::Primary, ..GANYMED };
        assert_eq!(several.check(), Ok(()), "the order is read back");
        assert_eq!(Design { reads: Reads::AnyAge, ..CONFLICT_AWARE }.check(), Ok(()), "for comparison");
    }
}
