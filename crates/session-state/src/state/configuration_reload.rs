//! Reloads of the server's configuration: settings read before may have changed. Also the settings that a
//! session takes along when it goes on at another connection.

use super::{BlockStatus, Dirt, DirtSet, Interner, SessionState, Settings};
use crate::settings::IDENTITY;
use history::LoadTime;
use std::collections::BTreeSet;

impl SessionState {
    /// Records a reload. Backends of the primary that began at this moment, or have applied its last reload,
    /// have read the configuration at `floor` or later. Settings that were read before may have changed, and
    /// the values that RESET restores as well.
    pub fn reloaded(&mut self, floor: LoadTime) {
        if self.beginning.loaded < floor && !self.dirt.has(Dirt::Fresh) {
            self.dirtied(Dirt::Reload);
        }
    }

    /// Time when the session's backend had read the configuration, as last reported.
    pub fn loaded(&self) -> LoadTime {
        self.beginning.loaded
    }

    /// The settings that RESET restores, if they are known.
    pub(super) fn resets_to(&self) -> Option<Settings> {
        let is_known = self.beginning.resets && !self.dirt.has(Dirt::Reload);
        self.beginning.settings.clone().filter(|_| is_known)
    }

    /// Records that the session's pooled connection began with these settings, and that its backend read the
    /// configuration at `loaded`, as last reported before the session came. Meant for a session whose initial
    /// settings are unknown.
    pub fn began_with(&mut self, first: &Settings, loaded: LoadTime, interner: &mut Interner) {
        if self.beginning.settings.is_some() {
            return;
        }
        if self.dirt.has(Dirt::Fresh) {
            self.beginning.loaded = loaded;
            // Settings of the role and of the database go along, too: the probe reads known settings.
            let others = first.others().filter_map(|name| Some((name, first.get(name)?)));
            for (name, value) in others {
                if self.transaction.now.settings.get(name).is_none() {
                    self.transaction.now.settings =
                        interner.with(&self.transaction.now.settings, name, Some(value));
                }
            }
            self.transaction.keep_settings();
        }
        (self.beginning.settings, self.beginning.resets) =
            (Some(first.clone()), self.beginning.loaded == loaded);
    }

    /// True if a reload came between the start of the session's connection and its last probe. Only the list
    /// of changed settings ([`SessionState::changed`]) then shows which ones the session has set.
    pub fn is_to_be_told_apart(&self) -> bool {
        self.beginning.settings.is_some() && !self.beginning.resets
    }

    /// Records that the session has changed these settings alone: every other difference from the
    /// connection's initial settings came with a reload.
    pub(super) fn came_with_a_reload(&mut self, changed: &[(&str, &str)], interner: &mut Interner) {
        if !self.is_to_be_told_apart() {
            return;
        }
        let Some(mut first) = self.beginning.settings.take() else { return };
        let changed: BTreeSet<String> = changed.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        // No view lists the identity of a session, nor application settings (`app.user`).
        let came = |name: &str| !changed.contains(name) && !IDENTITY.contains(&name) && !name.contains('.');
        for (name, value) in self.transaction.now.settings.iter().filter(|(name, _)| came(name)) {
            if first.get(name) != Some(value) {
                first = interner.with(&first, name, Some(value));
            }
        }
        self.beginning.settings = Some(first);
    }

    /// Applies reported values as changes by a reload, for settings that the session has left as they were:
    /// no rollback takes them back. A setting of the session's own may merely be back at its earlier value: a
    /// block has set it back, or its value held for a block alone.
    pub(super) fn hear_of_a_reload(&mut self, interner: &mut Interner) {
        let in_flight =
            [Dirt::Fresh, Dirt::Function, Dirt::Code, Dirt::Unknown, Dirt::Unjudged, Dirt::Setting];
        let is_followed = !self.overflown
            && !self.transaction.block.set_local
            && !self.transaction.block.puts_back
            && !self.transaction.block.lost_savepoints
            && in_flight.iter().all(|dirt| !self.dirt.has(*dirt));
        let Some(mut first) = self.beginning.settings.clone().filter(|_| is_followed) else { return };
        for (name, value) in &self.reports.values {
            let is_other = |was: &&str| was != value && !IDENTITY.contains(name);
            let Some(was) = first.get(name).filter(is_other).map(str::to_owned) else { continue };
            let saved = self.transaction.block.savepoints.iter().map(|(_, layer)| layer);
            let is_set = saved
                .chain([&self.transaction.committed, &self.transaction.now])
                .any(|layer| layer.settings.get(name) != Some(was.as_str()));
            if is_set {
                continue;
            }
            first = interner.with(&first, name, Some(value));
            self.beginning.resets = false;
            let saved = self.transaction.block.savepoints.iter_mut().map(|(_, layer)| layer);
            for layer in saved.chain([&mut self.transaction.committed]) {
                layer.settings = interner.with(&layer.settings, name, Some(value));
            }
        }
        self.beginning.settings = Some(first);
    }

    /// True if nothing is known of the session and it has set nothing: it begins like a new log-in.
    pub fn has_just_begun(&self) -> bool {
        self.dirt() == Some(Dirt::Fresh) && !self.beginning.any_set
    }

    /// True if only a reload of the configuration keeps the session from going on at another connection.
    pub fn may_begin_anew(&self) -> bool {
        self.beginning.settings.is_some()
            && self.transaction.status == BlockStatus::Idle
            && self.dirt == DirtSet::of(&[Dirt::Reload])
            && self.known_but_for(None).is_ok()
    }

    /// Moves the session to a connection that began with these settings, whose backend has read the
    /// configuration at `loaded`. Returns `true` if the session has other settings there. If a reload came
    /// between, the session takes along the settings that it has set, and all others are as in that
    /// connection.
    pub fn goes_on_at(&mut self, first: &Settings, loaded: LoadTime, interner: &mut Interner) -> bool {
        let came_reload =
            self.dirt.has(Dirt::Reload) || !self.beginning.resets || self.beginning.loaded != loaded;
        (self.beginning.loaded, self.beginning.resets) = (loaded, true);
        let before = self.beginning.settings.replace(first.clone());
        let Some(before) = before.filter(|before| came_reload && before != first) else {
            // The new connection receives the session's settings, including initial ones that the session has
            // not set.
            self.beginning.any_set |= self.transaction.now.settings != *first;
            return false;
        };
        let mut settings = first.clone();
        for (name, value) in self.transaction.now.settings.iter() {
            if before.get(name) != Some(value) {
                settings = interner.with(&settings, name, Some(value));
            }
        }
        self.beginning.any_set |= settings != *first;
        // These values are newer than every report.
        for (name, value) in &mut self.reports.values {
            if let Some(known) = settings.get(name) {
                known.clone_into(value);
            }
        }
        self.transaction.now.settings = settings;
        self.transaction.keep_settings();
        true
    }
}
