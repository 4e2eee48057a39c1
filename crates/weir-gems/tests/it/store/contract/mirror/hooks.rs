//! Webhooks of upstreams, until they are processed.

use std::time::Duration;

use weir_gems::store::mirror::{HookKind, Inbox, MirrorStore, NewHook};

use super::name;
use crate::store::{NOW, identity};

pub(crate) async fn hooks_wait_in_their_order(store: impl MirrorStore) {
    let hook = |version: &str, kind| NewHook {
        upstream: "one".to_owned(),
        kind,
        name: name("shop"),
        identity: identity(version),
        received_at: NOW,
    };
    assert_eq!(store.next_hook("one").await.unwrap(), None);
    let hooks = vec![hook("1.0", HookKind::Added), hook("1.0-java", HookKind::Removed)];
    assert_eq!(store.take_hooks(hooks.clone(), 3).await.unwrap(), Inbox::Taken);
    // All of them are added, or none.
    assert_eq!(store.take_hooks(hooks.clone(), 3).await.unwrap(), Inbox::Full);
    assert_eq!(
        store.take_hooks(vec![hook("2.0", HookKind::Added)], 3).await.unwrap(),
        Inbox::Taken
    );
    assert_eq!(
        (store.waiting_hooks().await.unwrap(), store.next_hook("one").await.unwrap()),
        (3, Some(NOW))
    );
    assert_eq!(store.due_hooks("one", NOW - Duration::from_secs(1), 9).await.unwrap(), []);
    let due = store.due_hooks("one", NOW, 9).await.unwrap();
    let seen: Vec<_> = due.iter().map(|it| it.hook.clone()).collect();
    assert_eq!(seen, [&hooks[..], &[hook("2.0", HookKind::Added)]].concat());
    let ids: Vec<_> = due.iter().map(|it| it.id).collect();
    assert!(ids.is_sorted());
    assert_eq!(store.due_hooks("one", NOW, 1).await.unwrap()[0].id, ids[0]);
    let later = NOW + Duration::from_secs(5);
    store.settle_hooks(vec![ids[1]], vec![(ids[0], later)]).await.unwrap();
    let due = store.due_hooks("one", NOW, 9).await.unwrap();
    assert_eq!(due.iter().map(|it| it.id).collect::<Vec<_>>(), [ids[2]]);
    let due = store.due_hooks("one", later, 9).await.unwrap();
    assert_eq!(
        due.iter().map(|it| (it.id, it.attempts)).collect::<Vec<_>>(),
        [(ids[0], 1), (ids[2], 0)]
    );
    store.settle_hooks(ids, Vec::new()).await.unwrap();
    assert_eq!(store.waiting_hooks().await.unwrap(), 0);
}

pub(crate) async fn hooks_of_each_upstream_are_apart(store: impl MirrorStore) {
    let hook = |upstream: &str, seconds| NewHook {
        upstream: upstream.to_owned(),
        kind: HookKind::Added,
        name: name("shop"),
        identity: identity("1.0"),
        received_at: NOW + Duration::from_secs(seconds),
    };
    let hooks = vec![hook("one", 0), hook("one", 1), hook("two", 2), hook("former", 0)];
    assert_eq!(store.take_hooks(hooks, 9).await.unwrap(), Inbox::Taken);
    let later = NOW + Duration::from_secs(9);
    for (upstream, due, next) in [("one", 2, Some(0)), ("two", 1, Some(2)), ("three", 0, None)] {
        let found = store.due_hooks(upstream, later, 9).await.unwrap();
        assert!(found.len() == due && found.iter().all(|it| it.hook.upstream == upstream));
        let next = next.map(|seconds| NOW + Duration::from_secs(seconds));
        assert_eq!(store.next_hook(upstream).await.unwrap(), next, "{upstream}");
    }
    let known = || vec!["two".to_owned(), "one".to_owned(), "three".to_owned()];
    assert_eq!(store.drop_hooks_of_others(known()).await.unwrap(), 1);
    assert_eq!(store.drop_hooks_of_others(known()).await.unwrap(), 0);
    assert_eq!(store.waiting_hooks().await.unwrap(), 3);
}
