//! The prepared statements of a session that shares connections, for another process in which it goes on.

use super::name_lookups::LookedUp;
use super::{BySql, Kept, Parsed, SettingsAt, Statement, Statements, Under, Unnamed};
use crate::statement_description::Described;
use cluster::NamesAt;
use serde::{Deserialize, Serialize};
use session_state::{Interner, Pairs, Settings, pairs};
use std::rc::Rc;

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedStatements {
    named: Vec<(Vec<u8>, CarriedStatement)>,
    unnamed: Option<CarriedStatement>,
    /// The primary has not parsed the unnamed one.
    elsewhere: bool,
    asks_sequences: bool,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CarriedStatement {
    text: Vec<u8>,
    types: Vec<u8>,
    described: Option<CarriedDescribed>,
    by_sql: Option<CarriedBySql>,
    /// True if the parse happened under the session's present settings.
    as_now: bool,
    found: bool,
    meaning: Option<u64>,
}

/// A server's description of a statement: its parameters and columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CarriedDescribed {
    parameters: Vec<u8>,
    columns: Option<Vec<u8>>,
}

/// Origin of a statement of SQL's PREPARE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CarriedBySql {
    settings: Pairs,
    inner: u64,
}

impl Statements {
    /// For another process: the session has no connection and these settings. `None`: the primary may have statements of it that
    /// are not followed, or something of them is not answered yet.
    pub fn carried(&self, now: &Settings) -> Option<CarriedStatements> {
        // The author of a new field decides here if it goes along.
        let Statements {
            there,
            refused: _,
            refused_in_sql: _,
            closing,
            astray,
            asks_sequences,
            named,
            unnamed: Unnamed { parsed, stale: _, elsewhere, unfollowed },
            under: _,
            request: _,
            meanings: _,
            likely: _,
            counted: _,
        } = self;
        if there.is_some() || !closing.is_empty() || *astray || *unfollowed {
            return None;
        }
        let of = |parsed: &Parsed| CarriedStatement::of(parsed, now);
        Some(CarriedStatements {
            named: named.iter().map(|(name, parsed)| (name.to_vec(), of(parsed))).collect(),
            unnamed: parsed.as_ref().map(of),
            elsewhere: *elsewhere,
            asks_sequences: *asks_sequences,
        })
    }

    /// Statements of a session that was handed over with these settings.
    pub fn of_carried(carried: CarriedStatements, now: &Settings, interner: &mut Interner) -> Statements {
        let CarriedStatements { named, unnamed, elsewhere, asks_sequences } = carried;
        let parsed = unnamed.map(|statement| statement.parsed(now, interner));
        let named = named.into_iter().map(|(name, statement)| (name.into(), statement.parsed(now, interner)));
        Statements {
            named: named.collect(),
            // No connection has it, and each may have another's.
            unnamed: Unnamed { parsed, stale: true, elsewhere, unfollowed: false },
            asks_sequences,
            ..Statements::default()
        }
    }
}

impl CarriedStatement {
    fn of(parsed: &Parsed, now: &Settings) -> CarriedStatement {
        // The next connection looks up all names.
        let Parsed { kept, under, found, found_under: _, meaning, likely: _, looked_up: _, otherwise: _ } =
            parsed;
        let Kept { statement, described, by_sql, under: _ } = kept;
        let described = described.as_deref().map(|described| {
            let (parameters, columns) = described.parts();
            CarriedDescribed { parameters: parameters.to_vec(), columns: columns.map(<[u8]>::to_vec) }
        });
        let by_sql = by_sql.as_ref().map(|BySql { settings, inner, at_us: _ }| CarriedBySql {
            settings: pairs(settings),
            inner: *inner as u64,
        });
        CarriedStatement {
            text: statement.text.to_vec(),
            types: statement.types.to_vec(),
            described,
            by_sql,
            as_now: under.settings == Some(SettingsAt::of(now)),
            found: found.is_some(),
            meaning: *meaning,
        }
    }

    /// The objects of its names are known by the statement's meaning only, or not at all.
    fn parsed(self, now: &Settings, interner: &mut Interner) -> Parsed {
        let CarriedStatement { text, types, described, by_sql, as_now, found, meaning } = self;
        let described = described.map(|CarriedDescribed { parameters, columns }| {
            Rc::new(Described::of_parts(parameters.into(), columns.map(Box::from)))
        });
        let by_sql = by_sql.map(|CarriedBySql { settings, inner }| BySql {
            settings: interner.intern(settings.into_iter().collect()),
            inner: usize::try_from(inner).unwrap_or(usize::MAX),
            at_us: None,
        });
        let settings = as_now.then(|| SettingsAt::of(now));
        let known = as_now.then(|| now.clone());
        let statement = Rc::new(Statement::new(text, types));
        let names = NamesAt::elsewhere();
        let under =
            Under { settings, if_judged: None, before: None, known: known.clone(), names, name_changes: 0 };
        Parsed {
            kept: Kept { statement, described, by_sql, under: known.clone() },
            looked_up: LookedUp::of(&under, 0),
            under,
            found: found.then(NamesAt::elsewhere),
            found_under: known,
            meaning,
            likely: None,
            otherwise: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::Names;
    use std::collections::BTreeMap;

    #[test]
    fn statements_go_on_elsewhere_as_they_were_parsed() {
        let (mut here, mut there) = (Interner::new(8), Interner::new(8));
        let utc = || BTreeMap::from([("timezone".to_owned(), "UTC".to_owned())]);
        let now = here.intern(utc());
        there.intern(BTreeMap::new());
        let under = |settings| Under { settings, ..Under::default() };
        let statement = |text: &str| Rc::new(Statement::new(text.as_bytes(), *b"\0\0"));
        let mut statements = Statements::default();
        statements.attach(super::super::There::new(), false);
        statements.parses_under(under(Some(SettingsAt::of(&now))), vec![(b"a"[..].into(), 7)]);
        statements.parsed_at_primary(b"a", Some(statement("SELECT 1")));
        statements.parses_under(under(Some(SettingsAt::default())), Vec::new());
        statements.parsed_at_primary(b"b", Some(statement("SELECT 2")));
        statements.prepared_by_sql(b"c", "PREPARE c AS SELECT 3", 13, now.clone());
        statements.described(b"c", Described::of_parts(Box::default(), Some(b"int4"[..].into())));
        statements.parsed_at_primary(b"", Some(statement("SELECT 4")));
        assert_eq!(statements.carried(&now), None, "a connection has them");
        statements.detach();

        let carried = statements.carried(&now).unwrap();
        let bytes = postcard::to_stdvec(&carried).unwrap();
        assert_eq!(postcard::from_bytes::<CarriedStatements>(&bytes).unwrap(), carried);

        let now = there.intern(utc());
        let mut arrived = Statements::of_carried(carried.clone(), &now, &mut there);
        assert_eq!(arrived.carried(&now), Some(carried));
        assert_eq!(arrived.parsed_under(b"a"), Some(SettingsAt::of(&now)));
        assert_eq!(arrived.parsed_under(b"b"), None, "nobody knows those settings any more");
        let names = Names::default();
        assert!(
            arrived.names_still_mean(b"a", &names, Some(7))
                && !arrived.names_still_mean(b"a", &names, Some(8))
        );
        assert!(!arrived.names_still_mean(b"b", &names, Some(7)));
        arrived.attach(super::super::There::new(), true);
        let again = arrived.prepares_again(b"c").unwrap();
        assert_eq!((&*again.text, again.inner, &again.settings), ("PREPARE c AS SELECT 3", 13, &now));
        assert!(matches!(arrived.owed(), super::super::Owed::Parse(owed) if *owed == *statement("SELECT 4")));
    }
}
