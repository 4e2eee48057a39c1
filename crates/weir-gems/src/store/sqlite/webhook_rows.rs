//! Events for webhooks, and the endpoints' places in their order.

use rusqlite::{Connection, OptionalExtension, Row, params};
use weir_base::clock::Timestamp;

use super::rows::{self, Time};
use crate::index::versions::Change;
use crate::name::GemName;
use crate::release::{Identity, Release};
use crate::store::StoreError;
use crate::store::column::{signed, unsigned};
use crate::store::webhooks::{
    Claim, Claimed, EndpointState, Settled, WebhookEvent, change_number, change_of, lost,
};
use crate::webhooks::release_json;

pub(super) const TABLES: &str = "
CREATE TABLE webhook_events (
    id INTEGER PRIMARY KEY,
    change INTEGER NOT NULL,
    name TEXT NOT NULL,
    number TEXT NOT NULL,
    platform TEXT NOT NULL,
    at INTEGER NOT NULL,
    release TEXT NOT NULL
) STRICT;
CREATE TABLE webhook_endpoints (
    name TEXT PRIMARY KEY,
    -- The last event that it has got, or will not get.
    cursor INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    holder TEXT,
    held_until INTEGER
) STRICT;
-- One row: the last event's number, and how many are kept.
CREATE TABLE webhook_log (last INTEGER NOT NULL, events_max INTEGER NOT NULL) STRICT;
INSERT INTO webhook_log VALUES (0, 1);
";

/// Keeps what happened to a release, within the transaction in which it did, if anybody is told.
pub(super) fn tell(
    connection: &Connection,
    change: Change,
    name: &GemName,
    release: &Release,
    about: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let next: Option<(i64, i64)> = connection
        .prepare_cached(
            "UPDATE webhook_log SET last = last + 1 WHERE EXISTS (SELECT 1 FROM webhook_endpoints)
             RETURNING last, events_max",
        )?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, events_max)) = next else { return Ok(()) };
    let Identity { number, platform } = &release.identity;
    let text = release_json::write(name, release, about, change);
    connection
        .prepare_cached("INSERT INTO webhook_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![
            id,
            change_number(change),
            name.as_str(),
            number.as_str(),
            platform.as_str(),
            Time(now),
            text
        ])?;
    connection
        .prepare_cached("DELETE FROM webhook_events WHERE id <= ?1")?
        .execute([id - events_max])?;
    Ok(())
}

/// The same, of a release that is here.
pub(super) fn tell_of_yank(
    connection: &Connection,
    gem: i64,
    name: &GemName,
    identity: &Identity,
    now: Timestamp,
) -> Result<(), StoreError> {
    let key = params![gem, identity.number.as_str(), identity.platform.as_str()];
    let sql = format!(
        "SELECT {} FROM releases WHERE gem = ?1 AND number = ?2 AND platform = ?3",
        rows::RELEASE
    );
    let release = connection.prepare_cached(&sql)?.query_row(key, |row| rows::release(row, 0))?;
    let about: Option<String> = connection
        .prepare_cached(
            "SELECT about FROM specifications WHERE gem = ?1 AND number = ?2 AND platform = ?3",
        )?
        .query_row(key, |row| row.get(0))
        .optional()?;
    tell(connection, Change::Yanked, name, &release, about.as_deref(), now)
}

pub(super) fn set_endpoints(
    connection: &Connection,
    names: &[String],
    events_max: u64,
) -> Result<(), StoreError> {
    let events_max = signed(events_max);
    connection.execute("UPDATE webhook_log SET events_max = ?1", [events_max])?;
    for name in names {
        connection
            .prepare_cached(
                "INSERT INTO webhook_endpoints (name, cursor, failures, due_at)
                 SELECT ?1, last, 0, 0 FROM webhook_log WHERE true ON CONFLICT DO NOTHING",
            )?
            .execute([name])?;
    }
    let known: Vec<String> = connection
        .prepare_cached("SELECT name FROM webhook_endpoints")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for name in known.iter().filter(|name| !names.contains(name)) {
        connection.execute("DELETE FROM webhook_endpoints WHERE name = ?1", [name])?;
    }
    forget_done(connection)
}

/// Removes what all endpoints have got.
fn forget_done(connection: &Connection) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "DELETE FROM webhook_events WHERE id <= coalesce(
                 (SELECT min(cursor) FROM webhook_endpoints), (SELECT last FROM webhook_log))",
        )?
        .execute([])?;
    Ok(())
}

pub(super) fn endpoints(connection: &Connection) -> Result<Vec<EndpointState>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT name, last - cursor, failures, due_at, held_until,
                (SELECT at FROM webhook_events WHERE id > cursor ORDER BY id LIMIT 1)
         FROM webhook_endpoints, webhook_log ORDER BY name",
    )?;
    let states = statement.query_map([], |row| {
        let time = |column| -> rusqlite::Result<_> {
            Ok(row.get::<_, Option<Time>>(column)?.map(|time| time.0))
        };
        Ok(EndpointState {
            name: row.get(0)?,
            waiting: unsigned(row.get(1)?),
            failures: row.get(2)?,
            due_at: row.get::<_, Time>(3)?.0,
            held_until: time(4)?,
            oldest_at: time(5)?,
        })
    })?;
    Ok(states.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn claim(
    connection: &Connection,
    claim: &Claim,
    now: Timestamp,
) -> Result<Option<Claimed>, StoreError> {
    let found: Option<(i64, u32)> = connection
        .prepare_cached(
            "UPDATE webhook_endpoints SET holder = ?2, held_until = ?3
             WHERE name = ?1 AND due_at <= ?4
               AND (holder IS NULL OR holder = ?2 OR held_until <= ?4)
             RETURNING cursor, failures",
        )?
        .query_row(
            params![claim.endpoint, claim.holder, Time(claim.held_until), Time(now)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((cursor, failures)) = found else { return Ok(None) };
    let events: Vec<_> = connection
        .prepare_cached("SELECT * FROM webhook_events WHERE id > ?1 ORDER BY id LIMIT ?2")?
        .query_map(params![cursor, claim.events_max], event)?
        .collect::<rusqlite::Result<_>>()?;
    let first = events.first().and_then(|event: &WebhookEvent| i64::try_from(event.id).ok());
    let dropped = first.map_or(0, |first| lost(cursor, first));
    if let Some(first) = first.filter(|_| dropped > 0) {
        connection.execute(
            "UPDATE webhook_endpoints SET cursor = ?2 WHERE name = ?1",
            params![claim.endpoint, first - 1],
        )?;
    }
    Ok(Some(Claimed { events, failures, dropped }))
}

fn event(row: &Row<'_>) -> rusqlite::Result<WebhookEvent> {
    Ok(WebhookEvent {
        id: unsigned(row.get(0)?),
        change: change_of(row.get(1)?),
        name: row.get(2)?,
        number: row.get(3)?,
        platform: row.get(4)?,
        at: row.get::<_, Time>(5)?.0,
        release: row.get(6)?,
    })
}

pub(super) fn settle(connection: &Connection, settled: &Settled) -> Result<bool, StoreError> {
    let Settled { endpoint, holder, done, failures, due_at, held_until } = settled;
    let done = done.map(signed);
    let changed = connection
        .prepare_cached(
            "UPDATE webhook_endpoints SET cursor = max(cursor, coalesce(?3, cursor)),
                 failures = ?4, due_at = ?5, held_until = ?6,
                 holder = CASE WHEN ?6 IS NULL THEN NULL ELSE holder END
             WHERE name = ?1 AND holder = ?2",
        )?
        .execute(params![endpoint, holder, done, failures, Time(*due_at), held_until.map(Time)])?;
    if changed == 1 && done.is_some() {
        forget_done(connection)?;
    }
    Ok(changed == 1)
}
