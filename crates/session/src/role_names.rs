//! A session goes on as the roles and in the database that it has, under whatever name they have now. At a standby it is
//! known by names alone. So after each change of the catalog the primary is asked whether they still fit.

use super::{Ended, Session};
use scheduler::CatalogMark;
use session_state::BlockStatus;

/// Every name in it is qualified. The settings hold the names as they were given, the functions those of today.
const FIT: &str = "SELECT session_user::pg_catalog.text OPERATOR(pg_catalog.=) \
     pg_catalog.current_setting('session_authorization') AND (pg_catalog.current_setting('role') \
     OPERATOR(pg_catalog.=) 'none' OR current_user::pg_catalog.text OPERATOR(pg_catalog.=) \
     pg_catalog.current_setting('role')), pg_catalog.current_database()";

impl Session {
    /// The catalog under which the primary parses now; `None` while what it shows may be behind what came out of the
    /// decoder.
    fn catalog_shown(&self) -> Option<CatalogMark> {
        self.database.loaded()?;
        self.database.id().map(|database| self.service.cluster.scheduler().catalog(database))
    }

    /// Whether the session's roles and its database have the names by which a standby would know them. Inside a block, where
    /// nobody can ask, only if that is known already.
    pub(super) async fn keeps_its_names(&mut self) -> Result<bool, Ended> {
        let Some(now) = self.catalog_shown() else { return Ok(false) };
        if let Some((_, fit)) = self.who.named.filter(|(catalog, _)| *catalog == now) {
            return Ok(fit);
        }
        if self.state.block() != BlockStatus::Idle {
            self.first.names = true;
            return Ok(false);
        }
        self.at_home().await?;
        let row = self.line.ask(FIT).await?;
        let fit = row.is_some_and(|row| {
            row.first().is_some_and(|fit| fit.as_deref() == Some("t"))
                && row.get(1).is_some_and(|name| name.as_deref() == Some(&self.who.wish.database))
        });
        self.who.named = Some((now, fit));
        Ok(fit)
    }
}
