//! TLS towards clients, when a certificate is configured.

use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reads a certificate chain and its key (PEM); the error says what is wrong with which file.
pub fn load(certificates: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let named = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|why| named(certificates, &why))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|why| named(key, &why))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|why| named(certificates, &why))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
