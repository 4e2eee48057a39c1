//! Many releases at once: some gems in each transaction, and the index with them.

use rusqlite::Connection;
use weir_base::clock::Timestamp;

use super::index::go_on;
use super::text_rows::Writing;
use super::{Inner, mirror, rows};
use crate::index::{names, versions};
use crate::release::Release;
use crate::store::derived::Derived;
use crate::store::{Imported, ImportedGem, StoreError, TextKind};

pub(super) fn import(
    inner: &Inner,
    mut gems: impl Iterator<Item = ImportedGem>,
    now: Timestamp,
) -> Result<Imported, StoreError> {
    let mut done = Imported::default();
    loop {
        let batch: Vec<_> = gems.by_ref().take(inner.import_batch.max(1)).collect();
        if batch.is_empty() {
            return Ok(done);
        }
        inner.write(|transaction| -> Result<(), StoreError> {
            let mut texts = Texts {
                versions: go_on(transaction, TextKind::Versions)?,
                names: go_on(transaction, TextKind::Names)?,
            };
            for gem in batch {
                if mirror::origin_of(transaction, gem.name.as_str())?.is_some() {
                    // One name never has releases of two sources.
                    done.known += gem.releases.len() as u64;
                } else {
                    add(transaction, &mut texts, gem, now, &mut done)?;
                }
            }
            texts.versions.finish()?;
            texts.names.finish()
        })?;
    }
}

struct Texts<'a> {
    versions: Writing<'a>,
    names: Writing<'a>,
}

fn add(
    connection: &Connection,
    texts: &mut Texts<'_>,
    imported: ImportedGem,
    now: Timestamp,
    done: &mut Imported,
) -> Result<(), StoreError> {
    let ImportedGem { name, mut releases } = imported;
    let known = rows::gem(connection, name.as_str())?;
    let gem = match known {
        Some(gem) => {
            mirror::make_local(connection, gem.id)?;
            gem
        }
        None => rows::add_gem(connection, &name, now)?,
    };
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
    done.gems += u64::from(known.is_none());
    done.releases += releases.len() as u64;
    done.known += (before - releases.len()) as u64;
    if releases.is_empty() && known.is_some() {
        return Ok(());
    }
    releases.sort_by(Release::order);
    let all = match known {
        Some(_) => &rows::releases(connection, gem.id)?,
        None => &releases,
    };
    let derived = Derived::of(all);
    derived.store(connection, gem.id, all.len())?;
    texts.versions.append(|text| {
        let new = releases.iter().map(|release| &release.identity);
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
