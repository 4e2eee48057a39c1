//! Stores `/versions` and `/names` as rows: pieces, and the state of the digests.

use std::time::Duration;

use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;
use tokio_stream::StreamExt;

use super::pool::Lease;
use super::rows::digest;
use crate::index::digest::{Digests, RunningDigest};
use crate::index::text::Text;
use crate::store::column::signed;
use crate::store::pieces::{Gathering, PIECE_BYTES, number};
use crate::store::{StoreError, TextKind};

/// A text that is being written, within a transaction.
pub(super) struct Writing<'a> {
    transaction: &'a Transaction<'a>,
    kind: TextKind,
    generation: i64,
    length: i64,
    digest: RunningDigest,
    waiting: String,
}

impl<'a> Writing<'a> {
    /// Continues the stored text.
    pub(super) async fn go_on(
        transaction: &'a Transaction<'a>,
        kind: TextKind,
    ) -> Result<Self, StoreError> {
        let statement = transaction
            .prepare_cached("SELECT generation, length, state FROM texts WHERE kind = $1")
            .await?;
        let row = transaction.query_opt(&statement, &[&number(kind)]).await?;
        let row = row.ok_or_else(|| StoreError::Damaged(format!("{kind:?} is missing")))?;
        Ok(Self {
            transaction,
            kind,
            generation: row.try_get(0)?,
            length: row.try_get(1)?,
            digest: RunningDigest::restore(row.try_get(2)?)?,
            waiting: String::new(),
        })
    }

    /// Begins a new generation of the text.
    pub(super) async fn begin(
        transaction: &'a Transaction<'a>,
        kind: TextKind,
    ) -> Result<Self, StoreError> {
        let kind_number: &(dyn ToSql + Sync) = &number(kind);
        let sql = "SELECT generation FROM texts WHERE kind = $1";
        let last = transaction.query_opt(sql, &[kind_number]).await?;
        let last: i64 = last.map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        transaction.execute("DELETE FROM pieces WHERE kind = $1", &[kind_number]).await?;
        Ok(Self {
            transaction,
            kind,
            generation: last + 1,
            length: 0,
            digest: RunningDigest::default(),
            waiting: String::new(),
        })
    }

    /// Appends what `write` writes.
    pub(super) async fn append(
        &mut self,
        write: impl FnOnce(&mut String),
    ) -> Result<(), StoreError> {
        write(&mut self.waiting);
        match self.waiting.len() >= PIECE_BYTES {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let piece = self.waiting.as_bytes();
        let statement = self
            .transaction
            .prepare_cached("INSERT INTO pieces (kind, start, content) VALUES ($1, $2, $3)")
            .await?;
        self.transaction.execute(&statement, &[&number(self.kind), &self.length, &piece]).await?;
        self.digest.update(piece);
        self.length += signed(piece.len());
        self.waiting.clear();
        Ok(())
    }

    /// Writes the remaining bytes and the digests.
    pub(super) async fn finish(mut self) -> Result<(), StoreError> {
        self.flush().await?;
        let Digests { md5, sha256 } = self.digest.digests();
        let statement = self
            .transaction
            .prepare_cached(
                "INSERT INTO texts (kind, generation, length, md5, sha256, state)
                 VALUES ($1, $2, $3, $4, $5, $6)
                 ON CONFLICT (kind) DO UPDATE SET generation = $2, length = $3, md5 = $4,
                     sha256 = $5, state = $6",
            )
            .await?;
        self.transaction
            .execute(
                &statement,
                &[
                    &number(self.kind),
                    &self.generation,
                    &self.length,
                    &&md5[..],
                    &&sha256[..],
                    &self.digest.save(),
                ],
            )
            .await?;
        Ok(())
    }
}

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
