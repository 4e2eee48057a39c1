//! Sends webhooks to a real receiver.

mod receiver;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use weir_base::clock::Clock;
use weir_base::secret::Secret;
use weir_base::shutdown::ShutdownToken;
use weir_gems::store::webhooks::{Change, WebhookStore};
use weir_gems::store::{GemStore, SqliteStore};
use weir_gems::webhooks::{
    WebhookEndpoint, WebhookMetrics, WebhookParts, WebhookSender, WebhookSettings,
};

use self::receiver::{Got, PATIENCE, Receiver};
use crate::store::{NOW, identity, new, postgres_place, settings, sqlite};

/// A running sender.
struct Running {
    shutdown: ShutdownToken,
    task: JoinHandle<()>,
    clock: Clock,
    registry: Registry,
}

impl Running {
    fn start(store: &Arc<GemStore>, settings: WebhookSettings, clock: &Clock) -> Self {
        let (shutdown, mut registry) = (ShutdownToken::new(), Registry::default());
        let parts = WebhookParts {
            store: Arc::clone(store),
            settings,
            clock: clock.clone(),
            metrics: WebhookMetrics::register(&mut registry),
            shutdown: shutdown.clone(),
        };
        let sender = WebhookSender::new(parts).unwrap();
        let task = shutdown.spawn(sender.run());
        Self { shutdown, task, clock: clock.clone(), registry }
    }

    async fn end(self) {
        self.shutdown.request();
        self.task.await.unwrap();
    }

    /// Stops the sender as if its process were killed.
    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    fn metric(&self, name: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let start = format!("weir_gems_webhook_{name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
    }

    /// Advances the clock in steps until a condition is met.
    async fn until(&self, step: Duration, is_so: impl AsyncFn() -> bool) {
        let passing = async {
            while !is_so().await {
                self.clock.advance(step);
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, passing).await.expect("it becomes so");
    }
}

fn to(receivers: &[(&str, &Receiver)]) -> WebhookSettings {
    let endpoint = |(name, receiver): &(&str, &Receiver)| {
        let mut endpoint = WebhookEndpoint::new(*name, receiver.url(), Secret::new("secret"));
        endpoint.api_key = Some(Secret::new("key"));
        endpoint
    };
    WebhookSettings {
        endpoints: receivers.iter().map(endpoint).collect(),
        public_url: Some("https://gems.example".to_owned()),
        poll_interval: Duration::from_millis(2),
        ..WebhookSettings::default()
    }
}

/// Waits until the store knows the endpoints.
async fn listening(store: &(impl WebhookStore + ?Sized), endpoints: usize) {
    let coming = async {
        while store.webhook_endpoints().await.unwrap().len() < endpoints {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, coming).await.expect("a sender begins");
}

fn versions(got: &[Got]) -> Vec<String> {
    got.iter()
        .map(|got| format!("{} {}", got.header("x-weir-event"), got.json["version"]))
        .collect()
}

async fn pushes_and_yanks_arrive_signed(store: Arc<GemStore>) {
    let receiver = Receiver::start().await;
    let clock = Clock::manual(NOW);
    let running = Running::start(&store, to(&[("ci", &receiver)]), &clock);
    listening(&**store, 1).await;
    store.push(new("shop", "1.0-java"), NOW).await.unwrap();
    store.yank(&"shop".parse().unwrap(), &identity("1.0-java"), NOW).await.unwrap();
    let got = receiver.got(2).await;
    assert_eq!(versions(&got), ["push \"1.0\"", "yank \"1.0\""]);
    for got in &got {
        assert_eq!(got.header("x-weir-signature"), got.hmac("secret"));
        assert_eq!(got.header("authorization"), receiver::sha256("shop1.0key"));
        assert_eq!(got.header("content-type"), "application/json");
        assert_eq!(got.json["name"], "shop");
        assert_eq!(got.json["platform"], "java");
        assert_eq!(got.json["gem_uri"], "https://gems.example/gems/shop-1.0-java.gem");
    }
    assert_eq!((&got[0].json["yanked"], &got[1].json["yanked"]), (&false.into(), &true.into()));
    running.until(Duration::ZERO, async || waiting(&**store).await == 0).await;
    assert_eq!((running.metric("events_sent_total"), running.metric("attempts_total")), (2, 2));
    running.end().await;
}

async fn waiting(store: &(impl WebhookStore + ?Sized)) -> u64 {
    store.webhook_endpoints().await.unwrap().iter().map(|state| state.waiting).sum()
}

#[tokio::test]
async fn sqlite_tells_of_pushes_and_yanks() {
    let (_folder, store) = sqlite();
    pushes_and_yanks_arrive_signed(Arc::new(store.into())).await;
}

#[tokio::test]
async fn postgres_tells_of_pushes_and_yanks() {
    let Some(place) = postgres_place() else { return };
    pushes_and_yanks_arrive_signed(Arc::new(place.store().into())).await;
}

#[tokio::test]
async fn what_another_process_pushed_is_sent_too() {
    let Some(place) = postgres_place() else { return };
    let (receiver, clock) = (Receiver::start().await, Clock::manual(NOW));
    let store = Arc::new(GemStore::from(place.store()));
    // With two sending processes, and one that only pushes, no event arrives twice.
    let settings = to(&[("ci", &receiver)]);
    let running =
        [(); 2].map(|()| Running::start(&Arc::new(place.store().into()), settings.clone(), &clock));
    listening(&**store, 1).await;
    for number in 0..20 {
        store.push(new("shop", &number.to_string()), NOW).await.unwrap();
    }
    let got = receiver.got(20).await;
    let expected: Vec<_> = (0..20).map(|number| format!("push \"{number}\"")).collect();
    assert_eq!(versions(&got), expected);
    running[0].until(Duration::ZERO, async || waiting(&**store).await == 0).await;
    let sent: u64 = running.iter().map(|it| it.metric("events_sent_total")).sum();
    assert_eq!(sent, 20);
    for running in running {
        running.end().await;
    }
}

fn store() -> (tempfile::TempDir, Arc<GemStore>) {
    let (folder, store) = sqlite();
    (folder, Arc::new(store.into()))
}

#[tokio::test]
async fn order_is_kept_over_failures_and_others_do_not_wait() {
    let (_folder, store) = store();
    let (failing, fine) = (Receiver::start().await, Receiver::start().await);
    failing.answer_with(&[500, 301, 503]);
    let clock = Clock::manual(NOW);
    let running = Running::start(&store, to(&[("failing", &failing), ("fine", &fine)]), &clock);
    listening(&**store, 2).await;
    for version in ["1", "2", "3"] {
        store.push(new("shop", version), NOW).await.unwrap();
    }
    // The clock stands still, so the failing endpoint gets only one attempt.
    assert_eq!(fine.got(3).await.len(), 3);
    assert_eq!(failing.got(1).await.len(), 1);
    let second = Duration::from_secs(1);
    running.until(second, async || waiting(&**store).await == 0).await;
    let all = failing.got(6).await;
    let pushed = ["1", "1", "1", "1", "2", "3"].map(|version| format!("push \"{version}\""));
    assert_eq!(versions(&all), pushed);
    // All attempts at an event are equal.
    assert_eq!(all[0].header("x-weir-delivery"), all[3].header("x-weir-delivery"));
    assert_eq!(all[0].header("x-weir-signature"), all[3].header("x-weir-signature"));
    assert_eq!(running.metric("attempts_failed_total{reason=\"status\"}"), 3);
    running.end().await;
}

#[tokio::test]
async fn what_is_tried_for_too_long_is_given_up() {
    let (_folder, store) = store();
    let receiver = Receiver::start().await;
    receiver.answer_with(&[500; 10_000]);
    let clock = Clock::manual(NOW);
    let running = Running::start(&store, to(&[("ci", &receiver)]), &clock);
    listening(&**store, 1).await;
    store.push(new("shop", "1"), NOW).await.unwrap();
    let step = Duration::from_secs(600);
    let given_up = "events_dropped_total{reason=\"retry_for\"}";
    running.until(step, async || running.metric(given_up) == 1).await;
    assert_eq!(waiting(&**store).await, 0);
    assert!(running.metric("attempts_total") > 5);
    receiver.answer_with(&[]);
    store.push(new("shop", "2"), running.clock.now()).await.unwrap();
    running.until(step, async || waiting(&**store).await == 0).await;
    assert_eq!(versions(&receiver.all()).last().unwrap(), "push \"2\"");
    running.end().await;
}

#[tokio::test]
async fn what_was_not_sent_when_a_process_was_killed_is_sent_by_the_next() {
    let (folder, store) = store();
    let receiver = Receiver::start().await;
    let clock = Clock::manual(NOW);
    let running = Running::start(&store, to(&[("ci", &receiver)]), &clock);
    listening(&**store, 1).await;
    receiver.hold();
    for version in ["1", "2", "3"] {
        store.push(new("shop", version), NOW).await.unwrap();
    }
    // It has received the first event, and has not responded.
    assert_eq!(receiver.got(1).await.len(), 1);
    running.kill().await;
    drop(store);
    receiver.go_on();
    let sqlite = SqliteStore::open(&settings(&folder), NOW).unwrap();
    let store = Arc::new(GemStore::from(sqlite));
    store.push(new("shop", "4"), NOW).await.unwrap();
    let running = Running::start(&store, to(&[("ci", &receiver)]), &clock);
    running.until(Duration::from_secs(1), async || waiting(&**store).await == 0).await;
    let expected = ["1", "1", "2", "3", "4"].map(|version| format!("push \"{version}\""));
    assert_eq!(versions(&receiver.all()), expected);
    running.end().await;
}

#[tokio::test]
async fn an_end_waits_for_the_answer_and_lets_go() {
    let (_folder, store) = store();
    let receiver = Receiver::start().await;
    let clock = Clock::manual(NOW);
    let running = Running::start(&store, to(&[("ci", &receiver)]), &clock);
    listening(&**store, 1).await;
    receiver.hold();
    store.push(new("shop", "1"), NOW).await.unwrap();
    store.push(new("shop", "2"), NOW).await.unwrap();
    assert_eq!(receiver.got(1).await.len(), 1);
    running.shutdown.request();
    receiver.go_on();
    running.end().await;
    let state = &store.webhook_endpoints().await.unwrap()[0];
    // The first event was delivered, and no sender holds the endpoint.
    assert_eq!((state.waiting, state.held_until), (1, None));
}

#[tokio::test]
async fn an_endpoint_is_told_what_it_wants() {
    let (_folder, store) = store();
    let receiver = Receiver::start().await;
    let clock = Clock::manual(NOW);
    let mut settings = to(&[("ci", &receiver)]);
    settings.endpoints[0].events = vec![Change::Yanked];
    settings.endpoints[0].gems = vec!["shop-*".parse().unwrap()];
    let running = Running::start(&store, settings, &clock);
    listening(&**store, 1).await;
    for name in ["shop-a", "shop", "shop-b"] {
        store.push(new(name, "1"), NOW).await.unwrap();
        store.yank(&name.parse().unwrap(), &identity("1"), NOW).await.unwrap();
    }
    running.until(Duration::ZERO, async || waiting(&**store).await == 0).await;
    let names: Vec<_> = receiver.all().iter().map(|got| got.json["name"].clone()).collect();
    assert_eq!(names, ["shop-a", "shop-b"]);
    assert_eq!(running.metric("events_unwanted_total"), 4);
    running.end().await;
}
