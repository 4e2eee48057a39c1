//! Pushes a release.

use rusqlite::{Connection, params};
use weir_base::clock::Timestamp;

use super::database::Sqlite;
use super::locate::exists;
use super::{index, mirror, rows};
use crate::index::versions::Change;
use crate::name::GemName;
use crate::store::cuts::cuts;
use crate::store::database::at_once;
use crate::store::statements::{pushes, upstreams, webhooks};
use crate::store::{Conflict, NewRelease, PushError, Pushed};

pub(super) fn push(
    connection: &Connection,
    new: &NewRelease,
    now: Timestamp,
) -> Result<Pushed, PushError> {
    let NewRelease { name, release, bytes, gemspec_rz, about } = new;
    let full_name = format!("{name}-{}", release.identity);
    check_full_name(connection, name, &full_name)?;
    let database = Sqlite(connection);
    if let Some(upstream) = at_once(upstreams::origin_of(&database, name.as_str()))? {
        let gem = rows::gem(connection, name.as_str())?;
        let found = gem
            .map(|gem| at_once(pushes::found(&database, gem.id, &release.identity)))
            .transpose()?
            .flatten();
        let is_same_file = found.is_some_and(|(sha256, _)| sha256 == release.checksum.0);
        return Err(Conflict::Mirrored { name: name.to_string(), upstream, is_same_file }.into());
    }
    let (gem, lookalikes) = match rows::gem(connection, name.as_str())? {
        Some(gem) => {
            mirror::make_local(connection, gem.id)?;
            (gem, Vec::new())
        }
        None => {
            let lookalikes = at_once(pushes::lookalikes(&database, name))?;
            (rows::add_gem(connection, name, now)?, lookalikes)
        }
    };
    if !rows::add_release(connection, gem.id, release, Some(*bytes))? {
        return Err(at_once(pushes::conflict(&database, gem.id, release, full_name))?.into());
    }
    let (number, platform) = (release.identity.number.as_str(), release.identity.platform.as_str());
    connection
        .prepare_cached("INSERT INTO specifications VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![gem.id, number, platform, gemspec_rz, about])?;
    index::apply(connection, gem, name.as_str(), Change::Pushed, &release.identity)?;
    at_once(webhooks::tell(&database, Change::Pushed, name, release, Some(about), now))?;
    Ok(Pushed { lookalikes })
}

/// Checks that no other release has the full name, because files are looked up by it.
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
