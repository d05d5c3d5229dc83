//! Secrets of roles that `auth_file` does not know, asked of the primary at each log-in: PgBouncer's `auth_query`, as
//! `auth_user`. Nothing is kept of the answer, so that a new password and a role that may no longer log in count at once.

use super::Secret;
use postgres::Error;
use postgres::address::{Address, Control};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// The primary has answered by then or does not.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Where secrets are asked for, and how.
pub struct Lookup {
    address: Address,
    query: String,
    /// One connection for all, made when it is first needed.
    control: Mutex<Option<Rc<Control>>>,
}

impl Lookup {
    /// Secrets are asked for by this query at this address. The query has one parameter, the role, and gives the role and its
    /// secret, as `auth_file` has them, or no row.
    pub fn new(address: Address, query: String) -> Lookup {
        Lookup { address, query, control: Mutex::default() }
    }

    /// The role's secret; `None` if there is no such role, or nothing that it could prove itself by.
    ///
    /// # Errors
    /// The primary does not answer, or not as it should: a sentence for the operator.
    pub(super) async fn secret(&self, role: &str) -> Result<Option<Secret>, String> {
        match timeout(ANSWER_LIMIT, self.ask(role)).await {
            Ok(answer) => answer.map_err(|why| format!("auth_query by {}: {why}", self.address)),
            Err(_) => Err(format!("auth_query by {}: no answer", self.address)),
        }
    }

    async fn ask(&self, role: &str) -> Result<Option<Secret>, Error> {
        let control = self.control().await?;
        let rows = control.query(&self.query, &[&role]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if row.len() < 2 {
            return Err(Error::Setup(
                "its answer must have two columns: the role, and its secret".to_owned(),
            ));
        }
        let whose: Option<String> = row.try_get(0)?;
        if whose.as_deref() != Some(role) {
            return Err(Error::Setup(format!(
                "it was asked for the role {role}, and answers with another one"
            )));
        }
        let secret: Option<String> = row.try_get(1)?;
        // As at a server, nobody comes in with an empty password.
        Ok(secret.filter(|secret| !secret.is_empty()).map(|secret| Secret::parse(&secret)))
    }

    async fn control(&self) -> Result<Rc<Control>, Error> {
        let mut kept = self.control.lock().await;
        if let Some(control) = kept.as_ref().filter(|control| !control.is_closed()) {
            return Ok(control.clone());
        }
        let control = Rc::new(Control::like_a_client(&self.address).await?);
        Ok(kept.insert(control).clone())
    }
}
