//! Finds releases by their full names.

use tokio_postgres::Row;

use super::pool::Lease;
use super::rows::digest;
use crate::release::Checksum;
use crate::store::column::unsigned;
use crate::store::cuts::{Cut, cuts};
use crate::store::{StoreError, StoredFile};

/// The possible splits of a full name, as columns.
#[derive(Default)]
struct Cuts<'a> {
    names: Vec<&'a str>,
    numbers: Vec<String>,
    platforms: Vec<String>,
}

/// Joins each split with its release. The first match counts.
pub(super) const RELEASE_OF_CUT: &str = "FROM unnest($1::text[], $2::text[], $3::text[])
     WITH ORDINALITY AS cut (name, number, platform, place)
     JOIN gems ON gems.name = cut.name
     JOIN releases ON releases.gem = gems.id AND releases.number = cut.number
          AND releases.platform = cut.platform";

impl<'a> Cuts<'a> {
    fn of(all: impl Iterator<Item = Cut<'a>>) -> Self {
        let mut columns = Self::default();
        // Postgres can't store this character, and no gem has it in its name.
        for cut in all.filter(|cut| !cut.name.contains('\0')) {
            columns.names.push(cut.name);
            columns.numbers.push(cut.identity.number.as_str().to_owned());
            columns.platforms.push(cut.identity.platform.as_str().to_owned());
        }
        columns
    }
}

pub(super) async fn first(
    lease: &Lease,
    full_name: &str,
    sql: &str,
) -> Result<Option<Row>, StoreError> {
    let columns = Cuts::of(cuts(full_name));
    let statement = lease.prepare_cached(sql).await?;
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [&columns.names, &columns.numbers, &columns.platforms];
    Ok(lease.query_opt(&statement, &parameters).await?)
}

pub(super) async fn file(lease: &Lease, full_name: &str) -> Result<Option<StoredFile>, StoreError> {
    let sql = format!(
        "SELECT sha256, bytes {RELEASE_OF_CUT}
         WHERE yanked_at IS NULL AND bytes IS NOT NULL ORDER BY place LIMIT 1"
    );
    let Some(row) = first(lease, full_name, &sql).await? else { return Ok(None) };
    let bytes = unsigned(row.try_get(1)?);
    Ok(Some(StoredFile { checksum: Checksum(digest(&row, 0)?), bytes }))
}

pub(super) async fn gemspec(lease: &Lease, full_name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = format!(
        "SELECT gemspec_rz {RELEASE_OF_CUT}
         JOIN specifications ON specifications.gem = releases.gem
              AND specifications.number = releases.number
              AND specifications.platform = releases.platform
         WHERE yanked_at IS NULL ORDER BY place LIMIT 1"
    );
    let row = first(lease, full_name, &sql).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}
