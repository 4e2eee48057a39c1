//! Stores the first checksum of each release, and releases whose file the upstream has replaced.

use deadpool_postgres::Transaction;
use hashbrown::HashMap;
use weir_base::clock::Timestamp;

use super::origins::mark_pending;
use crate::name::GemName;
use crate::release::{Checksum, Identity};
use crate::store::StoreError;
use crate::store::database::{Row, micros};
use crate::store::mirror::{Pins, Replaced, ReplacedRelease};
use crate::store::postgres::columns::KeyColumns;
use crate::store::statements::replaced::{COLUMNS, read};

/// Returns the known checksums of gems, by the gems' ids.
pub(super) async fn pins(
    transaction: &Transaction<'_>,
    gems: &[i64],
) -> Result<HashMap<i64, Pins>, StoreError> {
    let sql = "SELECT gem, number, platform, sha256 FROM pins WHERE gem = ANY($1)";
    let statement = transaction.prepare_cached(sql).await?;
    let mut pins: HashMap<i64, Pins> = HashMap::new();
    for row in transaction.query(&statement, &[&gems]).await? {
        let of_gem = pins.entry(row.try_get(0)?).or_default();
        of_gem.insert(row.identity(1)?, Checksum(row.digest(3)?));
    }
    Ok(pins)
}

pub(super) async fn pin(
    transaction: &Transaction<'_>,
    keys: &KeyColumns<'_>,
    digests: &[&[u8]],
) -> Result<(), StoreError> {
    let statement = transaction
        .prepare_cached(
            "INSERT INTO pins
             SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[])
             ON CONFLICT (gem, number, platform) DO UPDATE SET sha256 = excluded.sha256",
        )
        .await?;
    let [gems, numbers, platforms] = keys.parameters();
    transaction.execute(&statement, &[gems, numbers, platforms, &digests]).await?;
    Ok(())
}

/// Stores the rejected releases of these gems. A release that was already rejected for the same
/// file keeps its time.
pub(super) async fn keep_out(
    transaction: &Transaction<'_>,
    gems: &[i64],
    kept_out: &[(i64, Replaced)],
    now: Timestamp,
) -> Result<(), StoreError> {
    let statement = transaction
        .prepare_cached(
            "DELETE FROM replaced_releases WHERE gem = ANY($1)
             RETURNING gem, number, platform, offered, since",
        )
        .await?;
    let mut before = HashMap::new();
    for row in transaction.query(&statement, &[&gems]).await? {
        let release = (row.try_get::<_, i64>(0)?, row.identity(1)?, Checksum(row.digest(3)?));
        before.insert(release, row.try_get::<_, i64>(4)?);
    }
    if kept_out.is_empty() {
        return Ok(());
    }
    let (mut keys, mut pinned, mut offered, mut since) =
        (KeyColumns::default(), Vec::new(), Vec::new(), Vec::new());
    for (gem, replaced) in kept_out {
        keys.add(*gem, &replaced.identity);
        pinned.push(&replaced.pinned.0[..]);
        offered.push(&replaced.offered.0[..]);
        let release = (*gem, replaced.identity.clone(), replaced.offered);
        since.push(before.get(&release).copied().unwrap_or_else(|| micros(now)));
    }
    let statement = transaction
        .prepare_cached(
            "INSERT INTO replaced_releases SELECT * FROM unnest($1::bigint[], $2::text[],
                 $3::text[], $4::bytea[], $5::bytea[], $6::bigint[])",
        )
        .await?;
    let [gems, numbers, platforms] = keys.parameters();
    transaction.execute(&statement, &[gems, numbers, platforms, &pinned, &offered, &since]).await?;
    Ok(())
}

pub(super) async fn accept(
    transaction: &Transaction<'_>,
    gem_name: GemName,
    identity: Identity,
) -> Result<Option<ReplacedRelease>, StoreError> {
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    let sql = format!(
        "DELETE FROM replaced_releases USING gems JOIN origins ON origins.gem = gems.id
         WHERE gems.id = replaced_releases.gem
           AND gems.name = $1 AND number = $2 AND platform = $3
         RETURNING {COLUMNS}, gems.id"
    );
    let statement = transaction.prepare_cached(&sql).await?;
    let found =
        transaction.query_opt(&statement, &[&gem_name.as_str(), &number, &platform]).await?;
    let Some(row) = found else { return Ok(None) };
    let release = read(&row)?;
    let mut keys = KeyColumns::default();
    keys.add(row.try_get(6)?, &identity);
    pin(transaction, &keys, &[&release.offered.0[..]]).await?;
    mark_pending(transaction, &[gem_name.as_str()]).await?;
    Ok(Some(release))
}
