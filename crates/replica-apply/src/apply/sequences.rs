//! Sets the replica's sequences: between two batches, outside all transactions, as PostgreSQL does it. The
//! positions are not recorded: when the feed is opened again they may be anywhere.

use super::{Error, Feeder};
use crate::sequences::{AT_ONCE, PATIENCE, Sequence};
use postgres::sql::literal;

impl Feeder {
    /// Sets these sequences to the given positions, after all that was sent before. A sequence that is not
    /// there, is not permanent, or may not have that position, is passed over: DDL will change it. Returns
    /// the number that the replica refused.
    ///
    /// # Errors
    /// See [`Error`]; also of a batch that was under way.
    pub async fn set_sequences(&mut self, sequences: &[&Sequence]) -> Result<usize, Error> {
        self.begin_call()?;
        let mut refused = 0;
        let done = self.set_all_sequences(sequences, &mut refused).await;
        self.end_call(done).map(|()| refused)
    }

    async fn set_all_sequences(&mut self, sequences: &[&Sequence], refused: &mut usize) -> Result<(), Error> {
        self.finish_all().await?;
        let mut parts: Vec<&[&Sequence]> = sequences.chunks(AT_ONCE).collect();
        while let Some(part) = parts.pop() {
            match self.link.query(&setting(part)).await {
                Ok(_) => {}
                Err(postgres::Error::Refused { .. }) if part.len() > 1 => {
                    let (one, other) = part.split_at(part.len() / 2);
                    parts.extend([one, other]);
                }
                Err(error @ postgres::Error::Refused { .. }) => {
                    tracing::debug!(sequence = ?part, %error, "cannot set the sequence at the replica");
                    *refused += part.len();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Sets sequences whose position differs. The set of sequences must be known before any is asked for its
/// position (OFFSET 0).
fn setting(sequences: &[&Sequence]) -> String {
    let rows: Vec<String> = sequences
        .iter()
        .map(|Sequence { schema, name, last, is_called }| {
            format!("({}, {}, '{last}'::int8, {is_called})", literal(schema), literal(name))
        })
        .collect();
    format!(
        "{PATIENCE}; SELECT count(setval(there.id, there.number, there.called)) FROM ( \
           SELECT c.oid AS id, w.number, w.called FROM (VALUES {}) AS w (place, relation, number, called) \
             JOIN pg_namespace n ON n.nspname = w.place \
             JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.relation \
             JOIN pg_sequence s ON s.seqrelid = c.oid \
           WHERE c.relpersistence = 'p' AND w.number BETWEEN s.seqmin AND s.seqmax OFFSET 0) AS there \
         WHERE NOT there.called OR there.number IS DISTINCT FROM pg_sequence_last_value(there.id)",
        rows.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_and_name_can_be_said() {
        let odd =
            Sequence { schema: "own".to_owned(), name: "it's".to_owned(), last: i64::MIN, is_called: false };
        let sql = setting(&[&odd]);
        assert!(sql.contains("(VALUES ('own', 'it''s', '-9223372036854775808'::int8, false)) AS w"), "{sql}");
    }
}
