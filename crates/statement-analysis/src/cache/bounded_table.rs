//! A table of values by byte strings, bounded in bytes. A full table evicts the entry that was not asked for
//! since the hand last passed (second chance, as in a CLOCK page cache): a look-up costs one flag, not a
//! list.

/// Cost of one entry besides its key and its value, in bytes: the entry itself, its place in a chain, the
/// allocator.
const fn overhead<V>() -> usize {
    size_of::<Option<Entry<V>>>() + size_of::<u32>() * 2 + 32
}

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Entry<V> {
    hash: u64,
    key: Box<[u8]>,
    value: V,
    bytes: usize,
    next: u32,
    generation: u32,
    asked: bool,
}

/// A place in the table. Names its entry only as long as the entry is there: a reused place has another
/// generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    at: u32,
    generation: u32,
}

/// Values by byte strings, bounded in bytes.
///
/// Invariants: `bytes` is the sum over the entries and never above `max_bytes`; every entry is in the chain of its hash.
#[derive(Debug)]
pub struct BoundedTable<V> {
    entries: Vec<Option<Entry<V>>>,
    free: Vec<u32>,
    chains: Vec<u32>,
    len: usize,
    bytes: usize,
    max_bytes: usize,
    hand: usize,
    generation: u32,
    evictions: u64,
}

impl<V> BoundedTable<V> {
    /// An empty table. `max_bytes` bounds its entries with their overhead.
    pub fn new(max_bytes: usize) -> BoundedTable<V> {
        BoundedTable {
            entries: Vec::new(),
            free: Vec::new(),
            chains: vec![NONE; 16],
            len: 0,
            bytes: 0,
            max_bytes,
            hand: 0,
            generation: 0,
            evictions: 0,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes in use, overhead included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of entries evicted for room.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    fn chain(&self, hash: u64) -> usize {
        (hash >> 32 ^ hash) as usize & (self.chains.len() - 1)
    }

    /// The entry with this hash whose key `is` the one.
    pub fn find(&self, hash: u64, is: impl Fn(&[u8]) -> bool) -> Option<Place> {
        let mut at = self.chains[self.chain(hash)];
        while at != NONE {
            let entry = self.entries[at as usize].as_ref().expect("an entry in a chain is there");
            if entry.hash == hash && is(&entry.key) {
                return Some(Place { at, generation: entry.generation });
            }
            at = entry.next;
        }
        None
    }

    /// The value at a place.
    pub fn look(&self, place: Place) -> Option<&V> {
        let entry = self.entries.get(place.at as usize)?.as_ref()?;
        (entry.generation == place.generation).then_some(&entry.value)
    }

    /// The value at a place, which is kept longer for having been asked for.
    pub fn ask(&mut self, place: Place) -> Option<&V> {
        let entry = self.entries.get_mut(place.at as usize)?.as_mut()?;
        (entry.generation == place.generation).then(|| {
            entry.asked = true;
            &entry.value
        })
    }

    /// Puts in an entry that is not there. `None` if it is too large for the table.
    pub fn insert(&mut self, hash: u64, key: Box<[u8]>, value: V, bytes: usize) -> Option<Place> {
        let bytes = bytes + key.len() + overhead::<V>();
        if !self.make_room(bytes) {
            return None;
        }
        if self.len >= self.chains.len() {
            self.grow();
        }
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let chain = self.chain(hash);
        let entry = Entry { hash, key, value, bytes, next: self.chains[chain], generation, asked: false };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = Some(entry);
                at
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as u32
            }
        };
        self.chains[chain] = at;
        self.len += 1;
        self.bytes += bytes;
        Some(Place { at, generation })
    }

    /// Gives the entry at a place another value, with `bytes` of its own. The entry is evicted if it became
    /// too large. Returns true if the place still belonged to the entry.
    pub fn replace(&mut self, place: Place, value: V, bytes: usize) -> bool {
        let Some(entry) = self.entries.get_mut(place.at as usize).and_then(Option::as_mut) else {
            return false;
        };
        if entry.generation != place.generation {
            return false;
        }
        let after = bytes + entry.key.len() + overhead::<V>();
        let more = after.saturating_sub(entry.bytes);
        self.bytes = self.bytes - entry.bytes + after.min(entry.bytes);
        entry.bytes = after.min(entry.bytes);
        entry.value = value;
        if after > self.max_bytes / 8 {
            self.remove(place);
            return true;
        }
        if more > 0 && self.make_room(more) {
            // The hand may have taken the entry itself.
            if let Some(entry) =
                self.entries[place.at as usize].as_mut().filter(|e| e.generation == place.generation)
            {
                entry.bytes = after;
                self.bytes += more;
            }
        }
        true
    }

    /// Takes out the entry at a place, if the place is still its.
    pub fn remove(&mut self, place: Place) {
        let there = self.entries.get(place.at as usize).and_then(Option::as_ref);
        if there.is_some_and(|entry| entry.generation == place.generation) {
            self.take_out(place.at);
        }
    }

    /// Keeps only what `keep` says.
    pub fn retain(&mut self, keep: impl Fn(&[u8], &V) -> bool) {
        for at in 0..self.entries.len() as u32 {
            if self.entries[at as usize].as_ref().is_some_and(|entry| !keep(&entry.key, &entry.value)) {
                self.take_out(at);
            }
        }
    }

    fn take_out(&mut self, at: u32) {
        let entry = self.entries[at as usize].take().expect("only what is there is taken out");
        let chain = self.chain(entry.hash);
        if self.chains[chain] == at {
            self.chains[chain] = entry.next;
        } else {
            let mut before = self.chains[chain];
            loop {
                let link = self.entries[before as usize].as_mut().expect("an entry in a chain is there");
                if link.next == at {
                    link.next = entry.next;
                    break;
                }
                before = link.next;
            }
        }
        self.free.push(at);
        self.len -= 1;
        self.bytes -= entry.bytes;
    }

    /// Evicts until `bytes` more fit. `false` if that is too much for one entry.
    fn make_room(&mut self, bytes: usize) -> bool {
        if bytes > self.max_bytes / 8 {
            return false;
        }
        while self.bytes + bytes > self.max_bytes {
            self.hand = if self.hand + 1 < self.entries.len() { self.hand + 1 } else { 0 };
            match &mut self.entries[self.hand] {
                Some(entry) if entry.asked => entry.asked = false,
                Some(_) => {
                    self.take_out(self.hand as u32);
                    self.evictions += 1;
                }
                None => {}
            }
        }
        true
    }

    fn grow(&mut self) {
        self.chains = vec![NONE; self.chains.len() * 2];
        for at in 0..self.entries.len() {
            let Some(hash) = self.entries[at].as_ref().map(|entry| entry.hash) else { continue };
            let chain = self.chain(hash);
            self.entries[at].as_mut().expect("the entry was found above").next = self.chains[chain];
            self.chains[chain] = at as u32;
        }
    }
}
