//! TLS towards clients, when a certificate is configured: with client certificates, if an authority is
//! configured, and with the binding data of SCRAM-SHA-256-PLUS.

use sha2::{Digest, Sha256, Sha384, Sha512};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::oid::db::{rfc4519, rfc5912};

/// Protocol name that a client must send if it begins with TLS directly (PostgreSQL 17's
/// `sslnegotiation=direct`).
const PROTOCOL: &[u8] = b"postgresql";

/// Encryption of client connections.
#[derive(Clone)]
pub struct ClientTls {
    acceptor: TlsAcceptor,
    /// The certificate's hash.
    end_point: Option<Arc<[u8]>>,
}

/// A connection that is encrypted.
pub(super) struct Encrypted {
    pub(super) stream: TlsStream<TcpStream>,
    /// Common name in the client's certificate, empty if it has none that can be read. `None`: no
    /// certificate.
    pub(super) certificate: Option<String>,
    /// Binding data of `tls-server-end-point` (RFC 5929).
    pub(super) end_point: Option<Arc<[u8]>>,
    /// True if the client named the protocol.
    pub(super) is_named: bool,
}

impl ClientTls {
    /// Reads a certificate chain and its key (PEM), and the authorities of client certificates, if clients
    /// may have any. The error names the file and the fault.
    pub fn load(certificates: &Path, key: &Path, signers: Option<&Path>) -> Result<ClientTls, String> {
        let chain = read(certificates)?;
        let end_point = chain.first().and_then(|certificate| end_point(certificate));
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|why| named(key, &why))?;
        let provider = Arc::new(ring::default_provider());
        let verifier = match signers {
            Some(file) => verifier(file, provider.clone())?,
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, secret)
            .map_err(|why| named(certificates, &why))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(ClientTls { acceptor: TlsAcceptor::from(Arc::new(config)), end_point })
    }

    /// The part that begins TLS, for connections of other protocols.
    pub fn acceptor(self) -> TlsAcceptor {
        self.acceptor
    }

    /// Begins TLS.
    ///
    /// # Errors
    /// Those of the handshake, which were sent to the client.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<Encrypted> {
        let stream = self.acceptor.accept(stream).await?;
        let (_, session) = stream.get_ref();
        let certificate = session.peer_certificates().and_then(|chain| chain.first());
        Ok(Encrypted {
            certificate: certificate.map(|certificate| common_name(certificate).unwrap_or_default()),
            end_point: self.end_point.clone(),
            is_named: session.alpn_protocol() == Some(PROTOCOL),
            stream,
        })
    }
}

fn named(path: &Path, why: &dyn fmt::Display) -> String {
    format!("{}: {why}", path.display())
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_file_iter(file).and_then(Iterator::collect).map_err(|why| named(file, &why))
}

/// Returns the verifier of client certificates: clients may have one, and then a valid one.
fn verifier(file: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in read(file)? {
        roots.add(certificate).map_err(|why| named(file, &why))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.allow_unauthenticated().build().map_err(|why| named(file, &why))
}

/// The hash of a certificate by the function of its own signature, but SHA-256 for those that are too weak
/// (RFC 5929, section 4.1). `None`: the signature names no function that is known here; then nothing is
/// bound.
fn end_point(certificate: &[u8]) -> Option<Arc<[u8]>> {
    let parsed = Certificate::from_der(certificate).ok()?;
    Some(match parsed.signature_algorithm().oid {
        rfc5912::SHA_256_WITH_RSA_ENCRYPTION
        | rfc5912::ECDSA_WITH_SHA_256
        | rfc5912::SHA_1_WITH_RSA_ENCRYPTION
        | rfc5912::MD_5_WITH_RSA_ENCRYPTION => Sha256::digest(certificate).as_slice().into(),
        rfc5912::SHA_384_WITH_RSA_ENCRYPTION | rfc5912::ECDSA_WITH_SHA_384 => {
            Sha384::digest(certificate).as_slice().into()
        }
        rfc5912::SHA_512_WITH_RSA_ENCRYPTION | rfc5912::ECDSA_WITH_SHA_512 => {
            Sha512::digest(certificate).as_slice().into()
        }
        _ => return None,
    })
}

/// First common name of the certificate's subject. A name with a zero byte in it is a forgery.
fn common_name(certificate: &[u8]) -> Option<String> {
    let parsed = Certificate::from_der(certificate).ok()?;
    let parts = parsed.tbs_certificate().subject().iter();
    let name = parts.into_iter().find(|part| part.oid == rfc4519::COMMON_NAME)?;
    let name = std::str::from_utf8(name.value.value()).ok()?;
    (!name.contains('\0')).then(|| name.to_owned())
}
