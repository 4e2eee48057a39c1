//! A Postgres server that is slow, full, unavailable, or silent at the worst moment.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::switch::Switches;
use weir_gems::settings::GemsSettings;
use weir_gems::store::{
    PostgresLimits, PostgresMetrics, PostgresStore, PushError, Store, StoreError, TextKind,
};
use weir_gems::{Files, Gems, GemsMetrics, GemsParts};

use super::proxy::{Mode, Proxy};
use super::{Place, metrics_of, settings};
use crate::store::contract::assert_consistent;
use crate::store::{NOW, identity, new};

const SOON: Duration = Duration::from_millis(300);

/// A store behind a proxy, and another one with a direct connection.
pub(super) struct Behind {
    pub(super) proxy: Proxy,
    pub(super) store: PostgresStore,
    pub(super) direct: PostgresStore,
    registry: Registry,
    /// Used to take locks.
    place: Place,
}

impl Behind {
    pub(super) async fn with(limits: PostgresLimits) -> Option<Self> {
        let place = Place::new()?;
        let proxy = Proxy::to(place.server.port).await;
        let url = format!("postgres://weir@127.0.0.1:{}/postgres", proxy.port);
        let mut settings = settings(&url, &place.schema);
        settings.limits = limits;
        let mut registry = Registry::default();
        let metrics = PostgresMetrics::register(&mut registry);
        let store = PostgresStore::open(&settings, Clock::manual(NOW), metrics).unwrap();
        let direct = place.store();
        direct.push(new("first", "1"), NOW).await.unwrap();
        until_done(async || store.prepare().await).await;
        Some(Self { proxy, store, direct, registry, place })
    }

    fn assert_metric(&self, line: &str) {
        let metrics = metrics_of(&self.registry);
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

/// Maximum number of retries if a busy machine reaches a short limit.
const ATTEMPTS_MAX: usize = 100;

#[tokio::test]
async fn a_silent_postgres_costs_so_much_time_and_comes_back() {
    let limits = PostgresLimits {
        connections_max: 2,
        connect_timeout: SOON,
        query_timeout: SOON,
        text_timeout: SOON,
        ..PostgresLimits::default()
    };
    let Some(behind) = Behind::with(limits).await else { return };
    until_done(async || behind.store.info("first").await).await;
    behind.proxy.set(Mode::Swallow);
    let refused = behind.store.info("first").await;
    assert!(matches!(refused, Err(StoreError::Late { .. })), "{refused:?}");
    // New connections fail, too: the proxy accepts them without responding.
    for _ in 0..3 {
        let refused = behind.store.text(TextKind::Versions).await.unwrap_err();
        assert!(
            matches!(refused, StoreError::Late { .. } | StoreError::Unreachable(_)),
            "{refused:?}"
        );
    }
    behind.assert_metric("limit_hits_total{limit=\"connect_timeout\"}");
    behind.proxy.set(Mode::Pass);
    until_done(async || behind.store.info("first").await).await;
    until_done(async || behind.store.text(TextKind::Versions).await).await;
}

async fn until_done<T>(work: impl AsyncFn() -> Result<T, StoreError>) {
    for _ in 0..ATTEMPTS_MAX {
        if work().await.is_ok() {
            return;
        }
    }
    panic!("it did not come back");
}

#[tokio::test]
async fn a_postgres_that_has_gone_is_told_at_once_and_found_again() {
    let Some(behind) = Behind::with(PostgresLimits::default()).await else { return };
    behind.proxy.set(Mode::Refuse);
    for _ in 0..3 {
        let refused = behind.store.info("first").await;
        assert!(matches!(refused, Err(StoreError::Unreachable(_))), "{refused:?}");
        let refused = behind.store.push(new("late", "1"), NOW).await;
        assert!(
            matches!(refused, Err(PushError::Store(StoreError::Unreachable(_)))),
            "{refused:?}"
        );
    }
    behind.proxy.set(Mode::Pass);
    behind.store.push(new("late", "1"), NOW).await.unwrap();
    assert_consistent(&behind.store).await;
}

#[tokio::test]
async fn a_full_pool_refuses_soon() {
    let limits = PostgresLimits {
        connections_max: 1,
        acquire_timeout: SOON,
        query_timeout: Duration::from_secs(60),
        ..PostgresLimits::default()
    };
    let Some(behind) = Behind::with(limits).await else { return };
    let blocker = behind.place.client().await;
    blocker.0.batch_execute("BEGIN; LOCK TABLE infos IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let held = behind.store.info("first");
    let mut held = std::pin::pin!(held);
    tokio::select! {
        biased;
        _ = &mut held => panic!("the table is locked"),
        refused = behind.store.info("first") => {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("gems.postgres.limits.acquire_timeout"), "{text}");
        }
    }
    behind.assert_metric("limit_hits_total{limit=\"acquire_timeout\"} 1\n");
    behind.assert_metric("weir_gems_postgres_connections_in_use 1\n");
    blocker.0.batch_execute("ROLLBACK").await.unwrap();
    assert!(held.await.unwrap().is_some());
    behind.assert_metric("weir_gems_postgres_connections_in_use 0\n");
}

#[tokio::test]
async fn nobody_waits_behind_too_many() {
    let limits = PostgresLimits {
        connections_max: 1,
        waiting_max: 1,
        acquire_timeout: Duration::from_secs(60),
        query_timeout: Duration::from_secs(60),
        ..PostgresLimits::default()
    };
    let Some(behind) = Behind::with(limits).await else { return };
    let blocker = behind.place.client().await;
    blocker.0.batch_execute("BEGIN; LOCK TABLE infos IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let (held, waiting) = (behind.store.info("first"), behind.store.info("first"));
    let (mut held, mut waiting) = (std::pin::pin!(held), std::pin::pin!(waiting));
    tokio::select! {
        biased;
        _ = &mut held => panic!("the table is locked"),
        _ = &mut waiting => panic!("there is one connection"),
        refused = behind.store.info("first") => {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("gems.postgres.limits.waiting_max"), "{text}");
        }
    }
    blocker.0.batch_execute("ROLLBACK").await.unwrap();
    assert!(held.await.unwrap().is_some() && waiting.await.unwrap().is_some());
}

#[tokio::test]
async fn a_write_waits_so_long_for_another() {
    let limits = PostgresLimits { write_timeout: SOON, ..PostgresLimits::default() };
    let Some(behind) = Behind::with(limits).await else { return };
    let blocker = behind.place.client().await;
    blocker.0.batch_execute("BEGIN; LOCK TABLE releases IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let refused = behind.store.push(new("late", "1"), NOW).await;
    assert!(matches!(refused, Err(PushError::Store(StoreError::Late { .. }))), "{refused:?}");
    blocker.0.batch_execute("ROLLBACK").await.unwrap();
    behind.direct.push(new("late", "1"), NOW).await.unwrap();
    assert_consistent(&behind.direct).await;
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_is_looked_up() {
    let limits =
        PostgresLimits { write_timeout: Duration::from_secs(2), ..PostgresLimits::default() };
    let Some(behind) = Behind::with(limits).await else { return };
    for (mode, version) in [(Mode::LoseAnswer, "1"), (Mode::SwallowAnswer, "2")] {
        behind.proxy.set(mode);
        behind.store.push(new("shop", version), NOW).await.unwrap();
        assert!(behind.direct.file(&format!("shop-{version}")).await.unwrap().is_some());
    }
    behind.proxy.set(Mode::LoseAnswer);
    behind.store.yank(&"shop".parse().unwrap(), &identity("1"), NOW).await.unwrap();
    assert!(behind.direct.file("shop-1").await.unwrap().is_none());
    behind.assert_metric("commits_unanswered_total{outcome=\"done\"} 3\n");
    assert_consistent(&behind.store).await;
}

#[tokio::test]
async fn a_push_that_did_not_arrive_is_told() {
    let Some(behind) = Behind::with(PostgresLimits::default()).await else { return };
    behind.proxy.set(Mode::LoseCommit);
    let refused = behind.store.push(new("shop", "1"), NOW).await.unwrap_err();
    assert!(matches!(refused, PushError::Store(StoreError::Unreachable(_))), "{refused:?}");
    assert!(refused.to_string().contains("nothing was changed"), "{refused}");
    assert!(behind.direct.info("shop").await.unwrap().is_none());
    behind.assert_metric("commits_unanswered_total{outcome=\"not_done\"} 1\n");
    behind.store.push(new("shop", "1"), NOW).await.unwrap();
    assert_consistent(&behind.store).await;
}

#[tokio::test]
async fn a_push_of_which_nothing_is_known_is_told_so() {
    let limits =
        PostgresLimits { write_timeout: Duration::from_secs(2), ..PostgresLimits::default() };
    let Some(behind) = Behind::with(limits).await else { return };
    behind.proxy.set(Mode::LoseAnswerAndRefuse);
    let unknown = behind.store.push(new("shop", "1"), NOW).await;
    assert!(matches!(unknown, Err(PushError::Store(StoreError::Unanswered(_)))), "{unknown:?}");
    behind.assert_metric("commits_unanswered_total{outcome=\"unknown\"} 1\n");
    // The change was committed.
    assert!(behind.direct.info("shop").await.unwrap().is_some());
}

#[tokio::test]
async fn clients_are_told_to_come_back() {
    let Some(behind) = Behind::with(PostgresLimits::default()).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let gems = Gems::new(GemsParts {
        store: behind.store.clone().into(),
        files: Files::open(folder.path().join("files")).unwrap(),
        settings: Arc::new(arc_swap::ArcSwap::from_pointee(GemsSettings::default())),
        clock: Clock::manual(NOW),
        metrics: GemsMetrics::register(&mut Registry::default()),
        switches: Arc::new(Switches::default()),
    });
    let status = async |path: &str| {
        let request = Request::builder().uri(path).body(Full::new(Bytes::new())).unwrap();
        let answer = gems.answer(request).await;
        (answer.status().as_u16(), answer.headers().contains_key("retry-after"))
    };
    assert_eq!(status("/info/first").await, (200, false));
    assert_eq!(status("/info/a%00b").await, (404, false));
    behind.proxy.set(Mode::Refuse);
    for path in ["/versions", "/info/first", "/api/v1/dependencies?gems=first", "/gems/first-1.gem"]
    {
        assert_eq!(status(path).await, (503, true), "{path}");
    }
    behind.proxy.set(Mode::Pass);
    assert_eq!(status("/versions").await, (200, false));
}
