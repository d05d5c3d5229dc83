//! A database of a few lists, one in each page: what the writer of a master makes of it, and what a reader finds.

use pages::{PAGE_SIZE, Page, Store, View, WriteSet};
use std::collections::BTreeMap;

/// Lists of the database. List `n` is in page `n + 2`; page 1 tells the size.
pub(crate) const LISTS: u32 = 3;
/// Items of all lists.
pub(crate) type Lists = Vec<Vec<u32>>;

const ZERO: Page = [0; PAGE_SIZE];
/// Bytes of a list's length and of an item.
const ITEM: usize = 4;

/// The writer: the newest version that it has made, page by page.
pub(crate) struct Writer {
    pages: BTreeMap<u32, Page>,
    pub(crate) version: u64,
}

impl Writer {
    /// The writer of a master that has become it.
    pub(crate) fn open(store: &Store) -> Writer {
        let version = store.received();
        let images = store.images(0, version).expect("the newest version is held");
        let pages =
            images.map(|image| image.expect("no reader is evicted")).map(|(number, _, page)| (number, *page));
        Writer { pages: pages.collect(), version }
    }

    /// Makes an empty database.
    pub(crate) fn found(&mut self) -> WriteSet {
        let mut first = ZERO;
        first[28..32].copy_from_slice(&(LISTS + 1).to_be_bytes());
        self.make(&[(1, first)])
    }

    /// Items of all lists.
    pub(crate) fn lists(&self) -> Lists {
        (0..LISTS).map(|list| items(self.pages.get(&(list + 2)).unwrap_or(&ZERO))).collect()
    }

    /// Appends an item to a list, and to the first list as well if it is another one and `both`.
    pub(crate) fn append(&mut self, list: u32, item: u32, both: bool) -> WriteSet {
        let mut changed = Vec::new();
        for list in (0..LISTS).filter(|one| *one == list || both && *one == 0) {
            let mut page = *self.pages.get(&(list + 2)).unwrap_or(&ZERO);
            let length = items(&page).len();
            let at = (length + 1) * ITEM;
            page[at..at + ITEM].copy_from_slice(&item.to_be_bytes());
            page[..ITEM].copy_from_slice(&u32::try_from(length + 1).expect("few items").to_be_bytes());
            changed.push((list + 2, page));
        }
        self.make(&changed)
    }

    fn make(&mut self, changed: &[(u32, Page)]) -> WriteSet {
        self.version += 1;
        let before = |number: &u32| self.pages.get(number).unwrap_or(&ZERO);
        let diffs = changed.iter().map(|(number, page)| (*number, before(number), page));
        let set = WriteSet::between(self.version, LISTS + 1, diffs);
        self.pages.extend(changed.iter().copied());
        set
    }
}

/// Items of the list in a page.
fn items(page: &Page) -> Vec<u32> {
    let word = |at: usize| u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    let length = usize::try_from(word(0)).expect("few items").min(PAGE_SIZE / ITEM - 1);
    (1..=length).map(|place| word(place * ITEM)).collect()
}

/// The list of a view; `None`: its snapshot was ended.
pub(crate) fn list(view: &View, list: u32) -> Option<Vec<u32>> {
    let page = view.page(list + 2).ok()?;
    Some(page.map_or_else(Vec::new, |page| items(&page)))
}
