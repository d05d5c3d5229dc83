//! Nodes that all take writes: joined by a copy of another one, made again, and removed.

use crate::backup::{Unfinished, back_up};
use crate::cluster::{
    Cluster, Options, PEER, UNFINISHED, empty_place, finish_place, open_node, port_for, remove_folder, setup,
    write,
};
use crate::node::{Node, Stop};
use crate::settings::{self, NodeSettings};
use postgres::Error;

/// Steps of a copy's progress, in percent.
const PROGRESS_STEP: u64 = 10;

impl Cluster {
    /// Name and port of the next node that takes writes.
    ///
    /// # Errors
    /// [`Error::Setup`] if no port is free.
    pub fn next_peer(&self, options: &Options) -> Result<(String, u16), Error> {
        let ports: Vec<u16> = self.nodes.iter().map(Node::port).collect();
        Ok((self.free_name(PEER), port_for(options.log_ins, &ports)?))
    }

    /// Copies a running node that takes writes, one of those that may be copied, to one of this name. It is not started
    /// yet.
    ///
    /// # Errors
    /// [`Error::Setup`] if no such node answers, or with the error of `pg_basebackup`.
    pub fn add_peer(
        &mut self,
        name: &str,
        port: u16,
        may_copy: &dyn Fn(&str) -> bool,
        options: &Options,
        progress: &mut dyn FnMut(&str),
    ) -> Result<&Node, Error> {
        let answers = |node: &&Node| may_copy(node.name()) && node.query("postgres", "SELECT 1").is_ok();
        let Some(source) = self.peers().iter().find(answers) else {
            return Err(Error::Setup("no other node answers that could be copied".to_owned()));
        };
        let node = NodeSettings {
            name,
            port,
            sockets: source.socket_folder(),
            log_ins: options.log_ins,
            follows: None,
            joins: false,
        };
        progress(&format!("copying {} to {name}", source.name()));
        let mut guard = Unfinished::guarded(&self.folder.join(name), "data")?;
        let place = empty_place(&self.programs, &self.folder, name)?;
        let mut said = 0;
        back_up((&self.programs, source), name, &place, options, &mut guard, &mut |backup| {
            let percent = 100 * backup.bytes / backup.all_bytes.max(1);
            if percent >= said + PROGRESS_STEP {
                said = percent;
                progress(&format!("copying {} to {name}, {percent} %", source.name()));
            }
        })?;
        write(&self.programs, &place, settings::FILE, &settings::file(&node, &options.settings))?;
        finish_place(&self.folder, name)?;
        self.nodes.push(open_node(&self.programs, &self.folder, name)?);
        self.nodes.sort_by_key(|node| (node.name().len(), node.name().to_owned()));
        let place = self.nodes.iter().position(|node| node.name() == name);
        Ok(&self.nodes[place.expect("the new node is there")])
    }

    /// Stops a node that takes writes, discards its data and makes it again from a copy of another one. It is not started
    /// yet.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is no such node, if no other one answers, or with the error of `pg_basebackup`.
    pub fn renew_peer(
        &mut self,
        name: &str,
        may_copy: &dyn Fn(&str) -> bool,
        options: &Options,
        progress: &mut dyn FnMut(&str),
    ) -> Result<&Node, Error> {
        let names: Vec<&str> = self.peers().iter().map(Node::name).collect();
        let Some(place) = names.iter().position(|there| *there == name) else {
            let names = names.join(", ");
            return Err(Error::Setup(format!("node {name} does not exist; existing nodes: {names}")));
        };
        let others = self.nodes.iter().filter(|node| node.name() != name && may_copy(node.name()));
        if !others.into_iter().any(|node| node.query("postgres", "SELECT 1").is_ok()) {
            return Err(Error::Setup("no other node answers that could be copied".to_owned()));
        }
        let node = self.nodes.remove(place);
        node.stop(Stop::Immediate)?;
        std::fs::rename(node.data_folder(), self.folder.join(name).join(UNFINISHED)).map_err(setup)?;
        self.add_peer(name, node.port(), may_copy, options, progress)
    }

    /// Stops a node that takes writes, and removes its data.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is no such node, or it is the last one.
    pub fn remove_peer(&mut self, name: &str) -> Result<(), Error> {
        let place = self.peers().iter().position(|node| node.name() == name);
        let Some(place) = place.filter(|_| self.peers().len() > 1) else {
            return Err(Error::Setup(format!("node {name} does not exist, or is the last one")));
        };
        let node = self.nodes.remove(place);
        node.stop(Stop::Fast)?;
        remove_folder(&self.folder.join(name))
    }
}
