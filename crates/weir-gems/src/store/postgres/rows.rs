//! Gems and releases as rows.

use deadpool_postgres::Transaction;
use hashbrown::HashMap;
use tokio_postgres::Row;

use crate::store::StoreError;
pub(super) use crate::store::database::micros;
use crate::store::mirror::NOBODY;
pub(super) use crate::store::statements::gems::Gem;
pub(super) use crate::store::statements::releases::{RELEASE, release};

/// Returns a digest of `N` bytes.
pub(super) fn digest<const N: usize>(row: &Row, column: usize) -> Result<[u8; N], StoreError> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes.try_into().map_err(|_| {
        StoreError::Damaged(format!("a digest has {} bytes instead of {N}", bytes.len()))
    })
}

/// A gem that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownGem {
    pub(super) gem: Gem,
    /// The upstream that it came from, or [`NOBODY`]; None if it was pushed or imported here.
    pub(super) origin: Option<i64>,
}

impl KnownGem {
    pub(super) fn is_mirrored(&self) -> bool {
        self.origin.is_some_and(|origin| origin != NOBODY)
    }
}

/// Returns the rows of those names that are gems.
pub(super) async fn gems(
    transaction: &Transaction<'_>,
    names: &[&str],
) -> Result<HashMap<String, KnownGem>, StoreError> {
    let statement = transaction
        .prepare_cached(
            "SELECT name, id, live, upstream FROM gems LEFT JOIN origins ON origins.gem = gems.id
             WHERE name = ANY($1)",
        )
        .await?;
    let mut known = HashMap::new();
    for row in transaction.query(&statement, &[&names]).await? {
        let gem = Gem { id: row.try_get(1)?, live: row.try_get(2)? };
        known.insert(row.try_get(0)?, KnownGem { gem, origin: row.try_get(3)? });
    }
    Ok(known)
}
