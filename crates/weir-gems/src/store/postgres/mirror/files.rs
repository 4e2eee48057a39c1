//! Mirrored releases and their files.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;

use crate::name::GemName;
use crate::platform::Platform;
use crate::release::{Checksum, Identity};
use crate::store::StoreError;
use crate::store::column::{name, signed, unsigned};
use crate::store::mirror::{MirroredFile, MirroredRelease, MissingFiles, Presence};
use crate::store::postgres::locate::{RELEASE_OF_CUT, first};
use crate::store::postgres::pool::Lease;
use crate::store::postgres::rows::digest;
use crate::version::Version;

/// Columns of a release, in the order of [`release`].
const RELEASE: &str =
    "gems.name, releases.number, releases.platform, sha256, upstreams.name, bytes";

fn release(row: &Row) -> Result<MirroredRelease, StoreError> {
    let bytes: Option<i64> = row.try_get(5)?;
    Ok(MirroredRelease {
        name: name(row.try_get(0)?)?,
        identity: Identity {
            number: Version::from_checked(row.try_get(1)?),
            platform: Platform::from_checked(row.try_get(2)?),
        },
        checksum: Checksum(digest(row, 3)?),
        upstream: row.try_get(4)?,
        bytes: bytes.map(unsigned),
    })
}

pub(super) async fn mirrored(
    lease: &Lease,
    full_name: &str,
) -> Result<Option<MirroredRelease>, StoreError> {
    let sql = format!(
        "SELECT {RELEASE} {RELEASE_OF_CUT}
         JOIN origins ON origins.gem = gems.id JOIN upstreams ON upstreams.id = origins.upstream
         WHERE yanked_at IS NULL ORDER BY place LIMIT 1"
    );
    first(lease, full_name, &sql).await?.map(|row| release(&row)).transpose()
}

pub(super) async fn presence(
    lease: &Lease,
    name: &GemName,
    identity: &Identity,
) -> Result<Presence, StoreError> {
    let statement = lease
        .prepare_cached(
            "SELECT yanked_at IS NOT NULL FROM releases JOIN gems ON gems.id = gem
             WHERE name = $1 AND number = $2 AND platform = $3",
        )
        .await?;
    let Identity { number, platform } = identity;
    let row = lease
        .query_opt(&statement, &[&name.as_str(), &number.as_str(), &platform.as_str()])
        .await?;
    Ok(match row.map(|row| row.try_get(0)).transpose()? {
        None => Presence::Absent,
        Some(false) => Presence::Served,
        Some(true) => Presence::Yanked,
    })
}

/// Nothing is noted of a release that has another file by now.
pub(super) async fn keep(
    transaction: &Transaction<'_>,
    release: MirroredRelease,
    file: MirroredFile,
) -> Result<(), StoreError> {
    let MirroredRelease { name, identity, checksum, .. } = release;
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    let statement = transaction
        .prepare_cached(
            "UPDATE releases SET bytes = $5
             WHERE gem = (SELECT id FROM gems WHERE name = $1) AND number = $2 AND platform = $3
               AND sha256 = $4
             RETURNING gem",
        )
        .await?;
    let row = transaction
        .query_opt(
            &statement,
            &[&name.as_str(), &number, &platform, &&checksum.0[..], &signed(file.bytes)],
        )
        .await?;
    if let (Some(row), Some((gemspec_rz, about))) = (row, file.specification) {
        let gem: i64 = row.try_get(0)?;
        let statement = transaction
            .prepare_cached(
                "INSERT INTO specifications (gem, number, platform, gemspec_rz, about)
                 VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (gem, number, platform) DO UPDATE
                     SET gemspec_rz = excluded.gemspec_rz, about = excluded.about",
            )
            .await?;
        transaction.execute(&statement, &[&gem, &number, &platform, &gemspec_rz, &about]).await?;
    }
    Ok(())
}

/// Of a release that has another file by now nothing is forgotten.
pub(super) async fn forget(
    transaction: &Transaction<'_>,
    release: MirroredRelease,
) -> Result<(), StoreError> {
    let MirroredRelease { name, identity, checksum, .. } = release;
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    let statement = transaction
        .prepare_cached(
            "UPDATE releases SET bytes = NULL
             WHERE gem = (SELECT gem FROM origins JOIN gems ON gems.id = gem WHERE name = $1)
               AND number = $2 AND platform = $3 AND sha256 = $4",
        )
        .await?;
    transaction
        .execute(&statement, &[&name.as_str(), &number, &platform, &&checksum.0[..]])
        .await?;
    Ok(())
}

/// What an upstream's releases without files are, whose gems' numbers are $2 and more.
const MISSING: &str = "FROM origins JOIN releases ON releases.gem = origins.gem
     WHERE origins.upstream = (SELECT id FROM upstreams WHERE name = $1) AND origins.gem >= $2
       AND releases.gem >= $2 AND yanked_at IS NULL AND bytes IS NULL";

pub(super) async fn missing(
    lease: &Lease,
    upstream: &str,
    from: u64,
    releases_max: usize,
) -> Result<MissingFiles, StoreError> {
    // The last gem of the page, if there may be more behind it.
    let sql = format!("SELECT origins.gem {MISSING} ORDER BY origins.gem OFFSET $3 LIMIT 1");
    let statement = lease.prepare_cached(&sql).await?;
    let last_place = signed(releases_max.saturating_sub(1));
    let row = lease.query_opt(&statement, &[&upstream, &signed(from), &last_place]).await?;
    let last: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
    let sql = format!(
        "SELECT {RELEASE} FROM gems JOIN releases ON releases.gem = gems.id
         JOIN origins ON origins.gem = gems.id JOIN upstreams ON upstreams.id = origins.upstream
         WHERE upstreams.name = $1 AND gems.id >= $2 AND gems.id <= $3
           AND releases.gem >= $2 AND releases.gem <= $3 AND yanked_at IS NULL AND bytes IS NULL
         ORDER BY gems.id"
    );
    let statement = lease.prepare_cached(&sql).await?;
    let end = last.unwrap_or(i64::MAX);
    let rows = lease.query(&statement, &[&upstream, &signed(from), &end]).await?;
    let releases = rows.iter().map(release).collect::<Result<_, _>>()?;
    Ok(MissingFiles { releases, next: last.map(|last| unsigned(last) + 1) })
}
