//! A session of Consort's own at a node: whole tables to read at one version, and rows to load.

use super::node_connection::{Identity, NodeConnection};
use super::tier_state::Tier;
use crate::message::{Begin, Failure, Reply, Request, Run, Version};
use std::io;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The wait for a version at a node, in milliseconds.
const WAIT_MS: u32 = 10_000;
/// The role that runs statements.
const USER: &str = "consort";

/// A session at a node.
pub struct Direct {
    connection: NodeConnection,
    tier: Rc<Tier>,
}

/// Microseconds since 1970.
fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

fn begin(at: Version, writes: bool) -> Begin {
    Begin { at, wait_ms: WAIT_MS, writes, time_us: now_us(), seed: 0 }
}

/// A statement with values in text format.
pub fn statement(text: &str, values: Vec<Option<Vec<u8>>>) -> Run {
    Run {
        text: text.to_owned(),
        types: Vec::new(),
        parameters: values.into_iter().map(|value| (0, value)).collect(),
        result_formats: Vec::new(),
        time_us: now_us(),
        describes: false,
        expects: 0,
    }
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the node's answer is to another request")
}

fn failed(failure: &Failure) -> io::Error {
    io::Error::other(format!("{} ({})", failure.message, failure.sqlstate))
}

impl Direct {
    /// Begins a session at the master, or at a slave that serves, if there is one.
    ///
    /// # Errors
    /// No node serves, or it cannot be reached.
    pub async fn open(tier: &Rc<Tier>, at_master: bool) -> io::Result<Direct> {
        let slave =
            (0..tier.options.nodes.len()).find(|node| tier.serves(*node) && tier.master() != Some(*node));
        let node = slave.filter(|_| !at_master).or(tier.master());
        let node = node.ok_or_else(|| io::Error::other("the tier has no master"))?;
        let mut connection = NodeConnection::open(tier, node).await?;
        let database = tier.options.database.clone();
        connection.is_for(&Rc::new(Identity {
            user: USER.to_owned(),
            database,
            settings: Vec::new(),
            lock_timeout_ms: 0,
        }));
        Ok(Direct { connection, tier: tier.clone() })
    }

    async fn reply(&mut self) -> io::Result<Reply> {
        match self.connection.reply().await? {
            Reply::Failed(failure) => Err(failed(&failure)),
            reply => Ok(reply),
        }
    }

    async fn ask(&mut self, request: &Request) -> io::Result<Reply> {
        self.connection.ask(request);
        self.connection.send().await?;
        self.reply().await
    }

    /// Begins a transaction that reads the newest acknowledged version. Returns the version.
    ///
    /// # Errors
    /// The node fails, or has not got the version in time.
    pub async fn read(&mut self) -> io::Result<Version> {
        self.read_at(self.tier.newest()).await
    }

    /// Begins a transaction that reads this durable version, or a newer one if it is gone. Returns the version.
    ///
    /// # Errors
    /// The node fails, or has not got the version in time.
    pub async fn read_at(&mut self, version: Version) -> io::Result<Version> {
        match self.ask(&Request::Begin(begin(version, false))).await? {
            Reply::Begun { at } => Ok(at),
            _ => Err(unexpected()),
        }
    }

    /// Ends the transaction.
    ///
    /// # Errors
    /// As of the node.
    pub async fn end(&mut self) -> io::Result<()> {
        self.ask(&Request::Rollback).await.map(drop)
    }

    /// The database's definitions.
    ///
    /// # Errors
    /// As of the node.
    pub async fn definitions(&mut self) -> io::Result<(Vec<String>, Vec<String>)> {
        match self.ask(&Request::Definitions).await? {
            Reply::Definitions { before_rows, after_rows } => Ok((before_rows, after_rows)),
            _ => Err(unexpected()),
        }
    }

    /// Runs a query. Gives its DataRow messages, with texts, to `take`, many at a time.
    ///
    /// # Errors
    /// As of the node, or of `take`.
    pub async fn query(
        &mut self,
        text: &str,
        mut take: impl AsyncFnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.connection.ask(&Request::Run(statement(text, Vec::new())));
        self.connection.send().await?;
        loop {
            match self.reply().await? {
                Reply::Rows { messages, .. } => take(&messages).await?,
                Reply::Done { .. } => return Ok(()),
                _ => return Err(unexpected()),
            }
        }
    }

    /// Runs one statement as a transaction of its own, at the master.
    ///
    /// # Errors
    /// It is refused, or the node fails.
    pub async fn once(&mut self, text: &str) -> io::Result<Version> {
        let begin = begin(self.tier.newest(), true);
        let mut reply = self.ask(&Request::Once(begin, statement(text, Vec::new()))).await?;
        loop {
            match reply {
                Reply::Rows { .. } => reply = self.reply().await?,
                Reply::Done { version, .. } => return Ok(self.commits(version.unwrap_or(0))),
                _ => return Err(unexpected()),
            }
        }
    }

    /// Runs statements as one transaction, at the master.
    ///
    /// # Errors
    /// One of them is refused, or the node fails: nothing was changed, unless the answer to the commit was lost.
    pub async fn write(&mut self, statements: Vec<Run>) -> io::Result<Version> {
        self.connection.ask(&Request::Begin(begin(self.tier.newest(), true)));
        let count = statements.len();
        for run in statements {
            self.connection.ask(&Request::Run(run));
        }
        self.connection.send().await?;
        for _ in 0..=count {
            match self.reply().await? {
                Reply::Begun { .. } | Reply::Done { .. } => {}
                _ => return Err(unexpected()),
            }
        }
        match self.ask(&Request::Commit).await? {
            Reply::Committed { version } => Ok(self.commits(version)),
            _ => Err(unexpected()),
        }
    }

    fn commits(&self, version: Version) -> Version {
        self.tier.acknowledged(version);
        version
    }
}
