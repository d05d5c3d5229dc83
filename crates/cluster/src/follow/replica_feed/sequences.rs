//! Where a replica's sequences stand: where the primary's stood when they were asked last. That is told behind all that had
//! committed by then, or else DDL that draws numbers would draw others there; and not behind DDL that may have come later.

use super::{Feeding, Line, Stop};
use crate::{Asked, Place};
use replica_apply::sequences::moved;
use std::rc::Rc;

/// What a replica has been told of them.
pub(crate) struct Told {
    /// What had been read when that was looked at last.
    seen: Option<Rc<Asked>>,
    /// Where they stand there; nothing if that is not known.
    there: Option<Rc<Asked>>,
    /// All that it was given and that moves them lies below.
    moved: Place,
}

impl Told {
    /// Nothing yet. What was read before may be older than what the replica has of a copy.
    pub(super) fn nothing(seen: Option<Rc<Asked>>) -> Told {
        Told { seen, there: None, moved: Place::default() }
    }

    /// Something that the replica is given, below this place, moves them: behind that they are told anew, all of them.
    pub(super) fn forget(&mut self, below: Place) {
        self.there = None;
        self.moved = below;
    }

    /// What was read, if that is new and may be told to a replica that was given all below a place, if it is fed.
    fn news(&mut self, asked: Option<Rc<Asked>>, given: Option<Place>) -> Option<Rc<Asked>> {
        let asked = asked?;
        let is_old = self.seen.as_ref().is_some_and(|seen| Rc::ptr_eq(seen, &asked));
        if is_old || given < Some(asked.to) {
            return None;
        }
        self.seen = Some(asked.clone());
        // What moves them there may be missing in the answer: the next one has it.
        (self.moved <= asked.from).then_some(asked)
    }
}

impl Line<'_> {
    /// Tells the replica what has moved, if the primary was asked since.
    pub(super) async fn tell_sequences(&mut self) -> Result<(), Stop> {
        let Feeding { cluster, id, of, .. } = *self.by;
        let given = cluster.feeds().given(of, id);
        let Some(asked) = self.told.news(self.by.database.sequences(), given) else { return Ok(()) };
        let moved = moved(self.told.there.as_deref().map(|there| &there.standing), &asked.standing);
        let mut refused = 0;
        if !moved.is_empty() {
            self.finish().await?;
            refused = self.feeder.set_sequences(&moved).await?;
        }
        // What was refused is told again, with all others.
        self.told.there = (refused == 0).then_some(asked);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replica_apply::sequences::Sequences;

    fn place(number: usize) -> Place {
        Place::default().behind(number)
    }

    fn asked(from: usize, to: usize) -> Rc<Asked> {
        Rc::new(Asked { standing: Sequences::new(), from: place(from), to: place(to) })
    }

    #[test]
    fn what_was_read_before_and_what_was_seen_is_no_news() {
        let [before, first, next] = [(); 3].map(|()| asked(0, 0));
        let given = Some(place(0));
        let mut told = Told::nothing(Some(before.clone()));
        assert!(told.news(None, given).is_none());
        assert!(told.news(Some(before), given).is_none());
        assert!(told.news(Some(first.clone()), given).is_some());
        assert!(told.news(Some(first), given).is_none());
        assert!(told.news(Some(next), given).is_some());
        assert!(Told::nothing(None).news(Some(asked(0, 0)), given).is_some());
    }

    #[test]
    fn an_answer_is_told_behind_what_it_may_show_and_not_behind_what_it_may_lack() {
        let mut told = Told::nothing(None);
        let first = asked(2, 3);
        assert!(told.news(Some(first.clone()), None).is_none());
        assert!(told.news(Some(first.clone()), Some(place(2))).is_none(), "it may show what is given next");
        told.forget(place(2));
        assert!(told.news(Some(first), Some(place(3))).is_some());
        told.forget(place(4));
        assert!(told.news(Some(asked(3, 5)), Some(place(5))).is_none(), "it may lack what was given");
        assert!(told.news(Some(asked(4, 5)), Some(place(5))).is_some());
    }
}
