//! Reads with PostGIS and pgvector: complete answers where the server has the extension, elsewhere an error with a hint.

use crate::fixture;
use load_clients::progress::Progress;
use load_clients::session::{Protocol, Session};
use load_clients::stop::Stop;
use workloads::{Command, extensions};

#[tokio::test]
async fn missing_extension_is_an_error_with_a_hint() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let session = Session::open(&url, Protocol::Simple).await.unwrap();
    for (option, name) in [("postgis", "postgis"), ("pgvector", "vector")] {
        let available = format!("SELECT name FROM pg_available_extensions WHERE name = '{name}'");
        let is_available = !session.texts(&available).await.unwrap().is_empty();
        for protocol in ["simple", "extended", "prepared"] {
            let line =
                ["extensions", "--extension", option, "--rows", "300", "--url", &url, "--clients", "2"];
            let line = [&line[..], &["--time", "500ms", "--protocol", protocol]].concat();
            let Command::Extensions(options) = fixture::command(&line) else {
                panic!("extensions was asked")
            };
            let (stop, mut progress) = (Stop::new(), Progress::silent());
            match extensions::measure(&options, &stop, &mut progress).await {
                Ok(report) => {
                    assert!(is_available && report.is_clean() && report.all.committed > 0, "{report}");
                    assert!(report.errors.is_empty() && report.all.failed == 0, "{report}");
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(!is_available && text.contains(name), "{text}");
                    assert!(text.contains("HINT: ") && text.contains("CONSORT_POSTGRES_BIN"), "{text}");
                }
            }
        }
    }
}
