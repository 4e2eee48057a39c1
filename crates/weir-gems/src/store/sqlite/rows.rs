//! Gems and releases as rows.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use weir_base::clock::Timestamp;

use crate::name::GemName;
use crate::platform::Platform;
use crate::release::{Checksum, Dependencies, Identity, Release, RequirementLine};
use crate::store::column::signed;
pub(super) use crate::store::statements::releases::RELEASE;
use crate::version::Version;

/// A time, stored in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) Timestamp);

impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(signed(self.0.as_micros()).into())
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let micros = u64::try_from(value.as_i64()?).map_err(|_| FromSqlError::OutOfRange(-1))?;
        Ok(Self(Timestamp::from_micros(micros)))
    }
}

/// The id of a gem, and its number of releases that are not yanked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gem {
    pub(super) id: i64,
    pub(super) live: i64,
}

pub(super) fn gem(connection: &Connection, name: &str) -> rusqlite::Result<Option<Gem>> {
    connection
        .prepare_cached("SELECT id, live FROM gems WHERE name = ?1")?
        .query_row([name], |row| Ok(Gem { id: row.get(0)?, live: row.get(1)? }))
        .optional()
}

pub(super) fn add_gem(
    connection: &Connection,
    name: &GemName,
    now: Timestamp,
) -> rusqlite::Result<Gem> {
    connection
        .prepare_cached(
            "INSERT INTO gems (name, skeleton, live, created_at) VALUES (?1, ?2, 0, ?3)",
        )?
        .execute(params![name.as_str(), name.skeleton(), Time(now)])?;
    Ok(Gem { id: connection.last_insert_rowid(), live: 0 })
}

/// Reads a release from a row, without validating it again.
pub(super) fn release(row: &Row<'_>, first: usize) -> rusqlite::Result<Release> {
    let line = |column| -> rusqlite::Result<Option<RequirementLine>> {
        let text: Option<String> = row.get(first + column)?;
        Ok(text.map(RequirementLine::from_checked))
    };
    Ok(Release {
        identity: Identity {
            number: Version::from_checked(row.get(first)?),
            platform: Platform::from_checked(row.get(first + 1)?),
        },
        dependencies: Dependencies::from_checked(row.get(first + 2)?),
        checksum: Checksum(row.get(first + 3)?),
        ruby: line(4)?,
        rubygems: line(5)?,
        created_at: row.get::<_, Time>(first + 6)?.0,
    })
}

/// Returns the releases of a gem that are not yanked, in the order of lines.
pub(super) fn releases(connection: &Connection, gem: i64) -> rusqlite::Result<Vec<Release>> {
    let sql = format!("SELECT {RELEASE} FROM releases WHERE gem = ?1 AND yanked_at IS NULL");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([gem], |row| release(row, 0))?;
    let mut releases = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    releases.sort_by(Release::order);
    Ok(releases)
}

/// Adds a release. Returns false if a release of this number and platform exists, yanked or not.
pub(super) fn add_release(
    connection: &Connection,
    gem: i64,
    release: &Release,
    bytes: Option<u64>,
) -> rusqlite::Result<bool> {
    let sql = format!(
        "INSERT INTO releases (gem, {RELEASE}, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT DO NOTHING"
    );
    let added = connection.prepare_cached(&sql)?.execute(params![
        gem,
        release.identity.number.as_str(),
        release.identity.platform.as_str(),
        release.dependencies.as_str(),
        release.checksum.0,
        release.ruby.as_ref().map(RequirementLine::as_str),
        release.rubygems.as_ref().map(RequirementLine::as_str),
        Time(release.created_at),
        bytes.map(signed),
    ])?;
    Ok(added == 1)
}
