//! Any bytes as a stream of either side, in pieces of any size, and each frame of it as every message that is read here.

use wire::{
    Bind, Close, CommandTag, Complaint, Describe, Execute, Frame, HEADER_BYTES, Parse, Side, Splitter, Step,
};

/// The first byte says whose stream it is and how long frames are held, the second how large the pieces are.
pub(crate) fn check(bytes: &[u8]) {
    let [how, piece, stream @ ..] = bytes else { return };
    let side = if how & 1 == 0 { Side::Client } else { Side::Server };
    let hold = HEADER_BYTES + usize::from(how >> 1) * 4;
    let mut splitter = Splitter::new(side, hold);
    let (mut at, mut shown, mut begun) = (0, 0, 0);
    while shown < stream.len() {
        shown = stream.len().min(shown + 1 + usize::from(*piece));
        loop {
            let Ok(step) = splitter.next(&stream[at..shown]) else { return };
            match step {
                Step::Whole(frame) => {
                    assert!(begun == 0);
                    assert_eq!(frame.bytes(), &stream[at..at + frame.bytes().len()]);
                    read(&frame);
                }
                Step::Part(part) => {
                    assert_eq!(part.first, begun == 0);
                    assert_eq!(part.last, !splitter.is_inside());
                    begun = if part.last { 0 } else { begun + part.bytes.len() };
                }
                Step::More(wanted) => {
                    assert!(wanted > shown - at, "more than is there");
                    break;
                }
            }
            assert!(!step.is_empty());
            at += step.len();
        }
    }
}

/// Reads a frame as each message; every part that was read fits into the frame.
fn read(frame: &Frame<'_>) {
    assert_eq!(Frame::new(frame.bytes()), Ok(*frame));
    let body = frame.body().len();
    if let Ok(text) = wire::query_text(frame) {
        assert_eq!(text.len() + 1, body);
    }
    if let Ok(parse) = Parse::read(frame) {
        assert_eq!(parse.name.len() + parse.text.len() + 4 + 4 * parse.types().count(), body);
    }
    if let Ok(bind) = Bind::read(frame) {
        let values: usize = bind.parameters().map(|(_, value)| value.map_or(0, <[u8]>::len)).sum();
        assert!(values <= body);
        let _ = (bind.formats_fit(), bind.wants_binary());
    }
    let _ = (Describe::read(frame), Close::read(frame), Execute::read(frame));
    let _ = (wire::status(frame), CommandTag::read(frame).map(CommandTag::rows), wire::key_data(frame));
    let _ = (wire::parameter_status(frame), wire::row_texts(frame));
    if let Ok(demand) = wire::authentication(frame) {
        let _ = demand.offers(wire::MECHANISM);
    }
    let complaint = Complaint::read(frame);
    let _ = (complaint.sqlstate(), complaint.message(), complaint.is_fatal(), complaint.field(b'D'));
    // A message in the same numbers is the same, and a refused one leaves the text before it.
    let mut out = b"before".to_vec();
    if wire::row_description_in(frame, &mut out, |_, numbers| Some(numbers)) == Ok(Some(())) {
        assert_eq!(&out[6..], frame.bytes());
    }
    out.truncate(6);
    if wire::parameter_description_in(frame, &mut out, |_, oid| Some(oid)) == Ok(Some(())) {
        assert_eq!(&out[6..], frame.bytes());
    }
    out.truncate(6);
    let _ = wire::row_description_in(frame, &mut out, |place, numbers| (place == 0).then_some(numbers));
    let _ = wire::parameter_description_in(frame, &mut out, |place, oid| (place == 0).then_some(oid));
    assert!(out.starts_with(b"before"));
}
