//! Gems and releases as rows.

use deadpool_postgres::Transaction;
use hashbrown::HashMap;
use tokio_postgres::Row;
use weir_base::clock::Timestamp;

use crate::name::GemName;
use crate::release::{Release, RequirementLine};
use crate::store::StoreError;
use crate::store::column::signed;
pub(super) use crate::store::database::micros;
use crate::store::mirror::NOBODY;
pub(super) use crate::store::statements::releases::{RELEASE, release};

/// Returns a digest of `N` bytes.
pub(super) fn digest<const N: usize>(row: &Row, column: usize) -> Result<[u8; N], StoreError> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes.try_into().map_err(|_| {
        StoreError::Damaged(format!("a digest has {} bytes instead of {N}", bytes.len()))
    })
}

/// The id of a gem, and its number of releases that are not yanked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gem {
    pub(super) id: i64,
    pub(super) live: i64,
}

pub(super) async fn gem(
    transaction: &Transaction<'_>,
    name: &str,
) -> Result<Option<Gem>, StoreError> {
    let statement = transaction.prepare_cached("SELECT id, live FROM gems WHERE name = $1").await?;
    let row = transaction.query_opt(&statement, &[&name]).await?;
    row.map(|row| Ok(Gem { id: row.try_get(0)?, live: row.try_get(1)? })).transpose()
}

/// A gem that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownGem {
    pub(super) gem: Gem,
    /// The upstream that it came from, or [`NOBODY`]; None if it was pushed or imported here.
    pub(super) origin: Option<i64>,
}

impl KnownGem {
    pub(super) fn is_mirrored(&self) -> bool {
        self.origin.is_some_and(|origin| origin != NOBODY)
    }
}

/// Returns the rows of those names that are gems.
pub(super) async fn gems(
    transaction: &Transaction<'_>,
    names: &[&str],
) -> Result<HashMap<String, KnownGem>, StoreError> {
    let statement = transaction
        .prepare_cached(
            "SELECT name, id, live, upstream FROM gems LEFT JOIN origins ON origins.gem = gems.id
             WHERE name = ANY($1)",
        )
        .await?;
    let mut known = HashMap::new();
    for row in transaction.query(&statement, &[&names]).await? {
        let gem = Gem { id: row.try_get(1)?, live: row.try_get(2)? };
        known.insert(row.try_get(0)?, KnownGem { gem, origin: row.try_get(3)? });
    }
    Ok(known)
}

pub(super) async fn add_gem(
    transaction: &Transaction<'_>,
    name: &GemName,
    now: Timestamp,
) -> Result<Gem, StoreError> {
    let statement = transaction
        .prepare_cached(
            "INSERT INTO gems (name, skeleton, live, created_at) VALUES ($1, $2, 0, $3)
             RETURNING id",
        )
        .await?;
    let row = transaction
        .query_one(&statement, &[&name.as_str(), &name.skeleton(), &micros(now)])
        .await?;
    Ok(Gem { id: row.try_get(0)?, live: 0 })
}

/// Returns the releases of a gem that are not yanked, in the order of lines.
pub(super) async fn releases(
    transaction: &Transaction<'_>,
    gem: i64,
) -> Result<Vec<Release>, StoreError> {
    let sql = format!("SELECT {RELEASE} FROM releases WHERE gem = $1 AND yanked_at IS NULL");
    let statement = transaction.prepare_cached(&sql).await?;
    let rows = transaction.query(&statement, &[&gem]).await?;
    let mut releases = rows.iter().map(|row| release(row, 0)).collect::<Result<Vec<_>, _>>()?;
    releases.sort_by(Release::order);
    Ok(releases)
}

/// Adds a release. Returns false if a release of this number and platform exists, yanked or not.
pub(super) async fn add_release(
    transaction: &Transaction<'_>,
    gem: i64,
    release: &Release,
    bytes: u64,
) -> Result<bool, StoreError> {
    let sql = format!(
        "INSERT INTO releases (gem, {RELEASE}, bytes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT DO NOTHING"
    );
    let statement = transaction.prepare_cached(&sql).await?;
    let added = transaction
        .execute(
            &statement,
            &[
                &gem,
                &release.identity.number.as_str(),
                &release.identity.platform.as_str(),
                &release.dependencies.as_str(),
                &&release.checksum.0[..],
                &release.ruby.as_ref().map(RequirementLine::as_str),
                &release.rubygems.as_ref().map(RequirementLine::as_str),
                &micros(release.created_at),
                &signed(bytes),
            ],
        )
        .await?;
    Ok(added == 1)
}
