//! Sets of planted bugs, without the feature that plants and with it.

planted::bugs! {
    /// Bugs of this test.
    pub enum Bug {
        /// One.
        RuleLeftOut,
        /// Two.
        OtherRuleLeftOut,
    }
}

#[test]
#[cfg(not(feature = "planted"))]
fn set_without_the_feature_is_nothing() {
    assert_eq!(size_of::<Bugs>(), 0);
    assert!(Bugs::default().is_empty() && !Bugs::default().has(Bug::RuleLeftOut));
}

#[test]
#[cfg(feature = "planted")]
fn bug_is_planted_by_its_name() {
    let mut bugs = Bugs::only(Bug::RuleLeftOut);
    assert!(bugs.has(Bug::RuleLeftOut) && !bugs.has(Bug::OtherRuleLeftOut));
    assert!(bugs.plant_named("other_rule_left_out") && !bugs.plant_named("unknown"));
    assert!(bugs.has(Bug::OtherRuleLeftOut) && !bugs.is_empty() && Bugs::default().is_empty());
}
