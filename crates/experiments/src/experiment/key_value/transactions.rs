//! Clients with Consort's transactions, through the crate `cells`.

use async_trait::async_trait;
use bytes::Bytes;
use cells::{Begin, Consistency, Database, Error, Transaction};
use consort::failure::Failure;
use stores::KeyRange;

use super::client::{Client, Outcome, failed};

/// A client of a database in this process.
pub(super) struct Transactions {
    database: Database,
    open: Option<Transaction>,
    /// The commit that has overtaken the last attempt. The next one waits until its snapshot shows it: earlier attempts
    /// would conflict again.
    overtaken_by: u64,
}

impl Transactions {
    pub(super) fn of(database: &Database) -> Transactions {
        Transactions { database: database.clone(), open: None, overtaken_by: 0 }
    }

    fn open(&mut self) -> &mut Transaction {
        self.open.as_mut().expect("a transaction is open")
    }
}

#[async_trait]
impl Client for Transactions {
    async fn begin(&mut self) -> Result<(), Failure> {
        let begin = Begin { read_only: false, consistency: Consistency::Session(self.overtaken_by) };
        self.open = Some(self.database.begin(begin).await.map_err(failed)?);
        Ok(())
    }

    async fn get(&mut self, key: Bytes) -> Result<Option<Bytes>, Failure> {
        self.open().get(&key).await.map_err(failed)
    }

    async fn put(&mut self, key: Bytes, value: Bytes) -> Result<(), Failure> {
        self.open().put(key, value).map_err(failed)
    }

    async fn scan(&mut self, from: Bytes, limit: usize) -> Result<usize, Failure> {
        let rows = self.open().scan(KeyRange { from, to: None }, limit).await.map_err(failed)?;
        Ok(rows.len())
    }

    async fn commit(&mut self) -> Result<Outcome, Failure> {
        let open = self.open.take().expect("a transaction is open");
        match open.commit().await {
            Ok(_) => Ok(Outcome::Committed),
            Err(Error::Conflict { with, .. }) => {
                self.overtaken_by = with;
                Ok(Outcome::Conflict)
            }
            Err(error) => Err(failed(error)),
        }
    }
}
