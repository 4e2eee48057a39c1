//! Rejected names.

use crate::store::StoreError;
use crate::store::column::signed;
use crate::store::database::{Database, Row};
use crate::store::mirror::Refusal;

pub(in crate::store) async fn reconsider(database: &impl Database) -> Result<(), StoreError> {
    let sql = "UPDATE upstream_gems SET refusal = NULL WHERE refusal IS NOT NULL";
    database.execute(sql, &[]).await?;
    Ok(())
}

pub(in crate::store) async fn refused(
    database: &impl Database,
    upstream: &str,
    names_max: usize,
) -> Result<Vec<(String, Refusal)>, StoreError> {
    let sql = "SELECT name, refusal FROM upstream_gems
         WHERE upstream = (SELECT id FROM upstreams WHERE name = $1) AND refusal IS NOT NULL
         ORDER BY name LIMIT $2";
    let rows = database.query(sql, &[&upstream, &signed(names_max)]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, read(row.get(1)?)?))).collect()
}

fn read(number: i64) -> Result<Refusal, StoreError> {
    let unknown = || StoreError::Damaged(format!("there is no reason {number} to refuse a name"));
    Refusal::of_number(number).ok_or_else(unknown)
}
