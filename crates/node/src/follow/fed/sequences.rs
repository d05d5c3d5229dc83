//! Where a replica's sequences stand: where the primary's stood when they were asked last. That was behind all that the replica
//! had been given until then.

use super::{Line, Stop};
use postgres::sequences::{Sequences, moved};
use std::rc::Rc;

/// What a replica has been told of them.
pub(super) struct Told {
    /// What had been read when that was looked at last.
    seen: Option<Rc<Sequences>>,
    /// Where they stand there; nothing if that is not known.
    there: Option<Rc<Sequences>>,
}

impl Told {
    /// Nothing yet. What was read before may be older than what the replica has of a copy.
    pub(super) fn nothing(seen: Option<Rc<Sequences>>) -> Told {
        Told { seen, there: None }
    }

    /// Something that the replica is given moves them: behind that they are told anew, all of them.
    pub(super) fn forget(&mut self) {
        self.there = None;
    }

    /// What was read, if that is new.
    fn news(&mut self, read: Option<Rc<Sequences>>) -> Option<Rc<Sequences>> {
        let read = read?;
        let is_old = self.seen.as_ref().is_some_and(|seen| Rc::ptr_eq(seen, &read));
        self.seen = Some(read.clone());
        (!is_old).then_some(read)
    }
}

impl Line<'_> {
    /// Tells the replica what has moved, if the primary was asked since.
    pub(super) async fn tell_sequences(&mut self) -> Result<(), Stop> {
        let Some(read) = self.told.news(self.by.database.sequences()) else { return Ok(()) };
        let moved = moved(self.told.there.as_deref(), &read);
        let mut refused = 0;
        if !moved.is_empty() {
            self.finish().await?;
            refused = self.feeder.set_sequences(&moved).await?;
        }
        // What was refused is told again, with all others.
        self.told.there = (refused == 0).then_some(read);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_and_what_was_seen_is_no_news() {
        let [before, first, next] = [(); 3].map(|()| Rc::new(Sequences::new()));
        let mut told = Told::nothing(Some(before.clone()));
        assert!(told.news(None).is_none());
        assert!(told.news(Some(before)).is_none());
        assert!(told.news(Some(first.clone())).is_some());
        assert!(told.news(Some(first)).is_none());
        assert!(told.news(Some(next)).is_some());
        assert!(Told::nothing(None).news(Some(Rc::default())).is_some());
    }
}
