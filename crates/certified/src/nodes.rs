//! The nodes of the cluster, and the number of each. A node keeps its number for as long as it is a member: its values of
//! sequences depend on it. The numbers lie in a file in the folder of the ledgers, one name a line.

use crate::options::NodeOptions;
use disk::{Disk, Point};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Sequences have room for so many nodes, or for a multiple of it: a node joins without a new increment at the others.
pub(crate) const ROOM: usize = 8;
/// Name of the file.
const FILE: &str = "members";
/// Fault point of the file's steps.
const WRITE: Point = "certified.members";

/// See the file's first lines.
///
/// Invariant: no two members have one number. A number that was given up is given again after a restart, when all others
/// are taken.
pub(crate) struct Nodes {
    folder: PathBuf,
    /// Names by number; empty where a member has left.
    names: RefCell<Vec<String>>,
    /// Nodes by number, with those that have left since the start.
    known: RefCell<BTreeMap<usize, Rc<NodeOptions>>>,
    /// Number of nodes for which sequences have room.
    room: usize,
}

/// Makes the folder of the ledgers, which have all rows, if it is missing. Other users may not look into it.
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

impl Nodes {
    /// Gives these nodes their numbers.
    ///
    /// # Errors
    /// The file cannot be read or written: a sentence for a person.
    pub(crate) fn open(folder: &Path, nodes: &[NodeOptions]) -> Result<Nodes, String> {
        let failed = |error| format!("cannot use {} (ledger_dir): {error}", folder.join(FILE).display());
        make_folder(folder).map_err(failed)?;
        let text = match std::fs::read_to_string(folder.join(FILE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.map_err(failed)?,
        };
        let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
        for name in &mut names {
            if !nodes.iter().any(|node| node.name == *name) {
                name.clear();
            }
        }
        let mut known = BTreeMap::new();
        for node in nodes {
            let has_room = !names.len().is_multiple_of(ROOM) || !names.iter().any(String::is_empty);
            known.insert(number(&mut names, &node.name, has_room), Rc::new(node.clone()));
        }
        let room = names.len().max(1).next_multiple_of(ROOM);
        let nodes =
            Nodes { folder: folder.to_owned(), names: RefCell::new(names), known: RefCell::new(known), room };
        nodes.write()?;
        Ok(nodes)
    }

    /// The node of a number, which is or was a member.
    pub(crate) fn get(&self, number: usize) -> Rc<NodeOptions> {
        self.known.borrow().get(&number).cloned().expect("sites have numbers of nodes")
    }

    /// The members, by their numbers.
    pub(crate) fn members(&self) -> Vec<(usize, Rc<NodeOptions>)> {
        let (names, known) = (self.names.borrow(), self.known.borrow());
        let is_member = |number: &usize| names.get(*number).is_some_and(|name| !name.is_empty());
        known.iter().filter(|(number, _)| is_member(number)).map(|(at, node)| (*at, node.clone())).collect()
    }

    /// Number of nodes for which sequences have room.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// A node joins; its number.
    ///
    /// # Errors
    /// Missing room, or a file that cannot be written: a sentence for a person.
    pub(crate) fn join(&self, node: NodeOptions) -> Result<usize, String> {
        let number = {
            let mut names = self.names.borrow_mut();
            // Sessions and the applier of a node that has left may still go by its number.
            if names.len() == self.room {
                return Err(format!(
                    "{} cannot join: the {} numbers for which sequences have room are taken. Restart Consort, which \
                     makes room",
                    node.name, self.room
                ));
            }
            number(&mut names, &node.name, true)
        };
        self.known.borrow_mut().insert(number, Rc::new(node));
        self.write().map(|()| number)
    }

    /// A member leaves, and is still known: sessions and its applier may ask for it.
    ///
    /// # Errors
    /// The file cannot be written: a sentence for a person.
    pub(crate) fn leave(&self, number: usize) -> Result<(), String> {
        self.names.borrow_mut()[number].clear();
        self.write()
    }

    fn write(&self) -> Result<(), String> {
        let (disk, path) = (Disk::new(), self.folder.join(FILE));
        let text: String = self.names.borrow().iter().map(|name| format!("{name}\n")).collect();
        let unfinished = self.folder.join(format!("{FILE}.new"));
        let written = || {
            let file = disk.create(WRITE, &unfinished)?;
            file.write_at(WRITE, text.as_bytes(), 0)?;
            file.sync(WRITE)?;
            disk.rename(WRITE, &unfinished, &path)?;
            disk.sync_folder(WRITE, &self.folder)
        };
        written().map_err(|error| format!("cannot write {} (ledger_dir): {error}", path.display()))
    }
}

/// The number of a name: its own, a new one where there is room, or the first that is free.
fn number(names: &mut Vec<String>, name: &str, has_room: bool) -> usize {
    if let Some(own) = names.iter().position(|one| one == name) {
        return own;
    }
    let free = names.iter().position(String::is_empty).filter(|_| !has_room);
    let at = free.unwrap_or(names.len());
    names.resize(names.len().max(at + 1), String::new());
    names[at] = name.to_owned();
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres::address::{Address, Host};

    fn node(name: &str) -> NodeOptions {
        let (host, user) = (Host::Name("127.0.0.1".to_owned()), "postgres".to_owned());
        let database = user.clone();
        let address =
            Address { host, port: 1, user, password: None, password_file: None, database, tls: None };
        NodeOptions { name: name.to_owned(), address }
    }

    #[test]
    fn members_keep_their_numbers_over_restarts() {
        let folder = std::env::temp_dir().join(format!("consort-members-{}", std::process::id()));
        let open = |names: &[&str]| {
            let nodes: Vec<NodeOptions> = names.iter().map(|name| node(name)).collect();
            Nodes::open(&folder, &nodes).expect("a file")
        };
        let numbers = |nodes: &Nodes| -> Vec<(usize, String)> {
            nodes.members().into_iter().map(|(at, node)| (at, node.name.clone())).collect()
        };
        let nodes = open(&["a", "b", "c"]);
        assert_eq!(nodes.room(), ROOM);
        nodes.leave(1).expect("a file");
        assert_eq!(nodes.join(node("d")), Ok(3), "the number of b is not given again");
        let expected = [(0, "a".to_owned()), (2, "c".to_owned()), (3, "d".to_owned())];
        assert_eq!(numbers(&nodes), expected);
        assert_eq!(numbers(&open(&["d", "c", "a"])), expected);
        for more in 4..ROOM {
            assert_eq!(nodes.join(node(&format!("n{more}"))), Ok(more));
        }
        assert!(nodes.join(node("late")).is_err_and(|why| why.contains("Restart")));
        let all = ["a", "c", "d", "n4", "n5", "n6", "n7", "late"];
        assert_eq!(numbers(&open(&all))[1], (1, "late".to_owned()), "nothing else is free");
        assert_eq!(open(&[&all[..], &["later"]].concat()).room(), 2 * ROOM);
        std::fs::remove_dir_all(&folder).expect("the folder is there");
    }
}
