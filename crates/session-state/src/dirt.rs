//! Dirt of a session: events whose effects on session state no statement reveals. A probe ends most of it.

use std::fmt;

/// An event that changes a session in a way that Consort cannot follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dirt {
    /// The session has just begun: its state is unknown.
    Fresh,
    /// Code ran that may have changed anything in the session, also what no probe shows: the seed of `random()`.
    Function,
    /// Code ran that may have changed settings, taken locks, or created temporary objects, and nothing that no probe shows.
    Code,
    /// A statement ran whose effects are unknown.
    Unknown,
    /// A statement ran whose query tree was not known yet. The tree shows its effects later.
    Unjudged,
    /// A setting was given a value that only the server knows.
    Setting,
    /// The server reloaded its configuration since the settings were last read.
    Reload,
    /// A temporary object was created, or exists.
    Temporary,
    /// The session listens to a channel.
    Listen,
    /// The session holds an advisory lock.
    AdvisoryLock,
    /// A library was loaded into the session's backend: this dirt never ends.
    Library,
}

impl Dirt {
    pub(crate) const ALL: [Dirt; 11] = [
        Dirt::Fresh,
        Dirt::Function,
        Dirt::Code,
        Dirt::Unknown,
        Dirt::Unjudged,
        Dirt::Setting,
        Dirt::Reload,
        Dirt::Temporary,
        Dirt::Listen,
        Dirt::AdvisoryLock,
        Dirt::Library,
    ];

    /// Name of the dirt in metrics and explanations.
    pub fn name(self) -> &'static str {
        match self {
            Dirt::Fresh => "session_not_probed",
            Dirt::Function => "session_ran_code",
            Dirt::Code => "session_ran_probed_code",
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
    /// The set with exactly these.
    pub(crate) fn of(all: &[Dirt]) -> DirtSet {
        DirtSet(all.iter().fold(0, |bits, dirt| bits | DirtSet::bit(*dirt)))
    }

    fn bit(dirt: Dirt) -> u16 {
        1 << dirt as u8
    }

    /// True if the set has this dirt.
    pub(crate) fn has(self, dirt: Dirt) -> bool {
        self.0 & DirtSet::bit(dirt) != 0
    }

    /// True if the set is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first dirt of the set, in the order of [`Dirt::ALL`].
    pub(crate) fn first(self) -> Option<Dirt> {
        Dirt::ALL.into_iter().find(|dirt| self.has(*dirt))
    }

    /// The set without these.
    pub(crate) fn without(self, others: &[Dirt]) -> DirtSet {
        DirtSet(self.0 & !DirtSet::of(others).0)
    }

    /// Adds one kind of dirt.
    pub(crate) fn add(&mut self, dirt: Dirt) {
        self.0 |= DirtSet::bit(dirt);
    }

    /// Removes one kind of dirt.
    pub(crate) fn remove(&mut self, dirt: Dirt) {
        self.0 &= !DirtSet::bit(dirt);
    }

    /// Removes all dirt except this kind.
    pub(crate) fn keep(&mut self, dirt: Dirt) {
        self.0 &= DirtSet::bit(dirt);
    }
}
