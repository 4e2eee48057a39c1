//! Bulk operations on the inbox of webhooks.

use deadpool_postgres::Transaction;
use weir_base::clock::Timestamp;

use crate::store::StoreError;
use crate::store::column::signed;
use crate::store::database::micros;
use crate::store::mirror::{HookKind, Inbox, NewHook};
use crate::store::statements::hooks::waiting;

/// Inserts in this order, so that the ids have the same order.
const TAKE: &str = "INSERT INTO hooks
         (upstream, is_removal, name, number, platform, received_at, attempts, due_at)
     SELECT upstream, is_removal, name, number, platform, received_at, 0, received_at
     FROM unnest($1::text[], $2::boolean[], $3::text[], $4::text[], $5::text[], $6::bigint[])
         WITH ORDINALITY AS new (upstream, is_removal, name, number, platform, received_at, place)
     ORDER BY place";

pub(super) async fn take(
    transaction: &Transaction<'_>,
    hooks: Vec<NewHook>,
    waiting_max: u64,
) -> Result<Inbox, StoreError> {
    if waiting(transaction).await?.saturating_add(hooks.len() as u64) > waiting_max {
        return Ok(Inbox::Full);
    }
    let upstreams: Vec<&str> = hooks.iter().map(|it| it.upstream.as_str()).collect();
    let are_removals: Vec<bool> = hooks.iter().map(|it| it.kind == HookKind::Removed).collect();
    let names: Vec<&str> = hooks.iter().map(|it| it.name.as_str()).collect();
    let numbers: Vec<&str> = hooks.iter().map(|it| it.identity.number.as_str()).collect();
    let platforms: Vec<&str> = hooks.iter().map(|it| it.identity.platform.as_str()).collect();
    let received_at: Vec<i64> = hooks.iter().map(|it| micros(it.received_at)).collect();
    let statement = transaction.prepare_cached(TAKE).await?;
    transaction
        .execute(
            &statement,
            &[&upstreams, &are_removals, &names, &numbers, &platforms, &received_at],
        )
        .await?;
    Ok(Inbox::Taken)
}

pub(super) async fn settle(
    transaction: &Transaction<'_>,
    done: Vec<u64>,
    later: Vec<(u64, Timestamp)>,
) -> Result<(), StoreError> {
    let done: Vec<i64> = done.into_iter().map(signed).collect();
    let statement = transaction.prepare_cached("DELETE FROM hooks WHERE id = ANY($1)").await?;
    transaction.execute(&statement, &[&done]).await?;
    let (ids, due_at): (Vec<_>, Vec<_>) =
        later.into_iter().map(|(id, due_at)| (signed(id), micros(due_at))).unzip();
    let statement = transaction
        .prepare_cached(
            "UPDATE hooks SET attempts = attempts + 1, due_at = later.due_at
             FROM unnest($1::bigint[], $2::bigint[]) AS later (id, due_at)
             WHERE hooks.id = later.id",
        )
        .await?;
    transaction.execute(&statement, &[&ids, &due_at]).await?;
    Ok(())
}
