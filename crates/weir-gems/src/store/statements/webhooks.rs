//! Events for webhooks, and the endpoints' positions.

use weir_base::clock::Timestamp;

use super::releases::{RELEASE, release};
use crate::index::versions::Change;
use crate::name::GemName;
use crate::release::{Identity, Release};
use crate::store::StoreError;
use crate::store::column::signed;
use crate::store::database::{Database, Row, micros, query_one};
use crate::store::webhooks::{
    Claim, Claimed, EndpointState, Settled, WebhookEvent, change_number, change_of, lost,
};
use crate::webhooks::release_json;

/// Saves the event of a change, within the transaction of the change, if there are endpoints.
pub(in crate::store) async fn enqueue(
    database: &impl Database,
    change: Change,
    name: &GemName,
    release: &Release,
    about: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE webhook_log SET last = last + 1
         WHERE EXISTS (SELECT 1 FROM webhook_endpoints) RETURNING last, events_max";
    let Some(row) = query_one(database, sql, &[]).await? else { return Ok(()) };
    let (id, events_max): (i64, i64) = (row.get(0)?, row.get(1)?);
    let Identity { number, platform } = &release.identity;
    let (number, platform) = (number.as_str(), platform.as_str());
    let (change_number, at) = (change_number(change), micros(now));
    let text = release_json::write(name, release, about, change);
    let sql = "INSERT INTO webhook_events VALUES ($1, $2, $3, $4, $5, $6, $7)";
    database
        .execute(sql, &[&id, &change_number, &name.as_str(), &number, &platform, &at, &text])
        .await?;
    let oldest = id - events_max;
    database.execute("DELETE FROM webhook_events WHERE id <= $1", &[&oldest]).await?;
    Ok(())
}

/// Enqueues the event of a yank. The release is still stored, so its data is read here.
pub(in crate::store) async fn enqueue_yanked(
    database: &impl Database,
    gem: i64,
    name: &GemName,
    identity: &Identity,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT {RELEASE}, (SELECT about FROM specifications
                            WHERE gem = $1 AND number = $2 AND platform = $3)
         FROM releases WHERE gem = $1 AND number = $2 AND platform = $3"
    );
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    let Some(row) = query_one(database, &sql, &[&gem, &number, &platform]).await? else {
        return Ok(());
    };
    let (release, about) = (release(&row, 0)?, row.get::<Option<String>>(7)?);
    enqueue(database, Change::Yanked, name, &release, about.as_deref(), now).await
}

pub(in crate::store) async fn set_endpoints(
    database: &impl Database,
    names: Vec<String>,
    events_max: u64,
) -> Result<(), StoreError> {
    let events_max = signed(events_max);
    database.execute("UPDATE webhook_log SET events_max = $1", &[&events_max]).await?;
    for name in &names {
        let sql = "INSERT INTO webhook_endpoints (name, cursor, failures, due_at)
             SELECT CAST($1 AS TEXT), last, 0, 0 FROM webhook_log WHERE true
             ON CONFLICT DO NOTHING";
        database.execute(sql, &[name]).await?;
    }
    for row in database.query("SELECT name FROM webhook_endpoints", &[]).await? {
        let known: String = row.get(0)?;
        if !names.contains(&known) {
            let sql = "DELETE FROM webhook_endpoints WHERE name = $1";
            database.execute(sql, &[&known]).await?;
        }
    }
    forget_done(database).await
}

/// Removes events that all endpoints have received.
async fn forget_done(database: &impl Database) -> Result<(), StoreError> {
    let sql = "DELETE FROM webhook_events WHERE id <= coalesce(
             (SELECT min(cursor) FROM webhook_endpoints), (SELECT last FROM webhook_log))";
    database.execute(sql, &[]).await?;
    Ok(())
}

pub(in crate::store) async fn endpoints(
    database: &impl Database,
) -> Result<Vec<EndpointState>, StoreError> {
    let sql = "SELECT name, last - cursor, failures, due_at, held_until,
                (SELECT at FROM webhook_events WHERE id > cursor ORDER BY id LIMIT 1)
         FROM webhook_endpoints, webhook_log ORDER BY name";
    database.query(sql, &[]).await?.iter().map(state).collect()
}

fn state(row: &impl Row) -> Result<EndpointState, StoreError> {
    Ok(EndpointState {
        name: row.get(0)?,
        waiting: row.number(1)?,
        failures: failures(row, 2)?,
        due_at: row.time(3)?.unwrap_or_default(),
        held_until: row.time(4)?,
        oldest_at: row.time(5)?,
    })
}

fn failures(row: &impl Row, column: usize) -> Result<u32, StoreError> {
    Ok(u32::try_from(row.number(column)?).unwrap_or(u32::MAX))
}

pub(in crate::store) async fn claim(
    database: &impl Database,
    claim: Claim,
    now: Timestamp,
) -> Result<Option<Claimed>, StoreError> {
    let Claim { endpoint, holder, held_until, events_max } = claim;
    let sql = "UPDATE webhook_endpoints SET holder = $2, held_until = $3
         WHERE name = $1 AND due_at <= $4
           AND (holder IS NULL OR holder = $2 OR held_until <= $4)
         RETURNING cursor, failures";
    let (held_until, now) = (micros(held_until), micros(now));
    let claimed = query_one(database, sql, &[&endpoint, &holder, &held_until, &now]).await?;
    let Some(row) = claimed else { return Ok(None) };
    let cursor: i64 = row.get(0)?;
    let sql = "SELECT * FROM webhook_events WHERE id > $1 ORDER BY id LIMIT $2";
    let rows = database.query(sql, &[&cursor, &i64::from(events_max)]).await?;
    let first: Option<i64> = rows.first().map(|row| row.get(0)).transpose()?;
    let dropped = first.map_or(0, |first| lost(cursor, first));
    if let Some(first) = first.filter(|_| dropped > 0) {
        let sql = "UPDATE webhook_endpoints SET cursor = $2 WHERE name = $1";
        database.execute(sql, &[&endpoint, &(first - 1)]).await?;
    }
    let events = rows.iter().map(event).collect::<Result<_, _>>()?;
    Ok(Some(Claimed { events, failures: failures(&row, 1)?, dropped }))
}

fn event(row: &impl Row) -> Result<WebhookEvent, StoreError> {
    Ok(WebhookEvent {
        id: row.number(0)?,
        change: change_of(row.get(1)?),
        name: row.get(2)?,
        number: row.get(3)?,
        platform: row.get(4)?,
        at: row.time(5)?.unwrap_or_default(),
        release: row.get(6)?,
    })
}

pub(in crate::store) async fn settle(
    database: &impl Database,
    settled: Settled,
) -> Result<bool, StoreError> {
    let Settled { endpoint, holder, done, failures, due_at, held_until } = settled;
    let (done, failures) = (done.map(signed), i64::from(failures));
    let (due_at, held_until) = (micros(due_at), held_until.map(micros));
    let sql = "UPDATE webhook_endpoints SET
             cursor = CASE WHEN cursor < CAST($3 AS BIGINT) THEN $3 ELSE cursor END,
             failures = $4, due_at = $5, held_until = CAST($6 AS BIGINT),
             holder = CASE WHEN CAST($6 AS BIGINT) IS NULL THEN NULL ELSE holder END
         WHERE name = $1 AND holder = $2";
    let changed = database
        .execute(sql, &[&endpoint, &holder, &done, &failures, &due_at, &held_until])
        .await?;
    if changed == 1 && done.is_some() {
        forget_done(database).await?;
    }
    Ok(changed == 1)
}
