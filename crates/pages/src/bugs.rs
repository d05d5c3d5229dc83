//! Planted bugs of the versions: each leaves out one rule, so that the simulator shows that its checkers notice.

planted::bugs! {
    /// Switches; all off in production.
    pub enum Bug {
        /// A diff is lost when its page has one already.
        LostDiff,
        /// Diffs and images above a version stay when versions are discarded.
        DiscardedKept,
        /// The horizon passes readers of older versions.
        HorizonPassesReaders,
    }
}
