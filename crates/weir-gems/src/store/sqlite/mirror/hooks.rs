//! The inbox of webhooks.

use rusqlite::{Connection, OptionalExtension, params};
use weir_base::clock::Timestamp;

use crate::platform::Platform;
use crate::release::Identity;
use crate::store::StoreError;
use crate::store::column::{name, signed, unsigned};
use crate::store::mirror::{Hook, HookKind, Inbox, NewHook};
use crate::store::sqlite::rows::Time;
use crate::version::Version;

pub(super) fn take(
    connection: &Connection,
    hooks: &[NewHook],
    waiting_max: u64,
) -> Result<Inbox, StoreError> {
    if waiting(connection)?.saturating_add(hooks.len() as u64) > waiting_max {
        return Ok(Inbox::Full);
    }
    let mut statement = connection.prepare_cached(
        "INSERT INTO hooks
             (upstream, is_removal, name, number, platform, received_at, attempts, due_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?6)",
    )?;
    for NewHook { upstream, kind, name, identity, received_at } in hooks {
        statement.execute(params![
            upstream,
            *kind == HookKind::Removed,
            name.as_str(),
            identity.number.as_str(),
            identity.platform.as_str(),
            Time(*received_at),
        ])?;
    }
    Ok(Inbox::Taken)
}

const DUE: &str = "SELECT id, upstream, is_removal, name, number, platform, received_at, attempts
     FROM hooks WHERE upstream = ?1 AND due_at <= ?2 ORDER BY id LIMIT ?3";

const NEXT: &str = "SELECT min(due_at) FROM hooks WHERE upstream = ?1";

pub(super) fn due(
    connection: &Connection,
    upstream: &str,
    now: Timestamp,
    hooks_max: usize,
) -> Result<Vec<Hook>, StoreError> {
    let mut statement = connection.prepare_cached(DUE)?;
    let mut rows = statement.query(params![upstream, Time(now), signed(hooks_max)])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let kind = if row.get(2)? { HookKind::Removed } else { HookKind::Added };
        all.push(Hook {
            id: unsigned(row.get(0)?),
            hook: NewHook {
                upstream: row.get(1)?,
                kind,
                name: name(&row.get::<_, String>(3)?)?,
                identity: Identity {
                    number: Version::from_checked(row.get(4)?),
                    platform: Platform::from_checked(row.get(5)?),
                },
                received_at: row.get::<_, Time>(6)?.0,
            },
            attempts: row.get(7)?,
        });
    }
    Ok(all)
}

pub(super) fn next(
    connection: &Connection,
    upstream: &str,
) -> Result<Option<Timestamp>, StoreError> {
    let next: Option<Option<Time>> =
        connection.prepare_cached(NEXT)?.query_row([upstream], |row| row.get(0)).optional()?;
    Ok(next.flatten().map(|time| time.0))
}

pub(super) fn drop_others(
    connection: &Connection,
    upstreams: &[String],
) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached("SELECT DISTINCT upstream FROM hooks")?;
    let found = statement.query_map([], |row| row.get::<_, String>(0))?;
    let found: Vec<_> = found.collect::<rusqlite::Result<_>>()?;
    let mut dropped = 0;
    for other in found.iter().filter(|it| !upstreams.contains(it)) {
        dropped += connection.execute("DELETE FROM hooks WHERE upstream = ?1", [other])? as u64;
    }
    Ok(dropped)
}

pub(super) fn settle(
    connection: &Connection,
    done: &[u64],
    later: &[(u64, Timestamp)],
) -> Result<(), StoreError> {
    let mut delete = connection.prepare_cached("DELETE FROM hooks WHERE id = ?1")?;
    for id in done {
        delete.execute([signed(*id)])?;
    }
    let mut put_off = connection
        .prepare_cached("UPDATE hooks SET attempts = attempts + 1, due_at = ?2 WHERE id = ?1")?;
    for (id, due_at) in later {
        put_off.execute(params![signed(*id), Time(*due_at)])?;
    }
    Ok(())
}

pub(super) fn waiting(connection: &Connection) -> Result<u64, StoreError> {
    let count: i64 =
        connection.prepare_cached("SELECT count(*) FROM hooks")?.query_row([], |row| row.get(0))?;
    Ok(unsigned(count))
}
