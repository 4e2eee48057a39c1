use super::*;

#[tokio::test(start_paused = true)]
async fn without_handles_everything_is_sent_and_the_worker_ends() {
    let bench = bench(&["a"], |_| {});
    bench.tell(&miss("1"));
    bench.tell(&WebhookEvent::ChannelVacated { channel: "2" });
    let (metrics, worker) = (bench.metrics.clone(), bench.end_handles());
    worker.await.unwrap();
    assert_eq!((metrics.delivery.sent.get(), metrics.held.get()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_waits_for_a_retry_is_tried_once_more() {
    for (last_answer, sent, dropped) in [(200, 2, 0), (500, 0, 2)] {
        let bench = bench(&["a"], |_| {});
        bench.answer("a", Answer::Status(500));
        tell_misses(&bench, &["1"]).await;
        bench.pass(299 * SECOND).await;
        bench.tell(&WebhookEvent::ChannelVacated { channel: "2" });
        bench.settle().await;
        let before = bench.channels("a").len();
        bench.answer("a", Answer::Status(last_answer));
        bench.shutdown.request();
        bench.settle().await;
        assert_eq!(bench.channels("a")[before..], [["1", "2"]]);
        assert_eq!(bench.metrics.delivery.sent.get(), sent);
        assert_eq!(bench.metrics.dropped(DropReason::Shutdown).get(), dropped);
    }
}

#[tokio::test(start_paused = true)]
async fn until_the_deadline_events_are_taken_and_sent_at_once() {
    let bench = bench(&["a"], |settings| settings.drain_timeout = 5 * SECOND);
    bench.shutdown.request();
    bench.settle().await;
    bench.tell(&WebhookEvent::ChannelVacated { channel: "1" });
    bench.settle().await;
    assert_eq!(bench.channels("a"), [["1"]]);
    bench.pass(4_999 * MS).await;
    assert!(!bench.worker.is_finished(), "handles are left");
    bench.pass(MS).await;
    assert!(bench.worker.is_finished());
    bench.tell(&miss("2"));
    assert_eq!(bench.metrics.dropped(DropReason::Ended).get(), 1);
    assert!(!bench.webhooks.wants(&bench.app, WebhookKind::CacheMiss));
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_what_is_left_is_counted_also_what_is_on_its_way() {
    let bench = bench(&["a"], |settings| settings.limits.batch_events_max = 2);
    bench.answer("a", Answer::Hang);
    tell_misses(&bench, &["1", "2", "3"]).await;
    bench.shutdown.request();
    bench.pass(5 * SECOND).await;
    assert!(bench.worker.is_finished());
    assert_eq!(bench.metrics.dropped(DropReason::Shutdown).get(), 3);
    assert_eq!((bench.metrics.waiting.get(), bench.endpoint_tasks()), (0, 0));
}
