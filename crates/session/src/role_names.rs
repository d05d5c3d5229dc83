//! A session goes on as its roles and in its database, whatever their current names. At a standby it is known
//! by names alone. So after each change of the catalog a query at the primary checks that the names still
//! fit.

use super::{Ended, Session};
use scheduler::CatalogMark;
use session_state::BlockStatus;

/// Query for that check. All names in it are schema-qualified. The settings hold the names as they were
/// given, the functions today's names.
const FIT: &str = "SELECT session_user::pg_catalog.text OPERATOR(pg_catalog.=) \
     pg_catalog.current_setting('session_authorization') AND (pg_catalog.current_setting('role') \
     OPERATOR(pg_catalog.=) 'none' OR current_user::pg_catalog.text OPERATOR(pg_catalog.=) \
     pg_catalog.current_setting('role')), pg_catalog.current_database()";

impl Session {
    /// The catalog under which the primary parses now; `None` while its visible state may be behind the
    /// decoder's output.
    fn catalog_shown(&self) -> Option<CatalogMark> {
        self.database.loaded()?;
        self.database.id().map(|database| self.service.cluster.scheduler().catalog(database))
    }

    /// True if the session's roles and its database have the names by which a standby would know them. Inside
    /// a block, where no query is possible, only if that is known already.
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
