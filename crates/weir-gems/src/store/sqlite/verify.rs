//! Everything that follows from the releases, computed anew one gem at a time and compared.

mod replay;

use hashbrown::HashMap;
use rusqlite::{Connection, OptionalExtension};
use weir_base::clock::Timestamp;

use self::replay::Replayed;
use super::index::{self, Derived};
use super::rows::{self, RELEASE};
use crate::index::digest::Digests;
use crate::release::Release;
use crate::store::{Report, StoreError};

/// Compares only.
pub(super) fn check(connection: &Connection) -> Result<Report, StoreError> {
    run(connection, |_, _, _| Ok(()))
}

/// Compares, and writes anew what differs. Texts that are wrong are begun anew.
pub(super) fn fix(connection: &Connection, now: Timestamp) -> Result<Report, StoreError> {
    let mut report = run(connection, |gem, derived, live| derived.store(connection, gem, live))?;
    if report.problems_total > 0 {
        index::rebaseline(connection, now)?;
        report.is_fixed = true;
    }
    Ok(report)
}

type Replace<'a> = &'a dyn Fn(i64, &Derived, usize) -> Result<(), StoreError>;

fn run(
    connection: &Connection,
    replace: impl Fn(i64, &Derived, usize) -> Result<(), StoreError>,
) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let mut listed = replay::versions(connection, &mut report)?;
    let mut names = replay::names(connection, &mut report)?;
    let mut comparison =
        Comparison { connection, listed: &mut listed, names: &mut names, replace: &replace };
    for_each_gem(connection, |id, name, releases| comparison.gem(&mut report, id, name, releases))?;
    for (name, listed) in &listed.gems {
        if listed.releases != 0 {
            report.problem(|| format!("/versions has releases of {name} that there are not"));
        }
    }
    for name in names.into_keys() {
        report.problem(|| format!("/names has {name}, which has no release"));
    }
    Ok(report)
}

/// All gems with their releases in order, one at a time.
fn for_each_gem(
    connection: &Connection,
    mut work: impl FnMut(i64, &str, &[Release]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut gems = connection.prepare("SELECT id, name FROM gems ORDER BY id")?;
    let mut gems = gems.query([])?;
    // Both go upwards by gem, so that each table is read once from one end to the other.
    let sql = format!("SELECT gem, {RELEASE} FROM releases WHERE yanked_at IS NULL ORDER BY gem");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut ahead: Option<(i64, Release)> = None;
    let mut releases = Vec::new();
    while let Some(gem) = gems.next()? {
        let id: i64 = gem.get(0)?;
        releases.clear();
        loop {
            if ahead.is_none() {
                ahead = match rows.next()? {
                    Some(row) => Some((row.get(0)?, rows::release(row, 1)?)),
                    None => break,
                };
            }
            match ahead.take() {
                Some((owner, release)) if owner == id => releases.push(release),
                Some((owner, _)) if owner < id => {
                    return Err(StoreError::Damaged(format!("gem {owner} has no name")));
                }
                other => {
                    ahead = other;
                    break;
                }
            }
        }
        releases.sort_by(Release::order);
        work(id, gem.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?, &releases)?;
    }
    Ok(())
}

struct Comparison<'a> {
    connection: &'a Connection,
    listed: &'a mut Replayed,
    names: &'a mut HashMap<String, ()>,
    replace: Replace<'a>,
}

impl Comparison<'_> {
    fn gem(
        &mut self,
        report: &mut Report,
        id: i64,
        name: &str,
        releases: &[Release],
    ) -> Result<(), StoreError> {
        report.gems += 1;
        report.releases += releases.len() as u64;
        let derived = Derived::of(releases);
        if !self.is_stored(id, &derived, releases.len())? {
            report.problem(|| format!("what is stored of {name} is not what follows from it"));
            (self.replace)(id, &derived, releases.len())?;
        }
        let expected = releases.iter().fold(0_u64, |sum, release| {
            sum.wrapping_add(self.listed.digest(&release.identity.to_string()))
        });
        let listed = self.listed.gems.remove(name).unwrap_or_default();
        if listed.releases != expected {
            report.problem(|| format!("/versions has other releases of {name} than there are"));
        } else if !releases.is_empty() && listed.md5 != derived.digests.md5 {
            report.problem(|| format!("/versions has another digest of {name} than its /info"));
        }
        if self.names.remove(name).is_some() == releases.is_empty() {
            report.problem(|| format!("/names is wrong about {name}"));
        }
        Ok(())
    }

    fn is_stored(&self, id: i64, derived: &Derived, live: usize) -> Result<bool, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT md5, infos.sha256, infos.content, fragments.content, live FROM gems
             JOIN infos ON infos.gem = gems.id JOIN fragments ON fragments.gem = gems.id
             WHERE gems.id = ?1",
        )?;
        let found = statement.query_row([id], |row| {
            let digests = Digests { md5: row.get(0)?, sha256: row.get(1)? };
            Ok(digests == derived.digests
                && row.get_ref(2)?.as_blob()? == derived.info.as_bytes()
                && row.get_ref(3)?.as_blob()? == derived.fragment
                && row.get::<_, i64>(4)? == i64::try_from(live).unwrap_or(i64::MAX))
        });
        Ok(found.optional()?.unwrap_or(false))
    }
}
