//! Changes rows of releases to match an upstream.

use deadpool_postgres::Transaction;
use hashbrown::HashMap;

use super::apply::{Changing, Taken};
use super::replaced::pin;
use crate::store::StoreError;
use crate::store::mirror::StoredRelease;
use crate::store::postgres::columns::{KeyColumns, ReleaseColumns};
use crate::store::postgres::rows::{self, RELEASE};

/// All releases of gems in the order of lines, by the gems' ids.
pub(super) type Stored = HashMap<i64, Vec<StoredRelease>>;

pub(super) async fn stored(
    transaction: &Transaction<'_>,
    taken: &[Taken],
) -> Result<Stored, StoreError> {
    let gems: Vec<i64> = taken.iter().map(|it| it.gem.id).collect();
    releases_of(transaction, &gems).await
}

pub(super) async fn releases_of(
    transaction: &Transaction<'_>,
    gems: &[i64],
) -> Result<Stored, StoreError> {
    let sql =
        format!("SELECT {RELEASE}, yanked_at IS NOT NULL, gem FROM releases WHERE gem = ANY($1)");
    let statement = transaction.prepare_cached(&sql).await?;
    let mut stored = Stored::new();
    for row in transaction.query(&statement, &[&gems]).await? {
        let one = StoredRelease { release: rows::release(&row, 0)?, is_yanked: row.try_get(7)? };
        stored.entry(row.try_get(8)?).or_default().push(one);
    }
    for releases in stored.values_mut() {
        releases.sort_by(|one, other| one.release.order(&other.release));
    }
    Ok(stored)
}

pub(super) async fn write(
    transaction: &Transaction<'_>,
    changing: &[Changing],
) -> Result<(), StoreError> {
    let (mut new, mut updated) = (ReleaseColumns::default(), ReleaseColumns::default());
    let (mut gone, mut digests) = (KeyColumns::default(), Vec::new());
    for Changing { gem, changes, .. } in changing {
        changes.inserted().into_iter().for_each(|release| new.add(gem.id, release));
        changes.updated().for_each(|release| updated.add(gem.id, release));
        for (identity, checksum) in &changes.remove {
            gone.add(gem.id, identity);
            digests.push(&checksum.0[..]);
        }
    }
    if !new.is_empty() {
        let table = ReleaseColumns::TABLE;
        let sql = format!("INSERT INTO releases (gem, {RELEASE}) SELECT * FROM {table}");
        let statement = transaction.prepare_cached(&sql).await?;
        transaction.execute(&statement, &new.parameters()).await?;
    }
    if !updated.is_empty() {
        replace(transaction, &updated).await?;
    }
    if !gone.is_empty() {
        remove(transaction, &gone).await?;
        pin(transaction, &gone, &digests).await?;
    }
    Ok(())
}

/// Updates rows to match these releases. A stored file is kept if its checksum is unchanged.
async fn replace(
    transaction: &Transaction<'_>,
    releases: &ReleaseColumns<'_>,
) -> Result<(), StoreError> {
    let table = ReleaseColumns::TABLE;
    let is_same = "(releases.gem, releases.number, releases.platform)
                   = (new.gem, new.number, new.platform)";
    let sql = format!(
        "DELETE FROM specifications USING {table}, releases
         WHERE {is_same} AND releases.sha256 <> new.sha256
           AND (specifications.gem, specifications.number, specifications.platform)
               = (new.gem, new.number, new.platform)"
    );
    let statement = transaction.prepare_cached(&sql).await?;
    transaction.execute(&statement, &releases.parameters()).await?;
    let sql = format!(
        "UPDATE releases SET dependencies = new.dependencies, ruby = new.ruby,
             rubygems = new.rubygems, created_at = new.created_at,
             bytes = CASE WHEN releases.sha256 = new.sha256 THEN bytes END, sha256 = new.sha256
         FROM {table} WHERE {is_same}"
    );
    let statement = transaction.prepare_cached(&sql).await?;
    transaction.execute(&statement, &releases.parameters()).await?;
    Ok(())
}

async fn remove(transaction: &Transaction<'_>, keys: &KeyColumns<'_>) -> Result<(), StoreError> {
    for table in ["releases", "specifications"] {
        let sql = format!(
            "DELETE FROM {table} USING {}
             WHERE ({table}.gem, {table}.number, {table}.platform)
                   = (key.gem, key.number, key.platform)",
            KeyColumns::TABLE
        );
        let statement = transaction.prepare_cached(&sql).await?;
        transaction.execute(&statement, &keys.parameters()).await?;
    }
    Ok(())
}
