//! The inbox of webhooks.

use weir_base::clock::Timestamp;

use crate::store::StoreError;
use crate::store::column::{name, signed};
use crate::store::database::{Database, Row, micros, query_one};
use crate::store::mirror::{Hook, HookKind, NewHook};

pub(in crate::store) async fn due(
    database: &impl Database,
    upstream: &str,
    now: Timestamp,
    hooks_max: usize,
) -> Result<Vec<Hook>, StoreError> {
    let sql = "SELECT id, upstream, is_removal, name, number, platform, received_at, attempts
         FROM hooks WHERE upstream = $1 AND due_at <= $2 ORDER BY id LIMIT $3";
    let rows = database.query(sql, &[&upstream, &micros(now), &signed(hooks_max)]).await?;
    rows.iter().map(hook).collect()
}

fn hook(row: &impl Row) -> Result<Hook, StoreError> {
    let kind = if row.get(2)? { HookKind::Removed } else { HookKind::Added };
    Ok(Hook {
        id: row.number(0)?,
        hook: NewHook {
            upstream: row.get(1)?,
            kind,
            name: name(&row.get::<String>(3)?)?,
            identity: row.identity(4)?,
            received_at: row.time(6)?.unwrap_or_default(),
        },
        attempts: u32::try_from(row.number(7)?).unwrap_or(u32::MAX),
    })
}

pub(in crate::store) async fn next(
    database: &impl Database,
    upstream: &str,
) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT min(due_at) FROM hooks WHERE upstream = $1";
    query_one(database, sql, &[&upstream]).await?.map_or(Ok(None), |row| row.time(0))
}

pub(in crate::store) async fn drop_others(
    database: &impl Database,
    upstreams: Vec<String>,
) -> Result<u64, StoreError> {
    let mut dropped = 0;
    for row in database.query("SELECT DISTINCT upstream FROM hooks", &[]).await? {
        let other: String = row.get(0)?;
        if !upstreams.contains(&other) {
            let sql = "DELETE FROM hooks WHERE upstream = $1";
            dropped += database.execute(sql, &[&other]).await?;
        }
    }
    Ok(dropped)
}

pub(in crate::store) async fn waiting(database: &impl Database) -> Result<u64, StoreError> {
    let row = query_one(database, "SELECT count(*) FROM hooks", &[]).await?;
    row.map_or(Ok(0), |row| row.number(0))
}
