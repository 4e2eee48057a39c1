//! Upstreams as rows, and which gems came from them.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use weir_base::clock::Timestamp;

use crate::store::StoreError;
use crate::store::column::{name, signed, unsigned};
use crate::store::mirror::{Gone, LastLooks, MirrorCounts, Origins, Position};
use crate::store::postgres::pool::Lease;

/// The number of an upstream, of which nothing may have been noted yet.
pub(super) async fn id_or_new(
    transaction: &Transaction<'_>,
    upstream: &str,
) -> Result<i64, StoreError> {
    let statement = transaction.prepare_cached("SELECT id FROM upstreams WHERE name = $1").await?;
    if let Some(row) = transaction.query_opt(&statement, &[&upstream]).await? {
        return Ok(row.try_get(0)?);
    }
    let insert = "INSERT INTO upstreams (name, sequence) VALUES ($1, 0) RETURNING id";
    Ok(transaction.query_one(insert, &[&upstream]).await?.try_get(0)?)
}

pub(super) async fn position(
    lease: &Lease,
    upstream: &str,
) -> Result<Option<Position>, StoreError> {
    let statement = lease
        .prepare_cached(
            "SELECT length, state, overlap, etag FROM upstreams
             WHERE name = $1 AND length IS NOT NULL",
        )
        .await?;
    let Some(row) = lease.query_opt(&statement, &[&upstream]).await? else { return Ok(None) };
    Ok(Some(Position {
        length: unsigned(row.try_get(0)?),
        digest_state: row.try_get(1)?,
        overlap: row.try_get(2)?,
        etag: row.try_get(3)?,
    }))
}

pub(super) async fn set_position(
    transaction: &Transaction<'_>,
    upstream: i64,
    position: Position,
) -> Result<(), StoreError> {
    let Position { length, digest_state, overlap, etag } = position;
    let statement = transaction
        .prepare_cached(
            "UPDATE upstreams SET length = $2, state = $3, overlap = $4, etag = $5 WHERE id = $1",
        )
        .await?;
    transaction
        .execute(&statement, &[&upstream, &signed(length), &digest_state, &overlap, &etag])
        .await?;
    Ok(())
}

pub(super) async fn last_looks(lease: &Lease, upstream: &str) -> Result<LastLooks, StoreError> {
    let statement = lease
        .prepare_cached("SELECT complete_at, compared_at FROM upstreams WHERE name = $1")
        .await?;
    let Some(row) = lease.query_opt(&statement, &[&upstream]).await? else {
        return Ok(LastLooks::default());
    };
    Ok(LastLooks { complete: at(&row, 0)?, compared: at(&row, 1)? })
}

fn at(row: &Row, column: usize) -> Result<Option<Timestamp>, StoreError> {
    let micros: Option<i64> = row.try_get(column)?;
    Ok(micros.map(|micros| Timestamp::from_micros(unsigned(micros))))
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(|at| signed(at.as_micros()))
}

pub(super) async fn keep_looks(
    transaction: &Transaction<'_>,
    upstream: String,
    looks: LastLooks,
) -> Result<(), StoreError> {
    let upstream = id_or_new(transaction, &upstream).await?;
    let statement = transaction
        .prepare_cached("UPDATE upstreams SET complete_at = $2, compared_at = $3 WHERE id = $1")
        .await?;
    transaction
        .execute(&statement, &[&upstream, &micros(looks.complete), &micros(looks.compared)])
        .await?;
    Ok(())
}

pub(super) async fn gone(lease: &Lease, upstream: &str) -> Result<Gone, StoreError> {
    let statement =
        lease.prepare_cached("SELECT gone_since, gone FROM upstreams WHERE name = $1").await?;
    let Some(row) = lease.query_opt(&statement, &[&upstream]).await? else {
        return Ok(Gone::default());
    };
    Ok(Gone { since: at(&row, 0)?, names: unsigned(row.try_get(1)?) })
}

pub(super) async fn keep_gone(
    transaction: &Transaction<'_>,
    upstream: String,
    gone: Gone,
) -> Result<(), StoreError> {
    let upstream = id_or_new(transaction, &upstream).await?;
    let statement = transaction
        .prepare_cached("UPDATE upstreams SET gone_since = $2, gone = $3 WHERE id = $1")
        .await?;
    transaction.execute(&statement, &[&upstream, &micros(gone.since), &signed(gone.names)]).await?;
    Ok(())
}

pub(super) async fn counts(lease: &Lease, upstream: &str) -> Result<MirrorCounts, StoreError> {
    let statement = lease
        .prepare_cached(
            "SELECT count(md5),
                    count(*) FILTER (WHERE md5 IS DISTINCT FROM applied AND refusal IS NULL),
                    count(refusal),
                    (SELECT count(*) FROM replaced_releases JOIN origins USING (gem)
                     WHERE origins.upstream = (SELECT id FROM upstreams WHERE name = $1))
             FROM upstream_gems WHERE upstream = (SELECT id FROM upstreams WHERE name = $1)",
        )
        .await?;
    let row = lease.query_one(&statement, &[&upstream]).await?;
    Ok(MirrorCounts {
        names: unsigned(row.try_get(0)?),
        pending: unsigned(row.try_get(1)?),
        refused: unsigned(row.try_get(2)?),
        replaced: unsigned(row.try_get(3)?),
    })
}

pub(super) async fn origins(
    lease: &Lease,
    from: u64,
    names_max: usize,
) -> Result<Origins, StoreError> {
    let statement = lease
        .prepare_cached(
            "SELECT gem, gems.name, upstreams.name FROM origins
             JOIN gems ON gems.id = gem JOIN upstreams ON upstreams.id = upstream
             WHERE gem >= $1 ORDER BY gem LIMIT $2",
        )
        .await?;
    let rows = lease.query(&statement, &[&signed(from), &signed(names_max)]).await?;
    let (mut names, mut last) = (Vec::with_capacity(rows.len()), None);
    for row in &rows {
        last = Some(unsigned(row.try_get(0)?));
        names.push((name(row.try_get(1)?)?, row.try_get(2)?));
    }
    let is_full = names.len() == names_max;
    Ok(Origins { names, next: last.filter(|_| is_full).map(|last| last + 1) })
}

/// The upstream that a gem comes from, by names.
pub(in crate::store::postgres) async fn origin_of(
    transaction: &Transaction<'_>,
    gem: &str,
) -> Result<Option<String>, StoreError> {
    let statement = transaction
        .prepare_cached(
            "SELECT upstreams.name FROM gems JOIN origins ON origins.gem = gems.id
             JOIN upstreams ON upstreams.id = origins.upstream WHERE gems.name = $1",
        )
        .await?;
    let row = transaction.query_opt(&statement, &[&gem]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// From now on they come from nowhere else.
pub(in crate::store::postgres) async fn make_local(
    transaction: &Transaction<'_>,
    gems: &[i64],
) -> Result<(), StoreError> {
    let sql = "DELETE FROM origins WHERE gem = ANY($1)";
    let statement = transaction.prepare_cached(sql).await?;
    transaction.execute(&statement, &[&gems]).await?;
    Ok(())
}

/// What upstreams say of names is work again, of all of them.
pub(super) async fn unapply(
    transaction: &Transaction<'_>,
    names: &[&str],
) -> Result<(), StoreError> {
    let statement = transaction
        .prepare_cached(
            "UPDATE upstream_gems SET applied = NULL
             WHERE upstream IN (SELECT id FROM upstreams) AND name = ANY($1)
               AND applied IS NOT NULL",
        )
        .await?;
    transaction.execute(&statement, &[&names]).await?;
    Ok(())
}
