//! Releases as rows.

use crate::release::{Checksum, Dependencies, Identity, Release, RequirementLine};
use crate::store::StoreError;
use crate::store::database::Row;

/// Columns of a release, in the order of [`release`].
pub(in crate::store) const RELEASE: &str =
    "number, platform, dependencies, sha256, ruby, rubygems, created_at";

/// Reads a release from a row, without validating it again.
pub(in crate::store) fn release(row: &impl Row, first: usize) -> Result<Release, StoreError> {
    let line = |column| -> Result<Option<RequirementLine>, StoreError> {
        let text: Option<String> = row.get(first + column)?;
        Ok(text.map(RequirementLine::from_checked))
    };
    Ok(Release {
        identity: row.identity(first)?,
        dependencies: Dependencies::from_checked(row.get(first + 2)?),
        checksum: Checksum(row.digest(first + 3)?),
        ruby: line(4)?,
        rubygems: line(5)?,
        created_at: row.time(first + 6)?.unwrap_or_default(),
    })
}

/// Returns a release's number and platform in the form of columns.
pub(in crate::store) fn key(identity: &Identity) -> (&str, &str) {
    (identity.number.as_str(), identity.platform.as_str())
}
