//! TLS towards the servers, in the words of libpq's `sslmode`: what is asked of a server's certificate (PostgreSQL's
//! chapter "SSL Support").

use crate::tcp;
use std::cmp::Ordering;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// The wish for TLS, the first message of a connection: its length, and a number that is no version of the protocol.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// What is asked of a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checks {
    /// Nothing: nobody can listen, but whoever answers is believed (`require`).
    Nothing,
    /// It is signed by one that we know (`verify-ca`).
    Signer,
    /// It is signed by one that we know, for the host that we connect to (`verify-full`).
    Host,
}

/// How connections to servers are encrypted. Two are equal if they were made of the same.
#[derive(Clone)]
pub struct Tls {
    checks: Checks,
    authorities: Option<PathBuf>,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Encryption with these checks; `authorities` is a PEM file with the certificates of those whose signature counts.
    ///
    /// # Errors
    /// A sentence for a person, with the name of the file.
    pub fn new(checks: Checks, authorities: Option<&Path>) -> Result<Tls, String> {
        let provider = Arc::new(ring::default_provider());
        let signers = match (checks, authorities) {
            (Checks::Nothing, _) => None,
            (Checks::Signer | Checks::Host, Some(file)) => Some(signers(file, &provider)?),
            (Checks::Signer | Checks::Host, None) => {
                return Err("no file tells whose signature counts".to_owned());
            }
        };
        let verifier = Arc::new(Verifier { checks, signers, provider: provider.clone() });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Tls { checks, authorities: authorities.map(Path::to_owned), config: Arc::new(config) })
    }

    /// Connects to a server and begins TLS.
    ///
    /// # Errors
    /// Those of the connection; a server that speaks no TLS, or whose certificate is refused.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<TlsStream<TcpStream>> {
        let mut stream = TcpStream::connect((host, port)).await?;
        tcp::set_up(&stream)?;
        stream.write_all(&SSL_REQUEST).await?;
        if stream.read_u8().await? != b'S' {
            return Err(io::Error::other(format!(
                "{host}:{port} does not speak TLS, and server_tls wants it"
            )));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let refused = |why: io::Error| io::Error::new(why.kind(), format!("TLS with {host}:{port}: {why}"));
        TlsConnector::from(self.config.clone()).connect(name, stream).await.map_err(refused)
    }

    /// The same for a program of PostgreSQL's own: `PGSSLMODE` and `PGSSLROOTCERT`.
    pub(crate) fn for_libpq(&self) -> (&'static str, Option<&Path>) {
        let mode = match self.checks {
            Checks::Nothing => "require",
            Checks::Signer => "verify-ca",
            Checks::Host => "verify-full",
        };
        (mode, self.authorities.as_deref())
    }

    fn made_of(&self) -> (Checks, Option<&Path>) {
        (self.checks, self.authorities.as_deref())
    }
}

fn signers(file: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let named = |why: &dyn fmt::Display| format!("{}: {why}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|why| named(&why))? {
        roots.add(certificate.map_err(|why| named(&why))?).map_err(|why| named(&why))?;
    }
    let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    built.map_err(|why| named(&why))
}

impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        self.made_of() == other.made_of()
    }
}

impl Eq for Tls {}

impl PartialOrd for Tls {
    fn partial_cmp(&self, other: &Tls) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Tls {
    fn cmp(&self, other: &Tls) -> Ordering {
        self.made_of().cmp(&other.made_of())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.made_of().fmt(f)
    }
}

/// Asks of a certificate what the checks say. That the server holds the certificate's key is asked always.
#[derive(Debug)]
struct Verifier {
    checks: Checks,
    signers: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(signers) = &self.signers else { return Ok(ServerCertVerified::assertion()) };
        // The host's name is looked at last.
        match signers.verify_server_cert(certificate, between, host, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.checks == Checks::Signer => Ok(ServerCertVerified::assertion()),
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
