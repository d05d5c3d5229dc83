//! Client requests: the headers of Query, Parse, Bind, Describe, Execute and Close, read without owning a
//! byte.

use crate::scan::Scan;
use crate::{Frame, Malformed};

/// The text of a Query message.
pub fn query_text<'a>(frame: &Frame<'a>) -> Result<&'a [u8], Malformed> {
    let mut scan = Scan::new(frame.body());
    let text = scan.string()?;
    scan.end()?;
    Ok(text)
}

/// A Parse message: a statement is to be known under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Its name; empty for the unnamed statement.
    pub name: &'a [u8],
    /// Its text.
    pub text: &'a [u8],
    types: &'a [u8],
}

impl<'a> Parse<'a> {
    /// Reads the message.
    pub fn read(frame: &Frame<'a>) -> Result<Parse<'a>, Malformed> {
        let mut scan = Scan::new(frame.body());
        let (name, text) = (scan.string()?, scan.string()?);
        let count = scan.count()?;
        let types = scan.take(count * 4)?;
        scan.end()?;
        Ok(Parse { name, text, types })
    }

    /// The types that the client declares for its parameters (object identifiers; 0 leaves it to the server).
    pub fn types(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.types.chunks_exact(4).map(|oid| u32::from_be_bytes(oid.try_into().expect("four bytes")))
    }

    /// Everything after the name, as it came: text and types.
    pub fn signature(&self) -> (&'a [u8], &'a [u8]) {
        (self.text, self.types)
    }
}

/// A Bind message: parameters make a portal out of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The portal's name; empty for the unnamed portal.
    pub portal: &'a [u8],
    /// The statement's name.
    pub statement: &'a [u8],
    /// Everything after the two names, as it came: formats and parameters.
    pub rest: &'a [u8],
    formats: &'a [u8],
    values: &'a [u8],
    count: usize,
    results: &'a [u8],
}

impl<'a> Bind<'a> {
    /// Reads the message; every parameter's length is checked.
    pub fn read(frame: &Frame<'a>) -> Result<Bind<'a>, Malformed> {
        let mut scan = Scan::new(frame.body());
        let (portal, statement) = (scan.string()?, scan.string()?);
        let rest = scan.rest();
        let formats = scan.count()?;
        let formats = scan.take(formats * 2)?;
        let count = scan.count()?;
        let before = scan.rest();
        for _ in 0..count {
            scan.value()?;
        }
        let values = &before[..before.len() - scan.rest().len()];
        let results = scan.count()?;
        let results = scan.take(results * 2)?;
        scan.end()?;
        Ok(Bind { portal, statement, rest, formats, values, count, results })
    }

    /// True if there are as many formats as the parameters need: none, one for all, or one for each.
    /// Otherwise the server answers with an error.
    pub fn formats_fit(&self) -> bool {
        self.formats.len() <= 2 || self.formats.len() == self.count * 2
    }

    /// The parameters, first to last.
    pub fn parameters(&self) -> Parameters<'a> {
        Parameters { formats: self.formats, values: Scan::new(self.values), at: 0, count: self.count }
    }

    /// Formats of result columns: none, one for all, or one for each.
    pub fn result_formats(&self) -> impl ExactSizeIterator<Item = i16> + use<'a> {
        self.results.chunks_exact(2).map(|format| i16::from_be_bytes(format.try_into().expect("two bytes")))
    }

    /// True if any column of the result is wanted in binary format.
    pub fn wants_binary(&self) -> bool {
        self.results.chunks_exact(2).any(|format| format != [0, 0])
    }
}

/// The parameters of a Bind message: each with its format (`true` is binary), `None` for NULL.
#[derive(Clone, Debug)]
pub struct Parameters<'a> {
    formats: &'a [u8],
    values: Scan<'a>,
    at: usize,
    count: usize,
}

impl<'a> Iterator for Parameters<'a> {
    type Item = (bool, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.count {
            return None;
        }
        let format = match self.formats.len() {
            0 => 0,
            2 => self.formats[1],
            _ => self.formats.get(self.at * 2 + 1).copied().unwrap_or_default(),
        };
        self.at += 1;
        let value = self.values.value().expect("every length was checked when the message was read");
        Some((format != 0, value))
    }
}

/// Target of Describe and Close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement.
    Statement,
    /// A portal.
    Portal,
}

fn target<'a>(frame: &Frame<'a>) -> Result<(Target, &'a [u8]), Malformed> {
    let mut scan = Scan::new(frame.body());
    let target = match scan.byte()? {
        b'S' => Target::Statement,
        b'P' => Target::Portal,
        _ => return Err(Malformed::Body),
    };
    let name = scan.string()?;
    scan.end()?;
    Ok((target, name))
}

/// A Describe message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Describe<'a> {
    /// A statement or a portal.
    pub target: Target,
    /// Its name.
    pub name: &'a [u8],
}

impl<'a> Describe<'a> {
    /// Reads the message.
    pub fn read(frame: &Frame<'a>) -> Result<Describe<'a>, Malformed> {
        target(frame).map(|(target, name)| Describe { target, name })
    }
}

/// A Close message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// A statement or a portal.
    pub target: Target,
    /// Its name.
    pub name: &'a [u8],
}

impl<'a> Close<'a> {
    /// Reads the message.
    pub fn read(frame: &Frame<'a>) -> Result<Close<'a>, Malformed> {
        target(frame).map(|(target, name)| Close { target, name })
    }
}

/// An Execute message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// The portal.
    pub portal: &'a [u8],
    /// At most this many rows; 0 for all.
    pub max_rows: i32,
}

impl<'a> Execute<'a> {
    /// Reads the message.
    pub fn read(frame: &Frame<'a>) -> Result<Execute<'a>, Malformed> {
        let mut scan = Scan::new(frame.body());
        let (portal, max_rows) = (scan.string()?, scan.i32()?);
        scan.end()?;
        Ok(Execute { portal, max_rows })
    }
}
