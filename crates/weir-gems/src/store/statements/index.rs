//! The data derived from releases: infos, fragments and the texts of the index.

use weir_base::clock::Timestamp;

use super::gems::{Gem, releases};
use super::texts::TextWriter;
use crate::dependency_api::Fragment;
use crate::index::versions::Change;
use crate::index::{names, versions};
use crate::release::Identity;
use crate::store::column::signed;
use crate::store::database::{Database, Row, WritableDatabase, query_one};
use crate::store::derived::Derived;
use crate::store::{FragmentPage, StoreError, TextKind};

/// Number of gems to read at once for `/versions`.
const PAGE_GEMS: i64 = 1_000;
/// Number of names to read at once for `/names`.
const PAGE_NAMES: i64 = 10_000;

/// Stores the derived data of a gem with `live` releases that are not yanked.
pub(in crate::store) async fn store_derived<D: WritableDatabase>(
    database: &D,
    gem: i64,
    name: &str,
    derived: &Derived,
    live: usize,
) -> Result<(), StoreError> {
    let (md5, sha256) = (&derived.digests.md5[..], &derived.digests.sha256[..]);
    let (info, fragment) = (derived.info.as_bytes(), &derived.fragment[..]);
    database.execute(D::STORE_INFO, &[&gem, &name, &md5, &sha256, &info]).await?;
    database.execute(D::STORE_FRAGMENT, &[&gem, &name, &fragment]).await?;
    let sql = "UPDATE gems SET live = $2 WHERE id = $1";
    database.execute(sql, &[&gem, &signed(live)]).await?;
    Ok(())
}

/// Writes all derived data after a change of one release, within the transaction of the change.
pub(in crate::store) async fn apply(
    database: &impl WritableDatabase,
    gem: Gem,
    name: &str,
    change: Change,
    identity: &Identity,
) -> Result<(), StoreError> {
    let releases = releases(database, gem.id).await?;
    let derived = Derived::of(&releases);
    store_derived(database, gem.id, name, &derived, releases.len()).await?;
    let md5 = derived.digests.md5;
    let mut text = TextWriter::resume(database, TextKind::Versions).await?;
    text.append(database, |text| versions::write_change(text, name, change, identity, md5)).await?;
    text.finish(database).await?;
    match (gem.live, releases.len()) {
        (0, 1..) => {
            let mut text = TextWriter::resume(database, TextKind::Names).await?;
            text.append(database, |text| names::write_line(text, name)).await?;
            text.finish(database).await
        }
        // The gem lost its last release, so its name must be removed from the middle of the text.
        (1.., 0) => write_names(database).await,
        _ => Ok(()),
    }
}

/// Creates the texts of a new store, without gems.
pub(in crate::store) async fn begin_if_missing(
    database: &impl WritableDatabase,
    now: Timestamp,
) -> Result<(), StoreError> {
    let row = query_one(database, "SELECT count(*) FROM texts", &[]).await?;
    match row.map_or(Ok(0), |row| row.get::<i64>(0))? {
        2 => Ok(()),
        _ => rebaseline(database, now).await,
    }
}

/// Rewrites both texts from the stored data of each gem.
pub(in crate::store) async fn rebaseline(
    database: &impl WritableDatabase,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut text = TextWriter::begin(database, TextKind::Versions).await?;
    text.append(database, |text| text.push_str(&versions::header(now))).await?;
    let sql = "SELECT gems.id, gems.name, md5, fragments.content FROM gems
         JOIN infos ON infos.gem = gems.id AND infos.gem > $1
         JOIN fragments ON fragments.gem = gems.id AND fragments.gem > $1
         WHERE gems.id > $1 AND live > 0 ORDER BY gems.id LIMIT $2";
    let mut last = 0_i64;
    loop {
        let rows = database.query(sql, &[&last, &PAGE_GEMS]).await?;
        let Some(end) = rows.last() else { break };
        last = end.get(0)?;
        for row in &rows {
            let (name, md5): (String, _) = (row.get(1)?, row.digest(2)?);
            let content: Vec<u8> = row.get(3)?;
            let fragment = Fragment::read(&content)?;
            text.append(database, |text| {
                let releases = fragment.releases().map(|release| release.full());
                versions::write_gem(text, &name, releases, md5);
            })
            .await?;
        }
    }
    text.finish(database).await?;
    write_names(database).await
}

pub(in crate::store) async fn write_names(
    database: &impl WritableDatabase,
) -> Result<(), StoreError> {
    let mut text = TextWriter::begin(database, TextKind::Names).await?;
    text.append(database, |text| text.push_str(names::HEADER)).await?;
    let sql = "SELECT id, name FROM gems WHERE id > $1 AND live > 0 ORDER BY id LIMIT $2";
    let mut last = 0_i64;
    loop {
        let rows = database.query(sql, &[&last, &PAGE_NAMES]).await?;
        let Some(end) = rows.last() else { break };
        last = end.get(0)?;
        for row in &rows {
            let name: String = row.get(1)?;
            text.append(database, |text| names::write_line(text, &name)).await?;
        }
    }
    text.finish(database).await
}

/// Returns one page of the fragments of all gems, in the order of their ids.
pub(in crate::store) async fn fragment_page(
    database: &impl Database,
    from: u64,
    gems_max: usize,
) -> Result<FragmentPage, StoreError> {
    let sql = "SELECT gem, gems.name, content FROM fragments JOIN gems ON gems.id = gem
         WHERE gem >= $1 ORDER BY gem LIMIT $2";
    let rows = database.query(sql, &[&signed(from), &signed(gems_max)]).await?;
    let last = rows.last().map(|row| row.number(0)).transpose()?;
    let next = last.filter(|_| rows.len() == gems_max).map(|last| last + 1);
    let gems = rows.iter().map(|row| Ok((row.get(1)?, row.get(2)?)));
    Ok(FragmentPage { gems: gems.collect::<Result<_, StoreError>>()?, next })
}
