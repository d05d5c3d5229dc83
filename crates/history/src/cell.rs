//! One column of a row that changed, as the stream sends it, and what two changes of the row one after the other come to.

/// One column of a row. `V` is a value that is not NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell<V> {
    /// As it was before; its value was not sent. The stream sends no large value (TOAST) that did not change.
    Unchanged,
    /// As it was before, and this is its value.
    Same(Option<V>),
    /// Its value from now on.
    New(Option<V>),
}

impl<V> Cell<V> {
    /// Its value: `None` if it is not known.
    pub fn value(&self) -> Option<Option<&V>> {
        match self {
            Cell::Unchanged => None,
            Cell::Same(value) | Cell::New(value) => Some(value.as_ref()),
        }
    }

    /// This one, after `earlier`: a value that was not sent is the one that the earlier change made.
    #[must_use]
    pub fn after(self, earlier: Cell<V>) -> Cell<V> {
        match (earlier, self) {
            (earlier, Cell::Unchanged) => earlier,
            (Cell::New(_), Cell::Same(value)) => Cell::New(value),
            (_, later) => later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cell::{New, Same, Unchanged};
    use super::*;

    #[test]
    fn what_was_not_sent_is_what_it_was_made_before() {
        let after = |earlier: Cell<u8>, later: Cell<u8>| later.after(earlier);
        assert_eq!(after(New(Some(1)), Unchanged), New(Some(1)));
        assert_eq!(after(Same(Some(1)), Unchanged), Same(Some(1)));
        assert_eq!(after(Unchanged, Unchanged), Unchanged);
        assert_eq!(after(New(Some(1)), New(None)), New(None));
        assert_eq!(after(Unchanged, New(Some(2))), New(Some(2)));
        // The value is the same as just now; the replica has the value from before both.
        assert_eq!(after(New(Some(1)), Same(Some(1))), New(Some(1)));
        assert_eq!((New(Some(1)).value(), Same::<u8>(None).value()), (Some(Some(&1)), Some(None)));
        assert_eq!(Unchanged::<u8>.value(), None);
    }
}
