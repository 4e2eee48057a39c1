//! Stores the outcome for pending names.

use deadpool_postgres::Transaction;

use crate::store::StoreError;
use crate::store::mirror::{Noted, Refusal};

/// The outcomes as columns.
#[derive(Default)]
pub(super) struct Settled {
    names: Vec<String>,
    applied: Vec<Option<Vec<u8>>>,
    refusals: Vec<Option<i64>>,
}

impl Settled {
    /// Adds a name that was applied, or rejected for a reason.
    pub(super) fn add(&mut self, noted: &Noted, refusal: Option<Refusal>) {
        self.names.push(noted.name.to_string());
        let applied = noted.md5.filter(|_| refusal.is_none());
        self.applied.push(applied.map(|md5| md5.to_vec()));
        self.refusals.push(refusal.map(Refusal::number));
    }

    pub(super) async fn write(
        self,
        transaction: &Transaction<'_>,
        upstream: i64,
    ) -> Result<(), StoreError> {
        let statement = transaction
            .prepare_cached(
                "UPDATE upstream_gems SET applied = new.applied, refusal = new.refusal
                 FROM unnest($2::text[], $3::bytea[], $4::bigint[]) AS new (name, applied, refusal)
                 WHERE upstream = $1 AND upstream_gems.name = new.name",
            )
            .await?;
        transaction
            .execute(&statement, &[&upstream, &self.names, &self.applied, &self.refusals])
            .await?;
        Ok(())
    }
}
