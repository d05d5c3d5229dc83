//! A connection that hands out what the server makes of statements.

use crate::server::Server;
use std::path::Path;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

/// A connection.
pub(crate) struct Analyst {
    client: Client,
    trees: mpsc::UnboundedReceiver<String>,
}

impl Server {
    /// A connection.
    pub(crate) async fn connect(&self, user: &str) -> Analyst {
        self.connect_to("postgres", user).await
    }

    /// A connection to this database.
    pub(crate) async fn connect_to(&self, database: &str, user: &str) -> Analyst {
        Analyst::connect(self.folder(), database, user)
            .await
            .unwrap_or_else(|error| panic!("{user}: {}", describe(&error)))
    }
}

impl Analyst {
    async fn connect(folder: &Path, database: &str, user: &str) -> Result<Analyst, tokio_postgres::Error> {
        let mut config = tokio_postgres::Config::new();
        config.host_path(folder).user(user).dbname(database);
        let (client, mut connection) = config.connect(NoTls).await?;
        let (sender, trees) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notice(notice) = message
                    && notice.message() == "rewritten parse tree:"
                {
                    let _ = sender.send(notice.detail().unwrap_or("").to_owned());
                }
            }
        });
        Ok(Analyst { client, trees })
    }

    /// Makes the server report its tree of every statement from now on.
    pub(crate) async fn listen(&mut self) {
        let settings = "SET client_min_messages = log; SET debug_print_rewritten = on; SET debug_pretty_print = off; SET log_min_messages = fatal";
        self.run(settings).await;
    }

    /// Runs statements of which no answer is wanted.
    pub(crate) async fn run(&mut self, sql: &str) {
        self.try_run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// As [`Analyst::run`], if it may fail.
    pub(crate) async fn try_run(&mut self, sql: &str) -> Result<(), String> {
        self.client.batch_execute(sql).await.map_err(|error| describe(&error))
    }

    /// Runs a query and gives its rows as text.
    pub(crate) async fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.try_rows(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// As [`Analyst::rows`], if it may fail.
    pub(crate) async fn try_rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        let messages = self.client.simple_query(sql).await.map_err(|error| describe(&error))?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows
            .map(|row| (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
            .collect())
    }

    /// The server's answer to a mere Parse of this statement.
    pub(crate) async fn trees(&mut self, sql: &str) -> Result<String, String> {
        while self.trees.try_recv().is_ok() {}
        self.client.prepare(sql).await.map_err(|error| describe(&error))?;
        self.trees.try_recv().map_err(|_| "the server said nothing".to_owned())
    }
}

fn describe(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}
