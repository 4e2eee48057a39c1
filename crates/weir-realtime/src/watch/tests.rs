use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};
use std::time::Duration;

use weir_base::clock::Clock;

use super::*;
use crate::channel::JoinRequest;
use crate::hub::single_core::{hub, poll_now, single_core_hub_with};
use crate::operations::PublishEvent;

fn clock() -> Clock {
    Clock::manual(Timestamp::from_millis(1_000))
}

fn publish(hub: &Hub, event: &str, data: &str) {
    let data = serde_json::value::to_raw_value(data).unwrap();
    let (app, channel, event) = ("1".to_owned(), "a".to_owned(), event.to_owned());
    poll_now(hub.publish_event(&PublishEvent { app, channel, event, data })).unwrap();
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls once. Returns the events, if there are any.
fn look(watch: &mut Watch) -> Option<WatchedEvents> {
    let waker = Waker::from(Arc::new(Woken::default()));
    match watch.poll_next(&mut Context::from_waker(&waker)) {
        Poll::Ready(seen) => Some(seen),
        Poll::Pending => None,
    }
}

#[test]
fn a_watcher_receives_the_same_events_as_subscribers() {
    let hub = hub(&clock());
    let mut watch = hub.watch("1", "a").unwrap();
    assert!(look(&mut watch).is_none());
    publish(&hub, "one", r#"{"text":"ä \"b\""}"#);
    publish(&hub, "two", "");
    let seen = look(&mut watch).unwrap();
    assert_eq!(seen.dropped, 0);
    let [one, two] = &seen.events[..] else { panic!("{seen:?}") };
    assert_eq!((one.event.as_str(), one.data.as_str()), ("one", r#"{"text":"ä \"b\""}"#));
    assert_eq!((one.at, one.offset, two.offset), (1.0, Some(1), Some(2)));
    assert_eq!((two.event.as_str(), two.data.as_str()), ("two", ""));
    assert!(look(&mut watch).is_none());
}

#[test]
fn a_waiting_watcher_is_woken() {
    let hub = hub(&clock());
    let mut watch = hub.watch("1", "a").unwrap();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut next = pin!(watch.next());
    assert!(next.as_mut().poll(&mut context).is_pending());
    publish(&hub, "one", "");
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(next.as_mut().poll(&mut context).is_ready());
}

#[test]
fn events_beyond_a_watchers_queue_are_dropped_and_counted() {
    let hub = single_core_hub_with(&clock(), |settings| settings.limits.watch_events_max = 3);
    let mut watch = hub.watch("1", "a").unwrap();
    for number in 0..10 {
        publish(&hub, &number.to_string(), "");
    }
    let seen = look(&mut watch).unwrap();
    let events: Vec<&str> = seen.events.iter().map(|event| event.event.as_str()).collect();
    assert_eq!((seen.dropped, events), (7, vec!["7", "8", "9"]));
    publish(&hub, "10", "");
    assert_eq!(look(&mut watch).unwrap().dropped, 0);
}

#[test]
fn the_number_of_watchers_is_limited_and_freed() {
    let hub = single_core_hub_with(&clock(), |settings| settings.limits.watchers_max = 1);
    assert!(matches!(hub.watch("2", "a"), Err(OperationError::NoSuchApp { .. })));
    assert!(matches!(hub.watch("1", "a b"), Err(OperationError::Channel(_))));
    let first = hub.watch("1", "a").unwrap();
    assert!(matches!(hub.watch("1", "b"), Err(OperationError::TooManyWatchers { max: 1 })));
    assert!(hub.channel_view("1", "b").is_none(), "nothing is made for who may not look");
    let hits = hub.overview().limits_hit;
    assert!(hits.iter().any(|hit| hit.limit == "realtime.limits.watchers_max" && hit.hits == 1));
    drop(first);
    hub.watch("1", "b").unwrap();
}

#[test]
fn a_watched_channel_is_not_removed() {
    let clock = clock();
    let hub = hub(&clock);
    let mut watch = hub.watch("1", "a").unwrap();
    clock.advance(Duration::from_secs(3_600));
    (0..Hub::expiry_parts()).for_each(|part| hub.remove_expired(part));
    publish(&hub, "late", "");
    assert_eq!(look(&mut watch).unwrap().events.len(), 1);
    assert_eq!(hub.channel_view("1", "a").unwrap().published, 1);
    drop(watch);
    assert!(hub.channel_view("1", "a").is_some(), "its history keeps it");
    let watch = hub.watch("1", "unknown").unwrap();
    assert!(hub.channel_view("1", "unknown").is_some());
    drop(watch);
    assert!(hub.channel_view("1", "unknown").is_none(), "nothing is left of it");
}

#[test]
fn channel_figures_match_the_published_events() {
    let clock = clock();
    let hub = hub(&clock);
    publish(&hub, "alone", "x");
    let app = hub.app_by_id("1").unwrap();
    let channel = app.channels.get("a").unwrap();
    for _ in 0..3 {
        let now = clock.now();
        let joining = JoinRequest {
            core: 0,
            member: None,
            recover: None,
            needs_position: true,
            wants_member_changes: false,
            now,
        };
        channel.join(joining, &app.settings(), &hub.cores, |_| {}).unwrap();
    }
    publish(&hub, "to three", "x");
    let bytes = hub.history("1", "a", 1)[0].bytes as u64;
    channel.slowed(2);
    let view = hub.channel_view("1", "a").unwrap();
    assert_eq!((view.published, view.published_bytes, view.slowed), (2, 3 * bytes, 2));
    assert_eq!(view.events_per_second, 0.2);
}
