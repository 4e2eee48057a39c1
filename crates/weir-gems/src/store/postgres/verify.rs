//! Recomputes all derived data, several gems at a time, and compares it with the stored data.

use std::sync::Arc;

use deadpool_postgres::Transaction;
use hashbrown::HashMap;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_stream::StreamExt;
use weir_base::clock::Timestamp;

use super::index::Replacing;
use super::metrics::Limit;
use super::rows::{self, RELEASE, digest};
use super::{Inner, index};
use crate::index::digest::Digests;
use crate::release::Release;
use crate::store::column::signed;
use crate::store::derived::Derived;
use crate::store::pieces::number;
use crate::store::verification::{Reading, StoredText, Verification, nameless};
use crate::store::{Repair, Report, StoreError, TextKind};

/// Number of gems that are in memory at once, with all their releases.
const PAGE_GEMS: i64 = 200;

pub(super) async fn verify(
    inner: &Arc<Inner>,
    repair: Repair,
    now: Timestamp,
) -> Result<Report, StoreError> {
    match repair {
        Repair::Fix => inner.write(Limit::Maintenance, move |it| Box::pin(fix(it, now))).await,
        Repair::Leave => {
            let time = inner.pool.limits.maintenance_timeout;
            let mut lease = inner.lease().await?;
            let checked =
                timeout(time, async { run(&lease.snapshot(time).await?, Repair::Leave).await });
            let checked = checked.await;
            inner.pool.settle(lease, Limit::Maintenance, checked)
        }
    }
}

/// Compares, and rewrites what differs. Texts with errors are rewritten completely.
async fn fix(transaction: &Transaction<'_>, now: Timestamp) -> Result<Report, StoreError> {
    let mut report = run(transaction, Repair::Fix).await?;
    if report.problems_total > 0 {
        index::rebaseline(transaction, now).await?;
        report.is_fixed = true;
    }
    Ok(report)
}

async fn run(transaction: &Transaction<'_>, repair: Repair) -> Result<Report, StoreError> {
    let mut verification = Verification::default();
    text(transaction, TextKind::Versions, &mut verification).await?;
    text(transaction, TextKind::Names, &mut verification).await?;
    // Each table has its own condition for the start of the page: Postgres merges them by index,
    // and would otherwise read the others from their first row for each page.
    let sql = "SELECT gems.id, gems.name, live, infos.name, md5, sha256, infos.content,
                      fragments.name, fragments.content FROM gems
               LEFT JOIN infos ON infos.gem = gems.id AND infos.gem > $1
               LEFT JOIN fragments ON fragments.gem = gems.id AND fragments.gem > $1
               WHERE gems.id > $1 ORDER BY gems.id LIMIT $2";
    let statement = transaction.prepare_cached(sql).await?;
    let mut last = 0_i64;
    loop {
        let gems = transaction.query(&statement, &[&last, &PAGE_GEMS]).await?;
        let Some(end) = gems.last() else { break };
        let end: i64 = end.try_get(0)?;
        let mut releases = releases(transaction, last, end).await?;
        let mut replacing = Replacing::default();
        for gem in &gems {
            let (id, name): (i64, &str) = (gem.try_get(0)?, gem.try_get(1)?);
            let mut releases = releases.remove(&id).unwrap_or_default();
            releases.sort_by(Release::order);
            let derived = Derived::of(&releases);
            let is_stored = is_stored(gem, &derived, releases.len()).unwrap_or(false);
            verification.gem(name, &releases, &derived, is_stored);
            if !is_stored && repair == Repair::Fix {
                replacing.add(id, name, derived, releases.len());
            }
        }
        if let Some(gem) = releases.keys().next() {
            return Err(nameless(*gem));
        }
        replacing.write(transaction).await?;
        last = end;
    }
    Ok(verification.finish())
}

/// Returns the releases that are not yanked of gems after `last` up to `end`.
async fn releases(
    transaction: &Transaction<'_>,
    last: i64,
    end: i64,
) -> Result<HashMap<i64, Vec<Release>>, StoreError> {
    let sql = format!(
        "SELECT gem, {RELEASE} FROM releases WHERE gem > $1 AND gem <= $2 AND yanked_at IS NULL"
    );
    let statement = transaction.prepare_cached(&sql).await?;
    let mut found: HashMap<i64, Vec<Release>> = HashMap::new();
    for row in transaction.query(&statement, &[&last, &end]).await? {
        found.entry(row.try_get(0)?).or_default().push(rows::release(&row, 1)?);
    }
    Ok(found)
}

/// Returns whether the stored data matches. Fails if a value is missing, or is not a valid digest.
fn is_stored(gem: &Row, derived: &Derived, live: usize) -> Result<bool, StoreError> {
    let name: &str = gem.try_get(1)?;
    let digests = Digests { md5: digest(gem, 4)?, sha256: digest(gem, 5)? };
    Ok(gem.try_get::<_, i64>(2)? == signed(live)
        && gem.try_get::<_, &str>(3)? == name
        && gem.try_get::<_, &str>(7)? == name
        && digests == derived.digests
        && gem.try_get::<_, &[u8]>(6)? == derived.info.as_bytes()
        && gem.try_get::<_, &[u8]>(8)? == derived.fragment)
}

async fn text(
    transaction: &Transaction<'_>,
    kind: TextKind,
    verification: &mut Verification,
) -> Result<(), StoreError> {
    let mut reading = Reading::of(kind);
    let sql = "SELECT start, content FROM pieces WHERE kind = $1 ORDER BY start";
    let statement = transaction.prepare_cached(sql).await?;
    let rows = transaction.query_raw(&statement, [number(kind)]).await?;
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.next().await {
        let row = row?;
        let start = u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(u64::MAX);
        verification.piece(&mut reading, start, row.try_get(1)?);
    }
    let sql = "SELECT length, md5, sha256, state FROM texts WHERE kind = $1";
    let row = transaction.query_opt(sql, &[&number(kind)]).await?;
    let stored = match row {
        None => None,
        Some(row) => Some(StoredText {
            length: u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(u64::MAX),
            digests: Digests { md5: digest(&row, 1)?, sha256: digest(&row, 2)? },
            state: row.try_get(3)?,
        }),
    };
    verification.text_ends(reading, stored);
    Ok(())
}
