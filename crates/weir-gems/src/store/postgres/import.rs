//! Many releases at once: some gems in each transaction, and the index with them.

use std::sync::Arc;

use deadpool_postgres::Transaction;
use hashbrown::{HashMap, HashSet};
use tokio::runtime::Handle;
use weir_base::clock::Timestamp;

use super::Inner;
use super::index::Replacing;
use super::metrics::Limit;
use super::rows::{self, Gem, RELEASE, micros};
use super::text_rows::Writing;
use crate::index::{names, versions};
use crate::release::{Release, RequirementLine};
use crate::store::derived::Derived;
use crate::store::{Imported, ImportedGem, StoreError, TextKind};

pub(super) async fn import<I>(
    inner: &Arc<Inner>,
    mut gems: I,
    now: Timestamp,
) -> Result<Imported, StoreError>
where
    I: Iterator<Item = ImportedGem> + Send + 'static,
{
    let (inner, runtime) = (Arc::clone(inner), Handle::current());
    // Where gems come from may wait for a disk.
    let importing = tokio::task::spawn_blocking(move || {
        let mut done = Imported::default();
        loop {
            let batch: Vec<_> = gems.by_ref().take(inner.import_batch).collect();
            if batch.is_empty() {
                if done.releases > 0 {
                    runtime.block_on(analyze(&inner))?;
                }
                return Ok(done);
            }
            let write = inner.write(Limit::Write, move |it| Box::pin(add(it, batch, now)));
            let added: Imported = runtime.block_on(write)?;
            done.gems += added.gems;
            done.releases += added.releases;
            done.known += added.known;
        }
    });
    importing.await.map_err(|error| StoreError::Abandoned(error.to_string()))?
}

/// Tells Postgres how much there is now, so that its plans are for that and not for empty tables.
async fn analyze(inner: &Arc<Inner>) -> Result<(), StoreError> {
    let analyze = "ANALYZE gems, releases, infos, fragments";
    inner
        .write(Limit::Maintenance, move |transaction| {
            Box::pin(async move { Ok(transaction.batch_execute(analyze).await?) })
        })
        .await
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
) -> Result<Imported, StoreError> {
    let (batch, repeated) = merged(batch);
    let mut adding = gems(transaction, batch, now).await?;
    let mut done = Imported { known: repeated, ..Imported::default() };
    keep_new(transaction, &mut adding, &mut done).await?;
    let adding: Vec<_> =
        adding.into_iter().filter(|it| it.is_new || !it.imported.releases.is_empty()).collect();
    let mut before = releases_before(transaction, &adding).await?;
    let mut texts = (
        Writing::go_on(transaction, TextKind::Versions).await?,
        Writing::go_on(transaction, TextKind::Names).await?,
    );
    let mut replacing = Replacing::default();
    for Adding { gem, imported, .. } in &adding {
        let name = imported.name.as_str();
        let mut all = before.remove(&gem.id).unwrap_or_default();
        all.extend_from_slice(&imported.releases);
        all.sort_by(Release::order);
        let derived = Derived::of(&all);
        let new = imported.releases.iter().map(|release| &release.identity);
        let md5 = derived.digests.md5;
        texts.0.append(|text| versions::write_gem(text, name, new, md5)).await?;
        if gem.live == 0 && !all.is_empty() {
            texts.1.append(|text| names::write_line(text, name)).await?;
        }
        replacing.add(gem.id, name, derived, all.len());
    }
    replacing.write(transaction).await?;
    texts.0.finish().await?;
    texts.1.finish().await?;
    Ok(done)
}

/// Each gem once, and each of its releases, in order; how many were there twice.
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
        // Of several the first.
        gem.releases.retain(|release| seen.insert(release.identity.clone()));
        repeated += (before - gem.releases.len()) as u64;
        gem.releases.sort_by(Release::order);
    }
    (merged, repeated)
}

/// The gems' rows; those that are missing are added, in the order of the batch.
async fn gems(
    transaction: &Transaction<'_>,
    batch: Vec<ImportedGem>,
    now: Timestamp,
) -> Result<Vec<Adding>, StoreError> {
    let all: Vec<&str> = batch.iter().map(|gem| gem.name.as_str()).collect();
    let statement =
        transaction.prepare_cached("SELECT name, id, live FROM gems WHERE name = ANY($1)").await?;
    let mut known: HashMap<String, Gem> = HashMap::new();
    for row in transaction.query(&statement, &[&all]).await? {
        known.insert(row.try_get(0)?, Gem { id: row.try_get(1)?, live: row.try_get(2)? });
    }
    let new = batch.iter().filter(|gem| !known.contains_key(gem.name.as_str()));
    let (new, skeletons): (Vec<_>, Vec<_>) =
        new.map(|gem| (gem.name.as_str(), gem.name.skeleton())).unzip();
    let statement = transaction
        .prepare_cached(
            "INSERT INTO gems (name, skeleton, live, created_at)
             SELECT name, skeleton, 0, $3 FROM unnest($1::text[], $2::text[])
                 WITH ORDINALITY AS new (name, skeleton, place) ORDER BY place
             RETURNING name, id",
        )
        .await?;
    let mut added: HashMap<String, i64> = HashMap::new();
    for row in transaction.query(&statement, &[&new, &skeletons, &micros(now)]).await? {
        added.insert(row.try_get(0)?, row.try_get(1)?);
    }
    let missing = || StoreError::Damaged("a gem was added and is not there".to_owned());
    let rows = batch.into_iter().map(|imported| {
        let name = imported.name.as_str();
        let (gem, is_new) = match known.get(name) {
            Some(gem) => (*gem, false),
            None => (Gem { id: *added.get(name).ok_or_else(missing)?, live: 0 }, true),
        };
        Ok(Adding { gem, is_new, imported })
    });
    rows.collect()
}

/// Columns of the releases of a batch.
#[derive(Default)]
struct Columns<'a> {
    gems: Vec<i64>,
    numbers: Vec<&'a str>,
    platforms: Vec<&'a str>,
    dependencies: Vec<&'a str>,
    sha256: Vec<&'a [u8]>,
    ruby: Vec<Option<&'a str>>,
    rubygems: Vec<Option<&'a str>>,
    created_at: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn of(adding: &'a [Adding]) -> Self {
        let all = adding
            .iter()
            .flat_map(|it| it.imported.releases.iter().map(move |release| (it.gem.id, release)));
        let mut columns = Self::default();
        for (gem, release) in all {
            columns.gems.push(gem);
            columns.numbers.push(release.identity.number.as_str());
            columns.platforms.push(release.identity.platform.as_str());
            columns.dependencies.push(release.dependencies.as_str());
            columns.sha256.push(&release.checksum.0);
            columns.ruby.push(release.ruby.as_ref().map(RequirementLine::as_str));
            columns.rubygems.push(release.rubygems.as_ref().map(RequirementLine::as_str));
            columns.created_at.push(micros(release.created_at));
        }
        columns
    }
}

/// Adds the releases, and leaves those in `adding` that were not there.
async fn keep_new(
    transaction: &Transaction<'_>,
    adding: &mut [Adding],
    done: &mut Imported,
) -> Result<(), StoreError> {
    let columns = Columns::of(adding);
    let sql = format!(
        "INSERT INTO releases (gem, {RELEASE})
         SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bytea[],
                              $6::text[], $7::text[], $8::bigint[])
         ON CONFLICT DO NOTHING RETURNING gem, number, platform"
    );
    let statement = transaction.prepare_cached(&sql).await?;
    let rows = transaction
        .query(
            &statement,
            &[
                &columns.gems,
                &columns.numbers,
                &columns.platforms,
                &columns.dependencies,
                &columns.sha256,
                &columns.ruby,
                &columns.rubygems,
                &columns.created_at,
            ],
        )
        .await?;
    let offered = columns.gems.len();
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

/// What the known ones of the gems had before, without what was added now.
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
