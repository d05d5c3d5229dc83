//! What the primary is asked about a role that logs in, and nothing kept of the answer, so that a change counts at once:
//! secrets that `auth_file` does not have (PgBouncer's `auth_query`, as `auth_user`), and the roles that it is a member of.

use conn::secrets::Secret;
use postgres::Error;
use postgres::address::{Address, Control};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// The primary has answered by then or does not.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The roles that a role is a member of, directly or not, whatever it inherits of them, and itself; a superuser is a member of
/// no more than others (PostgreSQL's `is_member_of_role_nosuper`).
const MEMBER_OF: &str = "WITH RECURSIVE found (oid) AS (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $1 UNION \
     SELECT roleid FROM found JOIN pg_catalog.pg_auth_members ON member = found.oid) \
     SELECT rolname FROM found JOIN pg_catalog.pg_roles USING (oid)";

/// Where it is asked.
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

    /// What comes of a question in time; the error is a sentence for the operator.
    async fn answer<T>(
        &self,
        what: &str,
        question: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, String> {
        match timeout(ANSWER_LIMIT, question).await {
            Ok(answer) => answer.map_err(|why| format!("{what} by {}: {why}", self.address)),
            Err(_) => Err(format!("{what} by {}: no answer", self.address)),
        }
    }
}

/// Asks for secrets.
pub struct Lookup {
    asked: Asked,
    query: String,
}

impl Lookup {
    /// Secrets are asked for by this query at this address. The query has one parameter, the role, and gives the role and its
    /// secret, as `auth_file` has them, or no row.
    pub fn new(address: Address, query: String) -> Lookup {
        Lookup { asked: Asked::at(address), query }
    }

    /// The role's secret; `None` if there is no such role, or nothing that it could prove itself by.
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
}

/// Asks for the roles that a role is a member of.
pub struct Memberships(Asked);

impl Memberships {
    /// They are asked for at this address.
    pub fn new(address: Address) -> Memberships {
        Memberships(Asked::at(address))
    }

    /// The roles that this one is a member of, itself too; none if there is no such role.
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
