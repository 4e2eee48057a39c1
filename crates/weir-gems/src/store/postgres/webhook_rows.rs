//! Events for webhooks, and the endpoints' places in their order.

use deadpool_postgres::Transaction;
use tokio_postgres::{Error, Row};
use weir_base::clock::Timestamp;

use super::pool::Lease;
use super::rows::{self, micros, time};
use crate::index::versions::Change;
use crate::name::GemName;
use crate::release::{Identity, Release};
use crate::store::StoreError;
use crate::store::column::{signed, unsigned};
use crate::store::webhooks::{
    Claim, Claimed, EndpointState, Settled, WebhookEvent, change_number, change_of, lost,
};
use crate::webhooks::release_json;

/// Keeps what happened to a release, within the transaction in which it did, if anybody is told.
pub(super) async fn tell(
    transaction: &Transaction<'_>,
    change: Change,
    name: &GemName,
    release: &Release,
    about: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let statement = transaction
        .prepare_cached(
            "UPDATE webhook_log SET last = last + 1 WHERE EXISTS (SELECT FROM webhook_endpoints)
             RETURNING last, events_max",
        )
        .await?;
    let Some(row) = transaction.query_opt(&statement, &[]).await? else { return Ok(()) };
    let (id, events_max): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let Identity { number, platform } = &release.identity;
    let text = release_json::write(name, release, about, change);
    let statement = transaction
        .prepare_cached("INSERT INTO webhook_events VALUES ($1, $2, $3, $4, $5, $6, $7)")
        .await?;
    transaction
        .execute(
            &statement,
            &[
                &id,
                &change_number(change),
                &name.as_str(),
                &number.as_str(),
                &platform.as_str(),
                &micros(now),
                &text,
            ],
        )
        .await?;
    let statement = transaction.prepare_cached("DELETE FROM webhook_events WHERE id <= $1").await?;
    transaction.execute(&statement, &[&(id - events_max)]).await?;
    Ok(())
}

/// The same, of a release that is here.
pub(super) async fn tell_of_yank(
    transaction: &Transaction<'_>,
    gem: i64,
    name: &GemName,
    identity: &Identity,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT {}, (SELECT about FROM specifications
                     WHERE gem = $1 AND number = $2 AND platform = $3)
         FROM releases WHERE gem = $1 AND number = $2 AND platform = $3",
        rows::RELEASE
    );
    let statement = transaction.prepare_cached(&sql).await?;
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    let row = transaction.query_one(&statement, &[&gem, &number, &platform]).await?;
    let release = rows::release(&row, 0)?;
    tell(transaction, Change::Yanked, name, &release, row.try_get(7)?, now).await
}

pub(super) async fn set_endpoints(
    transaction: &Transaction<'_>,
    names: Vec<String>,
    events_max: u64,
) -> Result<(), StoreError> {
    let events_max = signed(events_max);
    transaction.execute("UPDATE webhook_log SET events_max = $1", &[&events_max]).await?;
    transaction
        .execute(
            "INSERT INTO webhook_endpoints (name, cursor, failures, due_at)
             SELECT new, last, 0, 0 FROM unnest($1::text[]) AS new, webhook_log
             ON CONFLICT DO NOTHING",
            &[&names],
        )
        .await?;
    transaction
        .execute("DELETE FROM webhook_endpoints WHERE NOT name = ANY($1)", &[&names])
        .await?;
    forget_done(transaction).await
}

/// Removes what all endpoints have got.
async fn forget_done(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let statement = transaction
        .prepare_cached(
            "DELETE FROM webhook_events WHERE id <= coalesce(
                 (SELECT min(cursor) FROM webhook_endpoints), (SELECT last FROM webhook_log))",
        )
        .await?;
    transaction.execute(&statement, &[]).await?;
    Ok(())
}

pub(super) async fn endpoints(lease: &Lease) -> Result<Vec<EndpointState>, StoreError> {
    let statement = lease
        .prepare_cached(
            "SELECT name, last - cursor, failures, due_at, held_until,
                    (SELECT at FROM webhook_events WHERE id > cursor ORDER BY id LIMIT 1)
             FROM webhook_endpoints, webhook_log ORDER BY name",
        )
        .await?;
    let rows = lease.query(&statement, &[]).await?;
    rows.iter()
        .map(|row| {
            let optional =
                |column| Ok::<_, Error>(row.try_get::<_, Option<i64>>(column)?.map(time));
            Ok(EndpointState {
                name: row.try_get(0)?,
                waiting: unsigned(row.try_get(1)?),
                failures: failures(row.try_get(2)?),
                due_at: time(row.try_get(3)?),
                held_until: optional(4)?,
                oldest_at: optional(5)?,
            })
        })
        .collect()
}

fn failures(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}

pub(super) async fn claim(
    transaction: &Transaction<'_>,
    claim: Claim,
    now: Timestamp,
) -> Result<Option<Claimed>, StoreError> {
    let statement = transaction
        .prepare_cached(
            "UPDATE webhook_endpoints SET holder = $2, held_until = $3
             WHERE name = $1 AND due_at <= $4
               AND (holder IS NULL OR holder = $2 OR held_until <= $4)
             RETURNING cursor, failures",
        )
        .await?;
    let row = transaction
        .query_opt(
            &statement,
            &[&claim.endpoint, &claim.holder, &micros(claim.held_until), &micros(now)],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let cursor: i64 = row.try_get(0)?;
    let statement = transaction
        .prepare_cached("SELECT * FROM webhook_events WHERE id > $1 ORDER BY id LIMIT $2")
        .await?;
    let rows = transaction.query(&statement, &[&cursor, &i64::from(claim.events_max)]).await?;
    let events = rows.iter().map(event).collect::<Result<Vec<_>, _>>()?;
    let first = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()?;
    let dropped = first.map_or(0, |first| lost(cursor, first));
    if let Some(first) = first.filter(|_| dropped > 0) {
        let sql = "UPDATE webhook_endpoints SET cursor = $2 WHERE name = $1";
        transaction.execute(sql, &[&claim.endpoint, &(first - 1)]).await?;
    }
    Ok(Some(Claimed { events, failures: failures(row.try_get(1)?), dropped }))
}

fn event(row: &Row) -> Result<WebhookEvent, Error> {
    Ok(WebhookEvent {
        id: unsigned(row.try_get(0)?),
        change: change_of(row.try_get(1)?),
        name: row.try_get(2)?,
        number: row.try_get(3)?,
        platform: row.try_get(4)?,
        at: time(row.try_get(5)?),
        release: row.try_get(6)?,
    })
}

pub(super) async fn settle(
    transaction: &Transaction<'_>,
    settled: Settled,
) -> Result<bool, StoreError> {
    let Settled { endpoint, holder, done, failures, due_at, held_until } = settled;
    let statement = transaction
        .prepare_cached(
            "UPDATE webhook_endpoints SET cursor = greatest(cursor, $3::bigint),
                 failures = $4, due_at = $5, held_until = $6::bigint,
                 holder = CASE WHEN $6::bigint IS NULL THEN NULL ELSE holder END
             WHERE name = $1 AND holder = $2",
        )
        .await?;
    let done = done.map(signed);
    let held_until = held_until.map(micros);
    let changed = transaction
        .execute(
            &statement,
            &[&endpoint, &holder, &done, &i64::from(failures), &micros(due_at), &held_until],
        )
        .await?;
    if changed == 1 && done.is_some() {
        forget_done(transaction).await?;
    }
    Ok(changed == 1)
}
