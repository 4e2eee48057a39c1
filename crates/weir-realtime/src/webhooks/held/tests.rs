use weir_base::secret::Secret;

use super::super::app_hooks::AppHooks;
use super::*;
use crate::pusher::webhook::WebhookEvent;

const MEMBER: (&str, &str) = ("presence-a", "7");

struct Bench {
    held: HeldEvents,
    start: Instant,
    sent: Vec<String>,
    metrics: WebhookMetrics,
    bytes: usize,
}

fn bench(change: impl FnOnce(&mut WebhookSettings)) -> Bench {
    let (mut settings, metrics) = (WebhookSettings::default(), WebhookMetrics::default());
    change(&mut settings);
    let held = HeldEvents::new(&settings, metrics.clone());
    Bench { held, start: Instant::now(), sent: Vec::new(), metrics, bytes: 0 }
}

impl Bench {
    fn hold_for_app(&mut self, app_id: &str, at_ms: u64, event: &WebhookEvent<'_>) {
        let (key, secret) = ("k".into(), Secret::new("s"));
        let app = AppHooks { app_id: app_id.into(), key, secret, endpoints: Vec::new() };
        let message = EventMessage::new(&Arc::new(app), event);
        self.bytes = message.json.len();
        let now = self.start + Duration::from_millis(at_ms);
        self.held.hold_or_send(message, now, &mut |message| self.sent.push(name(message)));
    }

    fn hold(&mut self, at_ms: u64, event: &WebhookEvent<'_>) {
        self.hold_for_app("1", at_ms, event);
    }

    /// Takes the events sent until this time, oldest first.
    fn sent(&mut self, at_ms: u64) -> Vec<String> {
        let now = self.start + Duration::from_millis(at_ms);
        self.held.release(now, &mut |message| self.sent.push(name(message)));
        std::mem::take(&mut self.sent)
    }
}

fn name(message: EventMessage) -> String {
    let json: serde_json::Value = serde_json::from_slice(&message.json).unwrap();
    let count = &json["subscription_count"];
    let count = if count.is_null() { String::new() } else { format!(" {count}") };
    format!("{} {}{count}", message.kind, message.channel)
}

fn occupied(channel: &str) -> WebhookEvent<'_> {
    WebhookEvent::ChannelOccupied { channel }
}

fn vacated(channel: &str) -> WebhookEvent<'_> {
    WebhookEvent::ChannelVacated { channel }
}

fn count(channel: &str, subscription_count: usize) -> WebhookEvent<'_> {
    WebhookEvent::SubscriptionCount { channel, subscription_count }
}

#[test]
fn a_vacated_event_is_held_for_three_seconds() {
    let mut bench = bench(|_| {});
    bench.hold(0, &vacated("a"));
    assert!(bench.sent(2_999).is_empty());
    assert_eq!(bench.sent(3_000), ["channel_vacated a"]);
    bench.hold(3_001, &occupied("a"));
    assert_eq!(bench.sent(3_001), ["channel_occupied a"]);
}

#[test]
fn a_return_within_the_delay_cancels_both_events() {
    let mut bench = bench(|_| {});
    let (channel, user_id) = MEMBER;
    bench.hold(0, &vacated(channel));
    bench.hold(0, &WebhookEvent::MemberRemoved { channel, user_id });
    bench.hold(1, &WebhookEvent::MemberRemoved { channel, user_id: "8" });
    bench.hold(2, &occupied("presence-b"));
    bench.hold_for_app("2", 2, &occupied(channel));
    bench.hold(2, &occupied(channel));
    bench.hold(2, &WebhookEvent::MemberAdded { channel, user_id });
    assert_eq!(bench.sent(2), ["channel_occupied presence-b", "channel_occupied presence-a"]);
    assert_eq!(bench.sent(9_000), ["member_removed presence-a"], "the other member's");
    assert_eq!((bench.metrics.cancelled.get(), bench.metrics.held.get()), (4, 0));
    bench.hold(9_000, &occupied(channel));
    assert_eq!(bench.sent(9_000).len(), 1, "nothing is taken back twice");
}

#[test]
fn repeated_joins_and_leaves_hold_nothing() {
    let mut bench = bench(|_| {});
    for at in 0..1_000 {
        bench.hold(at, &vacated("a"));
        bench.hold(at, &occupied("a"));
    }
    let held = &bench.held;
    assert_eq!((held.by_subject.len(), held.in_order.len(), held.bytes), (0, 0, 0));
}

#[test]
fn the_latest_count_is_sent_within_the_delay() {
    let mut bench = bench(|_| {});
    bench.hold(0, &count("a", 1));
    bench.hold(0, &count("b", 9));
    bench.hold(2_000, &count("a", 2));
    bench.hold(2_999, &count("a", 3));
    assert!(bench.sent(2_999).is_empty());
    assert_eq!(bench.sent(3_000), ["subscription_count a 3", "subscription_count b 9"]);
    assert_eq!((bench.metrics.coalesced.get(), bench.held.bytes), (2, 0));
    bench.hold(3_001, &count("a", 4));
    assert_eq!(bench.sent(6_001), ["subscription_count a 4"]);
}

#[test]
fn held_events_over_the_limits_are_sent_early() {
    let probe = {
        let mut bench = bench(|_| {});
        bench.hold(0, &vacated("a"));
        bench.bytes
    };
    for change in [
        (|settings, _| settings.limits.held_events_max = 2) as fn(&mut WebhookSettings, usize),
        |settings, bytes| settings.limits.held_bytes_max = 2 * bytes,
    ] {
        let mut bench = bench(|settings| change(settings, probe));
        for (at, channel) in ["a", "b", "c"].into_iter().enumerate() {
            bench.hold(at as u64, &vacated(channel));
        }
        assert_eq!(bench.sent(2), ["channel_vacated a"]);
        assert_eq!((bench.metrics.released_early.get(), bench.metrics.held.get()), (1, 2));
        bench.hold(3, &occupied("a"));
        assert_eq!(bench.sent(3), ["channel_occupied a"], "too late to take it back");
    }
}

#[test]
fn at_shutdown_no_event_is_held() {
    let mut bench = bench(|_| {});
    bench.hold(0, &vacated("a"));
    bench.hold(1, &count("a", 0));
    let mut sent = Vec::new();
    bench.held.stop_holding(&mut |message| sent.push(name(message)));
    assert_eq!(sent, ["channel_vacated a", "subscription_count a 0"]);
    bench.hold(2, &vacated("b"));
    assert_eq!(bench.sent(2), ["channel_vacated b"]);
}
