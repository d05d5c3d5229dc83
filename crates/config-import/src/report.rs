//! Result for each setting, line by line.

use super::foreign::{At, Foreign, Setting};

/// Report on the settings.
#[derive(Debug, Default)]
pub struct Report {
    carried: usize,
    unneeded: usize,
    missing: usize,
    lines: Vec<(At, String)>,
}

impl Report {
    /// Records that the setting is in our configuration now.
    pub(super) fn carried(&mut self, setting: &Setting) {
        self.carried += usize::from(!setting.is_default());
    }

    /// Nothing is lost without it.
    pub(super) fn unneeded(&mut self, setting: &Setting, why: &str) {
        if !setting.is_default() {
            self.unneeded += 1;
            self.lines.push((setting.at.clone(), format!("{}: not needed: {why}", setting.path())));
        }
    }

    /// Consort will not do what it says.
    pub(super) fn missing(&mut self, setting: &Setting, why: &str) {
        if !setting.is_default() {
            self.missing += 1;
            let mut value = format!(" = {}", setting.value);
            if setting.value.is_empty() || setting.key.contains("password") || value.len() > LONG {
                value.clear();
            }
            self.lines.push((setting.at.clone(), format!("{}{value}: not carried: {why}", setting.path())));
        }
    }

    /// A line or a part of the file that is not taken over as a whole.
    pub(super) fn missing_at(&mut self, at: &At, what: &str) {
        self.missing += 1;
        self.lines.push((at.clone(), format!("not carried: {what}")));
    }

    /// Something that an operator should know of what was carried.
    pub(super) fn note(&mut self, at: &At, what: &str) {
        self.lines.push((at.clone(), format!("note: {what}")));
    }

    /// The notes of the one who has read the file.
    pub(super) fn notes_of(&mut self, foreign: &Foreign) {
        self.lines.extend(foreign.notes.iter().map(|(at, note)| (at.clone(), format!("note: {note}"))));
    }

    /// A line for each finding, in the order of the files.
    pub fn lines(&self) -> Vec<String> {
        let mut files: Vec<&str> = Vec::new();
        for (at, _) in &self.lines {
            if !files.contains(&at.file.as_str()) {
                files.push(&at.file);
            }
        }
        let place = |at: &At| (files.iter().position(|file| *file == at.file), at.line);
        let mut lines: Vec<&(At, String)> = self.lines.iter().collect();
        lines.sort_by_key(|(at, _)| place(at));
        lines.into_iter().map(|(at, line)| format!("{at}: {line}")).collect()
    }

    /// Number of settings by result.
    pub fn sum(&self) -> String {
        let Self { carried, unneeded, missing, .. } = self;
        format!("{carried} settings carried, {unneeded} not needed, {missing} not carried")
    }
}

/// A longer value is not shown again.
const LONG: usize = 60;
