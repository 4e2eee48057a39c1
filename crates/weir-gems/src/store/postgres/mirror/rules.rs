//! Whose names are whose: the policy that was in force last, and names that are ours without one.

use deadpool_postgres::Transaction;

use crate::store::StoreError;
use crate::store::column::signed;
use crate::store::postgres::pool::Lease;

pub(super) async fn policy(lease: &Lease) -> Result<Option<String>, StoreError> {
    let statement = lease.prepare_cached("SELECT rules FROM mirror_policy").await?;
    match lease.query_opt(&statement, &[]).await? {
        Some(row) => Ok(row.try_get(0)?),
        None => Ok(None),
    }
}

pub(super) async fn keep_policy(
    transaction: &Transaction<'_>,
    rules: Option<String>,
) -> Result<(), StoreError> {
    transaction.execute("DELETE FROM mirror_policy", &[]).await?;
    if let Some(rules) = rules {
        let insert = "INSERT INTO mirror_policy (id, rules) VALUES (1, $1)";
        transaction.execute(insert, &[&rules]).await?;
    }
    Ok(())
}

pub(super) async fn local_names(
    lease: &Lease,
    names_max: usize,
) -> Result<Vec<String>, StoreError> {
    let statement = lease
        .prepare_cached(
            "SELECT name FROM gems WHERE id NOT IN (SELECT gem FROM origins) ORDER BY id LIMIT $1",
        )
        .await?;
    let rows = lease.query(&statement, &[&signed(names_max)]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
