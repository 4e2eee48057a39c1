//! Gems and their releases, one at a time.

use weir_base::clock::Timestamp;

use super::releases::{RELEASE, key, release};
use crate::name::GemName;
use crate::release::{Identity, Release, RequirementLine};
use crate::store::StoreError;
use crate::store::column::signed;
use crate::store::cuts::cuts;
use crate::store::database::{Database, Row, Values, micros, query_one};

/// A gem's row: its id and the number of its releases that are not yanked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Gem {
    pub(in crate::store) id: i64,
    pub(in crate::store) live: i64,
}

pub(in crate::store) async fn gem(
    database: &impl Database,
    name: &str,
) -> Result<Option<Gem>, StoreError> {
    let row = query_one(database, "SELECT id, live FROM gems WHERE name = $1", &[&name]).await?;
    row.map(|row| Ok(Gem { id: row.get(0)?, live: row.get(1)? })).transpose()
}

pub(in crate::store) async fn add_gem(
    database: &impl Database,
    name: &GemName,
    now: Timestamp,
) -> Result<Gem, StoreError> {
    let sql = "INSERT INTO gems (name, skeleton, live, created_at) VALUES ($1, $2, 0, $3)
         RETURNING id";
    let values: Values<'_> = &[&name.as_str(), &name.skeleton(), &micros(now)];
    let row = query_one(database, sql, values).await?;
    let missing = || StoreError::Damaged("a gem was added and is not there".to_owned());
    Ok(Gem { id: row.ok_or_else(missing)?.get(0)?, live: 0 })
}

/// Makes a gem local: from now on its releases are pushed or imported here.
pub(in crate::store) async fn make_local(
    database: &impl Database,
    gem: i64,
) -> Result<(), StoreError> {
    database.execute("DELETE FROM origins WHERE gem = $1", &[&gem]).await?;
    Ok(())
}

/// Returns the releases that are not yanked, in the order of the index.
pub(in crate::store) async fn releases(
    database: &impl Database,
    gem: i64,
) -> Result<Vec<Release>, StoreError> {
    let sql = format!("SELECT {RELEASE} FROM releases WHERE gem = $1 AND yanked_at IS NULL");
    let rows = database.query(&sql, &[&gem]).await?;
    let mut releases = rows.iter().map(|row| release(row, 0)).collect::<Result<Vec<_>, _>>()?;
    releases.sort_by(Release::order);
    Ok(releases)
}

/// Adds a release. Returns false if the gem already has it, even if it is yanked.
pub(in crate::store) async fn add_release(
    database: &impl Database,
    gem: i64,
    release: &Release,
    bytes: Option<u64>,
) -> Result<bool, StoreError> {
    let sql = format!(
        "INSERT INTO releases (gem, {RELEASE}, bytes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT DO NOTHING"
    );
    let (number, platform) = key(&release.identity);
    let values: Values<'_> = &[
        &gem,
        &number,
        &platform,
        &release.dependencies.as_str(),
        &&release.checksum.0[..],
        &release.ruby.as_ref().map(RequirementLine::as_str),
        &release.rubygems.as_ref().map(RequirementLine::as_str),
        &micros(release.created_at),
        &bytes.map(signed),
    ];
    Ok(database.execute(&sql, values).await? == 1)
}

/// Returns the existing release of another gem whose file would have the same name, if any.
pub(in crate::store) async fn clash(
    database: &impl Database,
    name: &GemName,
    identity: &Identity,
) -> Result<Option<String>, StoreError> {
    let full_name = format!("{name}-{identity}");
    for cut in cuts(&full_name).filter(|cut| cut.name != name.as_str()) {
        let sql = "SELECT 1 FROM gems JOIN releases ON gem = id
             WHERE name = $1 AND number = $2 AND platform = $3";
        let (number, platform) = key(&cut.identity);
        if query_one(database, sql, &[&cut.name, &number, &platform]).await?.is_some() {
            return Ok(Some(format!("{} {}", cut.name, cut.identity)));
        }
    }
    Ok(None)
}
