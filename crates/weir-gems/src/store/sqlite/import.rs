//! Imports releases: several gems in each transaction, including their index.

use rusqlite::Connection;
use weir_base::clock::{Clock, Timestamp};

use super::database::Sqlite;
use super::index::go_on;
use super::text_rows::Writing;
use super::{Inner, mirror, rows};
use crate::index::{names, versions};
use crate::name::GemName;
use crate::release::Release;
use crate::store::cuts::may_clash;
use crate::store::database::at_once;
use crate::store::derived::Derived;
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
            let mut texts = Texts {
                versions: go_on(transaction, TextKind::Versions)?,
                names: go_on(transaction, TextKind::Names)?,
            };
            for gem in batch {
                if at_once(origin_of(&Sqlite(transaction), gem.name.as_str()))?.is_some() {
                    // A name never has releases from two sources.
                    done.known += gem.releases.len() as u64;
                } else {
                    let changed = add_rows(transaction, gem, now, &mut done)?;
                    let stored = clock.now();
                    changed.map_or(Ok(()), |changed| index(transaction, &mut texts, changed))?;
                    done.indexing += clock.now().since(stored);
                }
            }
            let stored = clock.now();
            texts.versions.finish()?;
            texts.names.finish()?;
            done.indexing += clock.now().since(stored);
            Ok(())
        })?;
        done.storing += clock.now().since(start).saturating_sub(done.indexing - indexing);
    }
}

struct Texts<'a> {
    versions: Writing<'a>,
    names: Writing<'a>,
}

/// A gem whose releases have changed.
struct Changed {
    gem: rows::Gem,
    is_new: bool,
    name: GemName,
    /// New releases, in order.
    added: Vec<Release>,
}

/// Adds the rows of a gem. Returns None if all its releases already existed.
fn add_rows(
    connection: &Connection,
    imported: ImportedGem,
    now: Timestamp,
    done: &mut Imported,
) -> Result<Option<Changed>, StoreError> {
    let ImportedGem { name, mut releases } = imported;
    let known = rows::gem(connection, name.as_str())?;
    let gem = match known {
        Some(gem) => {
            mirror::make_local(connection, gem.id)?;
            gem
        }
        None => rows::add_gem(connection, &name, now)?,
    };
    leave_out_clashes(connection, &name, &mut releases, done)?;
    let before = releases.len();
    // Inserted in the order of the key, which is the order on disk.
    releases.sort_by(|one, other| key(one).cmp(&key(other)));
    let mut failure = None;
    releases.retain(|release| {
        rows::add_release(connection, gem.id, release, None).unwrap_or_else(|error| {
            failure.get_or_insert(error);
            false
        })
    });
    if let Some(error) = failure {
        return Err(error.into());
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
    connection: &Connection,
    name: &GemName,
    releases: &mut Vec<Release>,
    done: &mut Imported,
) -> Result<(), StoreError> {
    let mut failure = None;
    let before = releases.len();
    releases.retain(|release| {
        let clash = may_clash(name.as_str(), &release.identity)
            .then(|| mirror::clashes(connection, name, &release.identity));
        !clash.unwrap_or(Ok(false)).unwrap_or_else(|error| {
            failure.get_or_insert(error);
            true
        })
    });
    done.clashing += (before - releases.len()) as u64;
    failure.map_or(Ok(()), Err)
}

/// Writes the derived data of a gem.
fn index(
    connection: &Connection,
    texts: &mut Texts<'_>,
    changed: Changed,
) -> Result<(), StoreError> {
    let Changed { gem, is_new, name, added } = changed;
    let all = match is_new {
        true => &added,
        false => &rows::releases(connection, gem.id)?,
    };
    let derived = Derived::of(all);
    derived.store(connection, gem.id, all.len())?;
    texts.versions.append(|text| {
        let new = added.iter().map(|release| &release.identity);
        versions::write_gem(text, name.as_str(), new, derived.digests.md5);
    })?;
    match gem.live == 0 && !all.is_empty() {
        true => texts.names.append(|text| names::write_line(text, name.as_str())),
        false => Ok(()),
    }
}

fn key(release: &Release) -> (&str, &str) {
    (release.identity.number.as_str(), release.identity.platform.as_str())
}
