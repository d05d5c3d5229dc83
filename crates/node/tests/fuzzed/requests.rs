//! Any bytes as what a client asks once it is in: where a request ends, and whether a batch is one statement.

use backend::batch;
use backend::request::{Kind, Lookout};
use wire::{Side, Splitter, Step};

/// The first byte says how long frames are held, the second how large the pieces are in which all comes.
pub(crate) fn check(bytes: &[u8]) {
    let [hold, piece, stream @ ..] = bytes else { return };
    let mut splitter = Splitter::new(Side::Client, 5 + usize::from(*hold) * 8);
    let mut lookout = Lookout::default();
    let (mut at, mut shown) = (0, 0);
    while shown < stream.len() {
        shown = stream.len().min(shown + 1 + usize::from(*piece));
        loop {
            let Ok(found) = lookout.look(&stream[at..shown], splitter) else { return };
            let Some(request) = found else { break };
            let asked = &stream[at..at + request.bytes];
            if request.kind == Kind::Batch {
                let Ok(_) = batch::read(asked, splitter) else { return };
            }
            let taken = take(&mut splitter, asked);
            if taken == 0 {
                // The rest goes on to a server as it comes.
                break;
            }
            at += taken;
        }
    }
}

/// Takes a request's frames from the stream, as far as they are there.
fn take(splitter: &mut Splitter, asked: &[u8]) -> usize {
    let mut taken = 0;
    while let Ok(step @ (Step::Whole(_) | Step::Part(_))) = splitter.next(&asked[taken..]) {
        taken += step.len();
        if taken == asked.len() {
            break;
        }
    }
    taken
}
