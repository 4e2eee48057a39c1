//! API keys as rows.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows::Time;
use crate::store::column::{signed, unsigned};
use crate::store::{Key, NewKey, StoreError};

pub(super) fn add(connection: &Connection, key: &NewKey) -> Result<Key, StoreError> {
    let settings = serde_json::to_string(&key.settings);
    let settings = settings.map_err(|error| StoreError::Engine(Box::new(error)))?;
    connection
        .prepare_cached("INSERT INTO keys (hash, settings, created_at) VALUES (?1, ?2, ?3)")?
        .execute(params![key.hash, settings, Time(key.created_at)])?;
    let id = unsigned(connection.last_insert_rowid());
    Ok(Key { id, settings: key.settings.clone(), created_at: key.created_at })
}

pub(super) fn by_hash(connection: &Connection, hash: [u8; 32]) -> Result<Option<Key>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT id, settings, created_at FROM keys WHERE hash = ?1")?;
    let found = statement.query_row([hash], parts).optional()?;
    found.map(read).transpose()
}

pub(super) fn all(connection: &Connection) -> Result<Vec<Key>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT id, settings, created_at FROM keys ORDER BY id")?;
    let rows = statement.query_map([], parts)?.collect::<rusqlite::Result<Vec<_>>>()?;
    rows.into_iter().map(read).collect()
}

pub(super) fn remove(connection: &Connection, id: u64) -> Result<bool, StoreError> {
    let id = signed(id);
    Ok(connection.prepare_cached("DELETE FROM keys WHERE id = ?1")?.execute([id])? == 1)
}

type Parts = (i64, String, Time);

fn parts(row: &Row<'_>) -> rusqlite::Result<Parts> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn read((id, settings, created_at): Parts) -> Result<Key, StoreError> {
    let settings = serde_json::from_str(&settings);
    let settings = settings.map_err(|error| {
        StoreError::Damaged(format!("the settings of key {id} can't be read: {error}"))
    })?;
    Ok(Key { id: unsigned(id), settings, created_at: created_at.0 })
}
