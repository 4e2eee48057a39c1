//! Recomputes all derived data, one gem at a time, and compares it with the stored data.

use rusqlite::{Connection, OptionalExtension};
use weir_base::clock::Timestamp;

use super::index;
use super::rows::{self, RELEASE};
use crate::index::digest::Digests;
use crate::release::Release;
use crate::store::column::signed;
use crate::store::derived::Derived;
use crate::store::pieces::number;
use crate::store::verification::{Reading, StoredText, Verification, nameless};
use crate::store::{Report, StoreError, TextKind};

/// Compares without repairing.
pub(super) fn check(connection: &Connection) -> Result<Report, StoreError> {
    run(connection, |_, _, _| Ok(()))
}

/// Compares, and rewrites what differs. Texts with errors are rewritten completely.
pub(super) fn fix(connection: &Connection, now: Timestamp) -> Result<Report, StoreError> {
    let mut report = run(connection, |gem, derived, live| derived.store(connection, gem, live))?;
    if report.problems_total > 0 {
        index::rebaseline(connection, now)?;
        report.is_fixed = true;
    }
    Ok(report)
}

fn run(
    connection: &Connection,
    replace: impl Fn(i64, &Derived, usize) -> Result<(), StoreError>,
) -> Result<Report, StoreError> {
    let mut verification = Verification::default();
    text(connection, TextKind::Versions, &mut verification)?;
    text(connection, TextKind::Names, &mut verification)?;
    for_each_gem(connection, |id, name, releases| {
        let derived = Derived::of(releases);
        let is_stored = is_stored(connection, id, &derived, releases.len())?;
        verification.gem(name, releases, &derived, is_stored);
        match is_stored {
            true => Ok(()),
            false => replace(id, &derived, releases.len()),
        }
    })?;
    Ok(verification.finish())
}

fn text(
    connection: &Connection,
    kind: TextKind,
    verification: &mut Verification,
) -> Result<(), StoreError> {
    let mut reading = Reading::of(kind);
    let mut statement = connection
        .prepare_cached("SELECT start, content FROM pieces WHERE kind = ?1 ORDER BY start")?;
    let mut rows = statement.query([number(kind)])?;
    while let Some(row) = rows.next()? {
        let content = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let start = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(u64::MAX);
        verification.piece(&mut reading, start, content);
    }
    let stored = connection
        .prepare_cached("SELECT length, md5, sha256, state FROM texts WHERE kind = ?1")?
        .query_row([number(kind)], |row| {
            let length = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(u64::MAX);
            let digests = Digests { md5: row.get(1)?, sha256: row.get(2)? };
            Ok(StoredText { length, digests, state: row.get(3)? })
        });
    verification.text_ends(reading, stored.optional()?);
    Ok(())
}

/// Calls `work` for each gem, with its releases in order.
fn for_each_gem(
    connection: &Connection,
    mut work: impl FnMut(i64, &str, &[Release]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut gems = connection.prepare("SELECT id, name FROM gems ORDER BY id")?;
    let mut gems = gems.query([])?;
    // Both queries are sorted by gem, so that each table is read once from start to end.
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
                    return Err(nameless(owner));
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
    let left = match ahead {
        Some((owner, _)) => Some(owner),
        None => rows.next()?.map(|row| row.get(0)).transpose()?,
    };
    left.map_or(Ok(()), |owner| Err(nameless(owner)))
}

fn is_stored(
    connection: &Connection,
    id: i64,
    derived: &Derived,
    live: usize,
) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT md5, infos.sha256, infos.content, fragments.content, live FROM gems
         JOIN infos ON infos.gem = gems.id JOIN fragments ON fragments.gem = gems.id
         WHERE gems.id = ?1",
    )?;
    let found = statement.query_row([id], |row| {
        let digests = Digests { md5: row.get(0)?, sha256: row.get(1)? };
        Ok(digests == derived.digests
            && row.get_ref(2)?.as_blob()? == derived.info.as_bytes()
            && row.get_ref(3)?.as_blob()? == derived.fragment
            && row.get::<_, i64>(4)? == signed(live))
    });
    Ok(found.optional()?.unwrap_or(false))
}
