//! A server's description of a prepared statement: the types of its parameters, and its columns.

use wire::tag::back;
use wire::{Answers, Malformed, Problem, Side, Splitter, Step};

/// A server's description of a prepared statement.
#[derive(Debug, PartialEq, Eq)]
pub struct Described {
    /// The types of its parameters, as they stand in a Parse message.
    pub parameters: Box<[u8]>,
    /// Its columns; `None` if it returns no rows.
    columns: Option<Box<[u8]>>,
}

impl Described {
    /// Reads the description from a server's messages: the answers to a Describe of a statement, maybe with
    /// others.
    pub fn read(bytes: &[u8]) -> Result<Described, Malformed> {
        let mut splitter = Splitter::new(Side::Server, bytes.len());
        let (mut parameters, mut columns, mut at) = (Box::default(), None, 0);
        while at < bytes.len() {
            let Step::Whole(frame) = splitter.next(&bytes[at..])? else { return Err(Malformed::Body) };
            at += frame.bytes().len();
            match frame.tag() {
                back::PARAMETER_DESCRIPTION => {
                    parameters = frame.body().get(2..).ok_or(Malformed::Body)?.into();
                }
                back::ROW_DESCRIPTION => columns = Some(wire::columns_compared(&frame)?),
                _ => {}
            }
        }
        Ok(Described { parameters, columns })
    }

    /// Its parameters, and its columns, to be kept elsewhere.
    pub(crate) fn parts(&self) -> (&[u8], Option<&[u8]>) {
        (&self.parameters, self.columns.as_deref())
    }

    /// The description from the values of [`Described::parts`].
    pub(crate) fn of_parts(parameters: Box<[u8]>, columns: Option<Box<[u8]>>) -> Described {
        Described { parameters, columns }
    }

    /// True if a client with this description can read rows of the present one.
    pub fn has_columns_of(&self, now: &Described) -> bool {
        self.columns == now.columns
    }
}

/// PostgreSQL's error for a statement whose columns have changed since its Parse. Drivers that parse the
/// statement again automatically recognise the error's routine.
pub fn other_columns() -> Box<[u8]> {
    let mut error = Vec::new();
    let problem = Problem::error("0A000", "cached plan must not change result type");
    error.problem(&problem.routine("RevalidateCachedQuery"));
    error.into()
}
