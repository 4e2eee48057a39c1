//! Stores `/versions` and `/names` as rows: pieces, and the state of the digests.

use rusqlite::{Connection, params};

use super::info_cache::Position;
use crate::index::digest::Digests;
use crate::index::text::Text;
use crate::store::column::signed;
use crate::store::pieces::{Gathering, number};
use crate::store::{StoreError, TextKind};

/// Returns whether the text `known` is up to date: a text changes only by growing or with a new
/// generation.
pub(super) fn is_current(
    connection: &Connection,
    kind: TextKind,
    known: &Text,
) -> Result<bool, StoreError> {
    let Position { generation, length } = position(connection, kind)?;
    let known = (i64::try_from(known.generation), i64::try_from(known.length()));
    Ok((Ok(generation), Ok(length)) == known)
}

/// Returns the position of the text.
pub(super) fn position(connection: &Connection, kind: TextKind) -> Result<Position, StoreError> {
    let position = connection
        .prepare_cached("SELECT generation, length FROM texts WHERE kind = ?1")?
        .query_row([number(kind)], |row| {
            Ok(Position { generation: row.get(0)?, length: row.get(1)? })
        })?;
    Ok(position)
}

/// Returns what was appended between a position and a later length, or None if the text was
/// rewritten since.
pub(super) fn between(
    connection: &Connection,
    kind: TextKind,
    from: Position,
    to: i64,
) -> Result<Option<String>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT content, generation FROM texts JOIN pieces ON pieces.kind = texts.kind
         WHERE texts.kind = ?1 AND start >= ?2 AND start < ?3 ORDER BY start",
    )?;
    let mut rows = statement.query(params![number(kind), from.length, to])?;
    let mut text = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(1)? != from.generation {
            return Ok(None);
        }
        text.extend_from_slice(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?);
    }
    let is_whole = i64::try_from(text.len()) == Ok(to - from.length);
    Ok(String::from_utf8(text).ok().filter(|_| is_whole))
}

/// Reads the text. Only the part after `known` is read.
pub(super) fn fresh(
    connection: &Connection,
    kind: TextKind,
    known: &Text,
) -> Result<Text, StoreError> {
    let (generation, length, digests) = connection
        .prepare_cached("SELECT generation, length, md5, sha256 FROM texts WHERE kind = ?1")?
        .query_row([number(kind)], |row| {
            let digests = Digests { md5: row.get(2)?, sha256: row.get(3)? };
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, digests))
        })?;
    let damaged = |_| StoreError::Damaged(format!("{kind:?} has a length below zero"));
    let generation = u64::try_from(generation).map_err(damaged)?;
    let length = u64::try_from(length).map_err(damaged)?;
    let is_longer = generation == known.generation && length >= known.length();
    let start = if is_longer { known.clone() } else { Text::empty(generation) };
    let from = signed(start.length());
    let mut text = Gathering::behind(start);
    let mut statement = connection.prepare_cached(
        "SELECT content FROM pieces WHERE kind = ?1 AND start >= ?2 ORDER BY start",
    )?;
    let mut rows = statement.query(params![number(kind), from])?;
    while let Some(row) = rows.next()? {
        text.add(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?);
    }
    text.finish(kind, length, digests)
}
