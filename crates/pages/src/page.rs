//! A page's bytes, and the fields of SQLite's header in page 1 that this crate reads or replaces.

/// Bytes of a page.
pub const PAGE_SIZE: usize = 4096;

/// Content of one page. The change counters of page 1 are zero: each connection reads its own there.
pub type Page = [u8; PAGE_SIZE];

/// A page without content: pages that were never written, and pages above the database's size.
pub(crate) static ZERO: Page = [0; PAGE_SIZE];

/// Places in page 1 of the change counter and of its copy, "version-valid-for" (SQLite, "Database File Format", 1.3).
pub(crate) const COUNTERS: [usize; 2] = [24, 92];

/// Size of the database in pages, as its page 1 tells.
pub(crate) fn size_in_pages(first: &Page) -> u32 {
    u32::from_be_bytes([first[28], first[29], first[30], first[31]])
}
