//! A release comes.

use rusqlite::{Connection, OptionalExtension, params};
use weir_base::clock::Timestamp;

use super::locate::exists;
use super::{index, mirror, rows, webhook_rows};
use crate::index::versions::Change;
use crate::name::GemName;
use crate::release::Release;
use crate::store::column::signed;
use crate::store::cuts::cuts;
use crate::store::{Conflict, LOOKALIKES_MAX, NewRelease, PushError, Pushed, StoreError};

pub(super) fn push(
    connection: &Connection,
    new: &NewRelease,
    now: Timestamp,
) -> Result<Pushed, PushError> {
    let NewRelease { name, release, bytes, gemspec_rz, about } = new;
    let full_name = format!("{name}-{}", release.identity);
    check_full_name(connection, name, &full_name)?;
    if let Some(upstream) = mirror::origin_of(connection, name.as_str())? {
        let gem = rows::gem(connection, name.as_str())?;
        let found = gem.map(|gem| found(connection, gem.id, release)).transpose()?.flatten();
        let is_same_file = found.is_some_and(|(sha256, _)| sha256 == release.checksum.0);
        return Err(Conflict::Mirrored { name: name.to_string(), upstream, is_same_file }.into());
    }
    let (gem, lookalikes) = match rows::gem(connection, name.as_str())? {
        Some(gem) => {
            mirror::make_local(connection, gem.id)?;
            (gem, Vec::new())
        }
        None => {
            let lookalikes = lookalikes(connection, name)?;
            (rows::add_gem(connection, name, now)?, lookalikes)
        }
    };
    if !rows::add_release(connection, gem.id, release, Some(*bytes))? {
        return Err(conflict(connection, gem.id, release, full_name)?.into());
    }
    let (number, platform) = (release.identity.number.as_str(), release.identity.platform.as_str());
    connection
        .prepare_cached("INSERT INTO specifications VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![gem.id, number, platform, gemspec_rz, about])?;
    index::apply(connection, gem, name.as_str(), Change::Pushed, &release.identity)?;
    webhook_rows::tell(connection, Change::Pushed, name, release, Some(about), now)?;
    Ok(Pushed { lookalikes })
}

/// Files are asked for by full names, which two releases must not share.
fn check_full_name(
    connection: &Connection,
    name: &GemName,
    full_name: &str,
) -> Result<(), PushError> {
    for cut in cuts(full_name).filter(|cut| cut.name != name.as_str()) {
        if exists(connection, &cut)? {
            let other = format!("{} {}", cut.name, cut.identity);
            return Err(Conflict::FullName { full_name: full_name.to_owned(), other }.into());
        }
    }
    Ok(())
}

fn lookalikes(connection: &Connection, name: &GemName) -> Result<Vec<String>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT name FROM gems WHERE skeleton = ?1 ORDER BY id LIMIT ?2")?;
    let limit = signed(LOOKALIKES_MAX);
    let names = statement.query_map(params![name.skeleton(), limit], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

/// What there is of a release: its checksum, and whether it was yanked.
fn found(
    connection: &Connection,
    gem: i64,
    release: &Release,
) -> rusqlite::Result<Option<([u8; 32], bool)>> {
    let (number, platform) = (release.identity.number.as_str(), release.identity.platform.as_str());
    connection
        .prepare_cached(
            "SELECT sha256, yanked_at IS NOT NULL FROM releases
             WHERE gem = ?1 AND number = ?2 AND platform = ?3",
        )?
        .query_row(params![gem, number, platform], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// What is in the place of a release that could not be added.
fn conflict(
    connection: &Connection,
    gem: i64,
    release: &Release,
    full_name: String,
) -> Result<Conflict, StoreError> {
    Ok(match found(connection, gem, release)? {
        Some((_, true)) => Conflict::Yanked { full_name },
        Some((sha256, _)) if sha256 == release.checksum.0 => Conflict::SameContents { full_name },
        _ => Conflict::Exists { full_name },
    })
}
