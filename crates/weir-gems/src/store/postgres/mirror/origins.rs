//! Stores which gems came from upstreams.

use deadpool_postgres::Transaction;

use crate::store::StoreError;

/// Makes gems local, so that no upstream can change them.
pub(in crate::store::postgres) async fn make_local(
    transaction: &Transaction<'_>,
    gems: &[i64],
) -> Result<(), StoreError> {
    let sql = "DELETE FROM origins WHERE gem = ANY($1)";
    let statement = transaction.prepare_cached(sql).await?;
    transaction.execute(&statement, &[&gems]).await?;
    Ok(())
}

/// Makes names pending for all upstreams that list them.
pub(super) async fn mark_pending(
    transaction: &Transaction<'_>,
    names: &[&str],
) -> Result<(), StoreError> {
    let statement = transaction
        .prepare_cached(
            "UPDATE upstream_gems SET applied = NULL
             WHERE upstream IN (SELECT id FROM upstreams) AND name = ANY($1)
               AND applied IS NOT NULL",
        )
        .await?;
    transaction.execute(&statement, &[&names]).await?;
    Ok(())
}
