//! Reloads of the server's configuration: what was found before may be otherwise, and what a session that goes on at another
//! connection takes along.

use super::{BlockStatus, Dirt, DirtSet, Interner, SessionState, Settings};
use crate::settings::IDENTITY;
use history::LoadTime;
use std::collections::BTreeSet;

impl SessionState {
    /// Processes of the primary that began at this moment or heeded its last reload have read the configuration at `floor`
    /// or later. Settings that were found before may be others now, and so may what RESET goes back to.
    pub fn reloaded(&mut self, floor: LoadTime) {
        if self.beginning.loaded < floor && !self.dirt.has(Dirt::Fresh) {
            self.dirtied(Dirt::Reload);
        }
    }

    /// When its process had read the configuration, as it said last.
    pub fn loaded(&self) -> LoadTime {
        self.beginning.loaded
    }

    /// What RESET goes back to, if that is known.
    pub(super) fn resets_to(&self) -> Option<Settings> {
        let is_known = self.beginning.resets && !self.dirt.has(Dirt::Reload);
        self.beginning.settings.clone().filter(|_| is_known)
    }

    /// Its connection, which others share, began with these settings, and its process read the configuration at `loaded`, as it said
    /// last before the session came. For a session of whose beginnings nothing is known.
    pub fn began_with(&mut self, first: &Settings, loaded: LoadTime, interner: &mut Interner) {
        if self.beginning.settings.is_some() {
            return;
        }
        if self.dirt.has(Dirt::Fresh) {
            self.beginning.loaded = loaded;
            // What its role and its database have made goes along with it, too: the probe asks for what is known.
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

    /// A reload came between the beginnings of its connection and what was found there: only with what it has changed
    /// ([`SessionState::changed`]) it is known what it has set itself.
    pub fn is_to_be_told_apart(&self) -> bool {
        self.beginning.settings.is_some() && !self.beginning.resets
    }

    /// The session has changed these settings alone: all else that differs from how its connection began came with a reload.
    pub(super) fn came_with_a_reload(&mut self, changed: &[(&str, &str)], interner: &mut Interner) {
        if !self.is_to_be_told_apart() {
            return;
        }
        let Some(mut first) = self.beginning.settings.take() else { return };
        let changed: BTreeSet<String> = changed.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        // No view lists who it is, nor settings of applications (`app.user`).
        let came = |name: &str| !changed.contains(name) && !IDENTITY.contains(&name) && !name.contains('.');
        for (name, value) in self.transaction.now.settings.iter().filter(|(name, _)| came(name)) {
            if first.get(name) != Some(value) {
                first = interner.with(&first, name, Some(value));
            }
        }
        self.beginning.settings = Some(first);
    }

    /// What is reported of a setting that the session has left as it was came with a reload, and no rollback takes it back. What
    /// the session has set, and a block has set back, or has for itself alone, may only be as it was before.
    pub(super) fn hear_of_a_reload(&mut self, interner: &mut Interner) {
        let in_doubt = [Dirt::Fresh, Dirt::Function, Dirt::Unknown, Dirt::Unjudged, Dirt::Setting];
        let is_followed = !self.overflown
            && !self.transaction.block.set_local
            && !self.transaction.block.puts_back
            && !self.transaction.block.lost_savepoints
            && in_doubt.iter().all(|dirt| !self.dirt.has(*dirt));
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

    /// Nothing is known of it, and it has set nothing: it begins as whoever logs in.
    pub fn has_just_begun(&self) -> bool {
        self.dirt() == Some(Dirt::Fresh) && !self.beginning.any_set
    }

    /// Nothing keeps it from going on at another connection but that the configuration was loaded anew.
    pub fn may_begin_anew(&self) -> bool {
        self.beginning.settings.is_some()
            && self.transaction.status == BlockStatus::Idle
            && self.dirt == DirtSet::of(&[Dirt::Reload])
            && self.known_but_for(None).is_ok()
    }

    /// The session goes on at a connection that began with these settings, whose process has read the configuration at `loaded`.
    /// Whether it has other settings there: where a reload came between, it takes along what it has set itself, and all else is as
    /// that connection has it.
    pub fn goes_on_at(&mut self, first: &Settings, loaded: LoadTime, interner: &mut Interner) -> bool {
        let came_reload =
            self.dirt.has(Dirt::Reload) || !self.beginning.resets || self.beginning.loaded != loaded;
        (self.beginning.loaded, self.beginning.resets) = (loaded, true);
        let before = self.beginning.settings.replace(first.clone());
        let Some(before) = before.filter(|before| came_reload && before != first) else {
            // It is given there what it has, also what it began with and has not set itself.
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
        // That is newer than every report.
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
