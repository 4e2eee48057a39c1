//! Mirrored releases and their files.

use crate::name::GemName;
use crate::release::{Checksum, Identity};
use crate::store::StoreError;
use crate::store::column::{name, signed, unsigned};
use crate::store::database::{Database, Row, query_one};
use crate::store::mirror::{MirroredFile, MirroredRelease, MissingFiles, Presence};

pub(in crate::store) async fn presence(
    database: &impl Database,
    name: &GemName,
    identity: &Identity,
) -> Result<Presence, StoreError> {
    let Identity { number, platform } = identity;
    let sql = "SELECT yanked_at IS NOT NULL FROM releases JOIN gems ON gems.id = gem
         WHERE name = $1 AND number = $2 AND platform = $3";
    let found =
        query_one(database, sql, &[&name.as_str(), &number.as_str(), &platform.as_str()]).await?;
    Ok(match found.map(|row| row.get(0)).transpose()? {
        None => Presence::Absent,
        Some(false) => Presence::Served,
        Some(true) => Presence::Yanked,
    })
}

/// Records a stored file. Does nothing if the release has another checksum meanwhile.
pub(in crate::store) async fn keep(
    database: &impl Database,
    release: MirroredRelease,
    file: MirroredFile,
) -> Result<(), StoreError> {
    let MirroredRelease { name, identity, checksum, .. } = release;
    let (name, bytes) = (name.as_str(), signed(file.bytes));
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    let sql = "UPDATE releases SET bytes = $5
         WHERE gem = (SELECT id FROM gems WHERE name = $1) AND number = $2 AND platform = $3
           AND sha256 = $4
         RETURNING gem";
    let kept =
        query_one(database, sql, &[&name, &number, &platform, &&checksum.0[..], &bytes]).await?;
    if let (Some(row), Some((gemspec_rz, about))) = (kept, file.specification) {
        let gem: i64 = row.get(0)?;
        let sql = "INSERT INTO specifications (gem, number, platform, gemspec_rz, about)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (gem, number, platform) DO UPDATE
                 SET gemspec_rz = excluded.gemspec_rz, about = excluded.about";
        database.execute(sql, &[&gem, &number, &platform, &gemspec_rz, &about]).await?;
    }
    Ok(())
}

/// Records that a file is missing. Does nothing if the release has another checksum meanwhile.
pub(in crate::store) async fn forget(
    database: &impl Database,
    release: MirroredRelease,
) -> Result<(), StoreError> {
    let MirroredRelease { name, identity, checksum, .. } = release;
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    let sql = "UPDATE releases SET bytes = NULL
         WHERE gem = (SELECT gem FROM origins JOIN gems ON gems.id = gem WHERE name = $1)
           AND number = $2 AND platform = $3 AND sha256 = $4";
    database.execute(sql, &[&name.as_str(), &number, &platform, &&checksum.0[..]]).await?;
    Ok(())
}

/// Selects the last gem of a page, if there may be further ones.
const LAST: &str = "SELECT origins.gem FROM origins JOIN releases ON releases.gem = origins.gem
     WHERE origins.upstream = (SELECT id FROM upstreams WHERE name = $1) AND origins.gem >= $2
       AND releases.gem >= $2 AND yanked_at IS NULL AND bytes IS NULL
     ORDER BY origins.gem LIMIT 1 OFFSET $3";

const MISSING: &str = "SELECT gems.name, releases.number, releases.platform, sha256
     FROM gems JOIN releases ON releases.gem = gems.id
     JOIN origins ON origins.gem = gems.id JOIN upstreams ON upstreams.id = origins.upstream
     WHERE upstreams.name = $1 AND gems.id >= $2 AND gems.id <= $3
       AND releases.gem >= $2 AND releases.gem <= $3 AND yanked_at IS NULL AND bytes IS NULL
     ORDER BY gems.id";

pub(in crate::store) async fn missing(
    database: &impl Database,
    upstream: &str,
    from: u64,
    releases_max: usize,
) -> Result<MissingFiles, StoreError> {
    let from = signed(from);
    let last_place = signed(releases_max.saturating_sub(1));
    let last = query_one(database, LAST, &[&upstream, &from, &last_place]).await?;
    let last: Option<i64> = last.map(|row| row.get(0)).transpose()?;
    let end = last.unwrap_or(i64::MAX);
    let mut releases = Vec::new();
    for row in database.query(MISSING, &[&upstream, &from, &end]).await? {
        releases.push(MirroredRelease {
            name: name(&row.get::<String>(0)?)?,
            identity: row.identity(1)?,
            checksum: Checksum(row.digest(3)?),
            upstream: upstream.to_owned(),
            bytes: None,
        });
    }
    Ok(MissingFiles { releases, next: last.map(|last| unsigned(last) + 1) })
}
