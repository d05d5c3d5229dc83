//! Reads a message's body from front to back: integers, zero-terminated strings, counted bytes. Every read is checked;
//! nothing is copied.

use crate::Malformed;

/// Rest of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Scan<'a> {
        Scan { rest: body }
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(Malformed::Body)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// A count in two bytes; servers take up to 65,535 parameters.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        Ok(u16::from_be_bytes(self.take(2)?.try_into().expect("two bytes")).into())
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    /// A string without its closing zero byte.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.rest.iter().position(|&b| b == 0).ok_or(Malformed::Body)?;
        let string = self.take(end)?;
        self.take(1)?;
        Ok(string)
    }

    /// Bytes with their length before them; -1 stands for NULL.
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed::Body)?;
                self.take(length).map(Some)
            }
        }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::Body) }
    }
}
