//! Bulk operations on the inbox of webhooks.

use rusqlite::{Connection, params};
use weir_base::clock::Timestamp;

use crate::store::StoreError;
use crate::store::column::signed;
use crate::store::database::{at_once, micros};
use crate::store::mirror::{HookKind, Inbox, NewHook};
use crate::store::sqlite::database::Sqlite;
use crate::store::statements::hooks::waiting;

pub(super) fn take(
    connection: &Connection,
    hooks: &[NewHook],
    waiting_max: u64,
) -> Result<Inbox, StoreError> {
    if at_once(waiting(&Sqlite(connection)))?.saturating_add(hooks.len() as u64) > waiting_max {
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
            micros(*received_at),
        ])?;
    }
    Ok(Inbox::Taken)
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
        put_off.execute(params![signed(*id), micros(*due_at)])?;
    }
    Ok(())
}
