//! Upstreams as rows, and the gems that came from them.

use crate::store::StoreError;
use crate::store::column::{name, signed};
use crate::store::database::{Database, Row, Values, micros, query_one};
use crate::store::mirror::{Gone, LastLooks, MirrorCounts, Origins, Position};

/// Returns the id of an upstream, or None if nothing was recorded of it.
pub(in crate::store) async fn id(
    database: &impl Database,
    upstream: &str,
) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT id FROM upstreams WHERE name = $1";
    query_one(database, sql, &[&upstream]).await?.map(|row| row.get(0)).transpose()
}

/// Returns the id of an upstream, adding a row if it has none.
pub(in crate::store) async fn id_or_new(
    database: &impl Database,
    upstream: &str,
) -> Result<i64, StoreError> {
    if let Some(id) = id(database, upstream).await? {
        return Ok(id);
    }
    let sql = "INSERT INTO upstreams (name, sequence) VALUES ($1, 0) RETURNING id";
    let added = query_one(database, sql, &[&upstream]).await?.map(|row| row.get(0));
    added.unwrap_or_else(|| Err(StoreError::Damaged("an upstream was not added".to_owned())))
}

pub(in crate::store) async fn position(
    database: &impl Database,
    upstream: &str,
) -> Result<Option<Position>, StoreError> {
    let sql = "SELECT length, state, overlap, etag FROM upstreams
         WHERE name = $1 AND length IS NOT NULL";
    let Some(row) = query_one(database, sql, &[&upstream]).await? else { return Ok(None) };
    Ok(Some(Position {
        length: row.number(0)?,
        digest_state: row.get(1)?,
        overlap: row.get(2)?,
        etag: row.get(3)?,
    }))
}

pub(in crate::store) async fn set_position(
    database: &impl Database,
    upstream: i64,
    position: Position,
) -> Result<(), StoreError> {
    let Position { length, digest_state, overlap, etag } = position;
    let sql = "UPDATE upstreams SET length = $2, state = $3, overlap = $4, etag = $5 WHERE id = $1";
    let values: Values<'_> = &[&upstream, &signed(length), &digest_state, &overlap, &etag];
    database.execute(sql, values).await?;
    Ok(())
}

pub(in crate::store) async fn last_looks(
    database: &impl Database,
    upstream: &str,
) -> Result<LastLooks, StoreError> {
    let sql = "SELECT complete_at, compared_at FROM upstreams WHERE name = $1";
    match query_one(database, sql, &[&upstream]).await? {
        Some(row) => Ok(LastLooks { complete: row.time(0)?, compared: row.time(1)? }),
        None => Ok(LastLooks::default()),
    }
}

pub(in crate::store) async fn keep_looks(
    database: &impl Database,
    upstream: String,
    looks: LastLooks,
) -> Result<(), StoreError> {
    let upstream = id_or_new(database, &upstream).await?;
    let (complete, compared) = (looks.complete.map(micros), looks.compared.map(micros));
    let sql = "UPDATE upstreams SET complete_at = $2, compared_at = $3 WHERE id = $1";
    database.execute(sql, &[&upstream, &complete, &compared]).await?;
    Ok(())
}

pub(in crate::store) async fn gone(
    database: &impl Database,
    upstream: &str,
) -> Result<Gone, StoreError> {
    let sql = "SELECT gone_since, gone FROM upstreams WHERE name = $1";
    match query_one(database, sql, &[&upstream]).await? {
        Some(row) => Ok(Gone { since: row.time(0)?, names: row.number(1)? }),
        None => Ok(Gone::default()),
    }
}

pub(in crate::store) async fn keep_gone(
    database: &impl Database,
    upstream: String,
    gone: Gone,
) -> Result<(), StoreError> {
    let upstream = id_or_new(database, &upstream).await?;
    let sql = "UPDATE upstreams SET gone_since = $2, gone = $3 WHERE id = $1";
    let (since, names) = (gone.since.map(micros), signed(gone.names));
    database.execute(sql, &[&upstream, &since, &names]).await?;
    Ok(())
}

pub(in crate::store) async fn counts(
    database: &impl Database,
    upstream: &str,
) -> Result<MirrorCounts, StoreError> {
    let sql = "SELECT count(md5),
                count(*) FILTER (WHERE md5 IS DISTINCT FROM applied AND refusal IS NULL),
                count(refusal),
                (SELECT count(*) FROM replaced_releases JOIN origins USING (gem)
                 WHERE origins.upstream = (SELECT id FROM upstreams WHERE name = $1))
         FROM upstream_gems WHERE upstream = (SELECT id FROM upstreams WHERE name = $1)";
    let Some(row) = query_one(database, sql, &[&upstream]).await? else {
        return Ok(MirrorCounts::default());
    };
    Ok(MirrorCounts {
        names: row.number(0)?,
        pending: row.number(1)?,
        refused: row.number(2)?,
        replaced: row.number(3)?,
    })
}

pub(in crate::store) async fn origins(
    database: &impl Database,
    from: u64,
    names_max: usize,
) -> Result<Origins, StoreError> {
    let sql = "SELECT gem, gems.name, upstreams.name FROM origins
         JOIN gems ON gems.id = gem JOIN upstreams ON upstreams.id = upstream
         WHERE gem >= $1 ORDER BY gem LIMIT $2";
    let rows = database.query(sql, &[&signed(from), &signed(names_max)]).await?;
    let (mut names, mut last) = (Vec::with_capacity(rows.len()), None);
    for row in &rows {
        last = Some(row.number(0)?);
        names.push((name(&row.get::<String>(1)?)?, row.get(2)?));
    }
    let is_full = names.len() == names_max;
    Ok(Origins { names, next: last.filter(|_| is_full).map(|last| last + 1) })
}

/// Returns the name of the upstream that a gem came from.
pub(in crate::store) async fn origin_of(
    database: &impl Database,
    gem: &str,
) -> Result<Option<String>, StoreError> {
    let sql = "SELECT upstreams.name FROM gems JOIN origins ON origins.gem = gems.id
         JOIN upstreams ON upstreams.id = origins.upstream WHERE gems.name = $1";
    query_one(database, sql, &[&gem]).await?.map(|row| row.get(0)).transpose()
}
