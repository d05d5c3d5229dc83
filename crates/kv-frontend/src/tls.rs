//! TLS towards clients.

use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// Certificate and key of the server.
#[derive(Clone)]
pub struct ServerTls(TlsAcceptor);

impl ServerTls {
    /// Reads a certificate chain and its key (PEM).
    ///
    /// # Errors
    /// A sentence that names the file and the fault.
    pub fn load(certificates: &Path, key: &Path) -> Result<ServerTls, String> {
        let named = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let chain = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|why| named(certificates, &why))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|why| named(key, &why))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|why| named(certificates, &why))?;
        Ok(ServerTls(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}
