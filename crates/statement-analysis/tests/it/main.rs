//! Tests of the analysis against a running PostgreSQL.
#![expect(clippy::disallowed_methods, reason = "the tests start a server and read files; the crate does not")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod analyst;
mod builtin;
mod corpus;
mod differs;
mod extensions;
mod harmless;
mod oracle;
mod order;
mod server;

use analyst::Analyst;
use history::DatabaseId;
use statement_analysis::shape::{Shape, Strings};
use statement_analysis::template::Template;
use statement_analysis::{Catalog, Input, judge, load};
use std::path::{Path, PathBuf};

/// The folders of the corpus for this server: that of every major, and those since a major that it has reached.
async fn corpus(analyst: &mut Analyst) -> Vec<PathBuf> {
    let major: u32 = {
        let rows = analyst.rows("SELECT current_setting('server_version_num')::int / 10000").await;
        rows[0][0].as_deref().unwrap().parse().unwrap()
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let since =
        (16..=major).map(|number| folder.join(format!("since_{number}"))).filter(|folder| folder.is_dir());
    [folder.clone()].into_iter().chain(since).collect()
}

/// A file of SQL in each of these folders, in their order.
async fn run_files(analyst: &mut Analyst, folders: &[PathBuf], name: &str) {
    for folder in folders {
        let mut text = std::fs::read_to_string(folder.join(name)).unwrap();
        if folders.iter().any(|folder| folder.ends_with("since_18")) {
            // The publication as Consort creates it there; and a form that 18 refuses.
            text = text.replace(
                "TABLES IN SCHEMA public;",
                "TABLES IN SCHEMA public WITH (publish_generated_columns = stored);",
            );
            text = text.replace("CREATE UNLOGGED TABLE lossy (", "CREATE TABLE lossy (");
        }
        analyst.run(&text).await;
    }
}

/// The files of statements in these folders.
fn statement_files(folders: &[PathBuf]) -> Vec<PathBuf> {
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}

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
