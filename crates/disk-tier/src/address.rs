//! Addresses of back ends, from URLs.

use postgres::address::{Address, Host};
use postgres::tls::Tls;
use tokio_postgres::config::Host as Named;

/// The address in a URL such as `postgres://user@host:5432/db`. TLS is for connections by TCP.
///
/// # Errors
/// Refusal of a URL that is none of these, as a sentence.
pub fn address(url: &str, tls: Option<&Tls>) -> Result<Address, String> {
    let config: tokio_postgres::Config =
        url.parse().map_err(|error| format!("expected a URL such as postgres://user@host/db: {error}"))?;
    let ([host], ports) = (config.get_hosts(), config.get_ports()) else {
        return Err("a back end has one host: postgres://user@host/db".to_owned());
    };
    let host = match host {
        Named::Tcp(name) => Host::Name(name.clone()),
        Named::Unix(folder) => Host::Socket(folder.clone()),
    };
    let user = config.get_user().ok_or("the URL has no user: postgres://user@host/db")?.to_owned();
    let is_tcp = matches!(host, Host::Name(_));
    Ok(Address {
        host,
        port: ports.first().copied().unwrap_or(5432),
        password: config.get_password().map(|password| String::from_utf8_lossy(password).into_owned()),
        password_file: None,
        database: config.get_dbname().unwrap_or(&user).to_owned(),
        user,
        tls: tls.filter(|_| is_tcp).cloned(),
    })
}
