//! A slot's stream where TLS is asked for. The replication client's own TLS would bring a second cryptographic library into the
//! program, so it is given a Unix socket, in a folder that only we can enter, behind which the bytes go through ours.

use crate::Error;
use crate::tls::Tls;
use crate::unique_name;
use std::fs::{DirBuilder, remove_dir_all};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// A socket for one connection; its folder goes with it. The connection, once made, goes on.
pub(super) struct Relay {
    folder: PathBuf,
}

impl Relay {
    /// Opens the socket: what connects there speaks with this server.
    pub(super) async fn open(tls: &Tls, host: &str, port: u16) -> Result<Relay, Error> {
        // Before anybody connects, so that what is wrong is said with its own words.
        let mut server = tls.connect(host, port).await?;
        let folder = std::env::temp_dir().join(unique_name("relay"));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let relay = Relay { folder };
        let listener = UnixListener::bind(relay.folder.join(format!(".s.PGSQL.{port}")))?;
        tokio::spawn(async move {
            let Ok((mut client, _)) = listener.accept().await else { return };
            drop(listener);
            // Either end may break off; the other one hears of it by the end of its stream.
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
        // A temporary folder that cannot be removed harms nobody.
        let _ = remove_dir_all(&self.folder);
    }
}
