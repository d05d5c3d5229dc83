//! Planted bugs: each breaks the scheduler in one place, so that the simulator can test that its checkers notice.

planted::bugs! {
    /// For the simulator's tests of its checkers: each switch leaves out one rule. All are off unless a test sets them. The
    /// switches of the order are in [`order::Bugs`].
    pub enum Bug {
        /// An entry that falls out of the freshness index was never written.
        IndexEvictsWithoutFloor,
        /// A write before the slot's first position was never written.
        RestartWithoutFloor,
        /// A standby shows no commit before its replay position has moved past it.
        StandbyNoPlusOne,
        /// A commit that lies between what was heard before and the position in the snapshot counts as shown.
        StandbyBetweenCounts,
        /// A snapshot probe sent before the statement arrived proves its answer.
        StandbyOldGauge,
        /// A snapshot probe that is not settled proves an answer.
        StandbyUnsettled,
        /// An answer of a standby counts as soon as the primary has shown all that may be in it.
        StandbyHoldOnly,
        /// Every answer of a standby counts.
        StandbyLive,
        /// With writers through Consort, in-flight write sets are compared when a statement arrives and not
        /// at its end.
        ClosedDoubtAtArrivalOnly,
        /// With writers through Consort, the freshness index is not asked.
        ClosedNoFreshness,
        /// A standby's mark, once heard, holds for its next incarnation too.
        BackendCrashKeepsLow,
        /// An analysis from before a change of the catalog stays valid.
        StaleAnalysis,
        /// A read that left before reads were kept in is judged all the same.
        ClosedDoorAjar,
        /// A read by its position is judged by that alone, wherever replay was when it had locked what it reads.
        LocksUnheeded,
        /// The locks that a block has deferred count as if it had held them.
        LocksNeverJudged,
        /// Deferred locks are judged by what is decoded, without a snapshot probe.
        LocksJudgedAtOnce,
        /// A read of a block defers its locks though a transaction holds them against readers.
        HeldLocksIgnored,
        /// An in-flight write from before a change of the catalog keeps its narrow footprint.
        DdlLeavesDoubtsNarrow,
        /// A commit that no in-flight write set explains does not switch the mode of writers.
        BypassUnnoticed,
        /// A read at a logical replica does not wait for the snapshot probe that says what it must see.
        FedNoGauge,
        /// A read at a fed replica does not ask which versions it must see.
        FedNoFreshness,
        /// A read goes to a logical replica that answers it differently: the types that it names have other
        /// OIDs there.
        OidDiffers,
        /// A commit that a logical replica has shown once is shown for ever, whichever incarnation answers.
        ReplicaForgetsCommits,
        /// A whole read must see only the commits that were acknowledged when it arrived.
        InFlightNotCounted,
        /// A refresh that locks does not wait for those who read.
        RefreshPassesReaders,
        /// A read does not wait for the end of a refresh that locks.
        ReadPassesRefresh,
        /// A reader that a locking refresh has released reads on.
        LetGoReadsOn,
        /// A commit's turn ends with its connection.
        TurnEndsWithConnection,
    }
}
