//! Planted bugs: each breaks the scheduler in one place, so that the simulator can test that its checkers notice.

planted::bugs! {
    /// For the simulator's tests of its checkers: each switch leaves out one rule. All are off unless a test sets them. The
    /// switches of the order are in [`order::Bugs`].
    pub enum Bug {
        /// What falls out of the freshness index was never written.
        IndexEvictsWithoutFloor,
        /// What was written before the slot's first position was never written.
        RestartWithoutFloor,
        /// A standby shows no commit before its replay position has moved past it.
        StandbyNoPlusOne,
        /// A commit that lies between what was heard before and the position in the snapshot counts as shown.
        StandbyBetweenCounts,
        /// A gauge sent before the statement arrived proves its answer.
        StandbyOldGauge,
        /// A gauge that is not settled proves an answer.
        StandbyUnsettled,
        /// An answer of a standby counts as soon as the primary has shown all that may be in it.
        StandbyHoldOnly,
        /// Every answer of a standby counts.
        StandbyLive,
        /// With writers through Consort, doubts are looked at when a statement arrives and not at its end.
        ClosedDoubtAtArrivalOnly,
        /// With writers through Consort, the freshness index is not asked.
        ClosedNoFreshness,
        /// A standby's mark, once heard, holds for its next incarnation too.
        BackendCrashKeepsLow,
        /// What was understood before the catalog changed holds on.
        StaleAnalysis,
        /// A read that left before reads were kept in is judged all the same.
        ClosedDoorAjar,
        /// A read by its position is judged by that alone, wherever replay was when it had locked what it reads.
        LocksUnheeded,
        /// What was in doubt before the catalog changed stays as narrow as it was understood then.
        DdlLeavesDoubtsNarrow,
        /// A commit that no doubt explains does not switch the mode of writers.
        BypassUnnoticed,
        /// A read at a fed replica does not wait for the gauge that says what it must see.
        FedNoGauge,
        /// A read at a fed replica does not ask which versions it must see.
        FedNoFreshness,
        /// A read goes to a fed replica though the replica tells it otherwise: the types that it names have other OIDs there.
        OidDiffers,
        /// What a fed replica has once shown it shows for ever, whatever life of it answers.
        ReplicaForgetsCommits,
        /// What a whole read must see is what was acknowledged when it arrived.
        InFlightNotCounted,
        /// A refresh that locks does not wait for those who read.
        RefreshPassesReaders,
        /// A read does not wait for the end of a refresh that locks.
        ReadPassesRefresh,
        /// Who was let go by a refresh that locks reads on.
        LetGoReadsOn,
        /// A commit's turn ends with its connection.
        TurnEndsWithConnection,
    }
}
