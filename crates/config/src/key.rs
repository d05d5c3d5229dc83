//! A key of the file, and the form of its entry in the table.

use super::value::Read;
use super::{Choice, Config, Server};
use statement_analysis::catalog::Procedure;
use toml::de::DeValue;

/// One key of the file.
pub struct Key {
    /// Table of the key.
    pub place: Place,
    /// Name of the key.
    pub name: &'static str,
    /// Default when the file leaves the key out, as the file would write it; empty if the key is required.
    pub default: &'static str,
    /// True if `RELOAD` applies a new value; otherwise it takes effect at the next start.
    pub reloads: bool,
    /// Description of its purpose, in one or two sentences.
    pub doc: &'static str,
    pub(super) set: Set,
}

/// Table in which a key may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the top of the file.
    Global,
    /// In `[primary]`.
    Primary,
    /// In each `[[standby]]`.
    Standby,
    /// In each `[[replica]]`.
    Replica,
    /// In each `[[node]]`.
    Node,
    /// In `[database.NAME]` and `[user.NAME]`.
    Choice,
    /// In `[database.NAME]` alone.
    Database,
    /// In `[user.NAME]` alone.
    User,
    /// In `[procedure."SCHEMA.NAME"]`.
    Procedure,
    /// In `[extension.NAME]`.
    Extension,
    /// In `[store]`: the store of a key-value design.
    Store,
    /// In `[debug]`: for tests and experiments.
    Debug,
}

impl Place {
    /// The table's name in the file.
    pub fn table(self) -> &'static str {
        match self {
            Self::Global => "",
            Self::Primary => "primary",
            Self::Standby => "standby",
            Self::Replica => "replica",
            Self::Node => "node",
            Self::Choice => "database or user",
            Self::Database => "database",
            Self::User => "user",
            Self::Procedure => "procedure",
            Self::Extension => "extension",
            Self::Store => "store",
            Self::Debug => "debug",
        }
    }
}

impl Key {
    /// Returns true if the key may stand there.
    pub(super) fn stands_in(&self, place: Place) -> bool {
        self.place == place || self.place == Place::Choice && matches!(place, Place::Database | Place::User)
    }
}

type Reads<T> = fn(&mut T, &DeValue<'_>) -> Read<()>;

/// Reader of a value into its field.
#[derive(Clone, Copy)]
pub(super) enum Set {
    Global(Reads<Config>),
    Server(Reads<Server>),
    Choice(Reads<Choice>),
    Procedure(Reads<Procedure>),
    Extension(Reads<Trust>),
}

/// Trust in an extension's functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Trust {
    /// The reviewed tables alone.
    #[default]
    Reviewed,
    /// IMMUTABLE means that a function depends on its arguments alone.
    Immutable,
}

pub(super) const fn global(
    name: &'static str,
    default: &'static str,
    doc: &'static str,
    set: Reads<Config>,
) -> Key {
    Key { place: Place::Global, name, default, reloads: false, doc, set: Set::Global(set) }
}

pub(super) const fn debug(
    name: &'static str,
    default: &'static str,
    doc: &'static str,
    set: Reads<Config>,
) -> Key {
    Key { place: Place::Debug, ..global(name, default, doc, set) }
}

pub(super) const fn store(
    name: &'static str,
    default: &'static str,
    doc: &'static str,
    set: Reads<Config>,
) -> Key {
    Key { place: Place::Store, ..global(name, default, doc, set) }
}

pub(super) const fn reloaded_server(
    place: Place,
    name: &'static str,
    default: &'static str,
    doc: &'static str,
    set: Reads<Server>,
) -> Key {
    reloaded(server(place, name, default, doc, set))
}

pub(super) const fn reloaded(key: Key) -> Key {
    Key { reloads: true, ..key }
}

pub(super) const fn server(
    place: Place,
    name: &'static str,
    default: &'static str,
    doc: &'static str,
    set: Reads<Server>,
) -> Key {
    Key { place, name, default, reloads: false, doc, set: Set::Server(set) }
}

pub(super) const fn choice(name: &'static str, doc: &'static str, set: Reads<Choice>) -> Key {
    choice_in(Place::Choice, name, doc, set)
}

pub(super) const fn choice_in(
    place: Place,
    name: &'static str,
    doc: &'static str,
    set: Reads<Choice>,
) -> Key {
    Key { place, name, default: "", reloads: true, doc, set: Set::Choice(set) }
}

pub(super) const fn extension(name: &'static str, doc: &'static str, set: Reads<Trust>) -> Key {
    Key { place: Place::Extension, name, default: "\"\"", reloads: false, doc, set: Set::Extension(set) }
}

pub(super) const fn procedure(name: &'static str, doc: &'static str, set: Reads<Procedure>) -> Key {
    let set = Set::Procedure(set);
    Key { place: Place::Procedure, name, default: "\"\"", reloads: true, doc, set }
}
