//! Mirrored releases and their files.

use rusqlite::{Connection, OptionalExtension, params};

use super::upstreams::id;
use crate::name::GemName;
use crate::platform::Platform;
use crate::release::{Checksum, Identity};
use crate::store::StoreError;
use crate::store::column::{name, signed, unsigned};
use crate::store::cuts::{Cut, cuts};
use crate::store::mirror::{MirroredFile, MirroredRelease, MissingFiles, Presence};
use crate::version::Version;

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

pub(super) fn presence(
    connection: &Connection,
    name: &GemName,
    identity: &Identity,
) -> Result<Presence, StoreError> {
    let Identity { number, platform } = identity;
    let is_yanked: Option<bool> = connection
        .prepare_cached(
            "SELECT yanked_at IS NOT NULL FROM releases JOIN gems ON gems.id = gem
             WHERE name = ?1 AND number = ?2 AND platform = ?3",
        )?
        .query_row([name.as_str(), number.as_str(), platform.as_str()], |row| row.get(0))
        .optional()?;
    Ok(match is_yanked {
        None => Presence::Absent,
        Some(false) => Presence::Served,
        Some(true) => Presence::Yanked,
    })
}

/// Nothing is noted of a release that has another file by now.
pub(super) fn keep(
    connection: &Connection,
    release: &MirroredRelease,
    file: &MirroredFile,
) -> Result<(), StoreError> {
    let MirroredRelease { name, identity, checksum, .. } = release;
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    let gem: Option<i64> = connection
        .prepare_cached(
            "UPDATE releases SET bytes = ?5
             WHERE gem = (SELECT id FROM gems WHERE name = ?1) AND number = ?2 AND platform = ?3
               AND sha256 = ?4
             RETURNING gem",
        )?
        .query_row(
            params![name.as_str(), number, platform, checksum.0, signed(file.bytes)],
            |row| row.get(0),
        )
        .optional()?;
    if let (Some(gem), Some((gemspec_rz, about))) = (gem, &file.specification) {
        connection
            .prepare_cached("INSERT OR REPLACE INTO specifications VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![gem, number, platform, gemspec_rz, about])?;
    }
    Ok(())
}

/// Of a release that has another file by now nothing is forgotten.
pub(super) fn forget(connection: &Connection, release: &MirroredRelease) -> Result<(), StoreError> {
    let MirroredRelease { name, identity, checksum, .. } = release;
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    connection
        .prepare_cached(
            "UPDATE releases SET bytes = NULL
             WHERE gem = (SELECT gem FROM origins JOIN gems ON gems.id = gem WHERE name = ?1)
               AND number = ?2 AND platform = ?3 AND sha256 = ?4",
        )?
        .execute(params![name.as_str(), number, platform, checksum.0])?;
    Ok(())
}

pub(super) fn missing(
    connection: &Connection,
    upstream: &str,
    from: u64,
    releases_max: usize,
) -> Result<MissingFiles, StoreError> {
    let Some(upstream_id) = id(connection, upstream)? else { return Ok(MissingFiles::default()) };
    let mut statement = connection.prepare_cached(
        "SELECT releases.gem, gems.name, number, platform, sha256 FROM origins
         JOIN releases ON releases.gem = origins.gem JOIN gems ON gems.id = origins.gem
         WHERE origins.upstream = ?1 AND origins.gem >= ?2
           AND yanked_at IS NULL AND bytes IS NULL
         ORDER BY origins.gem",
    )?;
    let mut rows = statement.query(params![upstream_id, signed(from)])?;
    let mut page = MissingFiles::default();
    let mut last = None;
    while let Some(row) = rows.next()? {
        let gem = unsigned(row.get(0)?);
        if page.releases.len() >= releases_max && last != Some(gem) {
            page.next = Some(gem);
            break;
        }
        last = Some(gem);
        page.releases.push(MirroredRelease {
            name: name(&row.get::<_, String>(1)?)?,
            identity: Identity {
                number: Version::from_checked(row.get(2)?),
                platform: Platform::from_checked(row.get(3)?),
            },
            checksum: Checksum(row.get(4)?),
            upstream: upstream.to_owned(),
            bytes: None,
        });
    }
    Ok(page)
}
