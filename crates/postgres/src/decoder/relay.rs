//! A slot's stream with TLS. The replication client's own TLS would bring a second cryptographic library into
//! the program. So the client receives a Unix socket in a folder that only Consort can enter, and a relay
//! passes the bytes through Consort's TLS.

use crate::Error;
use crate::tls::Tls;
use crate::unique_name;
use std::fs::{DirBuilder, remove_dir_all};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// A socket for one connection, dropped with its folder. The connection, once made, goes on.
pub(super) struct Relay {
    folder: PathBuf,
}

impl Relay {
    /// Opens the socket: a client that connects there speaks with this server.
    pub(super) async fn open(tls: &Tls, host: &str, port: u16) -> Result<Relay, Error> {
        // The first connection is made before the client's, so that a failure is reported in its own words.
        let mut server = tls.connect(host, port).await?;
        let folder = std::env::temp_dir().join(unique_name("relay"));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let relay = Relay { folder };
        let listener = UnixListener::bind(relay.folder.join(format!(".s.PGSQL.{port}")))?;
        tokio::spawn(async move {
            let Ok((mut client, _)) = listener.accept().await else { return };
            drop(listener);
            // Either end may break off; the other one notices by the end of its stream.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
        Ok(relay)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A temporary folder that cannot be removed is harmless.
        let _ = remove_dir_all(&self.folder);
    }
}
