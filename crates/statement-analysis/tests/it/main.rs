//! Tests of the analysis against a running PostgreSQL.
#![expect(clippy::disallowed_methods, reason = "the tests start a server and read files; the crate does not")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod analyst;
mod builtin;
mod corpus;
mod differs;
mod harmless;
mod oracle;
mod order;
mod server;

use analyst::Analyst;
use history::DatabaseId;
use statement_analysis::shape::{Shape, Strings};
use statement_analysis::template::Template;
use statement_analysis::{Catalog, Input, judge, load};

/// The server's catalogs as they are.
async fn catalog(analyst: &mut Analyst) -> Catalog {
    let mut answers = Vec::new();
    for query in load::queries("consort") {
        answers.push(analyst.rows(&query).await);
    }
    load::build(DatabaseId::new(5), &answers).unwrap()
}

/// Template of a statement, and its shape. The error: the server's message.
async fn judged(
    statement: &str,
    analyst: &mut Analyst,
    catalog: &Catalog,
) -> Result<(Template, Shape), String> {
    let trees = analyst.trees(statement).await?;
    let shape = Shape::of(statement, Strings::Standard);
    let literals = shape.ranges();
    let input = Input { trees: &trees, text: statement, literals: &literals, parameters: &[] };
    Ok((judge(&input, catalog), shape))
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
