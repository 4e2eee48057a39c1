//! Event streams on a core.

use std::pin::Pin;

use hyper::body::Body;

use super::super::event_stream::{EventStream, EventStreamRequest};
use super::shared::{self, EPOCH};
use super::*;

fn open_stream(core: &ManualCore, channel: &str) -> Pin<Box<EventStream>> {
    let app = core.0.hub.app_by_id("1").unwrap();
    let quota = app.connect(1_000).unwrap();
    let channel = ChannelName::parse(channel, &PusherLimits::default()).unwrap();
    Box::pin(core.0.stream_events(EventStreamRequest { app, quota, channel, after: None }))
}

/// Reads what the stream has for its client, or None if there is nothing yet.
fn read(stream: &mut Pin<Box<EventStream>>) -> Option<String> {
    let mut context = Context::from_waker(Waker::noop());
    match stream.as_mut().poll_frame(&mut context) {
        Poll::Pending => None,
        Poll::Ready(frame) => {
            let data = frame.expect("it goes on").unwrap().into_data().unwrap();
            Some(String::from_utf8(data.to_vec()).unwrap())
        }
    }
}

#[test]
fn event_streams_wait_for_the_subscribe_rate() {
    let interval = std::time::Duration::from_secs(1);
    let mut settings = Settings::default();
    settings.limits.subscribe_rate = Rate::new(1, interval);
    let core = ManualCore::new(settings, vec![app()]);
    let [mut one, mut two] = ["a", "a"].map(|channel| open_stream(&core, channel));
    for stream in [&mut one, &mut two] {
        assert!(read(stream).unwrap().starts_with("retry: "));
    }
    assert!(read(&mut one).unwrap().contains("subscription_succeeded"));
    core.0.resume_waiting();
    assert_eq!(read(&mut two), None, "the bucket is empty");
    assert_eq!(core.leftovers().waiting_to_subscribe, 1);
    core.publish_event("a", "e");
    core.deliver();
    core.0.hub.clock.advance(interval);
    assert_eq!(read(&mut two), None, "it stands in the queue");
    core.0.resume_waiting();
    let first = read(&mut two).unwrap();
    assert!(first.contains("subscription_succeeded") && first.contains("\"offset\":1"), "{first}");
    core.publish_event("a", "f");
    core.deliver();
    assert!(read(&mut two).unwrap().contains("\"event\":\"f\""));
    drop((one, two));
    assert_eq!(core.leftovers().sessions, 0);
}

#[test]
fn an_idle_event_stream_gets_keep_alive_comments() {
    let core = ManualCore::new(Settings::default(), vec![app()]);
    let mut stream = open_stream(&core, "a");
    while read(&mut stream).is_some() {}
    core.advance_time(std::time::Duration::from_secs(30));
    let sent = read(&mut stream).expect("a sign of life");
    assert!(sent.starts_with(':') && sent.lines().count() == 2, "{sent:?}");
}

#[test]
fn an_event_stream_that_ends_while_waiting_leaves_nothing() {
    let mut settings = Settings::default();
    settings.limits.subscribe_rate = Rate::new(1, std::time::Duration::from_secs(1));
    let core = ManualCore::new(settings, vec![app()]);
    drop([open_stream(&core, "a"), open_stream(&core, "a")]);
    core.advance_time(std::time::Duration::from_secs(1_000));
    core.remove_expired();
    assert_eq!(core.leftovers(), Leftovers::default());
}

#[test]
fn an_event_stream_waits_for_the_position_of_a_shared_channel() {
    let (core, _log) = shared::core();
    let mut stream = open_stream(&core, "room");
    assert!(read(&mut stream).unwrap().starts_with("retry: "));
    for _ in 0..2 {
        assert_eq!(read(&mut stream), None, "it is not known yet");
        core.0.requeue();
        core.0.resume_waiting();
    }
    core.hub().synchronize(&shared::room(), &shared::state(EPOCH, 1..=5, 5));
    core.0.requeue();
    core.0.resume_waiting();
    let first = read(&mut stream).unwrap();
    assert!(first.contains("subscription_succeeded") && first.contains("\"offset\":5"), "{first}");
    drop(stream);
    assert_eq!(core.leftovers().sessions, 0);
}
