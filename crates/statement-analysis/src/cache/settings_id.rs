//! The identity of a session's settings: a statement means the same under equal ones.

/// The identity of settings: equal numbers mean equal settings, for as long as the process lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SettingsId(u64);

impl SettingsId {
    /// The identity with this number.
    pub const fn new(number: u64) -> SettingsId {
        SettingsId(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}
