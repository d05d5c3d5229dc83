//! Record of a transaction at its version: the items of its footprint, and its effects.

use certified_flow::WriteSet;
use certifier::{Item, Mode};
use serde::{Deserialize, Serialize};

/// More items than this become one for the whole database.
const MOST_ITEMS: usize = 20_000;

/// The values of a row or of a key, in text form; `None` is NULL.
pub(crate) type Values = Vec<Option<String>>;

/// The record of one committed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    items: Vec<(u64, u8)>,
    /// Steps of the other nodes, in this order.
    pub(crate) effects: Vec<Effect>,
}

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Effect {
    /// Rows of one table.
    Rows(Rows),
    /// A command that changes the catalog.
    Statement {
        /// Text of the command.
        statement: String,
        /// The role that runs it.
        role: String,
        /// The `search_path` under which it runs.
        path: String,
    },
    /// A command of Consort's own, or a notification: it calls no code of users.
    Plain {
        /// Text of the command.
        statement: String,
    },
}

/// Changes of rows of one table. Names are quoted where they need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rows {
    /// The table with its schema.
    pub(crate) table: String,
    /// Its columns, without generated ones.
    pub(crate) columns: Vec<String>,
    /// The columns that tell its rows apart; none if nothing does.
    pub(crate) keys: Vec<String>,
    /// Columns that no UPDATE may set.
    pub(crate) fixed: Vec<String>,
    /// Whether the table is emptied before, and `rows` are all that it has.
    pub(crate) emptied: Emptied,
    /// Each row.
    pub(crate) rows: Vec<RowChange>,
}

/// Way in which a table is emptied before its rows come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Emptied {
    /// Not at all.
    #[default]
    No,
    /// A client has truncated it.
    Truncated,
    /// Row by row: a command has filled it, whose values may be others at another node.
    Deleted,
}

/// Change of one row. Where nothing tells rows apart `before` is the change of the number of rows like `key`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RowChange {
    /// The row was there before: 1, or it was not: 0.
    pub(crate) before: i64,
    /// Its key.
    pub(crate) key: Option<Values>,
    /// The row as it is now; `None` if it is gone.
    pub(crate) row: Option<Values>,
}

/// Items of a footprint.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Captured {
    pub(crate) writes: Option<Vec<i64>>,
    pub(crate) shares: Option<Vec<i64>>,
    pub(crate) intents: Option<Vec<i64>>,
    /// The item of the whole database.
    pub(crate) database: i64,
}

/// Answer of the capture's query.
#[derive(Deserialize)]
struct Answer {
    effects: Vec<CapturedEffect>,
    #[serde(flatten)]
    items: Captured,
}

/// Whether it was there before, its key, and the row as it is now.
type CapturedRow = (i64, Option<Values>, Option<Values>);

#[derive(Deserialize)]
struct CapturedEffect {
    table: Option<String>,
    columns: Option<Vec<String>>,
    keys: Option<Vec<String>>,
    fixed: Option<Vec<String>>,
    #[serde(default)]
    emptied: Emptied,
    rows: Option<Vec<CapturedRow>>,
    statement: Option<String>,
    /// The statement is plain.
    #[serde(default)]
    plain: bool,
    role: Option<String>,
    path: Option<String>,
}

impl CapturedEffect {
    fn effect(self) -> Option<Effect> {
        if let Some(statement) = self.statement {
            if self.plain {
                return Some(Effect::Plain { statement });
            }
            let (role, path) = (self.role.unwrap_or_default(), self.path.unwrap_or_default());
            return Some(Effect::Statement { statement, role, path });
        }
        let rows = self.rows.unwrap_or_default().into_iter();
        let rows: Vec<_> = rows.map(|(before, key, row)| RowChange { before, key, row }).collect();
        if rows.is_empty() && self.emptied == Emptied::No {
            return None;
        }
        Some(Effect::Rows(Rows {
            table: self.table?,
            columns: self.columns.unwrap_or_default(),
            keys: self.keys.unwrap_or_default(),
            fixed: self.fixed.unwrap_or_default(),
            emptied: self.emptied,
            rows,
        }))
    }
}

impl Record {
    /// Reads the answer of the capture.
    ///
    /// # Errors
    /// It is not what the capture answers.
    pub(crate) fn captured(text: &str) -> Result<Record, serde_json::Error> {
        let answer: Answer = serde_json::from_str(text)?;
        let effects = answer.effects.into_iter().filter_map(CapturedEffect::effect).collect();
        Ok(Record::new(effects, answer.items))
    }

    /// The record of these effects with this footprint.
    pub(crate) fn new(effects: Vec<Effect>, captured: Captured) -> Record {
        let of = |ids: Option<Vec<i64>>, mode: Mode| {
            ids.unwrap_or_default().into_iter().map(move |id| Item::new(id.cast_unsigned(), mode))
        };
        let database = captured.database.cast_unsigned();
        let mut items: Vec<Item> = of(captured.writes, Mode::Write).collect();
        items.extend(of(captured.shares, Mode::Share));
        items.extend(of(captured.intents, Mode::Intent));
        if items.len() > MOST_ITEMS {
            items = vec![Item::new(database, Mode::Write)];
        } else {
            items.push(Item::new(database, Mode::Intent));
        }
        Record { items: items.into_iter().map(packed).collect(), effects }
    }
}

impl WriteSet for Record {
    fn items(&self) -> Vec<Item> {
        self.items.iter().map(|&(id, mode)| Item::new(id, unpacked(mode))).collect()
    }

    fn changes_the_catalog(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Statement { .. }))
    }

    fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    fn bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data")
    }

    fn of_bytes(bytes: &[u8]) -> Result<Record, String> {
        postcard::from_bytes(bytes).map_err(|error| error.to_string())
    }
}

fn packed(item: Item) -> (u64, u8) {
    let mode = match item.mode {
        Mode::Intent => 0,
        Mode::Share => 1,
        Mode::Write => 2,
    };
    (item.id, mode)
}

fn unpacked(mode: u8) -> Mode {
    match mode {
        0 => Mode::Intent,
        1 => Mode::Share,
        _ => Mode::Write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_of_each_kind_survives_the_ledger() {
        let text = r#"{"effects":[{"table":"public.p","columns":["id"],"keys":["id"],"fixed":[],
            "rows":[[1,["1"],["1"]],[1,["2"],null]]},{},{"statement":"CREATE TABLE x()","role":"ann","path":"a"}],
            "writes":[-1],"shares":null,"intents":[7],"database":9}"#;
        let record = Record::captured(text).unwrap();
        assert_eq!(record.effects.len(), 2);
        let items = [(u64::MAX, Mode::Write), (7, Mode::Intent), (9, Mode::Intent)];
        assert_eq!(record.items(), items.map(|(id, mode)| Item::new(id, mode)));
        assert_eq!(Record::of_bytes(&record.bytes()).unwrap(), record);
    }
}
