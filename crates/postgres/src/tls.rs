//! TLS towards the servers, in the words of libpq's `sslmode`: the checks of a server's certificate, and the
//! certificate of Consort (PostgreSQL's chapter "SSL Support").

use crate::tcp;
use std::cmp::Ordering;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// The request for TLS, the first message of a connection: its length, and a number that is no version of the
/// protocol.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Requirement for a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checks {
    /// No requirement, not even a certificate: a server without TLS is spoken to in clear text (`prefer`). An
    /// attacker who can change the traffic can force clear text.
    Prefer,
    /// No requirement: the traffic cannot be read on the way, but any server is believed (`require`).
    Nothing,
    /// A certificate signed by a known authority (`verify-ca`).
    Signer,
    /// A certificate signed by a known authority, for the host of the connection (`verify-full`).
    Host,
}

/// Encryption of connections to servers. Two are equal if they were made of the same.
#[derive(Clone)]
pub struct Tls {
    checks: Checks,
    authorities: Option<PathBuf>,
    /// Consort's own chain, and its key.
    certificate: Option<(PathBuf, PathBuf)>,
    /// Content of the files: one for all clones.
    config: Arc<Mutex<Arc<ClientConfig>>>,
}

impl Tls {
    /// Encryption with these checks. `authorities` is a PEM file with the certificates of trusted
    /// authorities. `certificate` has one with Consort's own chain, and one with its key, for servers that
    /// ask for it.
    ///
    /// # Errors
    /// A sentence for a person, with the name of the file.
    pub fn new(
        checks: Checks,
        authorities: Option<&Path>,
        certificate: Option<(&Path, &Path)>,
    ) -> Result<Tls, String> {
        let provider = Arc::new(ring::default_provider());
        let signers = match (checks, authorities) {
            (Checks::Prefer | Checks::Nothing, _) => None,
            (Checks::Signer | Checks::Host, Some(file)) => Some(signers(file, &provider)?),
            (Checks::Signer | Checks::Host, None) => {
                return Err("no certificate authority is set (server_tls_ca)".to_owned());
            }
        };
        let verifier = Arc::new(Verifier { checks, signers, provider: provider.clone() });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match certificate {
            Some((file, key)) => {
                let (chain, secret) = (chain(file)?, secret(key)?);
                config.with_client_auth_cert(chain, secret).map_err(|why| unfit(&why, file, key))?
            }
            None => config.with_no_client_auth(),
        };
        Ok(Tls {
            checks,
            authorities: authorities.map(Path::to_owned),
            certificate: certificate.map(|(file, key)| (file.to_owned(), key.to_owned())),
            config: Arc::new(Mutex::new(Arc::new(config))),
        })
    }

    /// Takes over the content of the files from `other`: new connections of this one and of all its clones
    /// use it.
    pub fn renew(&self, other: &Tls) {
        let config = other.config();
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Encryption for a driver of its own, with the same checks.
    pub fn client_config(&self) -> Arc<ClientConfig> {
        self.config()
    }

    fn config(&self) -> Arc<ClientConfig> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connects to a server and begins TLS.
    ///
    /// # Errors
    /// Those of the connection; a server that speaks no TLS where it is demanded, or whose certificate is
    /// refused.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<Stream> {
        let mut stream = TcpStream::connect((host, port)).await?;
        tcp::set_up(&stream)?;
        stream.write_all(&SSL_REQUEST).await?;
        let wrong = |what: &str| Err(io::Error::other(format!("{host}:{port} {what}")));
        let said = stream.read_u8().await?;
        match said {
            b'S' => {}
            b'N' if self.checks == Checks::Prefer => return Ok(Stream::Clear(stream)),
            b'N' => return wrong("does not support TLS (server_tls)"),
            _ => return wrong("sent an unexpected answer to the TLS request"),
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let refused = |why: io::Error| io::Error::new(why.kind(), format!("TLS with {host}:{port}: {why}"));
        let stream = TlsConnector::from(self.config()).connect(name, stream).await.map_err(refused)?;
        Ok(Stream::Encrypted(Box::new(stream)))
    }

    /// Returns the encryption for a program of PostgreSQL's own, as variables of its environment.
    pub fn for_libpq(&self) -> Vec<(&'static str, OsString)> {
        let mode = match self.checks {
            Checks::Prefer => "prefer",
            Checks::Nothing => "require",
            Checks::Signer => "verify-ca",
            Checks::Host => "verify-full",
        };
        let mut variables = vec![("PGSSLMODE", OsString::from(mode))];
        // libpq checks by them in any mode, and `prefer` would go on in clear text where that fails.
        let authorities = self.authorities.as_ref().filter(|_| self.checks != Checks::Prefer);
        variables.extend(authorities.map(|file| ("PGSSLROOTCERT", OsString::from(file))));
        if let Some((file, key)) = &self.certificate {
            variables.push(("PGSSLCERT", OsString::from(file)));
            variables.push(("PGSSLKEY", OsString::from(key)));
        }
        variables
    }

    fn made_of(&self) -> (Checks, Option<&Path>, Option<&(PathBuf, PathBuf)>) {
        (self.checks, self.authorities.as_deref(), self.certificate.as_ref())
    }
}

/// A connection to a server, after the negotiation of TLS.
pub enum Stream {
    /// The server speaks TLS.
    Encrypted(Box<TlsStream<TcpStream>>),
    /// The server does not speak TLS, and need not.
    Clear(TcpStream),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Encrypted(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Clear(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Encrypted(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Clear(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Clear(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Reads Consort's certificate, and those between it and one that the servers know.
fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let named = |why: &dyn fmt::Display| format!("server_tls_certificate: {}: {why}", file.display());
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let chain: Vec<CertificateDer<'static>> = read.map_err(|why| named(&why))?;
    if chain.is_empty() { Err(named(&"the file contains no certificate")) } else { Ok(chain) }
}

fn secret(key: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(key).map_err(|why| format!("server_tls_key: {}: {why}", key.display()))
}

/// Reason why a certificate and a key cannot be used together.
fn unfit(why: &Error, file: &Path, key: &Path) -> String {
    let (file, key) = (file.display(), key.display());
    match why {
        Error::InconsistentKeys(_) => {
            format!("server_tls_key: {key}: is not the key of the certificate in {file}")
        }
        Error::InvalidCertificate(_) => format!("server_tls_certificate: {file}: {why}"),
        _ => format!("server_tls_key: {key}: {why}"),
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

/// Verifies a certificate as the checks require. The server's possession of the certificate's key is always
/// verified.
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
        // The host's name is checked last.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the variables of an encryption with the file `a` of authorities and these, where no file
    /// exists.
    fn variables(checks: Checks, certificate: Option<(&str, &str)>) -> Vec<String> {
        let nothing = Tls::new(Checks::Nothing, None, None).expect("no file is read");
        let certificate = certificate.map(|(file, key)| (PathBuf::from(file), PathBuf::from(key)));
        let tls = Tls { checks, authorities: Some(PathBuf::from("a")), certificate, ..nothing };
        let told = tls.for_libpq().into_iter();
        told.map(|(name, value)| format!("{name}={}", value.to_string_lossy())).collect()
    }

    #[test]
    fn libpq_is_told_the_same() {
        for (checks, mode) in
            [(Checks::Nothing, "require"), (Checks::Signer, "verify-ca"), (Checks::Host, "verify-full")]
        {
            let mode = format!("PGSSLMODE={mode}");
            assert_eq!(variables(checks, None), [mode.as_str(), "PGSSLROOTCERT=a"]);
            let all = [mode.as_str(), "PGSSLROOTCERT=a", "PGSSLCERT=c", "PGSSLKEY=k"];
            assert_eq!(variables(checks, Some(("c", "k"))), all);
        }
        assert_eq!(variables(Checks::Prefer, None), ["PGSSLMODE=prefer"]);
        let shown = variables(Checks::Prefer, Some(("c", "k")));
        assert_eq!(shown, ["PGSSLMODE=prefer", "PGSSLCERT=c", "PGSSLKEY=k"]);
    }
}
