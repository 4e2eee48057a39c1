//! Everything that follows from the releases, computed anew one gem at a time and compared.
//!
//! `/versions` is replayed as a client does it. Of each gem only its last digest is kept, and the
//! sum of the digests of its releases: 200,000 gems take some 20 MB, whatever the text's length.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashMap};
use rusqlite::{Connection, OptionalExtension};
use weir_base::clock::Timestamp;

use super::index::{self, Derived};
use super::rows::{self, RELEASE};
use super::text_rows::number;
use crate::index::digest::{Digests, RunningDigest};
use crate::release::Release;
use crate::store::{Report, StoreError, TextKind};

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
    let mut listed = replay_versions(connection, &mut report)?;
    let mut names = replay_names(connection, &mut report)?;
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

/// What `/versions` says of a gem.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    md5: [u8; 16],
    /// Sum of the digests of its releases: adding and taking away commute.
    releases: u64,
}

#[derive(Default)]
struct Replayed {
    gems: HashMap<String, Listed>,
    hasher: DefaultHashBuilder,
}

impl Replayed {
    fn digest(&self, release: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(release.as_bytes());
        hasher.finish()
    }

    /// A line as a client reads it; false: it is none.
    fn line(&mut self, line: &str) -> bool {
        let mut words = line.split(' ');
        let (Some(name), Some(releases), Some(md5), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return false;
        };
        let mut digest = [0; 16];
        if hex::decode_to_slice(md5, &mut digest).is_err() {
            return false;
        }
        let change =
            releases.split(',').fold(0_u64, |sum, release| match release.strip_prefix('-') {
                Some(release) => sum.wrapping_sub(self.digest(release)),
                None => sum.wrapping_add(self.digest(release)),
            });
        let listed = self.gems.entry_ref(name).or_default();
        listed.md5 = digest;
        listed.releases = listed.releases.wrapping_add(change);
        true
    }
}

fn replay_versions(connection: &Connection, report: &mut Report) -> Result<Replayed, StoreError> {
    let mut replayed = Replayed::default();
    for_each_line(connection, TextKind::Versions, report, |report, index, line| {
        // "created_at: .." and "---".
        if index >= 2 && !replayed.line(line) {
            report.problem(|| format!("/versions has a line that is none: {line:?}"));
        }
    })?;
    Ok(replayed)
}

/// Names, and whether their gem was seen.
fn replay_names(
    connection: &Connection,
    report: &mut Report,
) -> Result<HashMap<String, ()>, StoreError> {
    let mut names = HashMap::new();
    for_each_line(connection, TextKind::Names, report, |report, index, line| {
        if index >= 1 && names.insert(line.to_owned(), ()).is_some() {
            report.problem(|| format!("/names has {line} twice"));
        }
    })?;
    Ok(names)
}

/// Reads a text piece by piece; compares its length and its digests on the way.
fn for_each_line(
    connection: &Connection,
    kind: TextKind,
    report: &mut Report,
    mut line: impl FnMut(&mut Report, usize, &str),
) -> Result<(), StoreError> {
    let mut digest = RunningDigest::default();
    let mut rest = String::new();
    let mut count = 0;
    let mut length = 0_i64;
    let mut statement = connection
        .prepare_cached("SELECT start, content FROM pieces WHERE kind = ?1 ORDER BY start")?;
    let mut rows = statement.query([number(kind)])?;
    while let Some(row) = rows.next()? {
        let content = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        if row.get::<_, i64>(0)? != length {
            report.problem(|| format!("{kind:?} has a gap at byte {length}"));
        }
        digest.update(content);
        length += i64::try_from(content.len()).unwrap_or(i64::MAX);
        rest.push_str(&String::from_utf8_lossy(content));
        let whole = rest.rfind('\n').map_or(0, |end| end + 1);
        for text in rest[..whole].lines() {
            line(report, count, text);
            count += 1;
        }
        rest.drain(..whole);
    }
    if !rest.is_empty() {
        report.problem(|| format!("{kind:?} ends in the middle of a line"));
    }
    compare_text(connection, kind, length, &digest, report)
}

fn compare_text(
    connection: &Connection,
    kind: TextKind,
    length: i64,
    digest: &RunningDigest,
    report: &mut Report,
) -> Result<(), StoreError> {
    let stored: Option<(i64, Digests, Vec<u8>)> = connection
        .prepare_cached("SELECT length, md5, sha256, state FROM texts WHERE kind = ?1")?
        .query_row([number(kind)], |row| {
            let digests = Digests { md5: row.get(1)?, sha256: row.get(2)? };
            Ok((row.get(0)?, digests, row.get(3)?))
        })
        .optional()?;
    let is_right = stored.is_some_and(|(stored_length, digests, state)| {
        let state = RunningDigest::restore(&state).map(|it| it.digests());
        stored_length == length && digests == digest.digests() && state == Ok(digests)
    });
    if !is_right {
        report.problem(|| format!("the digests of {kind:?} are not those of its bytes"));
    }
    Ok(())
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
