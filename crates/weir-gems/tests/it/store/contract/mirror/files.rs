//! Files of mirrored releases.

use weir_gems::release::Checksum;
use weir_gems::store::mirror::{MirrorStore, MirroredFile, Presence};

use super::{gem, mirror, name};
use crate::store::{NOW, assert_consistent, identity, new};

pub(crate) async fn origins_and_missing_files_come_in_pages(store: impl MirrorStore) {
    for text in ["a", "b", "c", "d", "e"] {
        mirror(&store, "one", gem(text, 1, &["1.0", "2.0"])).await;
    }
    store.push(new("local", "1.0"), NOW).await.unwrap();
    mirror(&store, "two", gem("other", 1, &["1.0"])).await;
    for size in [1, 2, 3, 6, 7] {
        let (mut origins, mut files) = (Vec::new(), Vec::new());
        let mut next = Some(0);
        while let Some(from) = next {
            let page = store.origins(from, size).await.unwrap();
            origins.extend(page.names.into_iter().map(|(name, _)| name.to_string()));
            next = page.next;
        }
        let mut next = Some(0);
        while let Some(from) = next {
            let page = store.missing_files("one", from, size).await.unwrap();
            files
                .extend(page.releases.into_iter().map(|it| format!("{}-{}", it.name, it.identity)));
            next = page.next;
        }
        files.sort_unstable();
        assert_eq!(origins, ["a", "b", "c", "d", "e", "other"], "pages of {size}");
        assert_eq!(files.len(), 10, "pages of {size}");
        files.dedup();
        assert_eq!(files.len(), 10, "pages of {size}");
    }
}

pub(crate) async fn a_kept_file_belongs_to_its_checksum(store: impl MirrorStore) {
    mirror(&store, "one", gem("shop", 1, &["1.0-java"])).await;
    let release = store.mirrored("shop-1.0-java").await.unwrap().unwrap();
    assert_eq!((release.bytes, store.file("shop-1.0-java").await.unwrap()), (None, None));
    let file =
        |bytes| MirroredFile { bytes, specification: Some((b"rz".to_vec(), "{}".to_owned())) };
    let mut other = release.clone();
    other.checksum = Checksum([1; 32]);
    store.keep_file(&other, file(5)).await.unwrap();
    assert_eq!(store.gemspec("shop-1.0-java").await.unwrap(), None);
    store.keep_file(&release, file(7)).await.unwrap();
    assert_eq!(store.file("shop-1.0-java").await.unwrap().unwrap().bytes, 7);
    assert_eq!(store.gemspec("shop-1.0-java").await.unwrap().as_deref(), Some(&b"rz"[..]));
    let kept = store.mirrored("shop-1.0-java").await.unwrap().unwrap();
    assert_eq!(kept.bytes, Some(7));
    assert_eq!(store.missing_files("one", 0, 9).await.unwrap().releases, []);
    // A lost file is to be fetched again.
    store.forget_file(&other).await.unwrap();
    assert_eq!(store.mirrored("shop-1.0-java").await.unwrap().unwrap().bytes, Some(7));
    store.forget_file(&kept).await.unwrap();
    assert_eq!(store.file("shop-1.0-java").await.unwrap(), None);
    let missing = store.missing_files("one", 0, 9).await.unwrap().releases;
    assert_eq!(missing.first(), Some(&release));
    store.keep_file(&release, file(7)).await.unwrap();
    // A changed release has no file yet once it is accepted.
    let mut changed = gem("shop", 2, &["1.0-java"]);
    changed.releases[0].checksum = Checksum([2; 32]);
    mirror(&store, "one", changed.clone()).await;
    assert_eq!(store.file("shop-1.0-java").await.unwrap().unwrap().bytes, 7);
    store.accept(&name("shop"), &identity("1.0-java")).await.unwrap().unwrap();
    mirror(&store, "one", changed).await;
    assert_eq!(store.file("shop-1.0-java").await.unwrap(), None);
    assert_eq!(store.gemspec("shop-1.0-java").await.unwrap(), None);
    assert_eq!(store.missing_files("one", 0, 9).await.unwrap().releases.len(), 1);
    let presence =
        async |version: &str| store.presence(&name("shop"), &identity(version)).await.unwrap();
    assert_eq!(presence("1.0-java").await, Presence::Served);
    assert_eq!(presence("1.0").await, Presence::Absent);
    store.yank(&name("shop"), &identity("1.0-java"), NOW).await.unwrap();
    assert_eq!(presence("1.0-java").await, Presence::Yanked);
    assert_consistent(&store).await;
}
