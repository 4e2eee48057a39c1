use std::time::Duration;

use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::secret::Secret;
use weir_base::shutdown::{Drained, ShutdownToken};
use weir_traces::span::TEXT_BYTES_MAX;
use weir_traces::{
    AttributeValue, DropReason, SpanKind, TraceContext, TraceMetrics, TraceSettings, Tracer,
    exporter,
};

use crate::collector::TestCollector;

/// A tracer with a running exporter.
struct Exporting {
    tracer: Tracer,
    metrics: TraceMetrics,
    running: ShutdownToken,
}

fn start(collector: &TestCollector, change: impl FnOnce(&mut TraceSettings)) -> Exporting {
    let mut settings = TraceSettings {
        endpoint: Some(collector.endpoint().parse().unwrap()),
        sample: 1.0,
        ..TraceSettings::default()
    };
    settings.limits.batch_interval = Duration::from_millis(10);
    change(&mut settings);
    let metrics = TraceMetrics::register(&mut Registry::default());
    let (tracer, exporter) = exporter::create(&settings, Clock::system(), metrics.clone());
    let running = ShutdownToken::new();
    running.spawn(exporter.expect("there is an endpoint").run(running.clone()));
    Exporting { tracer, metrics, running }
}

impl Exporting {
    fn end_spans(&self, count: usize) {
        for _ in 0..count {
            drop(self.tracer.start("work", SpanKind::Server, None).expect("all are traced"));
        }
    }

    /// Waits until the counters are so. The test's time limit is that of the runner.
    async fn until(&self, is_so: impl Fn(&TraceMetrics) -> bool) {
        while !is_so(&self.metrics) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let limited = tokio::time::timeout(Duration::from_secs(60), test).await;
        limited.expect("the test ends");
    });
}

/// How often a name of a span is in a body.
fn count_spans(body: &[u8]) -> usize {
    body.windows(4).filter(|window| window == b"work").count()
}

#[test]
fn spans_are_sent_in_batches_with_the_headers_of_the_settings() {
    run(async {
        let mut collector = TestCollector::listen().await;
        let exporting = start(&collector, |settings| {
            settings.limits.batch_max = 4;
            settings.headers = vec![("X-Key".to_owned(), Secret::new("hunter2"))];
        });
        exporting.end_spans(6);
        let mut sizes = Vec::new();
        for _ in 0..2 {
            let request = collector.receive().await;
            assert!(request.head.starts_with("post /v1/traces http/1.1\r\n"), "{}", request.head);
            assert!(request.head.contains("\r\ncontent-type: application/x-protobuf\r\n"));
            assert!(request.head.contains("\r\nx-key: hunter2\r\n"));
            sizes.push(count_spans(&request.body));
            collector.respond("200 OK", "", b"").await;
        }
        assert_eq!(sizes, [4, 2]);
        exporting.until(|metrics| metrics.exported.get() == 6).await;
    });
}

#[test]
fn a_busy_collector_gets_the_batch_again() {
    run(async {
        let mut collector = TestCollector::listen().await;
        let exporting = start(&collector, |_| {});
        exporting.end_spans(3);
        let first = collector.receive().await;
        collector.respond("503 Service Unavailable", "retry-after: 1\r\n", b"").await;
        let second = collector.receive().await;
        assert_eq!(first.body, second.body);
        collector.respond("200 OK", "", b"").await;
        exporting.until(|metrics| metrics.exported.get() == 3).await;
        assert_eq!(exporting.metrics.failures.get(), 1);
    });
}

#[test]
fn after_the_last_attempt_the_batch_is_dropped_and_the_next_one_is_sent() {
    run(async {
        let mut collector = TestCollector::listen().await;
        let exporting = start(&collector, |settings| settings.limits.attempts_max = 2);
        exporting.end_spans(3);
        for _ in 0..2 {
            collector.receive().await;
            collector.respond("429 Too Many Requests", "", b"").await;
        }
        exporting.until(|metrics| metrics.dropped_total(DropReason::Unavailable) == 3).await;
        exporting.end_spans(1);
        collector.receive().await;
        collector.respond("200 OK", "", b"").await;
        exporting.until(|metrics| metrics.exported.get() == 1).await;
    });
}

#[test]
fn a_rejected_batch_is_not_sent_again() {
    run(async {
        let mut collector = TestCollector::listen().await;
        let exporting = start(&collector, |_| {});
        exporting.end_spans(2);
        collector.receive().await;
        collector.respond("400 Bad Request", "", b"what is this?").await;
        exporting.until(|metrics| metrics.dropped_total(DropReason::Rejected) == 2).await;
        assert_eq!(exporting.metrics.exported.get(), 0);
    });
}

#[test]
fn a_partial_success_counts_what_was_rejected() {
    run(async {
        let mut collector = TestCollector::listen().await;
        let exporting = start(&collector, |_| {});
        exporting.end_spans(5);
        collector.receive().await;
        // partial_success { rejected_spans: 2 error_message: "no" }
        collector.respond("200 OK", "", b"\x0a\x06\x08\x02\x12\x02no").await;
        exporting.until(|metrics| metrics.exported.get() == 3).await;
        assert_eq!(exporting.metrics.dropped_total(DropReason::Rejected), 2);
    });
}

#[test]
fn a_collector_that_does_not_respond_holds_a_bounded_number_of_spans() {
    run(async {
        let mut collector = TestCollector::listen().await;
        let exporting = start(&collector, |settings| {
            settings.limits.queue_max = 10;
            settings.limits.batch_max = 5;
        });
        exporting.end_spans(5);
        collector.receive().await;
        // One batch is in flight, ten spans wait, and all others are dropped at once.
        exporting.end_spans(1_000);
        assert_eq!(exporting.metrics.dropped_total(DropReason::QueueFull), 990);
        collector.hang_up();
        for expected in [5, 5, 5] {
            assert_eq!(count_spans(&collector.receive().await.body), expected);
            collector.respond("200 OK", "", b"").await;
        }
        exporting.until(|metrics| metrics.exported.get() == 15).await;
    });
}

#[test]
fn what_waits_is_sent_at_the_end_and_counted_if_it_cannot_be() {
    run(async {
        let mut collector = TestCollector::listen().await;
        let slow = |settings: &mut TraceSettings| {
            settings.limits.batch_interval = Duration::from_secs(60);
            settings.limits.timeout = Duration::from_secs(1);
        };
        let exporting = start(&collector, slow);
        exporting.end_spans(3);
        let (drained, ()) = tokio::join!(exporting.running.drain(Duration::from_secs(30)), async {
            assert_eq!(count_spans(&collector.receive().await.body), 3);
            collector.respond("200 OK", "", b"").await;
        });
        assert_eq!((drained, exporting.metrics.exported.get()), (Drained::Clean, 3));

        let silent = TestCollector::listen().await;
        let exporting = start(&silent, slow);
        exporting.end_spans(3);
        let drained = exporting.running.drain(Duration::from_secs(30)).await;
        assert_eq!(drained, Drained::Clean);
        let dropped = [DropReason::Stopped, DropReason::Unavailable];
        let dropped: u64 =
            dropped.map(|reason| exporting.metrics.dropped_total(reason)).iter().sum();
        assert_eq!((dropped, exporting.metrics.exported.get()), (3, 0));
        exporting.end_spans(1);
        assert!(exporting.metrics.dropped_total(DropReason::Stopped) >= 1);
    });
}

#[test]
fn a_batch_that_is_in_flight_when_the_time_is_over_is_counted() {
    run(async {
        let mut collector = TestCollector::listen().await;
        let exporting = start(&collector, |settings| {
            settings.limits.batch_max = 2;
            settings.limits.timeout = Duration::from_secs(1);
        });
        exporting.end_spans(2);
        collector.receive().await;
        exporting.end_spans(5);
        let (drained, ()) = tokio::join!(exporting.running.drain(Duration::from_secs(30)), async {
            collector.respond("200 OK", "", b"").await;
            assert_eq!(count_spans(&collector.receive().await.body), 2);
        });
        assert_eq!((drained, exporting.metrics.exported.get()), (Drained::Clean, 2));
        assert_eq!(exporting.metrics.dropped_total(DropReason::Stopped), 5);
    });
}

#[test]
fn long_texts_are_cut() {
    let (tracer, mut finished) =
        Tracer::new(&TraceSettings::default(), Clock::system(), TraceMetrics::default());
    let caller = TraceContext::new_root();
    let mut span = tracer.start("work", SpanKind::Server, Some(caller)).unwrap();
    let long = "\u{e9}".repeat(TEXT_BYTES_MAX);
    span.rename(format!("a{long}"));
    span.set("url.path", long.clone());
    span.fail(long);
    drop(span);
    let record = finished.try_recv().unwrap();
    assert_eq!(record.name.len(), TEXT_BYTES_MAX - 1, "a letter is not divided");
    let expected = AttributeValue::from("\u{e9}".repeat(TEXT_BYTES_MAX / 2));
    assert_eq!(record.attributes, [("url.path", expected)]);
    assert_eq!(record.error.unwrap().len(), TEXT_BYTES_MAX);
}

#[test]
fn the_caller_decides_or_else_chance() {
    run(async {
        let collector = TestCollector::listen().await;
        let never = start(&collector, |settings| settings.sample = 0.0).tracer;
        let always = start(&collector, |_| {}).tracer;
        let context = |flags: &str| {
            let text = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
            TraceContext::parse(text.as_bytes())
        };
        let start = |tracer: &Tracer, caller| tracer.start("work", SpanKind::Server, caller);
        assert!(start(&never, None).is_none());
        let child = start(&never, context("01")).expect("its caller is recorded");
        assert_eq!(child.context().trace_id(), context("01").unwrap().trace_id());
        assert!(child.has_parent());
        assert!(start(&always, context("00")).is_none());
        assert!(!start(&always, None).expect("all are").has_parent());
        assert!(start(&Tracer::default(), context("01")).is_none(), "off");
    });
}
