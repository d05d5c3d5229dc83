//! Checks of the whole configuration: keys that do not go together.

use super::{AuthType, Capture, Config};
use crate::keys::Place;
use crate::keys::store::NEEDED;
use design::Orderer;
use postgres::tls::Checks;
use std::net::IpAddr;

/// Limits of clients that only sessions of designs with a primary keep.
const LIMITS_OF_CLIENTS: &[&str] =
    &["max_db_client_connections", "max_user_client_connections", "transaction_timeout", "query_timeout"];
/// The same, with what a key-value design keeps.
const LIMITS_OF_SQL_CLIENTS: &[&str] = &["client_idle_timeout", "idle_transaction_timeout"];
/// Settings of the frontend of the PostgreSQL protocol, which a key-value design does not have.
const OF_SQL_FRONTEND: &[&str] =
    &["max_clients_per_address", "max_half_open_per_address", "proxy_protocol_from", "client_tls_ca"];

impl Config {
    /// Contradictions: each names a key, and its missing requirement.
    pub(super) fn senseless(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let mut refuse = |key, message: &str| found.push((key, message.to_owned()));
        self.senseless_servers(&mut refuse);
        if self.tls_required && self.tls().is_none() {
            refuse("tls_required", "needs tls_certificate and tls_key");
        }
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            refuse("tls_certificate", "and tls_key must be set together");
        }
        if self.client_tls_ca.is_some() && self.tls().is_none() {
            refuse("client_tls_ca", "needs tls_certificate and tls_key");
        }
        let checked = matches!(self.server_tls, Some(Checks::Signer | Checks::Host));
        if checked && self.server_tls_ca.is_none() {
            refuse(
                "server_tls_ca",
                "is missing; this server_tls needs the CA certificates that sign the servers' certificates",
            );
        }
        match (&self.server_tls_certificate, &self.server_tls_key) {
            (Some(_), None) => refuse("server_tls_certificate", "needs server_tls_key"),
            (None, Some(_)) => refuse("server_tls_key", "needs server_tls_certificate"),
            (Some(_), Some(_)) if self.server_tls.is_none() => {
                refuse("server_tls_certificate", "has no effect without server_tls; set server_tls");
            }
            _ => {}
        }
        let asks = !matches!(self.auth_type, AuthType::Trust | AuthType::Hba);
        if asks && self.auth_file.is_none() && self.auth_user.is_empty() {
            refuse("auth_file", "is missing; this auth_type needs the roles' secrets");
        }
        if (self.auth_type == AuthType::Hba) != self.auth_hba_file.is_some() {
            refuse("auth_hba_file", "and auth_type = \"hba\" must be set together");
        }
        if self.auth_ident_file.is_some() && self.auth_hba_file.is_none() {
            refuse("auth_ident_file", "needs auth_hba_file, whose rules name its maps");
        }
        if self.listen.is_empty() && self.unix_socket_dir.is_none() {
            refuse("listen", "is empty and unix_socket_dir is not set; clients could not connect");
        }
        if self.design().needs_replicas() && !self.standbys.is_empty() {
            refuse(
                "standby",
                "is not supported by this design, which reads at replicas; configure each as [[replica]]",
            );
        }
        if self.design().needs_replicas() && !self.replicas.iter().all(|server| server.tables.is_all()) {
            refuse(
                "replica.tables",
                "is not supported by this design, in which every replica has all tables",
            );
        }
        let takes_turns = self.design().orderer == Orderer::PrimaryOneByOne;
        if self.commit_replica_quorum > if takes_turns { self.replicas.len() } else { 0 } {
            refuse(
                "commit_replica_quorum",
                "must be at most the number of [[replica]] tables, and needs a design that orders commits one by one",
            );
        }
        found
    }

    /// Settings that a key-value design has no use for, or lacks.
    fn senseless_store(&self, refuse: &mut impl FnMut(&'static str, &str)) {
        let store = &self.peers.store;
        let kinds = [
            ("embedded", store.embedded.is_some()),
            ("redis", !store.redis.is_empty()),
            ("cassandra", !store.cassandra.nodes.is_empty()),
        ];
        let named: Vec<&str> =
            kinds.into_iter().filter_map(|(kind, is_named)| is_named.then_some(kind)).collect();
        if !self.design().is_key_value() {
            if !named.is_empty() {
                refuse("store", "is for key-value designs; this one has PostgreSQL servers or nodes");
            }
            return;
        }
        if named.len() != 1 {
            refuse(
                "store",
                "needs one of embedded, redis and cassandra: write a table [store] with one of them",
            );
        }
        for (key, kinds) in NEEDED {
            if named.len() == 1 && !kinds.contains(&named[0]) && !self.is_default(Place::Store, key) {
                refuse(key, &format!("is for {}, and this [store] is {}", kinds.join(" and "), named[0]));
            }
        }
        if !store.user.is_empty() && store.password_file.is_none() {
            refuse("user", "needs password_file, a file with its password");
        }
        if !store.cassandra.nodes.is_empty() && store.password_file.is_some() && store.user.is_empty() {
            refuse("password_file", "needs user: Cassandra has no default user");
        }
        if self.server_tls == Some(Checks::Prefer) {
            refuse("server_tls", "must be require, verify-ca or verify-full: no store negotiates TLS");
        }
        if self.server_tls.is_some() && store.redis.is_empty() {
            refuse("server_tls", "is for a Redis store alone; reach Cassandra by a network that you trust");
        }
        if store.redis.len() > 1 {
            refuse("redis", "takes one address: a Redis cluster is not supported as a store");
        }
        if self.servers().next().is_some() {
            refuse(
                "primary",
                "is of no use to this design, and so are other servers: its data are in [store]",
            );
        }
        if self.peers.ledger_dir.is_none() {
            refuse("ledger_dir", "is missing: the ledger there makes commits of this design durable");
        }
        if self.unix_socket_dir.is_some() {
            refuse("unix_socket_dir", "is of no use to this design: its clients connect by TCP (listen)");
        }
        self.refuse_set(&[LIMITS_OF_CLIENTS, OF_SQL_FRONTEND], refuse);
        if self.auth_type == AuthType::Hba || !self.auth_user.is_empty() {
            refuse("auth_type", "must be trust or password for this design, with passwords in auth_file");
        }
    }

    /// Refuses settings that this design would ignore, unless they have their defaults.
    fn refuse_set(&self, keys: &[&[&'static str]], refuse: &mut impl FnMut(&'static str, &str)) {
        for key in keys.concat() {
            if !self.is_default(Place::Global, key) {
                refuse(key, "is not supported by this design; remove it");
            }
        }
    }

    /// Settings of attached databases, in a design that follows no commits.
    fn senseless_attached(&self, refuse: &mut impl FnMut(&'static str, &str)) {
        if self.design().follows_commits() {
            return;
        }
        if self.attach_on_first_use {
            refuse("attach_on_first_use", "is of no use to this design, which installs nothing; remove it");
        }
        if !self.replicas.is_empty() {
            refuse("replica", "is not supported by this design, which follows no commits; remove it");
        }
    }

    /// Settings of nodes of one kind, in a design that has none such.
    fn senseless_nodes(&self, refuse: &mut impl FnMut(&'static str, &str)) {
        let (chosen, peers) = (self.design(), &self.peers);
        let tier = [
            ("back_ends", !peers.back_ends.is_empty()),
            ("tier_secret_file", peers.secret_file.is_some()),
            ("tier_spares", peers.spares > 0),
            ("tier_tls_ca_file", peers.tls_ca_file.is_some()),
        ];
        for (key, _) in tier.into_iter().filter(|(_, is_set)| *is_set && !chosen.is_memory_tier()) {
            let named = design::all().find(design::Design::is_memory_tier).map_or("", |tier| tier.name);
            let remedy = format!("remove it, or set design = \"{named}\"");
            refuse(key, &format!("is for the in-memory tier alone; {remedy}"));
        }
        if peers.capture != Capture::Auto && !chosen.is_certified() {
            let names = design::CERTIFIED.map(|design| design.name).join(", ");
            refuse("capture", &format!("is for designs whose nodes all take writes ({names}); remove it"));
        }
    }

    /// Servers that the design has no use for, or lacks.
    fn senseless_servers(&self, refuse: &mut impl FnMut(&'static str, &str)) {
        self.senseless_nodes(refuse);
        self.senseless_attached(refuse);
        self.senseless_store(refuse);
        if self.design().is_key_value() {
            return;
        }
        if self.design().has_nodes() {
            self.refuse_set(&[LIMITS_OF_CLIENTS, LIMITS_OF_SQL_CLIENTS], refuse);
            if !self.auth_user.is_empty() {
                refuse("auth_user", "is not supported by this design; write each role into auth_file");
            }
            if self.peers.nodes.is_empty() {
                refuse("node", "is missing: write a [[node]] with the host of each node of this design");
            }
            if !self.primary.host.is_empty() || self.read_nodes().next().is_some() {
                refuse(
                    "primary",
                    "is of no use to this design, and so are standbys and replicas: write a [[node]] for each server",
                );
            }
            if self.peers.ledger_dir.is_none() {
                refuse("ledger_dir", "is missing: the ledger there makes commits of this design durable");
            }
            if self.design().is_memory_tier() && self.peers.secret_file.is_none() {
                refuse("tier_secret_file", "is missing: nodes ask for the secret in it");
            }
            if self.design().is_memory_tier() && self.peers.tls_ca_file.is_none() {
                let is_here = |host: &str| {
                    host == "localhost" || host.parse().is_ok_and(|host: IpAddr| host.is_loopback())
                };
                if let Some(far) = self.peers.nodes.iter().find(|node| !is_here(&node.host)) {
                    let host = &far.host;
                    refuse("tier_tls_ca_file", &format!("is missing: {host} is reached with TLS only"));
                }
            }
            if self.peers.spares > 0 && self.peers.spares >= self.peers.nodes.len() {
                refuse("tier_spares", "must be less than the number of [[node]] tables");
            }
        } else {
            if self.primary.host.is_empty() {
                refuse("primary", "is missing: write a table [primary] with its host");
            }
            if !self.peers.nodes.is_empty() {
                refuse("node", "is for designs that have nodes of one kind; this one has a [primary]");
            }
        }
    }
}
