//! Finds mirrored releases by their full names.

use rusqlite::{Connection, OptionalExtension, params};

use crate::release::{Checksum, Identity};
use crate::store::StoreError;
use crate::store::column::{name, unsigned};
use crate::store::cuts::{Cut, cuts};
use crate::store::mirror::MirroredRelease;

pub(super) fn mirrored(
    connection: &Connection,
    full_name: &str,
) -> Result<Option<MirroredRelease>, StoreError> {
    for cut in cuts(full_name) {
        if let Some(release) = mirrored_cut(connection, &cut)? {
            return Ok(Some(release));
        }
    }
    Ok(None)
}

fn mirrored_cut(
    connection: &Connection,
    cut: &Cut<'_>,
) -> Result<Option<MirroredRelease>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT sha256, upstreams.name, bytes FROM gems
         JOIN origins ON origins.gem = gems.id JOIN upstreams ON upstreams.id = origins.upstream
         JOIN releases ON releases.gem = gems.id
         WHERE gems.name = ?1 AND number = ?2 AND platform = ?3 AND yanked_at IS NULL",
    )?;
    let Identity { number, platform } = &cut.identity;
    let found = statement.query_row(params![cut.name, number.as_str(), platform.as_str()], |row| {
        let bytes: Option<i64> = row.get(2)?;
        Ok((Checksum(row.get(0)?), row.get(1)?, bytes.map(unsigned)))
    });
    let Some((checksum, upstream, bytes)) = found.optional()? else { return Ok(None) };
    let (name, identity) = (name(cut.name)?, cut.identity.clone());
    Ok(Some(MirroredRelease { name, identity, checksum, upstream, bytes }))
}
