use super::*;

#[tokio::test(start_paused = true)]
async fn without_handles_the_worker_sends_everything_and_ends() {
    let bench = bench(&["a"], |_| {});
    bench.enqueue(&miss("1"));
    bench.enqueue(&WebhookEvent::ChannelVacated { channel: "2" });
    let (metrics, worker) = (bench.metrics.clone(), bench.end_handles());
    worker.await.unwrap();
    assert_eq!((metrics.delivery.sent.get(), metrics.held.get()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn at_shutdown_a_waiting_retry_gets_a_last_attempt() {
    for (last_answer, sent, dropped) in [(200, 2, 0), (500, 0, 2)] {
        let bench = bench(&["a"], |_| {});
        bench.set_response("a", ScriptedResponse::Status(500));
        enqueue_misses(&bench, &["1"]).await;
        bench.advance_time(299 * SECOND).await;
        bench.enqueue(&WebhookEvent::ChannelVacated { channel: "2" });
        bench.yield_until_idle().await;
        let before = bench.channels("a").len();
        bench.set_response("a", ScriptedResponse::Status(last_answer));
        bench.shutdown.request();
        bench.yield_until_idle().await;
        assert_eq!(bench.channels("a")[before..], [["1", "2"]]);
        assert_eq!(bench.metrics.delivery.sent.get(), sent);
        assert_eq!(bench.metrics.dropped(DropReason::Shutdown).get(), dropped);
    }
}

#[tokio::test(start_paused = true)]
async fn until_the_shutdown_deadline_events_are_sent_at_once() {
    let bench = bench(&["a"], |settings| settings.drain_timeout = 5 * SECOND);
    bench.shutdown.request();
    bench.yield_until_idle().await;
    bench.enqueue(&WebhookEvent::ChannelVacated { channel: "1" });
    bench.yield_until_idle().await;
    assert_eq!(bench.channels("a"), [["1"]]);
    bench.advance_time(4_999 * MS).await;
    assert!(!bench.worker.is_finished(), "handles are left");
    bench.advance_time(MS).await;
    assert!(bench.worker.is_finished());
    bench.enqueue(&miss("2"));
    assert_eq!(bench.metrics.dropped(DropReason::Ended).get(), 1);
    assert!(!bench.webhooks.has_receiver(&bench.app, WebhookKind::CacheMiss));
}

#[tokio::test(start_paused = true)]
async fn at_the_shutdown_deadline_remaining_events_are_counted_as_dropped() {
    let bench = bench(&["a"], |settings| settings.limits.batch_events_max = 2);
    bench.set_response("a", ScriptedResponse::Hang);
    enqueue_misses(&bench, &["1", "2", "3"]).await;
    bench.shutdown.request();
    bench.advance_time(5 * SECOND).await;
    assert!(bench.worker.is_finished());
    assert_eq!(bench.metrics.dropped(DropReason::Shutdown).get(), 3);
    assert_eq!((bench.metrics.waiting.get(), bench.endpoint_tasks()), (0, 0));
}
