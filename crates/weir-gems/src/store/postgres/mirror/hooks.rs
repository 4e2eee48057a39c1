//! The inbox of webhooks.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use weir_base::clock::Timestamp;

use crate::platform::Platform;
use crate::release::Identity;
use crate::store::StoreError;
use crate::store::column::{name, signed, unsigned};
use crate::store::mirror::{Hook, HookKind, Inbox, NewHook};
use crate::store::postgres::pool::Lease;
use crate::store::postgres::rows::{micros, time};
use crate::version::Version;

const WAITING: &str = "SELECT count(*) FROM hooks";

/// In this order, which is that of their numbers.
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
    let statement = transaction.prepare_cached(WAITING).await?;
    let waiting = unsigned(transaction.query_one(&statement, &[]).await?.try_get(0)?);
    if waiting.saturating_add(hooks.len() as u64) > waiting_max {
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

pub(super) async fn due(
    lease: &Lease,
    upstream: &str,
    now: Timestamp,
    hooks_max: usize,
) -> Result<Vec<Hook>, StoreError> {
    let statement = lease
        .prepare_cached(
            "SELECT id, upstream, is_removal, name, number, platform, received_at, attempts
             FROM hooks WHERE upstream = $1 AND due_at <= $2 ORDER BY id LIMIT $3",
        )
        .await?;
    let rows = lease.query(&statement, &[&upstream, &micros(now), &signed(hooks_max)]).await?;
    rows.iter().map(hook).collect()
}

fn hook(row: &Row) -> Result<Hook, StoreError> {
    let kind = if row.try_get(2)? { HookKind::Removed } else { HookKind::Added };
    let attempts: i64 = row.try_get(7)?;
    Ok(Hook {
        id: unsigned(row.try_get(0)?),
        hook: NewHook {
            upstream: row.try_get(1)?,
            kind,
            name: name(row.try_get(3)?)?,
            identity: Identity {
                number: Version::from_checked(row.try_get(4)?),
                platform: Platform::from_checked(row.try_get(5)?),
            },
            received_at: time(row.try_get(6)?),
        },
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
    })
}

pub(super) async fn next(lease: &Lease, upstream: &str) -> Result<Option<Timestamp>, StoreError> {
    let statement =
        lease.prepare_cached("SELECT min(due_at) FROM hooks WHERE upstream = $1").await?;
    let row = lease.query_one(&statement, &[&upstream]).await?;
    Ok(row.try_get::<_, Option<i64>>(0)?.map(time))
}

pub(super) async fn drop_others(
    transaction: &Transaction<'_>,
    upstreams: Vec<String>,
) -> Result<u64, StoreError> {
    let statement =
        transaction.prepare_cached("DELETE FROM hooks WHERE upstream <> ALL($1)").await?;
    Ok(transaction.execute(&statement, &[&upstreams]).await?)
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

pub(super) async fn waiting(lease: &Lease) -> Result<u64, StoreError> {
    let statement = lease.prepare_cached(WAITING).await?;
    Ok(unsigned(lease.query_one(&statement, &[]).await?.try_get(0)?))
}
