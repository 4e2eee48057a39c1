//! Writes the texts of the index, in pieces.

use crate::index::digest::{Digests, RunningDigest};
use crate::store::column::signed;
use crate::store::database::{Database, Row, query_one};
use crate::store::pieces::{PIECE_BYTES, number};
use crate::store::{StoreError, TextKind};

/// A text that is being extended in a transaction.
pub(in crate::store) struct TextWriter {
    kind: TextKind,
    generation: i64,
    length: i64,
    digest: RunningDigest,
    buffer: String,
}

impl TextWriter {
    /// Continues a text where it ends.
    pub(in crate::store) async fn resume(
        database: &impl Database,
        kind: TextKind,
    ) -> Result<Self, StoreError> {
        let sql = "SELECT generation, length, state FROM texts WHERE kind = $1";
        let row = query_one(database, sql, &[&number(kind)]).await?;
        let row = row.ok_or_else(|| StoreError::Damaged(format!("{kind:?} is missing")))?;
        Ok(Self {
            kind,
            generation: row.get(0)?,
            length: row.get(1)?,
            digest: RunningDigest::restore(&row.get::<Vec<u8>>(2)?)?,
            buffer: String::new(),
        })
    }

    /// Starts a text anew, in a new generation.
    pub(in crate::store) async fn begin(
        database: &impl Database,
        kind: TextKind,
    ) -> Result<Self, StoreError> {
        let sql = "SELECT generation FROM texts WHERE kind = $1";
        let last = query_one(database, sql, &[&number(kind)]).await?;
        let last: i64 = last.map(|row| row.get(0)).transpose()?.unwrap_or_default();
        database.execute("DELETE FROM pieces WHERE kind = $1", &[&number(kind)]).await?;
        let digest = RunningDigest::default();
        Ok(Self { kind, generation: last + 1, length: 0, digest, buffer: String::new() })
    }

    /// Appends what `write` writes.
    pub(in crate::store) async fn append(
        &mut self,
        database: &impl Database,
        write: impl FnOnce(&mut String),
    ) -> Result<(), StoreError> {
        write(&mut self.buffer);
        match self.buffer.len() >= PIECE_BYTES {
            true => self.flush(database).await,
            false => Ok(()),
        }
    }

    async fn flush(&mut self, database: &impl Database) -> Result<(), StoreError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = self.buffer.as_bytes();
        let sql = "INSERT INTO pieces (kind, start, content) VALUES ($1, $2, $3)";
        database.execute(sql, &[&number(self.kind), &self.length, &piece]).await?;
        self.digest.update(piece);
        self.length += signed(piece.len());
        self.buffer.clear();
        Ok(())
    }

    /// Writes the rest, with the digests of the whole text.
    pub(in crate::store) async fn finish(
        mut self,
        database: &impl Database,
    ) -> Result<(), StoreError> {
        self.flush(database).await?;
        let Digests { md5, sha256 } = self.digest.digests();
        let sql = "INSERT INTO texts (kind, generation, length, md5, sha256, state)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (kind) DO UPDATE SET generation = excluded.generation,
                 length = excluded.length, md5 = excluded.md5, sha256 = excluded.sha256,
                 state = excluded.state";
        let (md5, sha256) = (&md5[..], &sha256[..]);
        let (generation, length, state) = (self.generation, self.length, self.digest.save());
        let kind = number(self.kind);
        database.execute(sql, &[&kind, &generation, &length, &md5, &sha256, &state]).await?;
        Ok(())
    }
}
