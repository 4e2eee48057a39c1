//! Which gems came from upstreams.

use deadpool_postgres::Transaction;

use crate::store::StoreError;

/// From now on they come from nowhere else.
pub(in crate::store::postgres) async fn make_local(
    transaction: &Transaction<'_>,
    gems: &[i64],
) -> Result<(), StoreError> {
    let sql = "DELETE FROM origins WHERE gem = ANY($1)";
    let statement = transaction.prepare_cached(sql).await?;
    transaction.execute(&statement, &[&gems]).await?;
    Ok(())
}

/// What upstreams say of names is work again, of all of them.
pub(super) async fn unapply(
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
