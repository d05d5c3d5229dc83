//! Planted bugs of the tier's decisions: each leaves out one rule, so that the simulator shows that its checkers notice.

planted::bugs! {
    /// Switches; all off in production.
    pub enum Bug {
        /// A commit is acknowledged when its version is made.
        AcknowledgedEarly,
        /// A commit does not wait for the query log.
        LogNotAsked,
        /// A commit that changes nothing does not wait for the versions that it has read.
        ReadsNotShown,
        /// A node keeps the versions that an epoch drops.
        NotDiscarded,
        /// A node that was away keeps what epochs have dropped meanwhile.
        EpochsForgotten,
        /// A read is tagged with the version before the newest acknowledged one.
        TagOffByOne,
        /// A member that stands still stays a member.
        StalledMemberStays,
    }
}
