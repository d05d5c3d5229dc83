//! Reloads of the server's configuration: what was found before may be otherwise, and what a session that goes on at another
//! connection takes along.

use super::{BlockStatus, Dirt, Interner, SessionState, Settings, bit};
use history::LoadTime;

impl SessionState {
    /// Processes of the primary that began at this moment or heeded its last reload have read the configuration at `floor`
    /// or later. Settings that were found before may be others now, and so may what RESET goes back to.
    pub fn reloaded(&mut self, floor: LoadTime) {
        if self.loaded < floor && self.dirt & bit(Dirt::Fresh) == 0 {
            self.dirtied(Dirt::Reload);
            self.before_reload = self.first.take().or(self.before_reload.take());
        }
    }

    /// The session began as a connection with these settings did, if nothing better is known.
    pub fn began_with(&mut self, first: &Settings) {
        if self.first.is_none() && self.before_reload.is_none() {
            self.first = Some(first.clone());
        }
    }

    /// It leaves a connection that began with these settings before a reload, if nothing better is known of its beginnings.
    pub fn began_before_a_reload(&mut self, first: &Settings) {
        if self.first.is_none() && self.before_reload.is_none() {
            self.before_reload = Some(first.clone());
        }
    }

    /// Nothing keeps it from going on at another connection but that the configuration was loaded anew.
    pub fn may_begin_anew(&self) -> bool {
        let is_known = self.first.is_some() || self.before_reload.is_some();
        is_known
            && self.status == BlockStatus::Idle
            && self.dirt == bit(Dirt::Reload)
            && self.known_but_for(None).is_ok()
    }

    /// The session goes on at a connection that began with other settings, as the server's configuration was loaded anew: what it
    /// has set itself it takes along. Until it was looked at there, nothing counts as known.
    pub fn begins_anew(&mut self, base: &Settings, interner: &mut Interner) {
        let before = self.before_reload.take();
        let Some(first) = self.first.replace(base.clone()).or(before) else { return };
        let mut settings = base.clone();
        for (name, value) in self.now.settings.iter() {
            if first.get(name) != Some(value) {
                settings = interner.with(&settings, name, Some(value));
            }
        }
        self.now.settings = settings;
        self.committed.settings = self.now.settings.clone();
    }
}
