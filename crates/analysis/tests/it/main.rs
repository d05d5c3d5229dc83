//! Tests of the analysis against a running PostgreSQL.
#![expect(clippy::disallowed_methods, reason = "the tests start a server and read files; the crate does not")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod builtin;
mod corpus;
mod differs;
mod oracle;
mod order;
mod server;
mod session;
mod stories;

use analysis::{Catalog, load};
use history::DatabaseId;
use server::Analyst;

/// The server's catalogs as they are.
async fn catalog(analyst: &mut Analyst) -> Catalog {
    let mut answers = Vec::new();
    for query in load::queries("consort") {
        answers.push(analyst.rows(&query).await);
    }
    load::build(DatabaseId::new(5), &answers).unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
