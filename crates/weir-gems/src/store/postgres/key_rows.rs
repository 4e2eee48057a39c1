//! API keys as rows.

use std::sync::Arc;

use tokio_postgres::Row;

use super::Inner;
use super::metrics::Limit;
use super::pool::Lease;
use super::rows::{micros, time};
use crate::store::column::{signed, unsigned};
use crate::store::{Key, NewKey, StoreError};

const KEY: &str = "SELECT id, settings, created_at FROM keys";

pub(super) async fn add(inner: &Arc<Inner>, key: NewKey) -> Result<Key, StoreError> {
    inner
        .write(Limit::Write, move |transaction| {
            Box::pin(async move {
                let settings = serde_json::to_string(&key.settings);
                let settings = settings.map_err(|error| StoreError::Engine(Box::new(error)))?;
                let sql = "INSERT INTO keys (hash, settings, created_at) VALUES ($1, $2, $3)
                           RETURNING id";
                let created_at = micros(key.created_at);
                let row =
                    transaction.query_one(sql, &[&&key.hash[..], &settings, &created_at]).await?;
                let id = unsigned(row.try_get(0)?);
                Ok(Key { id, settings: key.settings, created_at: key.created_at })
            })
        })
        .await
}

pub(super) async fn by_hash(lease: &Lease, hash: [u8; 32]) -> Result<Option<Key>, StoreError> {
    let statement = lease.prepare_cached(&format!("{KEY} WHERE hash = $1")).await?;
    lease.query_opt(&statement, &[&&hash[..]]).await?.map(|row| read(&row)).transpose()
}

pub(super) async fn all(lease: &Lease) -> Result<Vec<Key>, StoreError> {
    let statement = lease.prepare_cached(&format!("{KEY} ORDER BY id")).await?;
    lease.query(&statement, &[]).await?.iter().map(read).collect()
}

pub(super) async fn remove(inner: &Arc<Inner>, id: u64) -> Result<bool, StoreError> {
    let id = signed(id);
    inner
        .write(Limit::Write, move |transaction| {
            Box::pin(async move {
                let removed = transaction.execute("DELETE FROM keys WHERE id = $1", &[&id]).await?;
                Ok(removed == 1)
            })
        })
        .await
}

fn read(row: &Row) -> Result<Key, StoreError> {
    let (id, settings): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
    let settings = serde_json::from_str(settings);
    let settings = settings.map_err(|error| {
        StoreError::Damaged(format!("the settings of key {id} can't be read: {error}"))
    })?;
    let created_at = time(row.try_get(2)?);
    Ok(Key { id: unsigned(id), settings, created_at })
}
