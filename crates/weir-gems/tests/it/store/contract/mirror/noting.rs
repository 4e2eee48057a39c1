//! Recorded lines of upstreams, and which of them are pending.

use std::time::Duration;

use weir_gems::mirror::prefix::{Prefix, PrefixDigest};
use weir_gems::store::mirror::{Gone, LastLooks, MirrorStore, Refusal};

use super::{gem, gone, name, noted, pending, position};
use crate::store::{NOW, assert_consistent};

pub(crate) async fn what_is_noted_is_work_until_it_is_applied(store: impl MirrorStore) {
    assert_eq!(store.position("one").await.unwrap(), None);
    let names = vec![noted("b", 1), noted("a", 1), noted("c", 1)];
    store.note("one", names.clone(), None).await.unwrap();
    assert_eq!(store.position("one").await.unwrap(), None);
    store.note("one", names, Some(position(7))).await.unwrap();
    assert_eq!(store.position("one").await.unwrap(), Some(position(7)));
    // In the order of lines, page by page, separately for each upstream.
    assert_eq!(pending(&store, "one").await, ["b", "a", "c"]);
    assert_eq!(pending(&store, "two").await, [""; 0]);
    let first = store.pending("one", 0, 1).await.unwrap().remove(0);
    let rest = store.pending("one", first.sequence, 9).await.unwrap();
    assert_eq!(rest.iter().map(|it| it.noted.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    store.apply("one", vec![gem("a", 1, &["1.0"]), gem("b", 1, &["1.0"])], NOW).await.unwrap();
    assert_eq!(pending(&store, "one").await, ["c"]);
    // An equal line is not pending; a different one is.
    store.note("one", vec![noted("a", 1), noted("b", 2)], Some(position(9))).await.unwrap();
    assert_eq!(pending(&store, "one").await, ["c", "b"]);
    // An info that was fetched for an earlier line does not settle a later one.
    store.apply("one", vec![gem("b", 1, &["1.0"])], NOW).await.unwrap();
    assert_eq!(pending(&store, "one").await, ["c", "b"]);
    let counts = store.counts("one").await.unwrap();
    assert_eq!((counts.names, counts.pending, counts.refused), (3, 2, 0));
    assert_consistent(&store).await;
}

pub(crate) async fn digests_are_of_what_is_noted(store: impl MirrorStore) {
    store.note("one", vec![noted("aa", 1), noted("ab", 2), noted("a", 3)], None).await.unwrap();
    store.note("one", vec![noted("aa", 4), gone("ab")], None).await.unwrap();
    store.note("two", vec![noted("aa", 9)], None).await.unwrap();
    let digest = |name: &str, md5: u8| {
        let mut digest = PrefixDigest::default();
        digest.add(name, [md5; 16]);
        (Prefix::of(name), digest)
    };
    assert_eq!(store.noted_digests("one").await.unwrap(), [digest("a", 3), digest("aa", 4)]);
    assert_eq!(store.noted("one", Prefix::of("aa")).await.unwrap(), [noted("aa", 4)]);
    assert_eq!(store.noted("one", Prefix::of("a")).await.unwrap(), [noted("a", 3)]);
    assert_eq!(store.noted("one", Prefix::of("ab")).await.unwrap(), []);
    assert_eq!(store.noted_digests("three").await.unwrap(), []);
}

pub(crate) async fn when_looks_came_to_something_is_kept(store: impl MirrorStore) {
    assert_eq!(store.last_looks("one").await.unwrap(), LastLooks::default());
    let looks = LastLooks { complete: Some(NOW), compared: None };
    store.keep_looks("one", looks).await.unwrap();
    assert_eq!(store.last_looks("one").await.unwrap(), looks);
    // Beside what else is known of it.
    store.note("one", vec![noted("shop", 1)], Some(position(7))).await.unwrap();
    let looks = LastLooks { complete: Some(NOW + Duration::from_micros(1)), compared: Some(NOW) };
    store.keep_looks("one", looks).await.unwrap();
    assert_eq!(store.last_looks("one").await.unwrap(), looks);
    assert_eq!(store.position("one").await.unwrap(), Some(position(7)));
    assert_eq!(store.last_looks("two").await.unwrap(), LastLooks::default());
}

pub(crate) async fn what_is_refused_is_no_work_until_it_is_reconsidered(store: impl MirrorStore) {
    store.note("one", vec![noted("a", 1), noted("b", 1)], None).await.unwrap();
    store.note("two", vec![noted("a", 2)], None).await.unwrap();
    let all = store.pending("one", 0, 9).await.unwrap();
    assert_eq!(
        (&*all[0].standing.listed_by, &*all[1].standing.listed_by),
        (&["two".to_owned()][..], &[][..])
    );
    store.refuse("one", vec![(name("a"), Refusal::Shadowed)]).await.unwrap();
    assert_eq!(pending(&store, "one").await, ["b"]);
    assert_eq!(store.refused("one", 9).await.unwrap(), [("a".to_owned(), Refusal::Shadowed)]);
    assert_eq!(store.refused("one", 0).await.unwrap(), []);
    // A new line does not change the rejection.
    store.note("one", vec![noted("a", 3)], None).await.unwrap();
    assert_eq!(pending(&store, "one").await, ["b"]);
    assert_eq!(store.counts("one").await.unwrap().refused, 1);
    store.reconsider().await.unwrap();
    assert_eq!(pending(&store, "one").await, ["b", "a"]);
    assert_eq!(store.counts("one").await.unwrap().refused, 0);
}

pub(crate) async fn what_has_gone_is_counted_for_each_upstream(store: impl MirrorStore) {
    assert_eq!(store.gone("one").await.unwrap(), Gone::default());
    let gone = Gone { since: Some(NOW), names: 7 };
    store.keep_gone("one", gone).await.unwrap();
    assert_eq!(store.gone("one").await.unwrap(), gone);
    assert_eq!(store.gone("two").await.unwrap(), Gone::default());
    store.keep_gone("one", Gone::default()).await.unwrap();
    assert_eq!(store.gone("one").await.unwrap(), Gone::default());
}
