//! Download counts by full name.

use std::collections::HashMap;

use deadpool_postgres::Transaction;

use super::pool::Lease;
use crate::store::StoreError;
use crate::store::column::{signed, unsigned};

/// Adds to the counts. Each name must occur only once.
pub(super) async fn add(
    transaction: &Transaction<'_>,
    counts: Vec<(String, u64)>,
) -> Result<(), StoreError> {
    let statement = transaction
        .prepare_cached(
            "INSERT INTO downloads SELECT * FROM unnest($1::text[], $2::bigint[])
             ON CONFLICT (full_name) DO UPDATE SET count = downloads.count + excluded.count",
        )
        .await?;
    let (names, counts): (Vec<_>, Vec<_>) =
        counts.into_iter().map(|(name, count)| (name, signed(count))).unzip();
    transaction.execute(&statement, &[&names, &counts]).await?;
    Ok(())
}

pub(super) async fn of(lease: &Lease, full_names: &[String]) -> Result<Vec<u64>, StoreError> {
    let sql = "SELECT full_name, count FROM downloads WHERE full_name = ANY ($1)";
    let statement = lease.prepare_cached(sql).await?;
    let mut known = HashMap::new();
    for row in lease.query(&statement, &[&full_names]).await? {
        let (full_name, count): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        known.insert(full_name, unsigned(count));
    }
    Ok(full_names.iter().map(|it| known.get(it).copied().unwrap_or_default()).collect())
}
