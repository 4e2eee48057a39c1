//! Tests of the worker without sockets, in virtual time. It advances to the next timer when all
//! tasks are idle, so assertions can be exact.

mod bench;
mod endings;

use std::time::Duration;

use bench::{Bench, ScriptedResponse, bench};

use super::super::FailureReason;
use super::super::kind::WebhookKind;
use super::super::metrics::DropReason;
use crate::pusher::webhook::WebhookEvent;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn miss(channel: &str) -> WebhookEvent<'_> {
    WebhookEvent::CacheMiss { channel }
}

async fn enqueue_misses(bench: &Bench, channels: &[&str]) {
    for channel in channels {
        bench.enqueue(&miss(channel));
    }
    bench.yield_until_idle().await;
}

#[tokio::test(start_paused = true)]
async fn events_of_one_batch_interval_are_sent_together() {
    let bench = bench(&["a"], |_| {});
    enqueue_misses(&bench, &["1", "2"]).await;
    bench.advance_time(49 * MS).await;
    bench.enqueue(&miss("3"));
    bench.advance_time(MS).await;
    assert_eq!(bench.channels("a"), [vec!["1", "2", "3"]], "no event waits for longer than 50 ms");
    enqueue_misses(&bench, &["4"]).await;
    bench.advance_time(50 * MS).await;
    assert_eq!(bench.channels("a").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_is_sent_at_once() {
    let by_events = bench(&["a"], |settings| settings.limits.batch_events_max = 2);
    let event_bytes = r#"{"name":"cache_miss","channel":"1"}"#.len();
    let by_bytes = bench(&["a"], |settings| settings.limits.batch_bytes_max = 2 * event_bytes);
    for bench in [by_events, by_bytes] {
        enqueue_misses(&bench, &["1", "2", "3", "4", "5"]).await;
        assert_eq!(bench.channels("a"), [["1", "2"], ["3", "4"]]);
        bench.advance_time(50 * MS).await;
        assert_eq!(bench.channels("a")[2..], [["5"]]);
    }
    let small = bench(&["a"], |settings| settings.limits.batch_bytes_max = 1);
    enqueue_misses(&small, &["1", "2"]).await;
    assert_eq!(small.channels("a"), [["1"], ["2"]], "a large event goes alone");
}

#[tokio::test(start_paused = true)]
async fn each_endpoint_gets_the_kinds_that_it_accepts() {
    let mut bench = bench(&["a", "b", "c"], |_| {});
    bench.endpoint(0, |endpoint| endpoint.channel_prefix = "private-".into());
    bench.endpoint(1, |endpoint| endpoint.kinds = [WebhookKind::MemberAdded].into_iter().collect());
    assert!(bench.webhooks.has_receiver(&bench.app, WebhookKind::CacheMiss));
    enqueue_misses(&bench, &["private-1", "2"]).await;
    bench.enqueue(&WebhookEvent::MemberAdded { channel: "presence-1", user_id: "7" });
    bench.advance_time(50 * MS).await;
    assert_eq!(bench.channels("a"), [["private-1"]]);
    assert_eq!(bench.channels("b"), [["presence-1"]]);
    assert_eq!(bench.channels("c"), [["private-1", "2", "presence-1"]]);
}

#[tokio::test(start_paused = true)]
async fn an_unwanted_event_still_cancels_its_opposite() {
    for (wanted, expected) in [(WebhookKind::ChannelVacated, 0), (WebhookKind::ChannelOccupied, 1)]
    {
        let mut bench = bench(&["a"], |_| {});
        bench.endpoint(0, |endpoint| endpoint.kinds = [wanted].into_iter().collect());
        assert!(bench.webhooks.has_receiver(&bench.app, WebhookKind::ChannelOccupied));
        assert!(bench.webhooks.has_receiver(&bench.app, WebhookKind::ChannelVacated));
        assert!(!bench.webhooks.has_receiver(&bench.app, WebhookKind::MemberAdded));
        bench.enqueue(&WebhookEvent::ChannelOccupied { channel: "1" });
        bench.enqueue(&WebhookEvent::ChannelVacated { channel: "1" });
        bench.enqueue(&WebhookEvent::ChannelOccupied { channel: "1" });
        bench.advance_time(9 * SECOND).await;
        assert_eq!(bench.channels("a").len(), expected, "{wanted}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_vacated_event_is_sent_after_its_delay() {
    let bench = bench(&["a"], |_| {});
    bench.enqueue(&WebhookEvent::ChannelVacated { channel: "1" });
    bench.yield_until_idle().await;
    bench.advance_time(3_049 * MS).await;
    assert!(bench.channels("a").is_empty());
    bench.advance_time(MS).await;
    assert_eq!(bench.channels("a"), [["1"]]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_batch_is_retried_before_later_events() {
    let bench = bench(&["a"], |settings| settings.limits.batch_events_max = 2);
    bench.set_response("a", ScriptedResponse::Status(500));
    enqueue_misses(&bench, &["1", "2", "3"]).await;
    assert_eq!(bench.channels("a"), [["1", "2"]]);
    bench.advance_time(499 * MS).await;
    assert_eq!(bench.channels("a").len(), 1, "at least half of a second is waited");
    bench.advance_time(501 * MS).await;
    assert_eq!(bench.channels("a"), [["1", "2"], ["1", "2"]]);
    bench.set_response("a", ScriptedResponse::Status(204));
    bench.advance_time(2 * SECOND + 50 * MS).await;
    assert_eq!(bench.channels("a")[2..], [vec!["1", "2"], vec!["3"]]);
    assert_eq!(bench.metrics.failed(FailureReason::Status).get(), 2);
    assert_eq!((bench.metrics.delivery.sent.get(), bench.metrics.waiting.get()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_signed_with_the_current_secret() {
    let mut bench = bench(&["a"], |_| {});
    bench.set_response("a", ScriptedResponse::Status(500));
    enqueue_misses(&bench, &["1"]).await;
    bench.advance_time(50 * MS).await;
    bench.clock.advance(60 * SECOND);
    bench.app(|app| app.secret = weir_base::secret::Secret::new("new"));
    bench.set_response("a", ScriptedResponse::Status(200));
    bench.enqueue(&miss("2"));
    bench.advance_time(2 * SECOND).await;
    assert_eq!(bench.channels("a"), [vec!["1"], vec!["1", "2"]]);
    let posts = bench.posts("a");
    assert_eq!(posts[1].time_ms() - posts[0].time_ms(), 60_000);
    assert!(posts[0].is_signed_with("secret") && posts[1].is_signed_with("new"));
}

#[tokio::test(start_paused = true)]
async fn retries_back_off_and_end_after_five_minutes() {
    let bench = bench(&["a"], |_| {});
    bench.set_response("a", ScriptedResponse::Status(500));
    enqueue_misses(&bench, &["1"]).await;
    bench.advance_time(299 * SECOND).await;
    assert_eq!(bench.metrics.dropped(DropReason::RetryFor).get(), 0);
    bench.advance_time(32 * SECOND).await;
    assert_eq!(bench.metrics.dropped(DropReason::RetryFor).get(), 1);
    let attempts = bench.channels("a").len();
    // 5 attempts within at most 31 s, then one every 15 to 30 s; or 5 within 16 s, then the same.
    assert!((13..=26).contains(&attempts), "{attempts}");
    bench.advance_time(600 * SECOND).await;
    assert_eq!(bench.channels("a").len(), attempts);
    assert_eq!(bench.metrics.waiting.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_endpoint_does_not_delay_others() {
    let bench = bench(&["dead", "alive"], |_| {});
    bench.set_response("dead", ScriptedResponse::Hang);
    for channel in ["1", "2", "3"] {
        enqueue_misses(&bench, &[channel]).await;
        bench.advance_time(50 * MS).await;
    }
    assert_eq!(bench.channels("alive"), [["1"], ["2"], ["3"]]);
    assert_eq!(bench.channels("dead"), [["1"]], "one batch at a time");
}

#[tokio::test(start_paused = true)]
async fn a_dead_endpoint_keeps_only_the_newest_events() {
    let event_bytes = r#"{"name":"cache_miss","channel":"1"}"#.len();
    for (by_bytes, reason) in
        [(false, DropReason::EndpointEvents), (true, DropReason::EndpointBytes)]
    {
        let bench = bench(&["a"], |settings| match by_bytes {
            false => settings.limits.endpoint_events_max = 3,
            true => settings.limits.endpoint_bytes_max = 3 * event_bytes,
        });
        bench.set_response("a", ScriptedResponse::Status(500));
        enqueue_misses(&bench, &["0"]).await;
        bench.advance_time(50 * MS).await;
        enqueue_misses(&bench, &["1", "2", "3", "4", "5"]).await;
        bench.set_response("a", ScriptedResponse::Status(200));
        bench.advance_time(2 * SECOND).await;
        assert_eq!(bench.channels("a")[1..], [["3", "4", "5"]]);
        assert_eq!(bench.metrics.dropped(reason).get(), 3);
        let gone = bench.metrics.delivery.sent.get() + bench.metrics.dropped(reason).get();
        assert_eq!((gone, bench.metrics.waiting.get()), (bench.metrics.queued.get(), 0));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_permit_events_wait_and_are_not_lost() {
    let bench = bench(&["a"], |_| {});
    let permit = bench.take_the_only_permit();
    enqueue_misses(&bench, &["1"]).await;
    bench.advance_time(SECOND).await;
    enqueue_misses(&bench, &["2"]).await;
    bench.advance_time(SECOND).await;
    assert!(bench.channels("a").is_empty());
    assert!(bench.metrics.without_permit.get() >= 50, "tried again every 20 ms at the latest");
    assert!(bench.metrics.without_permit.get() <= 200, "and every 10 ms at the soonest");
    drop(permit);
    bench.advance_time(20 * MS).await;
    assert_eq!(bench.channels("a"), [["1", "2"]]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_holds_its_permit_until_it_ends() {
    let bench = bench(&["a"], |settings| settings.drain_timeout = SECOND);
    bench.set_response("a", ScriptedResponse::Hang);
    enqueue_misses(&bench, &["1"]).await;
    bench.advance_time(50 * MS).await;
    assert_eq!(bench.permits_in_use(), 1);
    bench.shutdown.request();
    bench.advance_time(SECOND).await;
    assert_eq!(bench.permits_in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_endpoint_is_forgotten_and_reopened() {
    let bench = bench(&["a"], |_| {});
    for round in 1..=2 {
        enqueue_misses(&bench, &["1"]).await;
        bench.advance_time(50 * MS).await;
        assert_eq!(bench.endpoint_tasks(), 1);
        bench.advance_time(121 * SECOND).await;
        assert_eq!((bench.channels("a").len(), bench.endpoint_tasks()), (round, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn unreasonable_durations_are_clamped() {
    for extreme in [Duration::ZERO, Duration::MAX] {
        let bench = bench(&["a"], |settings| {
            settings.vacated_delay = extreme;
            settings.keep_alive = extreme;
            settings.retry_for = extreme;
            settings.retry_delay_min = extreme;
            settings.retry_delay_max = extreme;
            settings.permit_delay = extreme;
            settings.drain_timeout = extreme;
        });
        bench.set_response("a", ScriptedResponse::Status(500));
        bench.enqueue(&WebhookEvent::ChannelVacated { channel: "1" });
        enqueue_misses(&bench, &["2"]).await;
        bench.advance_time(100 * MS).await;
        let permit = bench.take_the_only_permit();
        enqueue_misses(&bench, &["3"]).await;
        bench.advance_time(100 * MS).await;
        drop(permit);
        bench.shutdown.request();
        bench.advance_time(SECOND).await;
        assert!(bench.channels("a").len() < 100, "{extreme:?}");
    }
}
