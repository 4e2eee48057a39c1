//! Gems become what an upstream says they are, some in each transaction, and the index with them.

use rusqlite::{Connection, params};
use weir_base::clock::Timestamp;

use super::upstreams::{id_or_new, origin};
use crate::index::{names, versions};
use crate::name::GemName;
use crate::release::{Identity, Release, RequirementLine};
use crate::store::mirror::{Applied, Changes, MirroredGem, Noted, Refusal, StoredRelease};
use crate::store::sqlite::index::{self, Derived, go_on};
use crate::store::sqlite::locate::{cuts, exists};
use crate::store::sqlite::rows::{self, RELEASE, Time};
use crate::store::sqlite::text_rows::Writing;
use crate::store::{StoreError, TextKind};

pub(super) fn apply(
    connection: &Connection,
    upstream: &str,
    gems: Vec<MirroredGem>,
    now: Timestamp,
) -> Result<Applied, StoreError> {
    let upstream = id_or_new(connection, upstream)?;
    let mut work = Work::begin(connection, now)?;
    for gem in gems {
        work.gem(upstream, gem)?;
    }
    work.finish()
}

pub(super) fn disown(
    connection: &Connection,
    gems: &[GemName],
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut work = Work::begin(connection, now)?;
    for name in gems {
        let Some(gem) = rows::gem(connection, name.as_str())? else { continue };
        if origin(connection, gem.id)?.is_none() {
            continue;
        }
        let live = rows::releases(connection, gem.id)?;
        let line = live.iter().map(|release| format!("-{}", release.identity)).collect();
        for sql in [
            "DELETE FROM releases WHERE gem = ?1",
            "DELETE FROM specifications WHERE gem = ?1",
            "DELETE FROM origins WHERE gem = ?1",
        ] {
            connection.prepare_cached(sql)?.execute([gem.id])?;
        }
        work.index(gem, name.as_str(), line)?;
    }
    work.finish().map(drop)
}

/// The texts that list all gems, while gems change.
struct Work<'a> {
    connection: &'a Connection,
    now: Timestamp,
    versions: Writing<'a>,
    names: Writing<'a>,
    /// A name in the middle of `/names` has gone.
    has_gone: bool,
    done: Applied,
}

impl<'a> Work<'a> {
    fn begin(connection: &'a Connection, now: Timestamp) -> Result<Self, StoreError> {
        Ok(Self {
            connection,
            now,
            versions: go_on(connection, TextKind::Versions)?,
            names: go_on(connection, TextKind::Names)?,
            has_gone: false,
            done: Applied::default(),
        })
    }

    fn finish(self) -> Result<Applied, StoreError> {
        self.versions.finish()?;
        self.names.finish()?;
        if self.has_gone {
            index::write_names(self.connection)?;
        }
        Ok(self.done)
    }

    fn gem(&mut self, upstream: i64, mirrored: MirroredGem) -> Result<(), StoreError> {
        let MirroredGem { noted, releases } = mirrored;
        let known = rows::gem(self.connection, noted.name.as_str())?;
        let from = match known {
            Some(gem) => origin(self.connection, gem.id)?,
            None => None,
        };
        if known.is_some() && from.is_none() {
            // It was pushed since somebody looked.
            self.done.refused += 1;
            return self.settle(upstream, &noted, Some(Refusal::Local));
        }
        self.done.gems += 1;
        let gem = match known {
            Some(gem) => gem,
            None if releases.is_empty() => return self.settle(upstream, &noted, None),
            None => rows::add_gem(self.connection, &noted.name, self.now)?,
        };
        if from != Some(upstream) {
            self.connection
                .prepare_cached("INSERT OR REPLACE INTO origins VALUES (?1, ?2)")?
                .execute([gem.id, upstream])?;
        }
        self.releases(gem, &noted.name, releases)?;
        self.settle(upstream, &noted, None)
    }

    fn releases(
        &mut self,
        gem: rows::Gem,
        name: &GemName,
        wanted: Vec<Release>,
    ) -> Result<(), StoreError> {
        let stored = stored(self.connection, gem.id)?;
        let wanted = self.without_clashes(name, &stored, wanted)?;
        let mut changes = Changes::between(&stored, wanted, self.now);
        if changes.is_empty() {
            return Ok(());
        }
        self.done.added += changes.insert.len() as u64;
        self.done.yanked += changes.yank.len() as u64;
        self.done.changed += changes.changed;
        // Inserted in the order of the key, which is the order on disk.
        changes.insert.sort_by(|one, other| key(&one.identity).cmp(&key(&other.identity)));
        for release in &changes.insert {
            rows::add_release(self.connection, gem.id, release, None)?;
        }
        for release in &changes.replace {
            replace(self.connection, gem.id, release)?;
        }
        for identity in &changes.yank {
            yank(self.connection, gem.id, identity, self.now)?;
        }
        self.index(gem, name.as_str(), changes.line)
    }

    /// Leaves out new releases whose file would be that of another gem's release: what is here
    /// already keeps its file.
    fn without_clashes(
        &mut self,
        name: &GemName,
        stored: &[StoredRelease],
        mut wanted: Vec<Release>,
    ) -> Result<Vec<Release>, StoreError> {
        let mut failure = None;
        let before = wanted.len();
        wanted.retain(|release| {
            let is_known = stored.iter().any(|old| old.release.identity == release.identity);
            let clash = match is_known {
                true => Ok(false),
                false => clashes(self.connection, name, &release.identity),
            };
            !clash.unwrap_or_else(|error| {
                failure.get_or_insert(error);
                true
            })
        });
        self.done.clashing += (before - wanted.len()) as u64;
        failure.map_or(Ok(wanted), Err)
    }

    /// Writes what follows from a gem's releases.
    fn index(
        &mut self,
        gem: rows::Gem,
        name: &str,
        mut line: Vec<String>,
    ) -> Result<(), StoreError> {
        let releases = rows::releases(self.connection, gem.id)?;
        let derived = Derived::of(&releases);
        derived.store(self.connection, gem.id, releases.len())?;
        if let (true, Some(first)) = (line.is_empty(), releases.first()) {
            // Only the order has changed; a client has to hear that there is another digest.
            line = vec![format!("-{}", first.identity), first.identity.to_string()];
        }
        self.versions.append(|text| {
            versions::write_gem(text, name, line, derived.digests.md5);
        })?;
        match (gem.live, releases.len()) {
            (0, 1..) => self.names.append(|text| names::write_line(text, name)),
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
            .execute(params![upstream, noted.name.as_str(), applied, refusal])?;
        Ok(())
    }
}

fn key(identity: &Identity) -> (&str, &str) {
    (identity.number.as_str(), identity.platform.as_str())
}

fn stored(connection: &Connection, gem: i64) -> rusqlite::Result<Vec<StoredRelease>> {
    let sql = format!("SELECT {RELEASE}, yanked_at IS NOT NULL FROM releases WHERE gem = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([gem], |row| {
        Ok(StoredRelease { release: rows::release(row, 0)?, is_yanked: row.get(7)? })
    })?;
    let mut all = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    all.sort_by(|one, other| one.release.order(&other.release));
    Ok(all)
}

fn clashes(
    connection: &Connection,
    name: &GemName,
    identity: &Identity,
) -> Result<bool, StoreError> {
    let full_name = format!("{name}-{identity}");
    for cut in cuts(&full_name).filter(|cut| cut.name != name.as_str()) {
        if exists(connection, &cut)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a row says becomes what `release` says. Its file stays if it is the same.
fn replace(connection: &Connection, gem: i64, release: &Release) -> rusqlite::Result<()> {
    let (number, platform) = key(&release.identity);
    connection
        .prepare_cached(
            "DELETE FROM specifications WHERE (gem, number, platform) = (?1, ?2, ?3)
             AND NOT EXISTS (SELECT 1 FROM releases WHERE (gem, number, platform) = (?1, ?2, ?3)
                             AND sha256 = ?4)",
        )?
        .execute(params![gem, number, platform, release.checksum.0])?;
    connection
        .prepare_cached(
            "UPDATE releases SET dependencies = ?4, ruby = ?6, rubygems = ?7, created_at = ?8,
                 yanked_at = NULL, bytes = iif(sha256 = ?5, bytes, NULL), sha256 = ?5
             WHERE (gem, number, platform) = (?1, ?2, ?3)",
        )?
        .execute(params![
            gem,
            number,
            platform,
            release.dependencies.as_str(),
            release.checksum.0,
            release.ruby.as_ref().map(RequirementLine::as_str),
            release.rubygems.as_ref().map(RequirementLine::as_str),
            Time(release.created_at),
        ])?;
    Ok(())
}

fn yank(
    connection: &Connection,
    gem: i64,
    identity: &Identity,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let (number, platform) = key(identity);
    connection
        .prepare_cached(
            "UPDATE releases SET yanked_at = ?4 WHERE gem = ?1 AND number = ?2 AND platform = ?3",
        )?
        .execute(params![gem, number, platform, Time(now)])?;
    Ok(())
}
