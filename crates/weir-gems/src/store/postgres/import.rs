//! Imports releases: several gems in each transaction, including their index.

use std::sync::Arc;

use deadpool_postgres::Transaction;
use hashbrown::{HashMap, HashSet};
use tokio::runtime::Handle;
use weir_base::clock::{Clock, Timestamp};

use super::columns::ReleaseColumns;
use super::indexing::Indexing;
use super::metrics::Limit;
use super::mirror::{self, clashes};
use super::rows::{self, Gem, KnownGem, RELEASE};
use super::{Inner, columns};
use crate::blocking::blocking;
use crate::release::Release;
use crate::store::{Imported, ImportedGem, StoreError};

pub(super) async fn import(
    inner: &Arc<Inner>,
    mut gems: Box<dyn Iterator<Item = ImportedGem> + Send>,
    clock: Clock,
) -> Result<Imported, StoreError> {
    let (inner, runtime, now) = (Arc::clone(inner), Handle::current(), clock.now());
    // The iterator of gems may read from a disk.
    let importing = blocking(move || {
        let mut done = Imported::default();
        loop {
            let batch: Vec<_> = gems.by_ref().take(inner.import_batch).collect();
            if batch.is_empty() {
                runtime.block_on(inner.analyze_if(done.releases > 0))?;
                return Ok(done);
            }
            let (start, clock) = (clock.now(), &clock);
            let of_batch = clock.clone();
            let write =
                inner.write(Limit::Write, move |it| Box::pin(add(it, batch, now, of_batch)));
            let added: Imported = runtime.block_on(write)?;
            done.storing += clock.now().since(start).saturating_sub(added.indexing);
            done.indexing += added.indexing;
            done.gems += added.gems;
            done.releases += added.releases;
            done.known += added.known;
            done.clashing += added.clashing;
        }
    });
    importing.await.map_err(|error| StoreError::Abandoned(error.to_string()))?
}

/// A gem of a batch.
struct Adding {
    gem: Gem,
    is_new: bool,
    imported: ImportedGem,
}

async fn add(
    transaction: &Transaction<'_>,
    batch: Vec<ImportedGem>,
    now: Timestamp,
    clock: Clock,
) -> Result<Imported, StoreError> {
    let (batch, repeated) = merged(batch);
    let mut done = Imported { known: repeated, ..Imported::default() };
    let mut adding = gems(transaction, batch, now, &mut done).await?;
    let mut offered: Vec<_> = adding.iter_mut().map(|it| &mut it.imported).collect();
    done.clashing = clashes::leave_out_imported(transaction, &mut offered).await?;
    keep_new(transaction, &mut adding, &mut done).await?;
    let adding: Vec<_> =
        adding.into_iter().filter(|it| it.is_new || !it.imported.releases.is_empty()).collect();
    let stored = clock.now();
    let mut before = releases_before(transaction, &adding).await?;
    let mut indexing = Indexing::begin(transaction).await?;
    for Adding { gem, imported, .. } in &adding {
        let mut all = before.remove(&gem.id).unwrap_or_default();
        all.extend_from_slice(&imported.releases);
        all.sort_by(Release::order);
        let new = imported.releases.iter().map(|release| &release.identity);
        indexing.gem(*gem, imported.name.as_str(), new, &all).await?;
    }
    indexing.finish().await?;
    done.indexing = clock.now().since(stored);
    Ok(done)
}

/// Merges duplicate gems, and removes duplicate releases. Returns the gems with sorted releases,
/// and the number of duplicates.
fn merged(batch: Vec<ImportedGem>) -> (Vec<ImportedGem>, u64) {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut merged: Vec<ImportedGem> = Vec::with_capacity(batch.len());
    for gem in batch {
        match places.get(gem.name.as_str()) {
            Some(place) => merged[*place].releases.extend(gem.releases),
            None => {
                places.insert(gem.name.as_str().to_owned(), merged.len());
                merged.push(gem);
            }
        }
    }
    let mut repeated = 0;
    for gem in &mut merged {
        let before = gem.releases.len();
        let mut seen = HashSet::with_capacity(before);
        // Keep the first of several duplicates.
        gem.releases.retain(|release| seen.insert(release.identity.clone()));
        repeated += (before - gem.releases.len()) as u64;
        gem.releases.sort_by(Release::order);
    }
    (merged, repeated)
}

/// Returns the rows of the gems, adding missing ones in the order of the batch. Gems from an
/// upstream are skipped, because a name never has releases from two sources.
async fn gems(
    transaction: &Transaction<'_>,
    mut batch: Vec<ImportedGem>,
    now: Timestamp,
    done: &mut Imported,
) -> Result<Vec<Adding>, StoreError> {
    let names: Vec<&str> = batch.iter().map(|gem| gem.name.as_str()).collect();
    let known = rows::gems(transaction, &names).await?;
    batch.retain(|gem| {
        let is_mirrored = known.get(gem.name.as_str()).is_some_and(KnownGem::is_mirrored);
        if is_mirrored {
            done.known += gem.releases.len() as u64;
        }
        !is_mirrored
    });
    let taken_over = known.values().filter(|known| !known.is_mirrored());
    let taken_over: Vec<i64> = taken_over.map(|known| known.gem.id).collect();
    mirror::make_local(transaction, &taken_over).await?;
    let new: Vec<_> = batch
        .iter()
        .map(|gem| &gem.name)
        .filter(|name| !known.contains_key(name.as_str()))
        .collect();
    let added = columns::add_gems(transaction, &new, now).await?;
    let missing = || StoreError::Damaged("a gem was added and is not there".to_owned());
    let rows = batch.into_iter().map(|imported| {
        let name = imported.name.as_str();
        let (gem, is_new) = match known.get(name) {
            Some(known) => (known.gem, false),
            None => (Gem { id: *added.get(name).ok_or_else(missing)?, live: 0 }, true),
        };
        Ok(Adding { gem, is_new, imported })
    });
    rows.collect()
}

/// Adds the releases, and removes those from `adding` that already existed.
async fn keep_new(
    transaction: &Transaction<'_>,
    adding: &mut [Adding],
    done: &mut Imported,
) -> Result<(), StoreError> {
    let mut columns = ReleaseColumns::default();
    for Adding { gem, imported, .. } in adding.iter() {
        imported.releases.iter().for_each(|release| columns.add(gem.id, release));
    }
    let sql = format!(
        "INSERT INTO releases (gem, {RELEASE}) SELECT * FROM {}
         ON CONFLICT DO NOTHING RETURNING gem, number, platform",
        ReleaseColumns::TABLE
    );
    let statement = transaction.prepare_cached(&sql).await?;
    let rows = transaction.query(&statement, &columns.parameters()).await?;
    let offered = columns.len();
    if rows.len() < offered {
        let mut new = HashSet::with_capacity(rows.len());
        for row in &rows {
            let key: (i64, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            new.insert(key);
        }
        for it in adding.iter_mut() {
            let gem = it.gem.id;
            it.imported.releases.retain(|Release { identity, .. }| {
                new.contains(&(gem, identity.number.as_str(), identity.platform.as_str()))
            });
        }
    }
    done.gems += adding.iter().filter(|it| it.is_new).count() as u64;
    done.releases += rows.len() as u64;
    done.known += (offered - rows.len()) as u64;
    Ok(())
}

/// Returns the earlier releases of gems, without those that were added now.
async fn releases_before(
    transaction: &Transaction<'_>,
    adding: &[Adding],
) -> Result<HashMap<i64, Vec<Release>>, StoreError> {
    let known = adding.iter().filter(|it| !it.is_new);
    let new: HashMap<i64, HashSet<_>> = known
        .map(|it| (it.gem.id, it.imported.releases.iter().map(|it| &it.identity).collect()))
        .collect();
    let gems: Vec<i64> = new.keys().copied().collect();
    let sql =
        format!("SELECT gem, {RELEASE} FROM releases WHERE gem = ANY($1) AND yanked_at IS NULL");
    let statement = transaction.prepare_cached(&sql).await?;
    let mut before: HashMap<i64, Vec<Release>> = HashMap::new();
    for row in transaction.query(&statement, &[&gems]).await? {
        let gem: i64 = row.try_get(0)?;
        let release = rows::release(&row, 1)?;
        if !new[&gem].contains(&release.identity) {
            before.entry(gem).or_default().push(release);
        }
    }
    Ok(before)
}
