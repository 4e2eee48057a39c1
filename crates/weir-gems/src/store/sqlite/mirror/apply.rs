//! Applies an upstream's gems: several in each transaction, including their index.

use std::fmt::Display;

use hashbrown::HashSet;
use rusqlite::{Connection, params};
use weir_base::clock::Timestamp;

use super::changed::{remove, replace, stored};
use super::lookalikes::resembles_ours;
use super::origins::{mark_pending, origin};
use super::pending::is_listed_by;
use super::replaced;
use crate::index::{names, versions};
use crate::name::GemName;
use crate::release::Release;
use crate::store::database::at_once;
use crate::store::derived::Derived;
use crate::store::mirror::{
    Applied, Changes, MirroredGem, NOBODY, Noted, Pins, Refusal, StoredRelease,
};
use crate::store::sqlite::database::Sqlite;
use crate::store::statements::gems::{
    Gem, add_gem, add_release, clash, gem as gem_of, releases as releases_of,
};
use crate::store::statements::index::{store_derived, write_names};
use crate::store::statements::texts::TextWriter;
use crate::store::statements::upstreams::id_or_new;
use crate::store::{StoreError, TextKind};

pub(super) fn apply(
    connection: &Connection,
    upstream: &str,
    gems: Vec<MirroredGem>,
    now: Timestamp,
) -> Result<Applied, StoreError> {
    let upstream = at_once(id_or_new(&Sqlite(connection), upstream))?;
    let mut work = Work::begin(connection)?;
    for gem in gems {
        work.gem(upstream, gem, now)?;
    }
    work.finish()
}

pub(super) fn delete_mirrored(connection: &Connection, gems: &[GemName]) -> Result<(), StoreError> {
    let mut work = Work::begin(connection)?;
    for name in gems {
        let Some(gem) = at_once(gem_of(&Sqlite(connection), name.as_str()))? else { continue };
        if matches!(origin(connection, gem.id)?, None | Some(NOBODY)) {
            continue;
        }
        let live = at_once(releases_of(&Sqlite(connection), gem.id))?;
        replaced::pin_all(connection, gem.id)?;
        let line = live.iter().map(|release| format!("-{}", release.identity));
        for sql in [
            "DELETE FROM releases WHERE gem = ?1 AND yanked_at IS NULL",
            "DELETE FROM specifications WHERE gem = ?1",
            "DELETE FROM replaced_releases WHERE gem = ?1",
        ] {
            connection.prepare_cached(sql)?.execute([gem.id])?;
        }
        comes_from(connection, gem.id, NOBODY)?;
        mark_pending(connection, name.as_str())?;
        work.index(gem, name.as_str(), line, &[])?;
    }
    work.finish().map(drop)
}

fn comes_from(connection: &Connection, gem: i64, upstream: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO origins VALUES (?1, ?2)")?
        .execute([gem, upstream])?;
    Ok(())
}

/// A change of gems, with the texts that list all gems.
struct Work<'a> {
    connection: &'a Connection,
    versions: TextWriter,
    names: TextWriter,
    /// Whether a name must be removed from the middle of `/names`.
    has_gone: bool,
    done: Applied,
}

impl<'a> Work<'a> {
    fn begin(connection: &'a Connection) -> Result<Self, StoreError> {
        Ok(Self {
            connection,
            versions: at_once(TextWriter::resume(&Sqlite(connection), TextKind::Versions))?,
            names: at_once(TextWriter::resume(&Sqlite(connection), TextKind::Names))?,
            has_gone: false,
            done: Applied::default(),
        })
    }

    fn finish(self) -> Result<Applied, StoreError> {
        let database = Sqlite(self.connection);
        at_once(self.versions.finish(&database))?;
        at_once(self.names.finish(&database))?;
        if self.has_gone {
            at_once(write_names(&database))?;
        }
        Ok(self.done)
    }

    fn gem(
        &mut self,
        upstream: i64,
        mirrored: MirroredGem,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let MirroredGem { noted, releases, is_invited, earlier } = mirrored;
        let known = at_once(gem_of(&Sqlite(self.connection), noted.name.as_str()))?;
        let from = match known {
            Some(gem) => origin(self.connection, gem.id)?,
            None => None,
        };
        if known.is_some() && from.is_none() {
            // It was pushed since the decision.
            self.done.refused += 1;
            return self.settle(upstream, &noted, Some(Refusal::Local));
        }
        if is_listed_by(self.connection, &earlier, &noted.name)? {
            // The earlier upstream's `/versions` was read at the same time as this one's.
            self.done.refused += 1;
            return self.settle(upstream, &noted, Some(Refusal::Shadowed));
        }
        let is_new = known.is_none_or(|gem| gem.live == 0) && !releases.is_empty();
        if is_new && !is_invited && resembles_ours(self.connection, &noted.name)? {
            self.done.refused += 1;
            return self.settle(upstream, &noted, Some(Refusal::Lookalike));
        }
        self.done.gems += 1;
        let gem = match known {
            Some(gem) => gem,
            None if releases.is_empty() => return self.settle(upstream, &noted, None),
            None => at_once(add_gem(&Sqlite(self.connection), &noted.name, now))?,
        };
        if from != Some(upstream) {
            comes_from(self.connection, gem.id, upstream)?;
            mark_pending(self.connection, noted.name.as_str())?;
        }
        let stored = known.map(|gem| stored(self.connection, gem.id)).transpose()?;
        self.releases(gem, &noted.name, stored, releases, now)?;
        self.settle(upstream, &noted, None)
    }

    /// Changes the releases of a gem. `stored` is None for a new gem, which gets an info even if
    /// none of its releases is taken.
    fn releases(
        &mut self,
        gem: Gem,
        name: &GemName,
        stored: Option<Vec<StoredRelease>>,
        wanted: Vec<Release>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let is_new = stored.is_none();
        let stored = stored.unwrap_or_default();
        let wanted = self.without_clashes(name, &stored, wanted)?;
        let pins = match is_new {
            true => Pins::new(),
            false => replaced::pins(self.connection, gem.id)?,
        };
        let changes = Changes::between(&stored, &pins, wanted, now);
        replaced::keep_out(self.connection, gem.id, &changes.kept_out, now)?;
        self.done.count(&changes);
        if changes.is_empty() && !is_new {
            return Ok(());
        }
        for release in changes.inserted() {
            at_once(add_release(&Sqlite(self.connection), gem.id, release, None))?;
        }
        for release in changes.updated() {
            replace(self.connection, gem.id, release)?;
        }
        for (identity, checksum) in &changes.remove {
            remove(self.connection, gem.id, identity)?;
            replaced::pin(self.connection, gem.id, identity, *checksum)?;
        }
        self.index(gem, name.as_str(), &changes.line, &changes.live)
    }

    /// Removes new releases whose file would have the name of another gem's file. Existing releases
    /// keep their file name.
    fn without_clashes(
        &mut self,
        name: &GemName,
        stored: &[StoredRelease],
        mut wanted: Vec<Release>,
    ) -> Result<Vec<Release>, StoreError> {
        let mut failure = None;
        let before = wanted.len();
        let known: HashSet<_> = stored.iter().map(|old| &old.release.identity).collect();
        wanted.retain(|release| {
            let clash = match known.contains(&release.identity) {
                true => Ok(false),
                false => at_once(clash(&Sqlite(self.connection), name, &release.identity))
                    .map(|clash| clash.is_some()),
            };
            !clash.unwrap_or_else(|error| {
                failure.get_or_insert(error);
                true
            })
        });
        self.done.clashing += (before - wanted.len()) as u64;
        failure.map_or(Ok(wanted), Err)
    }

    /// Writes the derived data of a gem.
    fn index(
        &mut self,
        gem: Gem,
        name: &str,
        line: impl IntoIterator<Item = impl Display>,
        releases: &[Release],
    ) -> Result<(), StoreError> {
        let derived = Derived::of(releases);
        let database = Sqlite(self.connection);
        at_once(store_derived(&database, gem.id, name, &derived, releases.len()))?;
        at_once(self.versions.append(&database, |text| {
            versions::write_gem(text, name, line, derived.digests.md5);
        }))?;
        match (gem.live, releases.len()) {
            (0, 1..) => at_once(self.names.append(&database, |text| names::write_line(text, name))),
            (1.., 0) => {
                self.has_gone = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn settle(
        &self,
        upstream: i64,
        noted: &Noted,
        refusal: Option<Refusal>,
    ) -> Result<(), StoreError> {
        let applied = noted.md5.filter(|_| refusal.is_none());
        self.connection
            .prepare_cached(
                "UPDATE upstream_gems SET applied = ?3, refusal = ?4
                 WHERE upstream = ?1 AND name = ?2",
            )?
            .execute(params![
                upstream,
                noted.name.as_str(),
                applied,
                refusal.map(Refusal::number)
            ])?;
        Ok(())
    }
}
