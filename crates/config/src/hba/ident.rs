//! Allowed roles of a user of the system or of a certificate: `pg_ident.conf` as PostgreSQL 16 reads it.

use super::names::{Name, pattern};
use super::tokens::Line;
use crate::Mistake;

/// All lines of the file.
#[derive(Debug, Default)]
pub(super) struct Maps {
    lines: Vec<Mapping>,
}

#[derive(Debug)]
struct Mapping {
    map: String,
    system: Name,
    role: Role,
}

#[derive(Debug)]
enum Role {
    Named(Name),
    /// A role with `\1`, which stands for the text that the user's pattern has caught.
    Caught(String),
}

impl Maps {
    /// Returns the maps, and every mistake, of a file that was cut into these lines.
    pub(super) fn of((read, mut mistakes): (Vec<Line>, Vec<Mistake>)) -> (Maps, Vec<Mistake>) {
        let mut maps = Maps::default();
        for mut line in read {
            match mapping(&mut line) {
                Ok(mapping) => maps.lines.push(mapping),
                Err(why) => mistakes.push(line.mistake(why)),
            }
        }
        (maps, mistakes)
    }

    pub(super) fn has(&self, map: &str) -> bool {
        self.lines.iter().any(|line| line.map == map)
    }

    /// Returns true if this user may be this role. Without a map both names must be equal.
    pub(super) fn allow(&self, map: Option<&str>, system: &str, role: &str) -> bool {
        let Some(map) = map else { return system == role };
        self.lines.iter().filter(|line| line.map == map).any(|line| line.allows(system, role))
    }
}

impl Mapping {
    fn allows(&self, system: &str, role: &str) -> bool {
        match (&self.role, &self.system) {
            (Role::Named(name), _) => self.system.is(system) && name.is(role),
            (Role::Caught(form), Name::Like(pattern)) => pattern.captures(system).is_some_and(|caught| {
                caught.get(1).is_some_and(|first| form.replacen("\\1", first.as_str(), 1) == role)
            }),
            (Role::Caught(_), _) => false,
        }
    }
}

fn mapping(line: &mut Line) -> Result<Mapping, String> {
    let map = line.word("map name")?.text;
    let system = line.word("system user")?;
    let role = line.word("database role")?;
    if !line.fields.is_empty() {
        return Err("more than three fields".to_owned());
    }
    let system = match pattern(&system)? {
        Some(pattern) => Name::Like(pattern),
        None => Name::This(system.text),
    };
    let role = match &system {
        Name::Like(pattern) if role.text.contains("\\1") && !role.text.starts_with('/') => {
            if pattern.captures_len() < 2 {
                return Err(format!(
                    "regular expression \"{pattern}\" has no subexpressions as requested by backreference in \"{}\"",
                    role.text
                ));
            }
            Role::Caught(role.text)
        }
        _ if role.text.starts_with('+') && !role.quoted => {
            return Err(format!(
                "{}: mapping to the members of a role is not supported; use /pattern",
                role.text
            ));
        }
        _ => Role::Named(Name::of(role)?),
    };
    Ok(Mapping { map, system, role })
}
