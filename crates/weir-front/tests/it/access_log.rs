//! One line for each request.

use std::path::{Path, PathBuf};
use std::time::Duration;

use prometheus_client::registry::Registry;
use serde_json::Value;
use weir_front::{
    AccessLog, AccessLogMetrics, AccessLogSettings, AppSettings, LogFormat, ProxySettings,
};

use crate::test_front::{TestFront, Worker};

pub(crate) struct Logged {
    folder: tempfile::TempDir,
    log: AccessLog,
}

impl Logged {
    pub(crate) fn to(format: LogFormat) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = Some(folder.path().join("access.log"));
        let settings = AccessLogSettings { path, format, queue_max: 64 };
        let metrics = AccessLogMetrics::register(&mut Registry::default());
        Self { folder, log: AccessLog::open(settings, metrics).expect("to open it") }
    }

    fn front(&self, worker: &Worker) -> TestFront {
        self.front_of(AppSettings { workers: vec![worker.address()], ..AppSettings::new("app") })
    }

    pub(crate) fn front_of(&self, app: AppSettings) -> TestFront {
        TestFront::new(
            app,
            ProxySettings { access_log: Some(self.log.clone()), ..Default::default() },
        )
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("access.log")
    }

    /// Waits for so many lines, all of them JSON.
    pub(crate) async fn records(&self, count: usize) -> Vec<Value> {
        let lines = lines(&self.path(), count).await;
        lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// Waits for a line, for it is written behind the answer.
async fn lines(path: &Path, count: usize) -> Vec<String> {
    for _ in 0..1_000 {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= count {
            return text.lines().map(str::to_owned).collect();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never {count} lines in {}", path.display());
}

#[tokio::test]
async fn a_log_line_has_client_request_and_outcome() {
    let (logged, worker) = (Logged::to(LogFormat::Json), Worker::listen().await);
    let front = logged.front(&worker);
    let request =
        "GET /cart?x HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: me\r\nX-Request-Id: r-1\r\n\r\n";
    let mut client = front.send(request).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("served").await;
    client.read_until("served").await;
    let line = &logged.records(1).await[0];
    let expected = [
        ("client", Value::from("127.0.0.1")),
        ("method", "GET".into()),
        ("host", "shop.example".into()),
        ("target", "/cart?x".into()),
        ("protocol", "HTTP/1.1".into()),
        ("status", 200.into()),
        ("bytes", 6.into()),
        ("complete", true.into()),
        ("app", "app".into()),
        ("worker", worker.address().to_string().into()),
        ("request_id", "r-1".into()),
        ("user_agent", "me".into()),
    ];
    for (field, value) in expected {
        assert_eq!(line[field], value, "{field} of {line}");
    }
    let seconds = |field: &str| line[field].as_f64().expect("seconds");
    assert!(seconds("seconds") >= seconds("service_seconds") && seconds("queue_seconds") >= 0.0);
}

#[tokio::test]
async fn a_log_line_has_a_request_id_even_if_no_worker_gets_it() {
    let (logged, worker) = (Logged::to(LogFormat::Json), Worker::listen().await);
    let workers = vec![worker.address()];
    let app = AppSettings { workers, forwarded_headers: vec![], ..AppSettings::new("app") };
    let front = logged.front_of(app);
    let mut client = front.send("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: r-1\r\n\r\n").await;
    let mut connection = worker.accept().await;
    assert!(!connection.read_head().await.contains("x-request-id"));
    connection.respond("served").await;
    client.read_until("served").await;
    assert_eq!(logged.records(1).await[0]["request_id"], "r-1");
}

#[tokio::test]
async fn a_head_response_is_logged_as_complete() {
    let (logged, worker) = (Logged::to(LogFormat::Json), Worker::listen().await);
    let front = logged.front(&worker);
    front.apps.set_maintenance("app", true).expect("the app");
    let mut client = front.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    client.read_head().await;
    let line = &logged.records(1).await[0];
    assert_eq!((&line["bytes"], &line["complete"]), (&0.into(), &true.into()));
}

#[tokio::test]
async fn a_truncated_response_is_logged_with_its_sent_bytes() {
    let (logged, worker) = (Logged::to(LogFormat::Json), Worker::listen().await);
    let front = logged.front(&worker);
    let mut client = front.get("/").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
    client.read_until("half").await;
    drop(connection);
    client.read_to_end().await;
    let line = &logged.records(1).await[0];
    assert_eq!((&line["bytes"], &line["complete"]), (&4.into(), &false.into()));
}

#[tokio::test]
async fn a_socket_is_logged_and_a_rotated_file_is_recreated() {
    let (logged, worker) = (Logged::to(LogFormat::Common), Worker::listen().await);
    let front = logged.front(&worker);
    let upgrade =
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mut client = front.send(upgrade).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n").await;
    client.read_head().await;
    let first = lines(&logged.path(), 1).await;
    assert!(first[0].ends_with("\"GET /ws HTTP/1.1\" 101 0"), "{first:?}");

    let moved = logged.folder.path().join("access.log.1");
    std::fs::rename(logged.path(), moved).expect("to move it");
    logged.log.reopen();
    let mut client = front.send("GET / HTTP/1.1\r\n\r\n").await;
    client.read_head().await;
    let second = lines(&logged.path(), 1).await;
    assert!(second[0].contains("\"GET / HTTP/1.1\" 400 "), "{second:?}");
}

#[tokio::test]
async fn a_client_that_leaves_before_the_response_is_logged_and_counted() {
    let (worker, logged) = (Worker::listen().await, Logged::to(LogFormat::Json));
    let front = logged.front(&worker);
    let busy_client = front.get("/at-work").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    let waiting = front.get("/waiting").await;
    front.wait_for_metric("weir_front_app_waiting{app=\"app\"}", 1).await;
    drop(waiting);
    let gone = "weir_front_app_failures_total{app=\"app\",reason=\"client_gone\"}";
    front.wait_for_metric(gone, 1).await;
    drop(busy_client);
    front.wait_for_metric(gone, 2).await;
    let records = logged.records(2).await;
    for (record, target) in records.iter().zip(["/waiting", "/at-work"]) {
        assert_eq!((&record["target"], &record["status"]), (&target.into(), &499.into()));
        assert_eq!(record["complete"], false);
    }
}
