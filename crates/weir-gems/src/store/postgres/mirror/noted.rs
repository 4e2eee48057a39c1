//! Stores the content of upstreams' `/versions`, by name.

use std::collections::BTreeMap;
use std::time::Duration;

use deadpool_postgres::Transaction;
use tokio_stream::StreamExt;

use crate::mirror::prefix::{Prefix, PrefixDigest};
use crate::store::StoreError;
use crate::store::column::{signed, unsigned};
use crate::store::mirror::{Noted, Position};
use crate::store::postgres::analyze::has_doubled;
use crate::store::postgres::pool::Lease;
use crate::store::postgres::rows::digest;
use crate::store::statements::upstreams::set_position;

/// Adds to the number of lines that were ever recorded of an upstream.
const COUNTED: &str = "INSERT INTO upstreams (name, sequence) VALUES ($1, $2)
     ON CONFLICT (name) DO UPDATE SET sequence = upstreams.sequence + excluded.sequence
     RETURNING id, sequence";

/// If a name occurs several times, its last line counts.
const NOTED: &str = "INSERT INTO upstream_gems (upstream, name, md5, sequence)
     SELECT DISTINCT ON (name) $1::bigint, name, md5, $2::bigint + place
     FROM unnest($3::text[], $4::bytea[]) WITH ORDINALITY AS line (name, md5, place)
     ORDER BY name, place DESC
     ON CONFLICT (upstream, name) DO UPDATE SET md5 = excluded.md5, sequence = excluded.sequence
     WHERE upstream_gems.md5 IS DISTINCT FROM excluded.md5";

/// Records lines. Returns whether the number of recorded lines has doubled.
pub(super) async fn note(
    transaction: &Transaction<'_>,
    upstream: String,
    noted: Vec<Noted>,
    position: Option<Position>,
) -> Result<bool, StoreError> {
    let statement = transaction.prepare_cached(COUNTED).await?;
    let count = signed(noted.len());
    let row = transaction.query_one(&statement, &[&upstream, &count]).await?;
    let (upstream, sequence): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (names, md5): (Vec<_>, Vec<_>) =
        noted.iter().map(|it| (it.name.as_str(), it.md5.as_ref().map(|md5| &md5[..]))).unzip();
    let statement = transaction.prepare_cached(NOTED).await?;
    transaction.execute(&statement, &[&upstream, &(sequence - count), &names, &md5]).await?;
    if let Some(position) = position {
        set_position(transaction, upstream, position).await?;
    }
    Ok(has_doubled(unsigned(sequence - count), unsigned(sequence)))
}

pub(super) async fn digests(
    lease: &mut Lease,
    upstream: &str,
    time: Duration,
) -> Result<Vec<(Prefix, PrefixDigest)>, StoreError> {
    let snapshot = lease.snapshot(time).await?;
    let statement = snapshot
        .prepare_cached(
            "SELECT name, md5 FROM upstream_gems
             WHERE upstream = (SELECT id FROM upstreams WHERE name = $1) AND md5 IS NOT NULL",
        )
        .await?;
    // Row by row, to avoid holding all of them in memory.
    let rows = snapshot.query_raw(&statement, [upstream]).await?;
    let mut rows = std::pin::pin!(rows);
    let mut digests = BTreeMap::<Prefix, PrefixDigest>::new();
    while let Some(row) = rows.next().await {
        let row = row?;
        let name: &str = row.try_get(0)?;
        digests.entry(Prefix::of(name)).or_default().add(name, digest(&row, 1)?);
    }
    Ok(digests.into_iter().collect())
}
