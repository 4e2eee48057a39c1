//! What a worker sees of a request, and what never reaches one.

use weir_front::{AppLimits, AppSettings, ForwardedHeader, ProxySettings};

use crate::test_front::{TestFront, Worker, get, status};

#[tokio::test]
async fn a_worker_gets_the_request_and_the_client_address() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let request = "GET http://shop.example:80/cart?x=%2F&y HTTP/1.1\r\nHost: forged.example\r\n\
        Accept: */*\r\nCookie: a=1\r\nConnection: keep-alive, X-Private\r\nX-Private: 1\r\n\
        Keep-Alive: 5\r\nTE: trailers\r\nProxy-Connection: close\r\nExpect: 100-continue\r\n\
        X-Forwarded-For: 203.0.113.9\r\nX_Forwarded_For: 203.0.113.9\r\n\
        X-Forwarded-Proto: https\r\nForwarded: for=203.0.113.9\r\nX-Request-Id: abc-1\r\n\r\n";
    let mut client = front.send(request).await;
    let mut connection = worker.accept().await;
    let head = connection.read_head().await;
    let mut lines: Vec<&str> = head.lines().collect();
    let start = lines.iter().position(|line| line.starts_with("x-request-start: t=1"));
    lines.remove(start.expect("when the request came"));
    lines[1..].sort_unstable();
    assert_eq!(
        lines,
        [
            "GET /cart?x=%2F&y HTTP/1.1",
            "",
            "accept: */*",
            "cookie: a=1",
            "forwarded: for=127.0.0.1;proto=http;host=\"shop.example:80\"",
            "host: shop.example:80",
            "x-forwarded-for: 127.0.0.1",
            "x-forwarded-host: shop.example:80",
            "x-forwarded-proto: http",
            "x-request-id: abc-1",
        ]
    );
    connection
        .write("HTTP/1.1 201 Made\r\nX-Own: 1\r\nKeep-Alive: 9\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nok")
        .await;
    let head = client.read_head().await;
    assert_eq!(status(&head), 201);
    assert!(head.contains("x-own: 1") && head.contains("content-length: 2"), "{head}");
    assert!(!head.contains("x-hop") && !head.contains("keep-alive"), "{head}");
    client.read_until("ok").await;
}

/// What a client says under these names reaches nobody, whether or not Weir has words of its own.
#[tokio::test]
async fn forwarded_headers_follow_the_app_and_are_not_spoofable() {
    const FORGED: &str = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\n\
        X-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\nX-Forwarded-Port: 99\r\n\
        Forwarded: for=203.0.113.9\r\nX-Real-IP: 203.0.113.9\r\nX-Request-Start: t=99\r\n\
        X-Request-Id: abc-1\r\n\r\n";
    let x_forwarded =
        ["x-forwarded-for: 127.0.0.1", "x-forwarded-proto: http", "x-forwarded-host: a"];
    let forwarded = ["forwarded: for=127.0.0.1;proto=http;host=\"a\""];
    for (headers, expected) in [
        (vec![], &[][..]),
        (vec![ForwardedHeader::XForwarded], &x_forwarded),
        (vec![ForwardedHeader::Forwarded], &forwarded),
        (vec![ForwardedHeader::XRequestId], &["x-request-id: abc-1"]),
    ] {
        let worker = Worker::listen().await;
        let (workers, forwarded_headers) = (vec![worker.address()], headers);
        let app = AppSettings { workers, forwarded_headers, ..AppSettings::new("app") };
        let front = TestFront::new(app, ProxySettings::default());
        let _client = front.send(FORGED).await;
        let head = worker.accept().await.read_head().await;
        let told: Vec<&str> = head.lines().skip(2).filter(|line| !line.is_empty()).collect();
        assert_eq!(told, expected);
    }
}

#[tokio::test]
async fn x_request_start_can_be_sent_alone() {
    let worker = Worker::listen().await;
    let forwarded_headers = vec![ForwardedHeader::XRequestStart];
    let workers = vec![worker.address()];
    let app = AppSettings { workers, forwarded_headers, ..AppSettings::new("app") };
    let front = TestFront::new(app, ProxySettings::default());
    let _client = front.send("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Start: t=99\r\n\r\n").await;
    let head = worker.accept().await.read_head().await;
    let rest = head.strip_prefix("GET / HTTP/1.1\r\nhost: a\r\nx-request-start: t=1");
    let digits = rest.and_then(|rest| rest.strip_suffix("\r\n\r\n")).expect("one field more");
    assert!(digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{head}");
}

#[tokio::test]
async fn a_request_without_a_valid_id_gets_one() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut ids = Vec::new();
    for id in ["", "X-Request-Id: a b\r\n", "X-Request-Id: \"x\"\r\n"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{id}\r\n");
        let mut client = front.send(&request).await;
        let mut connection = worker.accept().await;
        let head = connection.read_head().await;
        let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: "));
        ids.push(id.expect("an id").to_owned());
        connection.respond("ok").await;
        client.read_until("ok").await;
    }
    assert!(ids.iter().all(|id| id.len() == 32));
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

/// What could mean one thing here and another to a worker.
#[tokio::test]
async fn ambiguous_requests_reach_no_worker() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    for (request, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: user@a\r\n\r\n", 400),
        ("GET a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 400),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405),
        ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n folded: 1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ] {
        let mut client = front.send(request).await;
        let head = client.read_head().await;
        assert_eq!(status(&head), expected, "{request:?}");
    }
    assert!(worker.has_no_connection().await);
}

#[tokio::test]
async fn a_body_without_a_certain_end_closes_the_connection() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let coding = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n";
    let mut client = front.send(&format!("{coding}0\r\n\r\n{}", get("/behind"))).await;
    let answer = client.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 501 ") && !answer.contains("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    assert!(worker.has_no_connection().await);
}

#[tokio::test]
async fn heads_with_many_fields_pass_both_ways() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let fields: String = (0..200).map(|number| format!("X-{number}: y\r\n")).collect();
    let mut client = front.send(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).await;
    let mut connection = worker.accept().await;
    assert_eq!(connection.read_head().await.matches("\r\nx-").count(), 200 + 5, "and Weir's own");
    let cookies: String = (0..200).map(|number| format!("Set-Cookie: a{number}=1\r\n")).collect();
    connection.write(&format!("HTTP/1.1 200 OK\r\n{cookies}Content-Length: 2\r\n\r\nok")).await;
    let head = client.read_head().await;
    assert_eq!((status(&head), head.matches("set-cookie: ").count()), (200, 200));

    let limits = AppLimits { answer_headers_max: 100, ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let mut client = front.get("/").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(&format!("HTTP/1.1 200 OK\r\n{cookies}Content-Length: 2\r\n\r\nok")).await;
    let head = client.read_head().await;
    assert_eq!(status(&head), 502, "{head}");
    client.read_until("answer_headers_max").await;
    let failures = "weir_front_app_failures_total{app=\"app\",reason=\"answer_head\"}";
    assert_eq!(front.metric(failures), 1);
}

#[tokio::test]
async fn duplicate_content_lengths_are_sent_once() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let smuggled = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\
        Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut client = front.send(smuggled).await;
    let mut connection = worker.accept().await;
    let head = connection.read_head().await;
    // The body is its chunks, of which there is none.
    assert!(head.contains("content-length: 0") && !head.contains("transfer-encoding"), "{head}");
    connection.respond("first").await;
    client.read_until("first").await;
    // Nothing that follows is believed (RFC 9112, section 6.1).
    assert_eq!(client.read_to_end().await, "");
    assert!(worker.has_no_connection().await);
}

#[tokio::test]
async fn http_1_0_and_head_requests_are_served() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = front.send("GET /old HTTP/1.0\r\n\r\n").await;
    let mut connection = worker.accept().await;
    assert!(connection.read_head().await.starts_with("GET /old HTTP/1.1\r\n"));
    connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    connection.write("2\r\nok\r\n0\r\n\r\n").await;
    let answer = client.read_to_end().await;
    assert!(answer.ends_with("\r\n\r\nok") && !answer.contains("chunked"), "{answer}");

    let mut client = front.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut connection = worker.accept().await;
    assert!(connection.read_head().await.starts_with("HEAD "));
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await;
    assert!(client.read_head().await.contains("content-length: 1000"));
    client.write(&get("/next")).await;
    assert!(worker.accept().await.read_head().await.starts_with("GET /next "));
}
