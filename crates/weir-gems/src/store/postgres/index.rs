//! Writes the derived data of gems, and the texts that list all gems.

use deadpool_postgres::Transaction;
use weir_base::clock::Timestamp;

use super::rows;
use super::rows::digest;
use super::text_rows::Writing;
use crate::dependency_api::Fragment;
use crate::index::versions::Change;
use crate::index::{names, versions};
use crate::release::Identity;
use crate::store::column::signed;
use crate::store::derived::Derived;
use crate::store::{StoreError, TextKind};

/// Number of gems to read at once while a text is rewritten.
const PAGE_GEMS: i64 = 1_000;

/// Replaces the derived data of gems.
#[derive(Default)]
pub(super) struct Replacing<'a> {
    gems: Vec<i64>,
    names: Vec<&'a str>,
    live: Vec<i64>,
    md5: Vec<Vec<u8>>,
    sha256: Vec<Vec<u8>>,
    infos: Vec<Vec<u8>>,
    fragments: Vec<Vec<u8>>,
}

impl<'a> Replacing<'a> {
    pub(super) fn add(&mut self, gem: i64, name: &'a str, derived: Derived, live: usize) {
        self.gems.push(gem);
        self.names.push(name);
        self.live.push(signed(live));
        self.md5.push(derived.digests.md5.to_vec());
        self.sha256.push(derived.digests.sha256.to_vec());
        self.infos.push(derived.info.into_bytes());
        self.fragments.push(derived.fragment);
    }

    pub(super) async fn write(self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        if self.gems.is_empty() {
            return Ok(());
        }
        let statement = transaction
            .prepare_cached(
                "INSERT INTO infos (gem, name, md5, sha256, content)
                 SELECT * FROM
                     unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[])
                 ON CONFLICT (gem) DO UPDATE SET name = excluded.name, md5 = excluded.md5,
                     sha256 = excluded.sha256, content = excluded.content",
            )
            .await?;
        transaction
            .execute(&statement, &[&self.gems, &self.names, &self.md5, &self.sha256, &self.infos])
            .await?;
        let statement = transaction
            .prepare_cached(
                "INSERT INTO fragments (gem, name, content)
                 SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])
                 ON CONFLICT (gem) DO UPDATE SET name = excluded.name, content = excluded.content",
            )
            .await?;
        transaction.execute(&statement, &[&self.gems, &self.names, &self.fragments]).await?;
        let statement = transaction
            .prepare_cached(
                "UPDATE gems SET live = new.live
                 FROM unnest($1::bigint[], $2::bigint[]) AS new (gem, live)
                 WHERE gems.id = new.gem",
            )
            .await?;
        transaction.execute(&statement, &[&self.gems, &self.live]).await?;
        Ok(())
    }
}

/// Writes all derived data after a change of one release, within the transaction of the change.
pub(super) async fn apply(
    transaction: &Transaction<'_>,
    gem: rows::Gem,
    name: &str,
    change: Change,
    identity: &Identity,
) -> Result<(), StoreError> {
    let releases = rows::releases(transaction, gem.id).await?;
    let derived = Derived::of(&releases);
    let md5 = derived.digests.md5;
    let mut replacing = Replacing::default();
    replacing.add(gem.id, name, derived, releases.len());
    replacing.write(transaction).await?;
    let mut text = Writing::go_on(transaction, TextKind::Versions).await?;
    text.append(|text| versions::write_change(text, name, change, identity, md5)).await?;
    text.finish().await?;
    match (gem.live, releases.len()) {
        (0, 1..) => {
            let mut text = Writing::go_on(transaction, TextKind::Names).await?;
            text.append(|text| names::write_line(text, name)).await?;
            text.finish().await
        }
        // The gem lost its last release, so its name must be removed from the middle of the text.
        (1.., 0) => write_names(transaction).await,
        _ => Ok(()),
    }
}

/// Creates the texts of a new store, without gems.
pub(super) async fn begin_if_missing(
    transaction: &Transaction<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let row = transaction.query_one("SELECT count(*) FROM texts", &[]).await?;
    match row.try_get::<_, i64>(0)? {
        2 => Ok(()),
        _ => rebaseline(transaction, now).await,
    }
}

/// Rewrites both texts from the stored data of each gem.
pub(super) async fn rebaseline(
    transaction: &Transaction<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut text = Writing::begin(transaction, TextKind::Versions).await?;
    text.append(|text| text.push_str(&versions::header(now))).await?;
    let statement = transaction
        .prepare_cached(
            "SELECT gems.id, gems.name, md5, fragments.content FROM gems
             JOIN infos ON infos.gem = gems.id AND infos.gem > $1
             JOIN fragments ON fragments.gem = gems.id AND fragments.gem > $1
             WHERE gems.id > $1 AND live > 0 ORDER BY gems.id LIMIT $2",
        )
        .await?;
    let mut last = 0_i64;
    loop {
        let rows = transaction.query(&statement, &[&last, &PAGE_GEMS]).await?;
        let Some(end) = rows.last() else { break };
        last = end.try_get(0)?;
        for row in &rows {
            let (name, md5) = (row.try_get(1)?, digest(row, 2)?);
            let fragment = Fragment::read(row.try_get(3)?)?;
            text.append(|text| {
                let releases = fragment.releases().map(|release| release.full());
                versions::write_gem(text, name, releases, md5);
            })
            .await?;
        }
    }
    text.finish().await?;
    write_names(transaction).await
}

pub(super) async fn write_names(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let mut text = Writing::begin(transaction, TextKind::Names).await?;
    text.append(|text| text.push_str(names::HEADER)).await?;
    let statement = transaction
        .prepare_cached("SELECT id, name FROM gems WHERE id > $1 AND live > 0 ORDER BY id LIMIT $2")
        .await?;
    let mut last = 0_i64;
    loop {
        let rows = transaction.query(&statement, &[&last, &(PAGE_GEMS * 10)]).await?;
        let Some(end) = rows.last() else { break };
        last = end.try_get(0)?;
        for row in &rows {
            let name: &str = row.try_get(1)?;
            text.append(|text| names::write_line(text, name)).await?;
        }
    }
    text.finish().await
}
