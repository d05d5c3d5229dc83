//! A small HTTP listener for `/metrics`, `/healthz` and `/readyz`: three pages, GET only, one request per
//! connection.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The longest request that is read.
const MAX_REQUEST_BYTES: usize = 8 << 10;

/// Maximum duration of a request.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Connections that are served at one time; more wait in the listener.
const MAX_CONNECTIONS: usize = 16;

/// Pause after a failed accept before the next one.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Content of the pages.
pub trait Pages {
    /// The page of the metrics, in Prometheus' text format.
    fn metrics(&self) -> String;
    /// Reason why the node is not ready for clients. `None`: it is ready.
    fn not_ready(&self) -> Option<String>;
}

/// Serves the pages for ever, in tasks of the current thread.
pub async fn serve(listener: TcpListener, pages: Rc<dyn Pages>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore stays open");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // The process may lack file descriptors, for example: clients come back.
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
        };
        let pages = Rc::clone(&pages);
        tokio::task::spawn_local(async move {
            // A client that is slow or gone gets nothing, and no other client waits for it.
            let _ = timeout(REQUEST_TIME, exchange(stream, pages.as_ref())).await;
            drop(place);
        });
    }
}

async fn exchange(mut stream: TcpStream, pages: &dyn Pages) -> io::Result<()> {
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") && request.len() < MAX_REQUEST_BYTES {
        match stream.read(&mut chunk).await? {
            0 => break,
            count => request.extend_from_slice(&chunk[..count]),
        }
    }
    stream.write_all(answer(&request, pages).as_bytes()).await?;
    stream.shutdown().await
}

/// The whole response to a request.
fn answer(request: &[u8], pages: &dyn Pages) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&str> = std::str::from_utf8(line).unwrap_or_default().split(' ').collect();
    let (status, body) = match words[..] {
        ["GET", "/metrics", _] => ("200 OK", pages.metrics()),
        ["GET", "/healthz", _] => ("200 OK", "ok\n".to_owned()),
        ["GET", "/readyz", _] => match pages.not_ready() {
            None => ("200 OK", "ready\n".to_owned()),
            Some(why) => ("503 Service Unavailable", format!("{why}\n")),
        },
        ["GET", _, _] => ("404 Not Found", "not found; use /metrics, /healthz or /readyz\n".to_owned()),
        [_, _, _] => ("405 Method Not Allowed", "only GET is allowed\n".to_owned()),
        _ => ("400 Bad Request", "not an HTTP request\n".to_owned()),
    };
    let kind = if words.get(1) == Some(&"/metrics") { "text/plain; version=0.0.4" } else { "text/plain" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Option<&'static str>);

    impl Pages for Fixed {
        fn metrics(&self) -> String {
            "x 1\n".to_owned()
        }

        fn not_ready(&self) -> Option<String> {
            self.0.map(str::to_owned)
        }
    }

    #[test]
    fn each_page_has_its_answer() {
        let ready = Fixed(None);
        let starts = |request: &str, pages: &Fixed| {
            answer(request.as_bytes(), pages).lines().next().map(str::to_owned)
        };
        let status = |request: &str| starts(request, &ready).unwrap();
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
        assert_eq!(status("GET /healthz HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
        assert_eq!(status("GET /readyz HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
        assert_eq!(status("GET /other HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
        assert_eq!(status("\u{0}\u{1}"), "HTTP/1.1 400 Bad Request");
        let waiting = Fixed(Some("waits for the primary"));
        let response = answer(b"GET /readyz HTTP/1.1\r\n\r\n", &waiting);
        assert!(
            response.starts_with("HTTP/1.1 503 ") && response.ends_with("\r\n\r\nwaits for the primary\n")
        );
        assert!(
            answer(b"GET /metrics HTTP/1.1\r\n\r\n", &ready)
                .ends_with("Content-Length: 4\r\nConnection: close\r\n\r\nx 1\n")
        );
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_request_over_a_socket_is_answered() {
        let local = tokio::task::LocalSet::new();
        let answered = local.run_until(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::task::spawn_local(serve(listener, Rc::new(Fixed(None))));
            let mut text = String::new();
            for _ in 0..2 * MAX_CONNECTIONS {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(b"GET /healthz HTTP/1.0\r\nHost: x\r\n").await.unwrap();
                stream.write_all(b"\r\n").await.unwrap();
                text.clear();
                stream.read_to_string(&mut text).await.unwrap();
            }
            text
        });
        assert!(timeout(REQUEST_TIME, answered).await.unwrap().ends_with("\r\n\r\nok\n"));
    }
}
