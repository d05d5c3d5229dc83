//! A write set, as far as the order knows it.

use certifier::Item;

/// Effects of a transaction, with the items that they claim.
pub trait WriteSet: Sized {
    /// The items that it claims.
    fn items(&self) -> Vec<Item>;

    /// True if other nodes have nothing to do for it: it claims items alone.
    fn is_empty(&self) -> bool;

    /// Whether a command that changes the catalog is among its effects.
    fn changes_the_catalog(&self) -> bool {
        false
    }

    /// The bytes that the ledger keeps.
    fn bytes(&self) -> Vec<u8>;

    /// The write set of these bytes.
    ///
    /// # Errors
    /// The bytes are those of no write set: a sentence for a person.
    fn of_bytes(bytes: &[u8]) -> Result<Self, String>;
}
