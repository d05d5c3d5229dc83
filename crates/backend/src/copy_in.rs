//! Progress of the data that a client sends for a COPY.

/// Data of a COPY FROM STDIN, as far as they were forwarded.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyIn {
    /// The primary waits for data.
    pub wanted: bool,
    /// A part of a message was forwarded, and not its end. The primary takes what comes next for the rest, also after an error.
    pub is_inside: bool,
}

impl CopyIn {
    /// True if more of the client's input belongs to the COPY.
    pub fn takes_more(self) -> bool {
        self.wanted || self.is_inside
    }
}
