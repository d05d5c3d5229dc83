//! One database's catalogs at one instant, for the analysis and for the decoder.

use crate::Error;
use crate::address::Address;
use crate::attach::PUBLICATION;
use crate::link::Link;
use analysis::catalog::Catalog;
use analysis::catalog::load;
use history::{DatabaseId, Lsn, Snapshot};

/// A catalog and the instant it is of.
#[derive(Debug)]
pub struct Loaded {
    /// The catalog.
    pub catalog: Catalog,
    /// What it sees: a DDL that has come out of the decoder is in the catalog only if its transaction is seen here. (It
    /// may come out before it is visible.)
    pub snapshot: Snapshot,
    /// A position at or behind everything that it sees.
    pub insert_lsn: Lsn,
}

/// A connection to one database that loads its catalogs.
pub struct Cataloguer {
    link: Link,
    database: DatabaseId,
}

impl Cataloguer {
    /// Connects.
    ///
    /// # Errors
    /// As every connection.
    pub async fn connect(address: &Address) -> Result<Cataloguer, Error> {
        let mut link = Link::connect(address, &[("options", "-c search_path=pg_catalog -c jit=off")]).await?;
        let rows = link.query("SELECT oid FROM pg_database WHERE datname = current_database()").await?;
        let oid = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        let oid =
            oid.ok_or_else(|| Error::Protocol("the server does not say which database this is".to_owned()))?;
        Ok(Cataloguer { link, database: DatabaseId::new(oid) })
    }

    /// The database's number.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// Loads the catalogs as they are now.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the server's answers are not understood; otherwise as every query.
    pub async fn load(&mut self) -> Result<Loaded, Error> {
        let loaded = self.load_in_transaction().await;
        // Also ends a transaction that failed.
        self.link.query("COMMIT").await?;
        loaded
    }

    async fn load_in_transaction(&mut self) -> Result<Loaded, Error> {
        self.link.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let rows = self.link.query("SELECT pg_current_snapshot(), pg_current_wal_insert_lsn()").await?;
        let value = |column: usize| rows.first().and_then(|row| row.get(column)?.as_deref());
        let (snapshot, position) =
            (value(0).and_then(|text| text.parse().ok()), value(1).and_then(|text| text.parse().ok()));
        let (Some(snapshot), Some(insert_lsn)) = (snapshot, position) else {
            return Err(Error::Protocol("the server's snapshot is not understood".to_owned()));
        };
        let mut answers = Vec::new();
        for query in load::queries(PUBLICATION) {
            answers.push(self.link.query(&query).await?);
        }
        let catalog =
            load::build(self.database, &answers).map_err(|error| Error::Protocol(error.to_string()))?;
        Ok(Loaded { catalog, snapshot, insert_lsn })
    }
}
