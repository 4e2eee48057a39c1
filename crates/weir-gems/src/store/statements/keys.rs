//! API keys as rows.

use crate::store::column::{signed, unsigned};
use crate::store::database::{Database, Row, micros, query_one};
use crate::store::{Key, NewKey, StoreError};

pub(in crate::store) async fn add(
    database: &impl Database,
    key: NewKey,
) -> Result<Key, StoreError> {
    let NewKey { settings, hash, created_at } = key;
    let text = serde_json::to_string(&settings);
    let text = text.map_err(|error| StoreError::Engine(Box::new(error)))?;
    let sql = "INSERT INTO keys (hash, settings, created_at) VALUES ($1, $2, $3) RETURNING id";
    let row = query_one(database, sql, &[&&hash[..], &text, &micros(created_at)]).await?;
    let id = row.map(|row| row.number(0)).transpose()?.unwrap_or_default();
    Ok(Key { id, settings, created_at })
}

pub(in crate::store) async fn by_hash(
    database: &impl Database,
    hash: [u8; 32],
) -> Result<Option<Key>, StoreError> {
    let sql = "SELECT id, settings, created_at FROM keys WHERE hash = $1";
    query_one(database, sql, &[&&hash[..]]).await?.map(|row| read(&row)).transpose()
}

pub(in crate::store) async fn all(database: &impl Database) -> Result<Vec<Key>, StoreError> {
    let sql = "SELECT id, settings, created_at FROM keys ORDER BY id";
    database.query(sql, &[]).await?.iter().map(read).collect()
}

pub(in crate::store) async fn remove(
    database: &impl Database,
    id: u64,
) -> Result<bool, StoreError> {
    Ok(database.execute("DELETE FROM keys WHERE id = $1", &[&signed(id)]).await? == 1)
}

fn read(row: &impl Row) -> Result<Key, StoreError> {
    let (id, settings): (i64, String) = (row.get(0)?, row.get(1)?);
    let settings = serde_json::from_str(&settings);
    let settings = settings.map_err(|error| {
        StoreError::Damaged(format!("the settings of key {id} can't be read: {error}"))
    })?;
    Ok(Key { id: unsigned(id), settings, created_at: row.time(2)?.unwrap_or_default() })
}
