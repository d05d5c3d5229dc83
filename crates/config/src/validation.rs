//! What only the whole configuration can tell: keys that do not go together.

use super::{AuthType, Config};
use design::Orderer;
use postgres::tls::Checks;

impl Config {
    /// What cannot be together: a key, and what it needs.
    pub(super) fn senseless(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let mut refuse = |key, message: &str| found.push((key, message.to_owned()));
        if self.primary.host.is_empty() {
            refuse("primary", "is missing: write a table [primary] with its host");
        }
        if self.tls_required && self.tls().is_none() {
            refuse("tls_required", "needs tls_certificate and tls_key");
        }
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            refuse("tls_certificate", "and tls_key are set together, or neither");
        }
        if self.client_tls_ca.is_some() && self.tls().is_none() {
            refuse("client_tls_ca", "needs tls_certificate and tls_key");
        }
        let checked = matches!(self.server_tls, Some(Checks::Signer | Checks::Host));
        if checked && self.server_tls_ca.is_none() {
            refuse(
                "server_tls_ca",
                "is missing: with this server_tls it holds the certificates whose signature counts",
            );
        }
        match (&self.server_tls_certificate, &self.server_tls_key) {
            (Some(_), None) => refuse("server_tls_certificate", "needs server_tls_key"),
            (None, Some(_)) => refuse("server_tls_key", "needs server_tls_certificate"),
            (Some(_), Some(_)) if self.server_tls.is_none() => {
                refuse("server_tls_certificate", "is never shown: set server_tls");
            }
            _ => {}
        }
        let asks = !matches!(self.auth_type, AuthType::Trust | AuthType::Hba);
        if asks && self.auth_file.is_none() && self.auth_user.is_empty() {
            refuse("auth_file", "is missing: with this auth_type it holds the roles' secrets");
        }
        if (self.auth_type == AuthType::Hba) != self.auth_hba_file.is_some() {
            refuse("auth_hba_file", "and auth_type = \"hba\" are set together, or neither");
        }
        if self.auth_ident_file.is_some() && self.auth_hba_file.is_none() {
            refuse("auth_ident_file", "holds the maps that rules name: it needs auth_hba_file");
        }
        if self.listen.is_empty() && self.unix_socket_dir.is_none() {
            refuse("listen", "is empty, and there is no unix_socket_dir: nobody could connect");
        }
        if self.design().needs_replicas() && !self.standbys.is_empty() {
            refuse("standby", "is of no use to this design: its reads go to replicas, each in a [[replica]]");
        }
        if self.design().needs_replicas() && !self.replicas.iter().all(|server| server.tables.is_all()) {
            refuse(
                "replica.tables",
                "is for designs whose reads may go to the primary: here replicas have all tables",
            );
        }
        let takes_turns = self.design().orderer == Orderer::PrimaryOneByOne;
        if self.acknowledged_by > if takes_turns { self.replicas.len() } else { 0 } {
            refuse("acknowledged_by", "needs so many [[replica]]s, and a design in which commits take turns");
        }
        found
    }
}
