//! A batch of the extended protocol that is one statement: the only kind that may run at a standby. `[Parse] [Describe]
//! Bind [Describe] Execute Sync`, all of it unnamed but for the statement that is bound. The second Describe may be of the
//! portal, or of the statement that was just parsed.

use wire::tag::front;
use wire::{Bind, Close, Describe, Execute, HEADER_BYTES, Malformed, Parse, Splitter, Step, Target};

/// One statement in the extended protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The statement is parsed first; it is the unnamed one.
    pub parse: Option<Parse<'a>>,
    /// The statement is described, after its Parse.
    pub describes_statement: bool,
    /// The statement is described, after the Bind.
    pub describes_statement_late: bool,
    /// Parameters and formats.
    pub bind: Bind<'a>,
    /// The portal is described.
    pub describes_portal: bool,
    /// The Execute, with the number of rows that it wants.
    pub execute: Execute<'a>,
}

/// Reads a batch up to its Sync; `None` if it is something else than one statement.
pub fn read<'a>(bytes: &'a [u8], mut splitter: Splitter) -> Result<Option<Batch<'a>>, Malformed> {
    let (mut parse, mut bind, mut execute) = (None, None, None);
    let (mut describes_statement, mut describes_statement_late, mut describes_portal) = (false, false, false);
    let mut at = 0;
    while at < bytes.len() {
        let Step::Whole(frame) = splitter.next(&bytes[at..])? else { return Ok(None) };
        at += frame.bytes().len();
        match frame.tag() {
            front::PARSE if parse.is_none() && bind.is_none() => {
                parse = Some(Parse::read(&frame)?).filter(|parse: &Parse<'_>| parse.name.is_empty());
                if parse.is_none() {
                    return Ok(None);
                }
            }
            front::DESCRIBE if execute.is_none() => {
                let describe = Describe::read(&frame)?;
                let first_behind_bind = bind.is_some() && !describes_statement_late && !describes_portal;
                match describe.target {
                    _ if !describe.name.is_empty() => return Ok(None),
                    Target::Statement if parse.is_some() && bind.is_none() && !describes_statement => {
                        describes_statement = true;
                    }
                    Target::Statement if parse.is_some() && first_behind_bind => {
                        describes_statement_late = true;
                    }
                    Target::Portal if first_behind_bind => describes_portal = true,
                    _ => return Ok(None),
                }
            }
            front::BIND if bind.is_none() => bind = Some(Bind::read(&frame)?),
            front::EXECUTE if bind.is_some() && execute.is_none() => execute = Some(Execute::read(&frame)?),
            front::SYNC => break,
            _ => return Ok(None),
        }
    }
    let (Some(bind), Some(execute)) = (bind, execute) else { return Ok(None) };
    let is_one = bind.portal.is_empty()
        && execute.portal.is_empty()
        && (parse.is_none() || bind.statement.is_empty())
        && bind.formats_fit()
        && at == bytes.len();
    Ok(is_one.then_some(Batch {
        parse,
        describes_statement,
        describes_statement_late,
        bind,
        describes_portal,
        execute,
    }))
}

/// Names of the statements that a request uses as they were before it.
///
/// # Errors
/// A message is malformed.
pub fn statements_used(bytes: &[u8], mut splitter: Splitter) -> Result<Vec<Box<[u8]>>, Malformed> {
    let (mut used, mut others): (Vec<Box<[u8]>>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Step::Whole(frame) = splitter.next(&bytes[at..])? {
        at += frame.bytes().len();
        let name = match frame.tag() {
            front::BIND => Bind::read(&frame)?.statement,
            front::DESCRIBE => match Describe::read(&frame)? {
                Describe { target: Target::Statement, name } => name,
                Describe { target: Target::Portal, .. } => continue,
            },
            front::PARSE => {
                others.push(Parse::read(&frame)?.name);
                continue;
            }
            front::CLOSE => {
                others.push(Close::read(&frame)?.name);
                continue;
            }
            _ => continue,
        };
        if !name.is_empty() && !others.contains(&name) && !used.iter().any(|known| **known == *name) {
            used.push(name.into());
        }
    }
    Ok(used)
}

/// True if the Bind at the beginning of these bytes binds a named statement. Its name follows the portal's.
pub fn binds_named(bytes: &[u8]) -> bool {
    let mut names = bytes.get(HEADER_BYTES..).unwrap_or_default().split(|byte| *byte == 0);
    names.nth(1).is_some_and(|statement| !statement.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Asks, Side};

    fn is_one(write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes.sync();
        read(&bytes, Splitter::new(Side::Client, 1 << 16)).unwrap().is_some()
    }

    #[test]
    fn one_statement_and_nothing_else() {
        assert!(is_one(|b| {
            b.parse(b"", b"SELECT 1", &[]);
            b.describe(Target::Statement, b"");
            b.bind_plain(b"");
            b.describe(Target::Portal, b"");
            b.execute(b"", 0);
        }));
        assert!(is_one(|b| {
            b.parse(b"", b"SELECT 1", &[]);
            b.bind_plain(b"");
            b.describe(Target::Statement, b"");
            b.execute(b"", 0);
        }));
        assert!(is_one(|b| {
            b.bind_plain(b"named");
            b.execute(b"", 10);
        }));
        assert!(!is_one(|b| b.parse(b"", b"SELECT 1", &[])));
        assert!(!is_one(|b| {
            b.parse(b"named", b"SELECT 1", &[]);
            b.bind_plain(b"named");
            b.execute(b"", 0);
        }));
        assert!(!is_one(|b| {
            b.bind_plain(b"a");
            b.execute(b"", 0);
            b.bind_plain(b"b");
            b.execute(b"", 0);
        }));
        // One server answers each Describe.
        for behind in [false, true] {
            assert!(!is_one(|b| {
                b.parse(b"", b"SELECT 1", &[]);
                b.describe(Target::Statement, b"");
                if behind {
                    b.bind_plain(b"");
                    b.describe(Target::Portal, b"");
                }
                b.describe(if behind { Target::Portal } else { Target::Statement }, b"");
                if !behind {
                    b.bind_plain(b"");
                }
                b.execute(b"", 0);
            }));
        }
        // Three formats for no parameter: an error, but not the session's end.
        assert!(!is_one(|b| {
            b.bind(b"", b"a", &[0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            b.execute(b"", 0);
        }));
        assert!(!is_one(|b| {
            b.bind(b"portal", b"a", &[0; 6]);
            b.execute(b"portal", 0);
        }));
        assert!(!is_one(|b| {
            b.bind_plain(b"a");
            b.execute(b"", 0);
            Asks::close(b, Target::Statement, b"a");
        }));
        assert!(!is_one(|_| {}));
    }
}
