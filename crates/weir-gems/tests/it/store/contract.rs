//! Guarantees of every store. Each store's test runs these with an empty store.

pub(crate) mod keys;
pub(crate) mod mirror;
pub(crate) mod webhooks;

use std::time::Duration;

use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_gems::index::digest::Digests;
use weir_gems::store::{
    Conflict, FullStore, ImportedGem, PushError, Repair, Store, TextKind, YankError,
};

use super::{NOW, identity, new, release};
use crate::client::{read_names, read_versions, versions_of_info};

/// Checks that all derived data is correct, as the store verifies it and as a client sees it.
pub(crate) async fn assert_consistent(store: &(impl Store + ?Sized)) {
    let report = store.verify(Repair::Leave, NOW).await.unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    let versions = store.text(TextKind::Versions).await.unwrap();
    assert_eq!(versions.digests, Digests::of(&versions.to_vec()));
    let names = store.text(TextKind::Names).await.unwrap();
    assert_eq!(names.digests, Digests::of(&names.to_vec()));
    let known = read_versions(&versions.to_vec());
    for (name, known) in &known {
        let info = store.info(name).await.unwrap().unwrap();
        assert_eq!(info.digests, Digests::of(&info.content));
        assert_eq!(hex::encode(info.digests.md5), known.md5, "{name}");
        let in_info = versions_of_info(&info.content).into_iter().collect();
        assert_eq!(known.versions, in_info, "{name}");
    }
    let mut live: Vec<_> =
        known.into_iter().filter(|(_, it)| !it.versions.is_empty()).map(|(name, _)| name).collect();
    let mut names = read_names(&names.to_vec());
    names.sort_unstable();
    live.sort_unstable();
    assert_eq!(names, live);
}

pub(super) async fn a_new_store_has_texts_without_gems(store: impl Store) {
    let versions = store.text(TextKind::Versions).await.unwrap().to_vec();
    assert_eq!(versions, b"created_at: 2023-11-14T22:13:20Z\n---\n");
    assert_eq!(store.text(TextKind::Names).await.unwrap().to_vec(), b"---\n");
    assert_eq!(store.info("rack").await.unwrap(), None);
    assert_consistent(&store).await;
}

pub(super) async fn a_push_is_everywhere_at_once(store: impl Store) {
    let before = store.text(TextKind::Versions).await.unwrap();
    store.push(new("shop", "1.0"), NOW).await.unwrap();
    store.push(new("shop", "1.1-java"), NOW).await.unwrap();
    let after = store.text(TextKind::Versions).await.unwrap();
    // The old text is still the beginning, and the old snapshot is unchanged.
    assert!(after.to_vec().starts_with(&before.to_vec()));
    assert_eq!(before.digests, Digests::of(&before.to_vec()));
    assert_eq!(after.generation, before.generation);
    let info = store.info("shop").await.unwrap().unwrap();
    let sum = "07".repeat(32);
    let expected = format!(
        "---\n1.0 rack:< 4&>= 2|checksum:{sum},ruby:>= 2.7\n\
         1.1-java rack:< 4&>= 2|checksum:{sum},ruby:>= 2.7\n"
    );
    assert_eq!(str::from_utf8(&info.content), Ok(&*expected));
    assert_eq!(store.fragments(&["none", "shop"]).await.unwrap().len(), 1);
    let file = store.file("shop-1.1-java").await.unwrap().unwrap();
    assert_eq!((file.bytes, file.checksum), (1_234, new("shop", "1").release.checksum));
    assert_eq!(store.gemspec("shop-1.0").await.unwrap().unwrap(), b"shop 1.0");
    for unknown in ["shop-1.1", "shop", "shop-1.0-java", "", "-1.0", "shop-"] {
        assert_eq!(store.file(unknown).await.unwrap(), None, "{unknown}");
        assert_eq!(store.gemspec(unknown).await.unwrap(), None, "{unknown}");
    }
    assert_consistent(&store).await;
}

pub(super) async fn a_release_is_pushed_once(store: impl Store) {
    store.push(new("shop", "1.0"), NOW).await.unwrap();
    let versions = store.text(TextKind::Versions).await.unwrap();
    let mut other = new("shop", "1.0");
    other.release.checksum.0[0] = 0;
    for (again, is_same) in [(new("shop", "1.0"), true), (other, false)] {
        let Err(PushError::Conflict(conflict)) = store.push(again, NOW).await else {
            panic!("a release was pushed twice");
        };
        assert_eq!(matches!(conflict, Conflict::SameContents { .. }), is_same, "{conflict}");
    }
    store.yank(&"shop".parse().unwrap(), &identity("1.0"), NOW).await.unwrap();
    let refused = store.push(new("shop", "1.0"), NOW).await;
    assert!(matches!(refused, Err(PushError::Conflict(Conflict::Yanked { .. }))));
    // A rejected push changes nothing: it does not even leave a gem without releases.
    let lines = store.text(TextKind::Versions).await.unwrap().to_vec();
    let added = String::from_utf8(lines[versions.to_vec().len()..].to_vec()).unwrap();
    assert!(added.starts_with("shop -1.0 ") && added.lines().count() == 1, "{added}");
    assert_consistent(&store).await;
}

pub(super) async fn two_releases_never_share_a_file(store: impl Store) {
    store.push(new("a", "1.0-1.0"), NOW).await.unwrap();
    let refused = store.push(new("a-1.0", "1.0"), NOW).await;
    let Err(PushError::Conflict(Conflict::FullName { full_name, other })) = refused else {
        panic!("two releases have one file: {refused:?}");
    };
    assert_eq!((full_name.as_str(), other.as_str()), ("a-1.0-1.0", "a 1.0-1.0"));
    assert_eq!(store.info("a-1.0").await.unwrap(), None);
    // Of an import the same: what is here has the file, then what comes first.
    let gem = |name: &str, version: &str| ImportedGem {
        name: name.parse().unwrap(),
        releases: vec![release(version, "")],
    };
    let gems = || [gem("a-1.0", "1.0"), gem("b-1.0", "1.0"), gem("b", "1.0-1.0"), gem("b", "2.0")];
    let done = store.import(Box::new(gems().into_iter()), &Clock::manual(NOW)).await.unwrap();
    assert_eq!((done.releases, done.known, done.clashing), (2, 0, 2));
    let versions = async |name: &str| {
        let info = store.info(name).await.unwrap().unwrap();
        versions_of_info(&info.content)
    };
    assert_eq!(versions("b-1.0").await, ["1.0"]);
    assert_eq!(versions("b").await, ["2.0"]);
    let done = store.import(Box::new(gems().into_iter()), &Clock::manual(NOW)).await.unwrap();
    assert_eq!((done.releases, done.known, done.clashing), (0, 2, 2));
    assert_consistent(&store).await;
}

pub(super) async fn a_name_of_many_dashes_has_its_file(store: impl Store) {
    let dashes = |count: usize| format!("a{}", "-1".repeat(count));
    for name in [dashes(21), dashes(127), format!("a{}", "-b".repeat(127))] {
        store.push(new(&name, "2.0-x86-linux"), NOW).await.unwrap();
        let full_name = format!("{name}-2.0-x86-linux");
        assert!(store.file(&full_name).await.unwrap().is_some(), "{full_name}");
        assert!(store.gemspec(&full_name).await.unwrap().is_some(), "{full_name}");
        assert_eq!(store.file(&format!("{full_name}{}", "-1".repeat(4_000))).await.unwrap(), None);
    }
    let refused = store.push(new(&dashes(20), "1-2.0-x86-linux"), NOW).await;
    let is_clash = matches!(refused, Err(PushError::Conflict(Conflict::FullName { .. })));
    assert!(is_clash, "two releases have one file");
    assert_consistent(&store).await;
}

pub(super) async fn names_that_look_alike_are_told(store: impl Store) {
    store.push(new("rest-client", "1.0"), NOW).await.unwrap();
    let pushed = store.push(new("rest_client", "1.0"), NOW).await.unwrap();
    assert_eq!(pushed.lookalikes, ["rest-client"]);
    let again = store.push(new("rest_client", "1.1"), NOW).await.unwrap();
    assert!(again.lookalikes.is_empty());
}

pub(super) async fn a_yank_takes_a_release_out(store: impl Store) {
    let shop = "shop".parse().unwrap();
    store.push(new("other", "1"), NOW).await.unwrap();
    store.push(new("shop", "1.0"), NOW).await.unwrap();
    store.push(new("shop", "2.0"), NOW).await.unwrap();
    store.push(new("late", "1"), NOW).await.unwrap();
    store.yank(&shop, &identity("1.0"), NOW).await.unwrap();
    assert_eq!(store.file("shop-1.0").await.unwrap(), None);
    assert_eq!(store.gemspec("shop-1.0").await.unwrap(), None);
    let info = store.info("shop").await.unwrap().unwrap();
    assert_eq!(versions_of_info(&info.content), ["2.0"]);
    assert_consistent(&store).await;
    store.yank(&shop, &identity("2.0"), NOW).await.unwrap();
    assert_eq!(&store.info("shop").await.unwrap().unwrap().content[..], b"---\n");
    let names = store.text(TextKind::Names).await.unwrap().to_vec();
    assert_eq!(read_names(&names), ["other", "late"]);
    assert_consistent(&store).await;
    for (name, version, expected) in [
        ("none", "1.0", "could not be found"),
        ("shop", "3.0", "3.0 does not exist"),
        ("shop", "2.0", "2.0 has already been yanked"),
        ("shop", "2.0-java", "2.0-java does not exist"),
    ] {
        let refused = store.yank(&name.parse().unwrap(), &identity(version), NOW).await;
        let error: YankError = refused.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    store.push(new("shop", "3.0"), NOW).await.unwrap();
    assert_consistent(&store).await;
}

pub(super) async fn an_import_adds_what_is_not_there(store: impl Store) {
    store.push(new("b", "1.0"), NOW).await.unwrap();
    store.push(new("b", "1.1"), NOW).await.unwrap();
    store.yank(&"b".parse().unwrap(), &identity("1.1"), NOW).await.unwrap();
    let gem = |name: &str, versions: &[&str]| ImportedGem {
        name: name.parse().unwrap(),
        releases: versions.iter().map(|version| release(version, "")).collect(),
    };
    let gems =
        [gem("a", &["2", "1", "1-java"]), gem("b", &["1.0", "1.1", "2.0"]), gem("c", &["1"])];
    let again = gems.clone();
    let done = store.import(Box::new(gems.into_iter()), &Clock::manual(NOW)).await.unwrap();
    assert_eq!((done.gems, done.releases, done.known), (2, 5, 2));
    assert_consistent(&store).await;
    let versions = store.text(TextKind::Versions).await.unwrap();
    let b = &read_versions(&versions.to_vec())["b"];
    // Pushed releases are unchanged, and yanked ones stay yanked.
    assert_eq!(b.versions, ["1.0", "2.0"].map(str::to_owned).into());
    assert_eq!(store.file("a-1").await.unwrap(), None);
    let done = store.import(Box::new(again.into_iter()), &Clock::manual(NOW)).await.unwrap();
    assert_eq!((done.gems, done.releases, done.known), (0, 0, 7));
    let same = store.text(TextKind::Versions).await.unwrap();
    assert_eq!(same.digests, versions.digests);
}

pub(super) async fn an_import_takes_a_gem_that_comes_twice(store: impl Store) {
    let gem = |name: &str, versions: &[&str]| ImportedGem {
        name: name.parse().unwrap(),
        releases: versions.iter().map(|version| release(version, "")).collect(),
    };
    let gems = [gem("a", &["1", "1"]), gem("a", &["1", "2"]), gem("b", &[]), gem("a", &["3"])];
    let done = store.import(Box::new(gems.into_iter()), &Clock::manual(NOW)).await.unwrap();
    assert_eq!((done.gems, done.releases, done.known), (2, 3, 2));
    let info = store.info("a").await.unwrap().unwrap();
    assert_eq!(versions_of_info(&info.content), ["1", "2", "3"]);
    assert_eq!(&store.info("b").await.unwrap().unwrap().content[..], b"---\n");
    assert_consistent(&store).await;
}

pub(super) async fn names_that_no_gem_has_are_not_found(store: impl Store) {
    store.push(new("a", "1"), NOW).await.unwrap();
    for name in ["", "A", "a\0", "\0-1", "a' OR true --", "ä", &"x".repeat(10_000)] {
        assert_eq!(store.info(name).await.unwrap(), None, "{name:?}");
        let found = store.fragments(&[name, "a", name]).await.unwrap();
        assert_eq!(found.len(), 1, "{name:?}");
        let full_name = format!("{name}-1");
        assert_eq!(store.file(&full_name).await.unwrap(), None, "{name:?}");
        assert_eq!(store.gemspec(&full_name).await.unwrap(), None, "{name:?}");
    }
    let names = ["b", "a", "c"];
    store.push(new("c", "1"), NOW).await.unwrap();
    let found = store.fragments(&names).await.unwrap();
    let found: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(found, ["a", "c"]);
    assert!(store.fragments(&[]).await.unwrap().is_empty());
}

pub(super) async fn pages_go_over_all_gems(store: impl Store) {
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        store.push(new(name, "1"), NOW).await.unwrap();
    }
    for size in [1, 2, 5, 6] {
        let (mut seen, mut from) = (Vec::new(), Some(0));
        while let Some(start) = from {
            let page = store.fragment_page(start, size).await.unwrap();
            assert!(page.gems.len() <= size);
            seen.extend(page.gems.into_iter().map(|(name, _)| name));
            from = page.next;
        }
        assert_eq!(seen, names, "pages of {size}");
    }
}

pub(super) async fn a_rebaseline_says_the_same_in_fewer_lines(store: impl Store) {
    for version in ["1", "2", "3", "4-java"] {
        store.push(new("shop", version), NOW).await.unwrap();
    }
    store.push(new("gone", "1"), NOW).await.unwrap();
    for (name, version) in [("shop", "2"), ("gone", "1")] {
        store.yank(&name.parse().unwrap(), &identity(version), NOW).await.unwrap();
    }
    let before = store.text(TextKind::Versions).await.unwrap();
    let later = NOW + Duration::from_secs(1);
    store.rebaseline(later).await.unwrap();
    let after = store.text(TextKind::Versions).await.unwrap();
    assert!(after.generation > before.generation);
    let text = String::from_utf8(after.to_vec()).unwrap();
    assert!(text.starts_with("created_at: 2023-11-14T22:13:21Z\n---\nshop 1,3,4-java "), "{text}");
    assert_eq!(text.lines().count(), 3);
    assert_consistent(&store).await;
    // And it grows again.
    store.push(new("shop", "5"), NOW).await.unwrap();
    assert_consistent(&store).await;
}

pub(super) async fn queries_are_measured_by_their_names(store: impl FullStore) {
    let mut registry = Registry::default();
    store.register_metrics(&mut registry);
    store.push(new("shop", "1"), NOW).await.unwrap();
    for _ in 0..2 {
        store.info("shop").await.unwrap().unwrap();
    }
    assert!(store.push(new("shop", "1"), NOW).await.is_err());
    assert!(!store.remove_key(1).await.unwrap());
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for (query, count) in [("push", 2), ("info", 2), ("remove_key", 1)] {
        let line = format!("weir_gems_query_seconds_count{{query=\"{query}\"}} {count}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}
