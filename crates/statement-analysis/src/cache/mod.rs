//! Cached facts about statements, by their shape. The cache is bounded in bytes. A look-up allocates nothing
//! and compares whole keys, so two statements are never taken for each other. An analysis is announced before
//! it starts, so that one miss is analysed once. An analysis that began before an invalidation is discarded
//! when it ends.

mod bounded_table;
mod settings_id;
#[cfg(test)]
mod tests;

use crate::shape::{self, Shape};
use history::DatabaseId;

pub use bounded_table::{BoundedTable, Place};
pub use settings_id::SettingsId;

/// Key of a look-up.
#[derive(Clone, Copy, Debug)]
pub struct CacheKey<'a> {
    /// Its shape.
    pub shape: &'a Shape,
    /// Its text, for those whose literals mean something.
    pub text: &'a str,
    /// The parameter types that the client declared in its Parse message; empty for a simple query.
    pub types: &'a [u32],
    /// The settings that the analysis depends on: `Settings::analysis_id`.
    pub settings: SettingsId,
    /// Its database.
    pub database: DatabaseId,
    /// The version of the catalog.
    pub catalog: u64,
}

/// Result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a, T> {
    /// This.
    Ready(&'a T),
    /// Another task is analysing it.
    Pending,
    /// Nothing.
    Absent,
}

/// The right to say what an analysis found.
#[derive(Debug)]
#[must_use = "a statement whose ticket is lost stays pending"]
pub struct Ticket {
    place: Place,
    /// The key of the exact text, should its literals mean something.
    text: Option<(u64, Box<[u8]>)>,
}

/// Result of an analysis.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<T> {
    /// This is known of every statement of the shape.
    Ready {
        /// Cached value.
        value: T,
        /// Cost in bytes.
        bytes: usize,
    },
    /// This is known of the text, for its literals mean something: other texts of the shape are analysed by themselves.
    Exact {
        /// Cached value.
        value: T,
        /// Cost in bytes.
        bytes: usize,
    },
    /// Nothing is known. Errors are never kept.
    Failed,
}

/// Counters and current size of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Look-ups that found something.
    pub hits: u64,
    /// Look-ups that found nothing, or nothing yet.
    pub misses: u64,
    /// Entries thrown away for want of room.
    pub evictions: u64,
    /// Bytes in use, never above the bound.
    pub bytes: usize,
    /// Entries.
    pub entries: usize,
}

#[derive(Debug)]
enum State<T> {
    Pending,
    Ready(T),
    /// The literals of this shape mean something: look under the text.
    Exact,
}

/// Cached facts about statements. See the module.
#[derive(Debug)]
pub struct Cache<T> {
    table: BoundedTable<State<T>>,
    hits: u64,
    misses: u64,
}

impl<T> Cache<T> {
    /// An empty cache that never holds more than `max_bytes`, keys and all.
    pub fn new(max_bytes: usize) -> Cache<T> {
        Cache { table: BoundedTable::new(max_bytes), hits: 0, misses: 0 }
    }

    /// Looks up a statement.
    pub fn get(&mut self, key: &CacheKey<'_>) -> Found<'_, T> {
        let place = match self.place(key) {
            Ok(place) => place,
            Err(_) => {
                self.misses += 1;
                return Found::Absent;
            }
        };
        // A borrow that is returned on one path only would last to the end: the counters are moved first.
        let ready = matches!(self.table.ask(place), Some(State::Ready(_)));
        *(if ready { &mut self.hits } else { &mut self.misses }) += 1;
        match self.table.ask(place) {
            Some(State::Ready(value)) => Found::Ready(value),
            Some(State::Pending) => Found::Pending,
            Some(State::Exact) | None => Found::Absent,
        }
    }

    /// Announces the analysis of a statement that is absent. Returns `None` if the statement is there, is
    /// already being analysed, or has no shape.
    pub fn begin(&mut self, key: &CacheKey<'_>) -> Option<Ticket> {
        let body = self.place(key).err().flatten()?;
        let wanted = Wanted::of(key, body);
        let text = Wanted::of(key, Body::Text);
        let place = self.table.insert(wanted.hash(), wanted.bytes(), State::Pending, 0)?;
        Some(Ticket { place, text: (body == Body::Shape).then(|| (text.hash(), text.bytes())) })
    }

    /// Ends an analysis. A ticket from before an invalidation of its statement changes nothing.
    pub fn finish(&mut self, ticket: Ticket, outcome: Outcome<T>) {
        match (outcome, ticket.text) {
            (Outcome::Failed, _) => self.table.remove(ticket.place),
            (Outcome::Exact { value, bytes }, Some((hash, text))) => {
                if self.table.replace(ticket.place, State::Exact, 0)
                    && self.table.find(hash, |key| key == &*text).is_none()
                {
                    self.table.insert(hash, text, State::Ready(value), bytes);
                }
            }
            (Outcome::Ready { value, bytes } | Outcome::Exact { value, bytes }, _) => {
                self.table.replace(ticket.place, State::Ready(value), bytes);
            }
        }
    }

    /// Forgets all that is known, and all that is being analysed, of a database's statements.
    pub fn forget_database(&mut self, database: DatabaseId) {
        self.table.retain(|key, _| !of_database(key, database));
    }

    /// Forgets what `concerned` says of a database's statements, and all that is being analysed.
    pub fn forget(&mut self, database: DatabaseId, concerned: impl Fn(&T) -> bool) {
        self.table.retain(|key, state| {
            !of_database(key, database)
                || match state {
                    State::Ready(value) => !concerned(value),
                    State::Pending => false,
                    // The catalog decides whether literals mean something, and may change.
                    State::Exact => false,
                }
        });
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.table.retain(|_, _| false);
    }

    /// Counters and current size of the cache.
    pub fn counters(&self) -> Counters {
        Counters {
            hits: self.hits,
            misses: self.misses,
            evictions: self.table.evictions(),
            bytes: self.table.bytes(),
            entries: self.table.len(),
        }
    }

    /// Place of a statement's entry. Without an entry, the error has the body under which it would stand.
    fn place(&self, key: &CacheKey<'_>) -> Result<Place, Option<Body>> {
        if key.shape.sure().is_err() || key.shape.key().is_empty() {
            return Err(None);
        }
        let find = |body| {
            let wanted = Wanted::of(key, body);
            self.table.find(wanted.hash(), |stored| wanted.is(stored))
        };
        let place = find(Body::Shape).ok_or(Some(Body::Shape))?;
        match self.table.look(place) {
            Some(State::Exact) => find(Body::Text).ok_or(Some(Body::Text)),
            _ => Ok(place),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Shape,
    Text,
}

/// The bytes before the types and the body: database, settings, catalog, which body, how many types.
const HEAD: usize = 4 + 8 + 8 + 1 + 4;

/// A key in pieces, as it is compared; joined, as it is kept.
struct Wanted<'a> {
    head: [u8; HEAD],
    types: &'a [u32],
    body: &'a [u8],
    body_hash: u64,
}

impl<'a> Wanted<'a> {
    fn of(key: &CacheKey<'a>, which: Body) -> Wanted<'a> {
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&key.database.get().to_le_bytes());
        head[4..12].copy_from_slice(&key.settings.get().to_le_bytes());
        head[12..20].copy_from_slice(&key.catalog.to_le_bytes());
        head[20] = u8::from(which == Body::Text);
        head[21..].copy_from_slice(&(key.types.len() as u32).to_le_bytes());
        let (body, body_hash) = match which {
            Body::Shape => (key.shape.key(), key.shape.hash()),
            Body::Text => (key.text.as_bytes(), shape::hash(key.text.as_bytes())),
        };
        Wanted { head, types: key.types, body, body_hash }
    }

    fn hash(&self) -> u64 {
        let types = self.types.iter().fold(0u64, |hash, &oid| hash.rotate_left(9) ^ u64::from(oid));
        self.body_hash ^ shape::hash(&self.head) ^ types.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn is(&self, stored: &[u8]) -> bool {
        let (head, rest) = stored.split_at(HEAD);
        // The heads agree on how many types there are.
        head == self.head && {
            let (types, body) = rest.split_at(self.types.len() * 4);
            body == self.body && types.chunks_exact(4).zip(self.types).all(|(a, b)| a == b.to_le_bytes())
        }
    }

    fn bytes(&self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(HEAD + self.types.len() * 4 + self.body.len());
        bytes.extend_from_slice(&self.head);
        self.types.iter().for_each(|oid| bytes.extend_from_slice(&oid.to_le_bytes()));
        bytes.extend_from_slice(self.body);
        bytes.into_boxed_slice()
    }
}

fn of_database(key: &[u8], database: DatabaseId) -> bool {
    key[..4] == database.get().to_le_bytes()
}
