//! Reports of a session's settings by the server (ParameterStatus).

use crate::settings::MIRRORED;
use statement_analysis::shape::Strings;
use std::collections::BTreeMap;

/// The reports so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    /// Values of mirrored settings, by name.
    pub(super) values: BTreeMap<&'static str, String>,
    /// Settings may have changed since the reports were last applied.
    pub(super) moved: bool,
    /// The client uses UTF-8.
    pub(super) client_utf8: bool,
    /// The database is encoded in UTF-8.
    pub(super) server_utf8: bool,
}

impl Reports {
    /// Records a report.
    pub(super) fn hear(&mut self, name: &str, value: &str) {
        match name {
            "client_encoding" => self.client_utf8 = value == "UTF8",
            "server_encoding" => self.server_utf8 = value == "UTF8",
            _ => {}
        }
        let known = MIRRORED.iter().find(|mirrored| mirrored.eq_ignore_ascii_case(name));
        if let Some(known) = known {
            self.values.insert(known, value.to_owned());
            self.moved = true;
        }
    }

    /// Rule for plain string literals.
    pub(super) fn strings(&self) -> Strings {
        match self.values.get("standard_conforming_strings") {
            Some(value) if value == "off" => Strings::Escaping,
            _ => Strings::Standard,
        }
    }

    /// Client and database use UTF-8.
    pub(super) fn are_utf8(&self) -> bool {
        self.client_utf8 && self.server_utf8
    }
}
