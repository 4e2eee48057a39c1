//! Tests of the worker without sockets, in virtual time. It advances to the next timer when all
//! tasks are idle, so assertions can be exact.

mod bench;
mod endings;

use std::time::Duration;

use bench::{Answer, Bench, bench};

use super::super::FailureReason;
use super::super::kind::WebhookKind;
use super::super::metrics::DropReason;
use crate::pusher::webhook::WebhookEvent;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn miss(channel: &str) -> WebhookEvent<'_> {
    WebhookEvent::CacheMiss { channel }
}

async fn tell_misses(bench: &Bench, channels: &[&str]) {
    for channel in channels {
        bench.tell(&miss(channel));
    }
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn events_of_one_interval_go_together() {
    let bench = bench(&["a"], |_| {});
    tell_misses(&bench, &["1", "2"]).await;
    bench.pass(49 * MS).await;
    bench.tell(&miss("3"));
    bench.pass(MS).await;
    assert_eq!(bench.channels("a"), [vec!["1", "2", "3"]], "no event waits for longer than 50 ms");
    tell_misses(&bench, &["4"]).await;
    bench.pass(50 * MS).await;
    assert_eq!(bench.channels("a").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_goes_at_once() {
    let by_events = bench(&["a"], |settings| settings.limits.batch_events_max = 2);
    let event_bytes = r#"{"name":"cache_miss","channel":"1"}"#.len();
    let by_bytes = bench(&["a"], |settings| settings.limits.batch_bytes_max = 2 * event_bytes);
    for bench in [by_events, by_bytes] {
        tell_misses(&bench, &["1", "2", "3", "4", "5"]).await;
        assert_eq!(bench.channels("a"), [["1", "2"], ["3", "4"]]);
        bench.pass(50 * MS).await;
        assert_eq!(bench.channels("a")[2..], [["5"]]);
    }
    let small = bench(&["a"], |settings| settings.limits.batch_bytes_max = 1);
    tell_misses(&small, &["1", "2"]).await;
    assert_eq!(small.channels("a"), [["1"], ["2"]], "a large event goes alone");
}

#[tokio::test(start_paused = true)]
async fn each_endpoint_gets_what_it_wants() {
    let mut bench = bench(&["a", "b", "c"], |_| {});
    bench.endpoint(0, |endpoint| endpoint.channel_prefix = "private-".into());
    bench.endpoint(1, |endpoint| endpoint.kinds = [WebhookKind::MemberAdded].into_iter().collect());
    assert!(bench.webhooks.wants(&bench.app, WebhookKind::CacheMiss));
    tell_misses(&bench, &["private-1", "2"]).await;
    bench.tell(&WebhookEvent::MemberAdded { channel: "presence-1", user_id: "7" });
    bench.pass(50 * MS).await;
    assert_eq!(bench.channels("a"), [["private-1"]]);
    assert_eq!(bench.channels("b"), [["presence-1"]]);
    assert_eq!(bench.channels("c"), [["private-1", "2", "presence-1"]]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_wants_takes_back_what_somebody_wants() {
    for (wanted, expected) in [(WebhookKind::ChannelVacated, 0), (WebhookKind::ChannelOccupied, 1)]
    {
        let mut bench = bench(&["a"], |_| {});
        bench.endpoint(0, |endpoint| endpoint.kinds = [wanted].into_iter().collect());
        assert!(bench.webhooks.wants(&bench.app, WebhookKind::ChannelOccupied));
        assert!(bench.webhooks.wants(&bench.app, WebhookKind::ChannelVacated));
        assert!(!bench.webhooks.wants(&bench.app, WebhookKind::MemberAdded));
        bench.tell(&WebhookEvent::ChannelOccupied { channel: "1" });
        bench.tell(&WebhookEvent::ChannelVacated { channel: "1" });
        bench.tell(&WebhookEvent::ChannelOccupied { channel: "1" });
        bench.pass(9 * SECOND).await;
        assert_eq!(bench.channels("a").len(), expected, "{wanted}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_vacation_is_sent_when_its_delay_is_over() {
    let bench = bench(&["a"], |_| {});
    bench.tell(&WebhookEvent::ChannelVacated { channel: "1" });
    bench.settle().await;
    bench.pass(3_049 * MS).await;
    assert!(bench.channels("a").is_empty());
    bench.pass(MS).await;
    assert_eq!(bench.channels("a"), [["1"]]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_batch_is_tried_again_before_what_came_later() {
    let bench = bench(&["a"], |settings| settings.limits.batch_events_max = 2);
    bench.answer("a", Answer::Status(500));
    tell_misses(&bench, &["1", "2", "3"]).await;
    assert_eq!(bench.channels("a"), [["1", "2"]]);
    bench.pass(499 * MS).await;
    assert_eq!(bench.channels("a").len(), 1, "at least half of a second is waited");
    bench.pass(501 * MS).await;
    assert_eq!(bench.channels("a"), [["1", "2"], ["1", "2"]]);
    bench.answer("a", Answer::Status(204));
    bench.pass(2 * SECOND + 50 * MS).await;
    assert_eq!(bench.channels("a")[2..], [vec!["1", "2"], vec!["3"]]);
    assert_eq!(bench.metrics.failed(FailureReason::Status).get(), 2);
    assert_eq!((bench.metrics.delivery.sent.get(), bench.metrics.waiting.get()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_signed_anew_with_the_newest_secret() {
    let mut bench = bench(&["a"], |_| {});
    bench.answer("a", Answer::Status(500));
    tell_misses(&bench, &["1"]).await;
    bench.pass(50 * MS).await;
    bench.clock.advance(60 * SECOND);
    bench.app(|app| app.secret = weir_base::secret::Secret::new("new"));
    bench.answer("a", Answer::Status(200));
    bench.tell(&miss("2"));
    bench.pass(2 * SECOND).await;
    assert_eq!(bench.channels("a"), [vec!["1"], vec!["1", "2"]]);
    let posts = bench.posts("a");
    assert_eq!(posts[1].time_ms() - posts[0].time_ms(), 60_000);
    assert!(posts[0].is_signed_with("secret") && posts[1].is_signed_with("new"));
}

#[tokio::test(start_paused = true)]
async fn retries_slow_down_and_end_after_five_minutes() {
    let bench = bench(&["a"], |_| {});
    bench.answer("a", Answer::Status(500));
    tell_misses(&bench, &["1"]).await;
    bench.pass(299 * SECOND).await;
    assert_eq!(bench.metrics.dropped(DropReason::RetryFor).get(), 0);
    bench.pass(32 * SECOND).await;
    assert_eq!(bench.metrics.dropped(DropReason::RetryFor).get(), 1);
    let attempts = bench.channels("a").len();
    // 5 attempts within at most 31 s, then one every 15 to 30 s; or 5 within 16 s, then the same.
    assert!((13..=26).contains(&attempts), "{attempts}");
    bench.pass(600 * SECOND).await;
    assert_eq!(bench.channels("a").len(), attempts);
    assert_eq!(bench.metrics.waiting.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_hangs_holds_nobody_else() {
    let bench = bench(&["dead", "alive"], |_| {});
    bench.answer("dead", Answer::Hang);
    for channel in ["1", "2", "3"] {
        tell_misses(&bench, &[channel]).await;
        bench.pass(50 * MS).await;
    }
    assert_eq!(bench.channels("alive"), [["1"], ["2"], ["3"]]);
    assert_eq!(bench.channels("dead"), [["1"]], "one batch at a time");
}

#[tokio::test(start_paused = true)]
async fn of_what_waits_for_a_dead_endpoint_the_newest_is_kept() {
    let event_bytes = r#"{"name":"cache_miss","channel":"1"}"#.len();
    for (by_bytes, reason) in
        [(false, DropReason::EndpointEvents), (true, DropReason::EndpointBytes)]
    {
        let bench = bench(&["a"], |settings| match by_bytes {
            false => settings.limits.endpoint_events_max = 3,
            true => settings.limits.endpoint_bytes_max = 3 * event_bytes,
        });
        bench.answer("a", Answer::Status(500));
        tell_misses(&bench, &["0"]).await;
        bench.pass(50 * MS).await;
        tell_misses(&bench, &["1", "2", "3", "4", "5"]).await;
        bench.answer("a", Answer::Status(200));
        bench.pass(2 * SECOND).await;
        assert_eq!(bench.channels("a")[1..], [["3", "4", "5"]]);
        assert_eq!(bench.metrics.dropped(reason).get(), 3);
        let gone = bench.metrics.delivery.sent.get() + bench.metrics.dropped(reason).get();
        assert_eq!((gone, bench.metrics.waiting.get()), (bench.metrics.queued.get(), 0));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_permit_nothing_is_tried_and_nothing_is_lost() {
    let bench = bench(&["a"], |_| {});
    let permit = bench.take_the_only_permit();
    tell_misses(&bench, &["1"]).await;
    bench.pass(SECOND).await;
    tell_misses(&bench, &["2"]).await;
    bench.pass(SECOND).await;
    assert!(bench.channels("a").is_empty());
    assert!(bench.metrics.without_permit.get() >= 50, "tried again every 20 ms at the latest");
    assert!(bench.metrics.without_permit.get() <= 200, "and every 10 ms at the soonest");
    drop(permit);
    bench.pass(20 * MS).await;
    assert_eq!(bench.channels("a"), [["1", "2"]]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_has_a_permit_until_it_ends() {
    let bench = bench(&["a"], |settings| settings.drain_timeout = SECOND);
    bench.answer("a", Answer::Hang);
    tell_misses(&bench, &["1"]).await;
    bench.pass(50 * MS).await;
    assert_eq!(bench.permits_in_use(), 1);
    bench.shutdown.request();
    bench.pass(SECOND).await;
    assert_eq!(bench.permits_in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_events_is_forgotten_and_found_again() {
    let bench = bench(&["a"], |_| {});
    for round in 1..=2 {
        tell_misses(&bench, &["1"]).await;
        bench.pass(50 * MS).await;
        assert_eq!(bench.endpoint_tasks(), 1);
        bench.pass(121 * SECOND).await;
        assert_eq!((bench.channels("a").len(), bench.endpoint_tasks()), (round, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn durations_beyond_reason_are_brought_back_into_it() {
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
        bench.answer("a", Answer::Status(500));
        bench.tell(&WebhookEvent::ChannelVacated { channel: "1" });
        tell_misses(&bench, &["2"]).await;
        bench.pass(100 * MS).await;
        let permit = bench.take_the_only_permit();
        tell_misses(&bench, &["3"]).await;
        bench.pass(100 * MS).await;
        drop(permit);
        bench.shutdown.request();
        bench.pass(SECOND).await;
        assert!(bench.channels("a").len() < 100, "{extreme:?}");
    }
}
