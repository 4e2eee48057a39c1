//! Queries for readers.

use hashbrown::HashMap;

use super::pool::Lease;
use super::rows::digest;
use crate::index::digest::Digests;
use crate::store::{Info, StoreError};

/// Returns whether Postgres can store the name. It can't store NUL, which no gem has in its name.
fn is_storable(name: &str) -> bool {
    !name.contains('\0')
}

pub(super) async fn info(lease: &Lease, name: &str) -> Result<Option<Info>, StoreError> {
    if !is_storable(name) {
        return Ok(None);
    }
    let statement =
        lease.prepare_cached("SELECT content, md5, sha256 FROM infos WHERE name = $1").await?;
    let Some(row) = lease.query_opt(&statement, &[&name]).await? else { return Ok(None) };
    let content: Vec<u8> = row.try_get(0)?;
    let digests = Digests { md5: digest(&row, 1)?, sha256: digest(&row, 2)? };
    Ok(Some(Info { content: content.into(), digests }))
}

pub(super) async fn fragments(
    lease: &Lease,
    names: &[&str],
) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    let storable: Vec<&str> = names.iter().copied().filter(|name| is_storable(name)).collect();
    let statement =
        lease.prepare_cached("SELECT name, content FROM fragments WHERE name = ANY($1)").await?;
    let rows = lease.query(&statement, &[&storable]).await?;
    let mut found = HashMap::with_capacity(rows.len());
    for row in &rows {
        found.insert(row.try_get::<_, &str>(0)?, row.try_get::<_, &[u8]>(1)?);
    }
    let in_order = storable.iter().filter_map(|name| found.get_key_value(name));
    Ok(in_order.map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect())
}
