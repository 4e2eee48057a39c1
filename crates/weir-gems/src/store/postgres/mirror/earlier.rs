//! Finds names that also belong to an earlier upstream.

use deadpool_postgres::Transaction;
use hashbrown::HashSet;

use crate::store::StoreError;
use crate::store::mirror::MirroredGem;

/// Selects by ids instead of a join, so that each name is one index lookup, whatever the plan.
const LISTED: &str = "SELECT name FROM upstream_gems
     WHERE upstream = ANY($1) AND name = ANY($2) AND md5 IS NOT NULL";

/// Returns the names of gems that an earlier upstream lists.
pub(super) async fn listed_earlier(
    transaction: &Transaction<'_>,
    gems: &[MirroredGem],
) -> Result<HashSet<String>, StoreError> {
    let yielding = || gems.iter().filter(|gem| !gem.earlier.is_empty());
    // All gems of a batch come from one upstream.
    let Some(first) = yielding().next() else { return Ok(HashSet::new()) };
    let earlier: Vec<&str> = first.earlier.iter().map(|name| name.as_str()).collect();
    let statement =
        transaction.prepare_cached("SELECT id FROM upstreams WHERE name = ANY($1)").await?;
    let rows = transaction.query(&statement, &[&earlier]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let names: Vec<&str> = yielding().map(|gem| gem.noted.name.as_str()).collect();
    let statement = transaction.prepare_cached(LISTED).await?;
    let rows = transaction.query(&statement, &[&ids, &names]).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}
