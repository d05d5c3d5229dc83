//! Dirt of a session: events whose effects on its state no statement tells. Most of it ends with a probe.

use std::fmt;

/// What happened to a session that nobody can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dirt {
    /// Nothing is known of it yet: it has just begun.
    Fresh,
    /// Code ran that may have changed settings, taken locks, or made temporary objects.
    Function,
    /// A statement ran of which nothing is known.
    Unknown,
    /// A statement ran whose tree was not known yet. The tree tells what it did.
    Unjudged,
    /// A setting was given a value that only the server knows.
    Setting,
    /// The server's configuration was loaded anew since its settings were asked for.
    Reload,
    /// A temporary object was made, or is there.
    Temporary,
    /// It listens to a channel.
    Listen,
    /// It holds an advisory lock.
    AdvisoryLock,
    /// A library was loaded into its process: that never ends.
    Library,
}

impl Dirt {
    pub(crate) const ALL: [Dirt; 10] = [
        Dirt::Fresh,
        Dirt::Function,
        Dirt::Unknown,
        Dirt::Unjudged,
        Dirt::Setting,
        Dirt::Reload,
        Dirt::Temporary,
        Dirt::Listen,
        Dirt::AdvisoryLock,
        Dirt::Library,
    ];

    /// Its name in metrics and explanations.
    pub fn name(self) -> &'static str {
        match self {
            Dirt::Fresh => "session_not_probed",
            Dirt::Function => "session_ran_code",
            Dirt::Unknown => "session_ran_unknown",
            Dirt::Unjudged => "session_not_judged_yet",
            Dirt::Setting => "session_setting_unknown",
            Dirt::Reload => "session_before_reload",
            Dirt::Temporary => "session_has_temporary_objects",
            Dirt::Listen => "session_listens",
            Dirt::AdvisoryLock => "session_holds_advisory_lock",
            Dirt::Library => "session_loaded_library",
        }
    }
}

impl fmt::Display for Dirt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of dirt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirtSet(u16);

impl DirtSet {
    /// The set of these.
    pub(crate) fn of(all: &[Dirt]) -> DirtSet {
        DirtSet(all.iter().fold(0, |bits, dirt| bits | DirtSet::bit(*dirt)))
    }

    fn bit(dirt: Dirt) -> u16 {
        1 << dirt as u8
    }

    /// Whether the set has this dirt.
    pub(crate) fn has(self, dirt: Dirt) -> bool {
        self.0 & DirtSet::bit(dirt) != 0
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first in the order of [`Dirt::ALL`].
    pub(crate) fn first(self) -> Option<Dirt> {
        Dirt::ALL.into_iter().find(|dirt| self.has(*dirt))
    }

    /// The set without these.
    pub(crate) fn without(self, others: &[Dirt]) -> DirtSet {
        DirtSet(self.0 & !DirtSet::of(others).0)
    }

    /// Adds a dirt.
    pub(crate) fn add(&mut self, dirt: Dirt) {
        self.0 |= DirtSet::bit(dirt);
    }

    /// Removes a dirt.
    pub(crate) fn remove(&mut self, dirt: Dirt) {
        self.0 &= !DirtSet::bit(dirt);
    }

    /// Removes every other dirt.
    pub(crate) fn keep(&mut self, dirt: Dirt) {
        self.0 &= DirtSet::bit(dirt);
    }
}
