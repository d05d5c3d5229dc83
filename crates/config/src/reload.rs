//! A reload: settings that take effect at once, those that wait for the next start, and one setting that the
//! console changes.

use crate::key::{Key, Place, Set};
use crate::{Config, Refusal, WITH_AUTH_TYPE, Written, keys, value, without_links};
use toml::de::DeValue;

impl Config {
    /// Settings that differ in a new reading of the file, and take effect only at the next start.
    pub fn changed_until_start(&self, new: &Config) -> Vec<&'static str> {
        let keys = self.shown().zip(new.shown());
        let changed = keys.filter(|((key, old), (_, new))| !key.reloads && old != new);
        let servers = (self.followed() != new.followed()).then_some("the primary or the standbys");
        let trusted = (self.source.trusted_extensions != new.source.trusted_extensions)
            .then_some("an [extension] table");
        changed.map(|((key, _), _)| key.name).chain(servers).chain(trusted).collect()
    }

    /// The primary and the standbys: their names and addresses.
    fn followed(&self) -> Vec<(&str, &str, u16)> {
        let all = std::iter::once(&self.primary).chain(&self.standbys);
        all.map(|server| (server.name.as_str(), server.host.as_str(), server.port)).collect()
    }

    /// Takes over from the running configuration the settings that this one, read again, cannot change before
    /// the next start. The process still runs by them.
    ///
    /// # Errors
    /// A contradiction between those settings and one that changes at once: a sentence with both keys.
    pub fn until_start(&mut self, running: &Config) -> Result<(), String> {
        // The authentication settings of clients change as a whole.
        let auth_changes = self.auth_type != running.auth_type;
        let stays = |key: &Key| !key.reloads || auth_changes && WITH_AUTH_TYPE.contains(&key.name);
        for key in keys::KEYS.iter().filter(|key| stays(key)) {
            let Set::Global(set) = key.set else { continue };
            let written = running.source.written[key.name].clone();
            let value = DeValue::parse(&written.source).expect("the same value was read before");
            set(self, value.get_ref()).expect("the same value was read before");
            self.source.written.insert(key.name, written);
        }
        if self.followed() != running.followed() {
            let mut standbys = running.standbys.clone();
            for standby in &mut standbys {
                let same = self.standbys.iter().find(|new| new.name == standby.name);
                standby.weight = same.map_or(standby.weight, |new| new.weight);
            }
            (self.primary, self.standbys) = (running.primary.clone(), standbys);
        }
        self.source.trusted_extensions.clone_from(&running.source.trusted_extensions);
        let before = running.senseless();
        match self.senseless().into_iter().find(|found| !before.contains(found)) {
            None => Ok(()),
            Some((key, why)) => Err(format!(
                "with the settings that wait for a restart, {key} {why}; restart Consort to apply all changes together"
            )),
        }
    }

    /// Returns the configuration with another value of one global key that takes effect at once. The value is
    /// written as in the file, or as PgBouncer has it: texts without quotes, times as numbers of seconds,
    /// lists with commas.
    ///
    /// # Errors
    /// There is no such key, it does not take effect at once, the value is invalid, or contradicts the
    /// others.
    pub fn with(&self, name: &str, written: &str) -> Result<Config, Refusal> {
        let refusal = |sqlstate, message: String, hint: String| Refusal { sqlstate, message, hint };
        let Some(key) = keys::find(Place::Global, name) else {
            let hint = keys::nearest(Place::Global, name);
            let hint = hint
                .map_or("SHOW CONFIG lists all settings.".to_owned(), |near| format!("Did you mean {near}?"));
            return Err(refusal("42704", format!("setting \"{name}\" does not exist"), hint));
        };
        if !key.reloads {
            let hint = "Change it in the configuration file, then restart.".to_owned();
            return Err(refusal("55P02", format!("setting \"{name}\" cannot be changed now"), hint));
        }
        let Set::Global(set) = key.set else { unreachable!("a global key") };
        let mut why = None;
        for text in value::meanings(written) {
            let Ok(value) = DeValue::parse(&text) else { continue };
            let (value, mut config) = (value.get_ref(), self.clone());
            if let Err(message) = set(&mut config, value) {
                why = why.or(Some(message));
                continue;
            }
            config.source.written.insert(key.name, Written::new(&text, value));
            let before = self.senseless();
            return match config.senseless().into_iter().find(|found| !before.contains(found)) {
                None => Ok(config),
                Some((other, why)) => Err(refusal(
                    "22023",
                    format!("invalid value for \"{name}\": {other} {why}"),
                    without_links(key.doc),
                )),
            };
        }
        let why = why.unwrap_or_default();
        Err(refusal("22023", format!("invalid value for \"{name}\": {why}"), without_links(key.doc)))
    }
}
