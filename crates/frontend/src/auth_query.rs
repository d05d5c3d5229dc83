//! Queries to the primary about a role that logs in: secrets that `auth_file` lacks (PgBouncer's
//! `auth_query`, as `auth_user`), and the roles that it is a member of. No answer is cached, so a change
//! counts at once.

use conn::secrets::Secret;
use postgres::Error;
use postgres::address::{Address, Control};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Maximum time for the primary's answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The roles that a role is a member of, directly or not, inherited or not, and itself; a superuser is a
/// member of no more than others (PostgreSQL's `is_member_of_role_nosuper`).
const MEMBER_OF: &str = "WITH RECURSIVE found (oid) AS (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $1 UNION \
     SELECT roleid FROM found JOIN pg_catalog.pg_auth_members ON member = found.oid) \
     SELECT rolname FROM found JOIN pg_catalog.pg_roles USING (oid)";

/// Server of the queries, with its connection.
struct Asked {
    address: Address,
    /// One connection for all, made when it is first needed.
    control: Mutex<Option<Rc<Control>>>,
}

impl Asked {
    fn at(address: Address) -> Asked {
        Asked { address, control: Mutex::default() }
    }

    async fn control(&self) -> Result<Rc<Control>, Error> {
        let mut kept = self.control.lock().await;
        if let Some(control) = kept.as_ref().filter(|control| !control.is_closed()) {
            return Ok(control.clone());
        }
        let control = Rc::new(Control::like_a_client(&self.address).await?);
        Ok(kept.insert(control).clone())
    }

    /// Returns the answer to a query within the time limit. The error is a sentence for the operator.
    async fn answer<T>(
        &self,
        query: &str,
        question: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, String> {
        match timeout(ANSWER_LIMIT, question).await {
            Ok(answer) => answer.map_err(|why| format!("{query} by {}: {why}", self.address)),
            Err(_) => Err(format!("{query} by {}: no answer", self.address)),
        }
    }
}

/// Source of the secrets of roles.
pub struct Lookup {
    asked: Asked,
    query: String,
}

impl Lookup {
    /// Creates a source with this query at this address. The query has one parameter, the role, and returns
    /// the role and its secret, as `auth_file` has them, or no row.
    pub fn new(address: Address, query: String) -> Lookup {
        Lookup { asked: Asked::at(address), query }
    }

    /// Returns the role's secret; `None` if there is no such role, or no usable secret.
    ///
    /// # Errors
    /// The primary does not answer, or not as it should: a sentence for the operator.
    pub async fn secret(&self, role: &str) -> Result<Option<Secret>, String> {
        self.asked.answer("auth_query", self.ask(role)).await
    }

    async fn ask(&self, role: &str) -> Result<Option<Secret>, Error> {
        let control = self.asked.control().await?;
        let rows = control.query(&self.query, &[&role]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if row.len() < 2 {
            return Err(Error::Setup("the query must return two columns: role and secret".to_owned()));
        }
        let whose: Option<String> = row.try_get(0)?;
        if whose.as_deref() != Some(role) {
            return Err(Error::Setup(format!("the query for role {role} returned another role")));
        }
        let secret: Option<String> = row.try_get(1)?;
        // As at a server, an empty password admits no client.
        Ok(secret.filter(|secret| !secret.is_empty()).map(|secret| Secret::parse(&secret)))
    }
}

/// Source of the memberships of roles.
pub struct Memberships(Asked);

impl Memberships {
    /// Creates a source at this address.
    pub fn new(address: Address) -> Memberships {
        Memberships(Asked::at(address))
    }

    /// Returns the roles that this one is a member of, itself included; none if there is no such role.
    ///
    /// # Errors
    /// The primary does not answer: a sentence for the operator.
    pub(super) async fn of(&self, role: &str) -> Result<BTreeSet<String>, String> {
        let question = async {
            let rows = self.0.control().await?.query(MEMBER_OF, &[&role]).await?;
            rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<BTreeSet<String>, Error>>()
        };
        self.0.answer("the roles of a role", question).await
    }
}
