//! Removes gems that came from upstreams.

use deadpool_postgres::Transaction;

use super::changed::releases_of;
use super::origins::mark_pending;
use crate::name::GemName;
use crate::store::StoreError;
use crate::store::mirror::NOBODY;
use crate::store::postgres::indexing::Indexing;
use crate::store::postgres::rows;

/// Number of gems whose releases are in memory at once.
const GEM_CHUNK_SIZE: usize = 500;

pub(super) async fn delete_mirrored(
    transaction: &Transaction<'_>,
    names: Vec<GemName>,
) -> Result<(), StoreError> {
    let all: Vec<&str> = names.iter().map(GemName::as_str).collect();
    let known = rows::gems(transaction, &all).await?;
    let mut mirrored: Vec<_> = known.iter().filter(|(_, gem)| gem.is_mirrored()).collect();
    // In the order in which they were added.
    mirrored.sort_by_key(|(_, known)| known.gem.id);
    let mut indexing = Indexing::begin(transaction).await?;
    for chunk in mirrored.chunks(GEM_CHUNK_SIZE) {
        let gems: Vec<i64> = chunk.iter().map(|(_, known)| known.gem.id).collect();
        let mut stored = releases_of(transaction, &gems).await?;
        for (name, known) in chunk {
            let releases = stored.remove(&known.gem.id).unwrap_or_default();
            let live = releases.iter().filter(|it| !it.is_yanked);
            let line = live.map(|it| format!("-{}", it.release.identity));
            indexing.gem(known.gem, name, line, &[]).await?;
        }
        delete(transaction, &gems).await?;
        let names: Vec<&str> = chunk.iter().map(|(name, _)| name.as_str()).collect();
        mark_pending(transaction, &names).await?;
    }
    indexing.finish().await
}

async fn delete(transaction: &Transaction<'_>, gems: &[i64]) -> Result<(), StoreError> {
    for sql in [
        "INSERT INTO pins SELECT gem, number, platform, sha256 FROM releases
         WHERE gem = ANY($1) AND yanked_at IS NULL
         ON CONFLICT (gem, number, platform) DO UPDATE SET sha256 = excluded.sha256",
        "DELETE FROM releases WHERE gem = ANY($1) AND yanked_at IS NULL",
        "DELETE FROM specifications WHERE gem = ANY($1)",
        "DELETE FROM replaced_releases WHERE gem = ANY($1)",
    ] {
        let statement = transaction.prepare_cached(sql).await?;
        transaction.execute(&statement, &[&gems]).await?;
    }
    let sql = "UPDATE origins SET upstream = $2 WHERE gem = ANY($1)";
    let statement = transaction.prepare_cached(sql).await?;
    transaction.execute(&statement, &[&gems, &NOBODY]).await?;
    Ok(())
}
