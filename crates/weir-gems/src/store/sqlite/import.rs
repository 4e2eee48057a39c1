//! Imports releases: several gems in each transaction, including their index.

use weir_base::clock::{Clock, Timestamp};

use super::Inner;
use super::database::Sqlite;
use crate::index::{names, versions};
use crate::name::GemName;
use crate::release::Release;
use crate::store::cuts::may_clash;
use crate::store::database::at_once;
use crate::store::derived::Derived;
use crate::store::statements::gems::{
    Gem, add_gem, add_release, clash, gem, make_local, releases as releases_of,
};
use crate::store::statements::index::store_derived;
use crate::store::statements::releases::key;
use crate::store::statements::texts::TextWriter;
use crate::store::statements::upstreams::origin_of;
use crate::store::{Imported, ImportedGem, StoreError, TextKind};

pub(super) fn import(
    inner: &Inner,
    mut gems: impl Iterator<Item = ImportedGem>,
    clock: &Clock,
) -> Result<Imported, StoreError> {
    let now = clock.now();
    let mut done = Imported::default();
    loop {
        let batch: Vec<_> = gems.by_ref().take(inner.import_batch.max(1)).collect();
        if batch.is_empty() {
            return Ok(done);
        }
        let (start, indexing) = (clock.now(), done.indexing);
        inner.write(|transaction| -> Result<(), StoreError> {
            let database = Sqlite(transaction);
            let mut texts = Texts {
                versions: at_once(TextWriter::resume(&database, TextKind::Versions))?,
                names: at_once(TextWriter::resume(&database, TextKind::Names))?,
            };
            for gem in batch {
                if at_once(origin_of(&database, gem.name.as_str()))?.is_some() {
                    // A name never has releases from two sources.
                    done.known += gem.releases.len() as u64;
                } else {
                    let changed = add_rows(&database, gem, now, &mut done)?;
                    let stored = clock.now();
                    changed.map_or(Ok(()), |changed| index(&database, &mut texts, changed))?;
                    done.indexing += clock.now().since(stored);
                }
            }
            let stored = clock.now();
            at_once(texts.versions.finish(&database))?;
            at_once(texts.names.finish(&database))?;
            done.indexing += clock.now().since(stored);
            Ok(())
        })?;
        done.storing += clock.now().since(start).saturating_sub(done.indexing - indexing);
    }
}

struct Texts {
    versions: TextWriter,
    names: TextWriter,
}

/// A gem whose releases have changed.
struct Changed {
    gem: Gem,
    is_new: bool,
    name: GemName,
    /// New releases, in order.
    added: Vec<Release>,
}

/// Adds the rows of a gem. Returns None if all its releases already existed.
fn add_rows(
    database: &Sqlite<'_>,
    imported: ImportedGem,
    now: Timestamp,
    done: &mut Imported,
) -> Result<Option<Changed>, StoreError> {
    let ImportedGem { name, mut releases } = imported;
    let known = at_once(gem(database, name.as_str()))?;
    let gem = match known {
        Some(gem) => {
            at_once(make_local(database, gem.id))?;
            gem
        }
        None => at_once(add_gem(database, &name, now))?,
    };
    leave_out_clashes(database, &name, &mut releases, done)?;
    let before = releases.len();
    // Inserted in the order of the key, which is the order on disk.
    releases.sort_by(|one, other| key(&one.identity).cmp(&key(&other.identity)));
    let mut failure = None;
    releases.retain(|release| {
        at_once(add_release(database, gem.id, release, None)).unwrap_or_else(|error| {
            failure.get_or_insert(error);
            false
        })
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let is_new = known.is_none();
    done.gems += u64::from(is_new);
    done.releases += releases.len() as u64;
    done.known += (before - releases.len()) as u64;
    releases.sort_by(Release::order);
    let is_changed = is_new || !releases.is_empty();
    Ok(is_changed.then_some(Changed { gem, is_new, name, added: releases }))
}

/// Removes releases with the full name of another release, because files are looked up by full
/// name.
fn leave_out_clashes(
    database: &Sqlite<'_>,
    name: &GemName,
    releases: &mut Vec<Release>,
    done: &mut Imported,
) -> Result<(), StoreError> {
    let mut failure = None;
    let before = releases.len();
    releases.retain(|release| {
        let clash = may_clash(name.as_str(), &release.identity)
            .then(|| at_once(clash(database, name, &release.identity)));
        clash.unwrap_or(Ok(None)).map(|clash| clash.is_none()).unwrap_or_else(|error| {
            failure.get_or_insert(error);
            false
        })
    });
    done.clashing += (before - releases.len()) as u64;
    failure.map_or(Ok(()), Err)
}

/// Writes the derived data of a gem.
fn index(database: &Sqlite<'_>, texts: &mut Texts, changed: Changed) -> Result<(), StoreError> {
    let Changed { gem, is_new, name, added } = changed;
    let all = match is_new {
        true => &added,
        false => &at_once(releases_of(database, gem.id))?,
    };
    let derived = Derived::of(all);
    at_once(store_derived(database, gem.id, name.as_str(), &derived, all.len()))?;
    at_once(texts.versions.append(database, |text| {
        let new = added.iter().map(|release| &release.identity);
        versions::write_gem(text, name.as_str(), new, derived.digests.md5);
    }))?;
    match gem.live == 0 && !all.is_empty() {
        true => {
            at_once(texts.names.append(database, |text| names::write_line(text, name.as_str())))
        }
        false => Ok(()),
    }
}
