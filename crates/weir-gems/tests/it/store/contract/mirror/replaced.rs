//! Releases whose upstream has replaced the file.

use std::time::Duration;

use weir_gems::release::Checksum;
use weir_gems::store::mirror::{Applied, MirrorStore, MirroredGem, ReplacedRelease};

use super::{gem, mirror, name, noted, pending, versions};
use crate::store::{NOW, assert_consistent, identity};

/// Returns a gem of an upstream. Each version has its own file, identified by a byte.
fn shop(md5: u8, files: &[(&str, u8)]) -> MirroredGem {
    let versions: Vec<_> = files.iter().map(|(version, _)| *version).collect();
    let mut gem = gem("shop", md5, &versions);
    for (release, (_, sum)) in gem.releases.iter_mut().zip(files) {
        release.checksum = Checksum([*sum; 32]);
    }
    gem
}

/// Returns which file is served for each version.
async fn served(store: &(impl MirrorStore + ?Sized)) -> Vec<(String, u8)> {
    let mut all = Vec::new();
    for version in versions(store, "shop").await {
        let file = store.mirrored(&format!("shop-{version}")).await.unwrap().unwrap();
        all.push((version, file.checksum.0[0]));
    }
    all
}

fn told(all: &[(&str, u8)]) -> Vec<(String, u8)> {
    all.iter().map(|(version, sum)| ((*version).to_owned(), *sum)).collect()
}

pub(crate) async fn another_file_of_a_known_version_waits_for_an_operator(store: impl MirrorStore) {
    mirror(&store, "one", shop(1, &[("1.0", 1), ("1.0-java", 1), ("2.0", 1)])).await;
    mirror(&store, "two", gem("other", 1, &["1.0"])).await;
    // New versions are accepted at the same time.
    let next = shop(2, &[("1.0", 9), ("1.0-java", 1), ("2.0", 1), ("3.0", 1)]);
    let applied: Applied = mirror(&store, "one", next.clone()).await;
    assert_eq!((applied.kept_out, applied.added, applied.changed), (1, 1, 0));
    let first = told(&[("1.0", 1), ("1.0-java", 1), ("2.0", 1), ("3.0", 1)]);
    assert_eq!(served(&store).await, first);
    let expected = ReplacedRelease {
        name: name("shop"),
        identity: identity("1.0"),
        pinned: Checksum([1; 32]),
        offered: Checksum([9; 32]),
        since: NOW,
    };
    assert_eq!(store.replaced("one", 9).await.unwrap(), std::slice::from_ref(&expected));
    assert_eq!(store.counts("one").await.unwrap().replaced, 1);
    assert_eq!(store.replaced("two", 9).await.unwrap(), []);
    assert_eq!(store.counts("two").await.unwrap().replaced, 0);
    // It is reported once, however often it is seen.
    let later = NOW + Duration::from_secs(9);
    store.apply("one", vec![next.clone()], later).await.unwrap();
    assert_eq!(store.replaced("one", 9).await.unwrap(), std::slice::from_ref(&expected));
    assert_eq!(pending(&store, "one").await, [""; 0]);
    assert_consistent(&store).await;

    // Nothing else can be accepted.
    for (gem, version) in [("shop", "2.0"), ("shop", "1.0-java"), ("other", "1.0"), ("nobody", "1")]
    {
        assert_eq!(store.accept(&name(gem), &identity(version)).await.unwrap(), None);
    }
    let accepted = store.accept(&name("shop"), &identity("1.0")).await.unwrap();
    assert_eq!(accepted, Some(expected));
    assert_eq!(store.replaced("one", 9).await.unwrap(), []);
    // The next synchronization takes this file, and no other.
    assert_eq!(pending(&store, "one").await, ["shop"]);
    store.apply("one", vec![shop(3, &[("1.0", 8)])], later).await.unwrap();
    let replaced = store.replaced("one", 9).await.unwrap().remove(0);
    assert_eq!((replaced.offered, replaced.since), (Checksum([8; 32]), later));
    let applied = store.apply("one", vec![next], later).await.unwrap();
    assert_eq!((applied.kept_out, applied.changed), (0, 1));
    let accepted = told(&[("1.0", 9), ("1.0-java", 1), ("2.0", 1), ("3.0", 1)]);
    assert_eq!(served(&store).await, accepted);
    assert_eq!(store.replaced("one", 9).await.unwrap(), []);
    assert_consistent(&store).await;
}

pub(crate) async fn a_version_that_goes_and_comes_has_the_file_that_it_had(
    store: impl MirrorStore,
) {
    mirror(&store, "one", shop(1, &[("1.0", 1), ("2.0", 1)])).await;
    mirror(&store, "one", shop(2, &[("2.0", 1)])).await;
    mirror(&store, "one", shop(3, &[("1.0", 9), ("2.0", 1)])).await;
    assert_eq!(served(&store).await, told(&[("2.0", 1)]));
    assert_eq!(store.replaced("one", 9).await.unwrap().len(), 1);
    // The upstream withdraws the release.
    mirror(&store, "one", shop(4, &[("2.0", 1)])).await;
    assert_eq!(store.replaced("one", 9).await.unwrap(), []);
    mirror(&store, "one", shop(5, &[("1.0", 1), ("2.0", 1)])).await;
    assert_eq!(served(&store).await, told(&[("1.0", 1), ("2.0", 1)]));
    // Nor does another upstream bring another file, whether it takes the name over ..
    mirror(&store, "two", shop(1, &[("1.0", 9), ("2.0", 1)])).await;
    assert_eq!(served(&store).await, told(&[("1.0", 1), ("2.0", 1)]));
    assert_eq!(store.replaced("one", 9).await.unwrap(), []);
    assert_eq!(store.replaced("two", 9).await.unwrap().len(), 1);
    // .. or it is given to it after it was taken away.
    store.delete_mirrored(vec![name("shop")]).await.unwrap();
    assert_eq!(store.replaced("two", 9).await.unwrap(), []);
    mirror(&store, "one", shop(6, &[("1.0", 9), ("2.0", 9)])).await;
    assert_eq!(served(&store).await, []);
    mirror(&store, "one", shop(7, &[("1.0", 9), ("2.0", 1)])).await;
    assert_eq!(served(&store).await, told(&[("2.0", 1)]));
    assert_consistent(&store).await;
    let accepted = store.accept(&name("shop"), &identity("1.0")).await.unwrap();
    assert!(accepted.is_some());
    mirror(&store, "one", shop(7, &[("1.0", 9), ("2.0", 1)])).await;
    assert_eq!(served(&store).await, told(&[("1.0", 9), ("2.0", 1)]));
    assert_consistent(&store).await;
}

/// Checks a store that was filled before checksums were pinned, and was then migrated.
pub(crate) async fn what_is_here_is_what_was_first(store: &(impl MirrorStore + ?Sized)) {
    store.note("one", vec![noted("shop", 2)], None).await.unwrap();
    mirror(store, "one", shop(2, &[("1.0", 9), ("2.0", 1)])).await;
    assert_eq!(served(store).await, told(&[("1.0", 1), ("2.0", 1)]));
    assert_eq!(store.replaced("one", 9).await.unwrap().len(), 1);
    assert_consistent(store).await;
}

/// Fills a store of an earlier format.
pub(crate) async fn before(store: &(impl MirrorStore + ?Sized)) {
    mirror(store, "one", shop(1, &[("1.0", 1)])).await;
}
