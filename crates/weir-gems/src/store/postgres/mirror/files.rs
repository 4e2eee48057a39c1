//! Finds mirrored releases by their full names.

use crate::release::Checksum;
use crate::store::StoreError;
use crate::store::column::{name, unsigned};
use crate::store::database::Row;
use crate::store::mirror::MirroredRelease;
use crate::store::postgres::locate::{RELEASE_OF_CUT, first};
use crate::store::postgres::pool::Lease;

/// Columns of a release, in the order of [`release`].
const RELEASE: &str =
    "gems.name, releases.number, releases.platform, sha256, upstreams.name, bytes";

fn release(row: &impl Row) -> Result<MirroredRelease, StoreError> {
    let bytes: Option<i64> = row.get(5)?;
    Ok(MirroredRelease {
        name: name(&row.get::<String>(0)?)?,
        identity: row.identity(1)?,
        checksum: Checksum(row.digest(3)?),
        upstream: row.get(4)?,
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
