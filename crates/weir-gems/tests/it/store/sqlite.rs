//! The embedded store: the suite, and what only it can do wrong.

use std::path::Path;

use rusqlite::Connection;
use weir_base::clock::Clock;
use weir_gems::store::{Repair, SqliteStore, Store, StoreError, TextKind};

use super::contract::{assert_consistent, mirror};
use super::{NOW, identity, model, new, settings, sqlite};

suite!(|| Some(sqlite()));

#[tokio::test]
async fn whatever_is_mirrored_a_client_that_fetches_tails_knows_it() {
    mirror::histories(sqlite).await;
}

#[tokio::test]
async fn a_store_of_the_first_format_gets_all_later_tables() {
    let (folder, store) = sqlite();
    store.push(new("shop", "1"), NOW).await.unwrap();
    drop(store);
    damage(
        folder.path(),
        "DROP TABLE upstreams; DROP TABLE upstream_gems; DROP TABLE origins; DROP TABLE hooks;
         DROP TABLE webhook_events; DROP TABLE webhook_endpoints; DROP TABLE webhook_log;
         DROP TABLE downloads;
         PRAGMA user_version = 1",
    );
    let store = SqliteStore::open(&settings(&folder), NOW).unwrap();
    assert!(store.info("shop").await.unwrap().is_some());
    assert_consistent(&store).await;
    mirror::digests_are_of_what_is_noted(store).await;
}

#[tokio::test]
async fn a_client_that_fetches_tails_knows_what_is_there() {
    model::histories(sqlite).await;
}

#[tokio::test]
async fn what_another_process_writes_is_seen() {
    let (folder, store) = sqlite();
    let other = SqliteStore::open(&settings(&folder), NOW).unwrap();
    let before = store.text(TextKind::Versions).await.unwrap();
    other.push(new("shop", "1"), NOW).await.unwrap();
    let after = store.text(TextKind::Versions).await.unwrap();
    assert!(after.length() > before.length());
    assert!(store.info("shop").await.unwrap().is_some());
    store.push(new("shop", "2"), NOW).await.unwrap();
    other.rebaseline(NOW).await.unwrap();
    assert_consistent(&store).await;
    assert_consistent(&other).await;
}

#[tokio::test]
async fn a_store_that_is_opened_again_is_as_it_was() {
    let (folder, store) = sqlite();
    store.push(new("shop", "1"), NOW).await.unwrap();
    let before = store.text(TextKind::Versions).await.unwrap();
    drop(store);
    let store = SqliteStore::open(&settings(&folder), NOW).unwrap();
    let after = store.text(TextKind::Versions).await.unwrap();
    assert_eq!((after.digests, after.to_vec()), (before.digests, before.to_vec()));
    store.push(new("shop", "2"), NOW).await.unwrap();
    assert_consistent(&store).await;
}

fn damage(folder: &Path, sql: &str) {
    let connection = Connection::open(folder.join("gems.db")).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn damage_is_found_and_repaired() {
    for (sql, expected) in [
        ("UPDATE infos SET content = x'00' WHERE gem = 1", "what is stored of shop"),
        ("UPDATE infos SET md5 = zeroblob(16) WHERE gem = 1", "what is stored of shop"),
        ("DELETE FROM infos; DELETE FROM fragments", "what is stored of shop"),
        ("UPDATE fragments SET content = x'00' WHERE gem = 1", "what is stored of shop"),
        ("UPDATE gems SET live = 7", "what is stored of shop"),
        ("UPDATE texts SET state = x'00' WHERE kind = 1", "the digests of Versions"),
        ("UPDATE texts SET md5 = zeroblob(16) WHERE kind = 2", "the digests of Names"),
        ("DELETE FROM pieces WHERE kind = 1 AND start > 50", "/versions has other releases"),
        ("DELETE FROM pieces WHERE kind = 2 AND start > 0", "/names is wrong about shop"),
        ("UPDATE releases SET yanked_at = 5 WHERE number = '2'", "/versions has other releases"),
        ("DELETE FROM releases WHERE gem = 2; DELETE FROM gems WHERE id = 2", "releases of other"),
        ("UPDATE releases SET ruby = '> 3'", "another digest of shop"),
    ] {
        let (folder, store) = sqlite();
        store.push(new("shop", "1"), NOW).await.unwrap();
        store.push(new("shop", "2"), NOW).await.unwrap();
        store.push(new("other", "1"), NOW).await.unwrap();
        damage(folder.path(), sql);
        let report = store.verify(Repair::Leave, NOW).await.unwrap();
        let all = report.problems.join("\n");
        assert!(all.contains(expected), "{sql}: {all}");
        assert!(!report.is_fixed);
        let report = store.verify(Repair::Fix, NOW).await.unwrap();
        assert!(report.is_fixed && report.problems_total > 0, "{sql}");
        // Opened anew: what a process has read of a text before it was damaged is another matter.
        drop(store);
        let store = SqliteStore::open(&settings(&folder), NOW).unwrap();
        assert_consistent(&store).await;
        let report = store.verify(Repair::Fix, NOW).await.unwrap();
        assert_eq!((report.problems_total, report.is_fixed), (0, false), "{sql}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_ours_or_from_the_future_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    damage(folder.path(), "CREATE TABLE theirs (x)");
    let refused = SqliteStore::open(&settings(&folder), NOW);
    assert!(matches!(refused, Err(StoreError::Foreign { .. })), "{refused:?}");
    let (folder, store) = sqlite();
    drop(store);
    damage(folder.path(), "PRAGMA user_version = 99");
    let refused = SqliteStore::open(&settings(&folder), NOW);
    assert!(matches!(refused, Err(StoreError::TooNew { found: 99, .. })), "{refused:?}");
}

#[tokio::test]
async fn an_import_that_breaks_off_leaves_whole_batches() {
    use weir_gems::store::ImportedGem;
    let (_folder, store) = sqlite();
    let gems = (0..10).map(|index: u32| {
        assert!(index < 7, "the source breaks off");
        let releases = vec![super::release("1", "")];
        ImportedGem { name: format!("gem{index}").parse().unwrap(), releases }
    });
    assert!(matches!(store.import(gems, &Clock::manual(NOW)).await, Err(StoreError::Abandoned(_))));
    let names = store.text(TextKind::Names).await.unwrap().to_vec();
    // Batches of two.
    assert_eq!(crate::client::read_names(&names).len(), 6);
    assert_consistent(&store).await;
    store.push(new("shop", "1"), NOW).await.unwrap();
    store.yank(&"gem0".parse().unwrap(), &identity("1"), NOW).await.unwrap();
    assert_consistent(&store).await;
}
