//! Stores `/versions` and `/names` as rows: pieces, and the state of the digests.

use std::time::Duration;

use tokio_stream::StreamExt;

use super::pool::Lease;
use super::rows::digest;
use crate::index::digest::Digests;
use crate::index::text::Text;
use crate::store::column::signed;
use crate::store::pieces::{Gathering, number};
use crate::store::{StoreError, TextKind};

/// Returns whether the text `known` is up to date: a text changes only by growing or with a new
/// generation.
pub(super) async fn is_current(
    lease: &Lease,
    kind: TextKind,
    known: &Text,
) -> Result<bool, StoreError> {
    let statement =
        lease.prepare_cached("SELECT generation, length FROM texts WHERE kind = $1").await?;
    let row = lease.query_one(&statement, &[&number(kind)]).await?;
    let known = (i64::try_from(known.generation), i64::try_from(known.length()));
    Ok((Ok(row.try_get(0)?), Ok(row.try_get(1)?)) == known)
}

/// Reads the text in one snapshot. Only the part after `known` is read.
pub(super) async fn fresh(
    lease: &mut Lease,
    kind: TextKind,
    known: &Text,
    time: Duration,
) -> Result<Text, StoreError> {
    let snapshot = lease.snapshot(time).await?;
    let statement = snapshot
        .prepare_cached("SELECT generation, length, md5, sha256 FROM texts WHERE kind = $1")
        .await?;
    let row = snapshot.query_one(&statement, &[&number(kind)]).await?;
    let digests = Digests { md5: digest(&row, 2)?, sha256: digest(&row, 3)? };
    let damaged = |_| StoreError::Damaged(format!("{kind:?} has a length below zero"));
    let generation = u64::try_from(row.try_get::<_, i64>(0)?).map_err(damaged)?;
    let length = u64::try_from(row.try_get::<_, i64>(1)?).map_err(damaged)?;
    let is_longer = generation == known.generation && length >= known.length();
    let start = if is_longer { known.clone() } else { Text::empty(generation) };
    let from = signed(start.length());
    let mut text = Gathering::behind(start);
    let statement = snapshot
        .prepare_cached("SELECT content FROM pieces WHERE kind = $1 AND start >= $2 ORDER BY start")
        .await?;
    // Row by row: reading all rows at once would need twice the memory.
    let rows = snapshot.query_raw(&statement, [number(kind), from]).await?;
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.next().await {
        text.add(row?.try_get(0)?);
    }
    text.finish(kind, length, digests)
}
