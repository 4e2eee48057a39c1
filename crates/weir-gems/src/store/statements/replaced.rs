//! Releases that are rejected because the upstream has replaced their file.

use crate::release::Checksum;
use crate::store::StoreError;
use crate::store::column::{name, signed};
use crate::store::database::{Database, Row};
use crate::store::mirror::ReplacedRelease;

/// Columns of a rejected release, in the order of [`read`].
pub(in crate::store) const COLUMNS: &str = "gems.name, number, platform, pinned, offered, since";

pub(in crate::store) fn read(row: &impl Row) -> Result<ReplacedRelease, StoreError> {
    Ok(ReplacedRelease {
        name: name(&row.get::<String>(0)?)?,
        identity: row.identity(1)?,
        pinned: Checksum(row.digest(3)?),
        offered: Checksum(row.digest(4)?),
        since: row.time(5)?.unwrap_or_default(),
    })
}

pub(in crate::store) async fn of_upstream(
    database: &impl Database,
    upstream: &str,
    releases_max: usize,
) -> Result<Vec<ReplacedRelease>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM replaced_releases
         JOIN gems ON gems.id = replaced_releases.gem
         JOIN origins ON origins.gem = gems.id JOIN upstreams ON upstreams.id = origins.upstream
         WHERE upstreams.name = $1 ORDER BY gems.name, number, platform LIMIT $2"
    );
    database.query(&sql, &[&upstream, &signed(releases_max)]).await?.iter().map(read).collect()
}
