//! Spans of requests, and the trace context that workers receive.

use tokio::sync::mpsc::Receiver;
use weir_base::clock::Clock;
use weir_front::{AppSettings, ProxySettings};
use weir_traces::span::SpanRecord;
use weir_traces::{AttributeValue, TraceMetrics, TraceSettings, Tracer};

use crate::test_front::{TestFront, Worker};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A front with one worker, and its finished spans.
struct TracedFront {
    front: TestFront,
    worker: Worker,
    spans: Receiver<Box<SpanRecord>>,
}

impl TracedFront {
    async fn open(settings: TraceSettings) -> Self {
        let (tracer, spans) = Tracer::new(&settings, Clock::system(), TraceMetrics::default());
        let worker = Worker::listen().await;
        let app = AppSettings { workers: vec![worker.address()], ..AppSettings::new("shop") };
        let settings = ProxySettings { tracer, ..ProxySettings::default() };
        Self { front: TestFront::new(app, settings), worker, spans }
    }

    /// Sends a request with these fields. Returns the head that the worker receives.
    async fn request(&self, fields: &str) -> String {
        let request = format!("GET /cart?card=1 HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut client = self.front.send(&request).await;
        let mut connection = self.worker.accept().await;
        let head = connection.read_head().await;
        connection.respond("served").await;
        client.read_until("served").await;
        head
    }
}

fn all() -> TraceSettings {
    TraceSettings { sample: 1.0, ..TraceSettings::default() }
}

fn followed(sample: f64) -> TraceSettings {
    TraceSettings { sample, follow_clients: true, ..TraceSettings::default() }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn attribute<'a>(span: &'a SpanRecord, name: &str) -> Option<&'a AttributeValue> {
    span.attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[tokio::test]
async fn a_request_without_a_caller_begins_a_trace_that_the_worker_continues() {
    let mut traced = TracedFront::open(all()).await;
    let head = traced.request("tracestate: a=b\r\n").await;
    let span = traced.spans.recv().await.expect("a span");
    let written = span.context.to_traceparent();
    assert_eq!(field(&head, "traceparent").map(str::as_bytes), Some(&written[..]));
    assert_eq!(field(&head, "tracestate"), None, "it was of no trace");
    assert_eq!((span.parent, &*span.name, &span.error), (None, "GET shop", &None));
    assert_eq!(attribute(&span, "url.path"), Some(&"/cart".into()));
    assert_eq!(attribute(&span, "http.response.status_code"), Some(&200_u64.into()));
    assert_eq!(attribute(&span, "weir.worker"), Some(&traced.worker.address().to_string().into()));
    assert!(attribute(&span, "weir.queue_seconds").is_some());
}

#[tokio::test]
async fn a_followed_client_decides() {
    let mut traced = TracedFront::open(followed(0.0)).await;
    let caller = format!("00-{TRACE}-b7ad6b7169203331-01");
    let head = traced.request(&format!("traceparent: {caller}\r\ntracestate: a=b\r\n")).await;
    let span = traced.spans.recv().await.expect("a span");
    assert_eq!(span.parent.map(|parent| parent.to_traceparent().to_vec()), Some(caller.into()));
    assert_eq!(field(&head, "tracestate"), Some("a=b"));
    let sent = field(&head, "traceparent").expect("a context");
    assert_eq!((&sent[3..35], sent.matches(TRACE).count()), (TRACE, 1));
    assert_eq!(head.matches("traceparent").count(), 1, "{head}");

    let mut traced = TracedFront::open(followed(1.0)).await;
    let caller = format!("00-{TRACE}-b7ad6b7169203331-00");
    let head = traced.request(&format!("traceparent: {caller}\r\n")).await;
    assert_eq!(field(&head, "traceparent"), Some(&*caller));
    assert!(traced.spans.try_recv().is_err());
}

#[tokio::test]
async fn other_clients_do_not_decide_and_their_fields_pass() {
    let settings = TraceSettings { sample: 0.0, ..TraceSettings::default() };
    let mut traced = TracedFront::open(settings).await;
    let caller = format!("00-{TRACE}-b7ad6b7169203331-01");
    let head = traced.request(&format!("traceparent: {caller}\r\ntracestate: a=b\r\n")).await;
    assert_eq!(field(&head, "traceparent"), Some(&*caller));
    assert_eq!(field(&head, "tracestate"), Some("a=b"));
    assert!(traced.spans.try_recv().is_err());
}

#[tokio::test]
async fn a_client_that_disconnects_is_an_error() {
    let mut traced = TracedFront::open(all()).await;
    let client = traced.front.get("/").await;
    let mut connection = traced.worker.accept().await;
    connection.read_head().await;
    drop(client);
    let span = traced.spans.recv().await.expect("a span");
    assert!(span.error.as_ref().is_some_and(|error| error.contains("disconnected")));
    assert_eq!(attribute(&span, "http.response.status_code"), None);
    drop(connection);
}

#[tokio::test]
async fn a_response_of_weir_itself_has_a_span() {
    let mut traced = TracedFront::open(all()).await;
    traced.front.apps.set_maintenance("shop", true).expect("the app");
    let mut client = traced.front.get("/").await;
    client.read_head().await;
    let span = traced.spans.recv().await.expect("a span");
    assert_eq!(attribute(&span, "http.response.status_code"), Some(&503_u64.into()));
    assert!(span.error.is_some());
}
