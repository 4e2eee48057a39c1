//! A mirror's data in Postgres: tests of particular failure modes.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use weir_gems::store::mirror::{
    HookKind, Inbox, MirrorStore, MirroredGem, NewHook, Noted, Position,
};
use weir_gems::store::{PostgresLimits, PostgresStore, Store, StoreError};

use super::failing::Behind;
use super::proxy::Mode;
use super::{Place, open, postgres, server};
use crate::store::contract::{assert_consistent, mirror};
use crate::store::{NOW, identity, new, release};

const SOON: Duration = Duration::from_millis(300);
/// Maximum number of retries if a busy machine reaches a short limit.
const ATTEMPTS_MAX: usize = 20;

fn gem(name: &str, md5: u8, version: &str) -> MirroredGem {
    let noted = Noted { name: name.parse().unwrap(), md5: Some([md5; 16]) };
    let releases = vec![release(version, "")];
    MirroredGem { noted, releases, is_invited: false, earlier: Arc::default() }
}

fn hook(version: usize) -> NewHook {
    NewHook {
        upstream: "one".to_owned(),
        kind: HookKind::Added,
        name: "shop".parse().unwrap(),
        identity: identity(&format!("{version}")),
        received_at: NOW,
    }
}

#[tokio::test]
async fn whatever_is_mirrored_a_client_that_fetches_tails_knows_it() {
    if server().is_some() {
        mirror::histories(|| postgres().unwrap()).await;
    }
}

#[tokio::test]
async fn tables_of_the_format_before_are_taken_over() {
    let Some((place, store)) = postgres() else { return };
    store.push(new("shop", "1"), NOW).await.unwrap();
    drop(store);
    place
        .tamper(
            "DROP TABLE upstreams; DROP TABLE upstream_gems; DROP TABLE origins; DROP TABLE hooks;
             DROP TABLE downloads; DROP TABLE mirror_policy; DROP TABLE pins;
             DROP TABLE replaced_releases;
             DELETE FROM formats WHERE version >= 3",
        )
        .await;
    let store = place.store();
    // What was there is local.
    let applied = store.apply("one", vec![gem("shop", 1, "99.0")], NOW).await.unwrap();
    assert_eq!((applied.gems, applied.refused), (0, 1));
    assert!(store.file("shop-1").await.unwrap().is_some());
    store.push(new("shop", "2"), NOW).await.unwrap();
    assert_consistent(&store).await;
    mirror::digests_are_of_what_is_noted(store).await;
}

#[tokio::test]
async fn all_write_at_once_and_nobody_waits_for_ever() {
    const ROUNDS: usize = 20;
    let Some(place) = Place::new() else { return };
    // Two processes write at the same time.
    let stores = [place.store(), place.store()];
    let mut writing = JoinSet::new();
    for round in 0..ROUNDS {
        for (index, store) in stores.iter().enumerate() {
            let store = store.clone();
            writing.spawn(async move { apply(&store, round, index).await });
        }
        let store = stores[round % 2].clone();
        writing.spawn(async move {
            store.push(new("local", &format!("{round}")), NOW).await.unwrap();
        });
        let store = stores[round % 2].clone();
        writing.spawn(async move {
            assert_eq!(store.take_hooks(vec![hook(round)], 1_000).await.unwrap(), Inbox::Taken);
            let due = store.due_hooks("one", NOW, 1).await.unwrap();
            let done = due.iter().map(|it| it.id).collect();
            store.settle_hooks(done, Vec::new()).await.unwrap();
        });
    }
    writing.join_all().await;
    let metrics = place.client().await;
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let row = metrics.0.query_one(deadlocks, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
    for store in &stores {
        assert_consistent(store).await;
    }
}

/// Applies the same names in varying order, so that rows are locked in varying order.
async fn apply(store: &PostgresStore, round: usize, index: usize) {
    let mut gems: Vec<_> = (0..20)
        .map(|number| gem(&format!("gem{number}"), 1, &format!("{round}.{index}")))
        .collect();
    fastrand::Rng::with_seed((round * 2 + index) as u64).shuffle(&mut gems);
    let noted = gems.iter().map(|it| it.noted.clone()).collect();
    store.note("one", noted, None).await.unwrap();
    store.apply("one", gems, NOW).await.unwrap();
}

#[tokio::test]
async fn webhooks_are_taken_while_gems_are_written() {
    let Some(place) = Place::new() else { return };
    let mut settings = place.settings();
    settings.limits.write_timeout = SOON;
    place.store().push(new("shop", "1"), NOW).await.unwrap();
    let store = open(&settings);
    store.prepare().await.unwrap();
    // Hold the lock as an import does.
    let writer = place.client().await;
    let lock = "SELECT pg_advisory_lock(2003134721, hashtext(current_schema()))";
    writer.0.batch_execute(lock).await.unwrap();
    let refused = store.note("one", vec![gem("a", 1, "1").noted], None).await;
    assert!(matches!(refused, Err(StoreError::Late { .. })), "{refused:?}");
    let mut taken = store.take_hooks(vec![hook(1)], u64::MAX).await;
    for _ in 0..ATTEMPTS_MAX {
        if taken.is_ok() {
            break;
        }
        taken = store.take_hooks(vec![hook(1)], u64::MAX).await;
    }
    assert_eq!(taken.unwrap(), Inbox::Taken);
    assert!(store.waiting_hooks().await.unwrap() > 0);
}

#[tokio::test]
async fn what_was_not_committed_is_still_to_be_done() {
    let Some(behind) = Behind::with(PostgresLimits::default()).await else { return };
    let position =
        Position { length: 7, digest_state: vec![1], overlap: b"x".to_vec(), etag: None };
    let gems = || vec![gem("a", 1, "1"), gem("b", 1, "1")];
    let noted = || gems().into_iter().map(|it| it.noted).collect();
    behind.proxy.set(Mode::LoseCommit);
    assert!(behind.store.note("one", noted(), Some(position.clone())).await.is_err());
    assert_eq!(behind.direct.position("one").await.unwrap(), None);
    assert_eq!(behind.direct.pending("one", 0, 9).await.unwrap(), []);
    behind.store.note("one", noted(), Some(position.clone())).await.unwrap();
    behind.proxy.set(Mode::LoseCommit);
    assert!(behind.store.apply("one", gems(), NOW).await.is_err());
    assert_eq!(behind.direct.position("one").await.unwrap(), Some(position));
    assert_eq!(behind.direct.pending("one", 0, 9).await.unwrap().len(), 2);
    assert_eq!(behind.direct.info("a").await.unwrap(), None);
    assert_consistent(&behind.direct).await;
    // The commit succeeded without a reply, so it is repeated, which changes nothing.
    behind.proxy.set(Mode::LoseAnswer);
    assert!(behind.store.apply("one", gems(), NOW).await.is_err());
    assert_eq!(behind.direct.pending("one", 0, 9).await.unwrap(), []);
    let again = behind.store.apply("one", gems(), NOW).await.unwrap();
    assert_eq!((again.gems, again.added, again.changed), (2, 0, 0));
    assert_consistent(&behind.store).await;
    // A webhook that was not acknowledged is sent again.
    behind.proxy.set(Mode::LoseCommit);
    assert!(behind.store.take_hooks(vec![hook(1)], 9).await.is_err());
    assert_eq!(behind.direct.waiting_hooks().await.unwrap(), 0);
}
