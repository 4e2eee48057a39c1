//! Recomputes all derived data, page by page, and compares it with the stored data.

use hashbrown::HashMap;
use weir_base::clock::Timestamp;

use super::index::{rebaseline, store_derived};
use super::releases::{RELEASE, release};
use crate::index::digest::Digests;
use crate::release::Release;
use crate::store::column::{signed, unsigned};
use crate::store::database::{Row, WritableDatabase, query_one};
use crate::store::derived::Derived;
use crate::store::pieces::number;
use crate::store::verification::{Reading, StoredText, Verification, nameless};
use crate::store::{Repair, Report, StoreError, TextKind};

/// Number of gems to read at once.
const PAGE_GEMS: i64 = 200;
/// Number of pieces of a text to read at once.
const PAGE_PIECES: i64 = 64;

/// Compares, and with [`Repair::Fix`] rewrites what differs. Texts with errors are rewritten
/// completely.
pub(in crate::store) async fn verify(
    database: &impl WritableDatabase,
    repair: Repair,
    now: Timestamp,
) -> Result<Report, StoreError> {
    let mut verification = Verification::default();
    text(database, TextKind::Versions, &mut verification).await?;
    text(database, TextKind::Names, &mut verification).await?;
    gems(database, repair, &mut verification).await?;
    let mut report = verification.finish();
    if repair == Repair::Fix && report.problems_total > 0 {
        rebaseline(database, now).await?;
        report.is_fixed = true;
    }
    Ok(report)
}

async fn gems<D: WritableDatabase>(
    database: &D,
    repair: Repair,
    verification: &mut Verification,
) -> Result<(), StoreError> {
    // Each table has its own condition for the start of the page: Postgres merges them by index,
    // and would otherwise read the others from their first row for each page.
    let sql = format!(
        "SELECT gems.id, gems.name, live, md5, infos.sha256, infos.content, fragments.content, {}
         FROM gems
         LEFT JOIN infos ON infos.gem = gems.id AND infos.gem > $1
         LEFT JOIN fragments ON fragments.gem = gems.id AND fragments.gem > $1
         WHERE gems.id > $1 ORDER BY gems.id LIMIT $2",
        D::HAS_ITS_NAME
    );
    let mut last = 0_i64;
    loop {
        let page = database.query(&sql, &[&last, &PAGE_GEMS]).await?;
        let end = page.last().map(|gem| gem.get(0)).transpose()?;
        let mut releases = releases(database, last, end.unwrap_or(i64::MAX)).await?;
        for gem in &page {
            let (id, name): (i64, String) = (gem.get(0)?, gem.get(1)?);
            let mut releases = releases.remove(&id).unwrap_or_default();
            releases.sort_by(Release::order);
            let derived = Derived::of(&releases);
            let is_stored = is_stored(gem, &derived, releases.len()).unwrap_or(false);
            verification.gem(&name, &releases, &derived, is_stored);
            if !is_stored && repair == Repair::Fix {
                store_derived(database, id, &name, &derived, releases.len()).await?;
            }
        }
        if let Some(gem) = releases.keys().next() {
            return Err(nameless(*gem));
        }
        match end {
            Some(end) => last = end,
            None => return Ok(()),
        }
    }
}

/// Returns the releases of the gems of a page, by gem.
async fn releases(
    database: &impl WritableDatabase,
    last: i64,
    end: i64,
) -> Result<HashMap<i64, Vec<Release>>, StoreError> {
    let sql = format!(
        "SELECT gem, {RELEASE} FROM releases WHERE gem > $1 AND gem <= $2 AND yanked_at IS NULL"
    );
    let mut found: HashMap<i64, Vec<Release>> = HashMap::new();
    for row in database.query(&sql, &[&last, &end]).await? {
        found.entry(row.get(0)?).or_default().push(release(&row, 1)?);
    }
    Ok(found)
}

/// Returns whether the stored data of a gem is right. Data that is missing is an error.
fn is_stored(gem: &impl Row, derived: &Derived, live: usize) -> Result<bool, StoreError> {
    let digests = Digests { md5: gem.digest(3)?, sha256: gem.digest(4)? };
    Ok(gem.get::<i64>(2)? == signed(live)
        && digests == derived.digests
        && gem.get::<Vec<u8>>(5)? == derived.info.as_bytes()
        && gem.get::<Vec<u8>>(6)? == derived.fragment
        && gem.get::<bool>(7)?)
}

async fn text(
    database: &impl WritableDatabase,
    kind: TextKind,
    verification: &mut Verification,
) -> Result<(), StoreError> {
    let mut reading = Reading::of(kind);
    let sql = "SELECT start, content FROM pieces WHERE kind = $1 AND start >= $2
         ORDER BY start LIMIT $3";
    let mut next = 0_i64;
    loop {
        let page = database.query(sql, &[&number(kind), &next, &PAGE_PIECES]).await?;
        let Some(end) = page.last() else { break };
        next = end.get::<i64>(0)? + 1;
        for piece in &page {
            let content: Vec<u8> = piece.get(1)?;
            verification.piece(&mut reading, unsigned(piece.get(0)?), &content);
        }
    }
    let sql = "SELECT length, md5, sha256, state FROM texts WHERE kind = $1";
    let row = query_one(database, sql, &[&number(kind)]).await?;
    let stored = row.map(|row| -> Result<_, StoreError> {
        let digests = Digests { md5: row.digest(1)?, sha256: row.digest(2)? };
        Ok(StoredText { length: row.number(0)?, digests, state: row.get(3)? })
    });
    verification.text_ends(reading, stored.transpose()?);
    Ok(())
}
