//! The embedded store: the suite, and tests of its particular failure modes.

use std::path::Path;

use prometheus_client::registry::Registry;
use rusqlite::Connection;
use weir_base::clock::Clock;
use weir_gems::store::{
    ImportedGem, Repair, SqliteSettings, SqliteStore, Store, StoreError, TextKind,
};

use super::contract::{assert_consistent, mirror};
use super::{NOW, identity, model, new, release, settings, sqlite};
use crate::client::versions_of_info;

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
         DROP TABLE downloads; DROP TABLE mirror_policy;
         DROP TABLE pins; DROP TABLE replaced_releases;
         PRAGMA user_version = 1",
    );
    let store = SqliteStore::open(&settings(&folder), NOW).unwrap();
    assert!(store.info("shop").await.unwrap().is_some());
    assert_consistent(&store).await;
    mirror::digests_are_of_what_is_noted(store).await;
}

#[tokio::test]
async fn a_mirror_of_an_earlier_format_keeps_the_files_that_it_has() {
    let (folder, store) = sqlite();
    mirror::before(&store).await;
    drop(store);
    let earlier = "DROP TABLE pins; DROP TABLE replaced_releases; PRAGMA user_version = 8";
    damage(folder.path(), earlier);
    let store = SqliteStore::open(&settings(&folder), NOW).unwrap();
    mirror::what_is_here_is_what_was_first(&store).await;
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

/// Returns a metric of the memory cache.
fn figure(registry: &Registry, name: &str) -> u64 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let name = format!("weir_gems_info_cache_{name} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_info_in_memory_is_what_the_file_has_whoever_writes() {
    let (folder, store) = sqlite();
    let mut registry = Registry::default();
    store.register_metrics(&mut registry);
    let nothing_kept = SqliteSettings { info_cache_bytes: 0, ..settings(&folder) };
    let other = SqliteStore::open(&nothing_kept, NOW).unwrap();
    store.push(new("tool", "1"), NOW).await.unwrap();
    store.push(new("shop", "1"), NOW).await.unwrap();
    let gem = ImportedGem { name: "shop".parse().unwrap(), releases: vec![release("4", "")] };
    for step in 0..7_u32 {
        match step {
            0 => {}
            1 => drop(other.push(new("shop", "2"), NOW).await.unwrap()),
            2 => other.yank(&"shop".parse().unwrap(), &identity("1"), NOW).await.unwrap(),
            3 => other.rebaseline(NOW).await.unwrap(),
            4 => drop(store.push(new("shop", "3"), NOW).await.unwrap()),
            5 => drop(
                other
                    .import(Box::new([gem.clone()].into_iter()), &Clock::manual(NOW))
                    .await
                    .unwrap(),
            ),
            _ => {
                damage(folder.path(), "UPDATE releases SET ruby = '> 3' WHERE gem = 2");
                assert!(other.verify(Repair::Fix, NOW).await.unwrap().is_fixed);
            }
        }
        let hits = figure(&registry, "hits_total");
        for _ in 0..2 {
            for name in ["shop", "tool"] {
                let (ours, theirs) = (store.info(name).await, other.info(name).await);
                assert_eq!(ours.unwrap(), theirs.unwrap(), "{name} after step {step}");
            }
        }
        // Once more each; and tool, as long as /versions only grows.
        let only_grows = [1, 2, 4, 5].contains(&step);
        let hits = figure(&registry, "hits_total") - hits;
        assert_eq!(hits, if only_grows { 3 } else { 2 }, "step {step}");
    }
    assert_eq!(store.info("nobody").await.unwrap(), None);
    assert_consistent(&store).await;
}

#[tokio::test]
async fn infos_take_no_more_memory_than_they_may() {
    let folder = tempfile::tempdir().unwrap();
    let bytes_max = 16 << 10;
    let limited = SqliteSettings { info_cache_bytes: bytes_max, ..settings(&folder) };
    let store = SqliteStore::open(&limited, NOW).unwrap();
    let mut registry = Registry::default();
    store.register_metrics(&mut registry);
    for number in 0..80 {
        let name = format!("gem-{number}");
        store.push(new(&name, "1"), NOW).await.unwrap();
        assert_eq!(versions_of_info(&store.info(&name).await.unwrap().unwrap().content), ["1"]);
        assert!(figure(&registry, "bytes") <= bytes_max);
    }
    assert!(figure(&registry, "evictions_total") > 0);
    // This info is too large for the cache.
    let releases = (0..20).map(|number| release(&number.to_string(), "")).collect();
    let gem = ImportedGem { name: "large".parse().unwrap(), releases };
    store.import(Box::new([gem].into_iter()), &Clock::manual(NOW)).await.unwrap();
    let hits = figure(&registry, "hits_total");
    assert_eq!(store.info("large").await.unwrap(), store.info("large").await.unwrap());
    assert_eq!(figure(&registry, "hits_total"), hits);
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
        // Opened again, because a process may have cached a text before it was damaged.
        drop(store);
        let store = SqliteStore::open(&settings(&folder), NOW).unwrap();
        assert_consistent(&store).await;
        let report = store.verify(Repair::Fix, NOW).await.unwrap();
        assert_eq!((report.problems_total, report.is_fixed), (0, false), "{sql}");
    }
}

#[tokio::test]
async fn releases_of_a_gem_without_a_name_are_beyond_repair() {
    for gem in [1, 2] {
        let (folder, store) = sqlite();
        store.push(new("shop", "1"), NOW).await.unwrap();
        store.push(new("other", "1"), NOW).await.unwrap();
        damage(
            folder.path(),
            &format!("PRAGMA foreign_keys = 0; DELETE FROM gems WHERE id = {gem}"),
        );
        for repair in [Repair::Leave, Repair::Fix] {
            let error = store.verify(repair, NOW).await.unwrap_err().to_string();
            assert!(error.contains(&format!("gem {gem} has releases and no name")), "{error}");
            assert!(error.contains("backup") && !error.contains("--fix"), "{error}");
        }
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
    let (_folder, store) = sqlite();
    let gems = (0..10).map(|index: u32| {
        assert!(index < 7, "the source breaks off");
        let releases = vec![release("1", "")];
        ImportedGem { name: format!("gem{index}").parse().unwrap(), releases }
    });
    assert!(matches!(
        store.import(Box::new(gems), &Clock::manual(NOW)).await,
        Err(StoreError::Abandoned(_))
    ));
    let names = store.text(TextKind::Names).await.unwrap().to_vec();
    // Batches of two.
    assert_eq!(crate::client::read_names(&names).len(), 6);
    assert_consistent(&store).await;
    store.push(new("shop", "1"), NOW).await.unwrap();
    store.yank(&"gem0".parse().unwrap(), &identity("1"), NOW).await.unwrap();
    assert_consistent(&store).await;
}
