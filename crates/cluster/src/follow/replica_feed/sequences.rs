//! Sequences of a replica: set to the positions that were last read from the primary. They are sent after
//! every commit that preceded the reading, or else DDL that draws numbers would draw others there. They are
//! not sent after DDL that may be later than the reading.

use super::{Feeding, Line, Stop};
use crate::{Asked, Place};
use replica_apply::sequences::moved;
use std::rc::Rc;

/// Sequence positions that were sent to a replica.
pub(crate) struct Told {
    /// Reading that was examined last.
    seen: Option<Rc<Asked>>,
    /// Reading that the replica's sequences match. `None` if that is unknown.
    there: Option<Rc<Asked>>,
    /// Position below which all changes lie that were sent and move the sequences.
    moved: Place,
}

impl Told {
    /// Returns the state in which nothing was sent. An earlier reading may be older than the replica's copy.
    pub(super) fn nothing(seen: Option<Rc<Asked>>) -> Told {
        Told { seen, there: None, moved: Place::default() }
    }

    /// Notes that changes below this position move the sequences: after them all sequences are sent again.
    pub(super) fn forget(&mut self, below: Place) {
        self.there = None;
        self.moved = below;
    }

    /// Returns the reading if it is new and may be sent to a replica that has received everything below
    /// `given`. `None` for `given`: the replica is not fed.
    fn news(&mut self, asked: Option<Rc<Asked>>, given: Option<Place>) -> Option<Rc<Asked>> {
        let asked = asked?;
        let is_old = self.seen.as_ref().is_some_and(|seen| Rc::ptr_eq(seen, &asked));
        if is_old || given < Some(asked.to) {
            return None;
        }
        self.seen = Some(asked.clone());
        // The reading may lack a later move: the next one has it.
        (self.moved <= asked.from).then_some(asked)
    }
}

impl Line<'_> {
    /// Sends the sequences that have moved, if the primary was read since.
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
        // Refused sequences are sent again, with all others.
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
