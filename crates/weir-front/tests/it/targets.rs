//! A request's target reaches its worker byte for byte, or nobody.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use weir_front::{AppLimits, AppSettings, LogFormat, ProxySettings, UpstreamAddress};

use crate::access_log::Logged;
use crate::test_front::{TIMEOUT, TestFront, Worker, status};

/// A worker that answers with the target that it got, a line feed and the body.
fn echo() -> UpstreamAddress {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // It ends with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || while matches!(echo_one(&stream), Ok(true)) {});
        }
    });
    UpstreamAddress::Tcp(address)
}

/// Whether there was a request.
fn echo_one(mut stream: &TcpStream) -> io::Result<bool> {
    // One request at a time: nothing is read ahead of the next one.
    let mut reader = BufReader::with_capacity(1, stream);
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line)? == 0 {
        return Ok(false);
    }
    let target = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default().to_vec();
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut field = String::new();
        reader.read_line(&mut field)?;
        match field.trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().expect("a length"),
            Some(("transfer-encoding", _)) => is_chunked = true,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = Vec::new();
    while is_chunked {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim_end(), 16).expect("a size");
        reader.by_ref().take(size).read_to_end(&mut body)?;
        reader.read_line(&mut String::new())?;
        is_chunked = size > 0;
    }
    reader.take(length).read_to_end(&mut body)?;
    let answer = [&target[..], b"\n", &body].concat();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
    stream.write_all(&[head.as_bytes(), &answer].concat())?;
    Ok(true)
}

/// A client's connection.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(front: &TestFront) -> Self {
        let stream = TcpStream::connect(front.address()).expect("to connect");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self(BufReader::new(stream))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("to write");
    }

    /// The status and the body of the next answer.
    fn read_response(&mut self) -> (u16, Vec<u8>) {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            assert!(self.0.read_line(&mut head).expect("to read") > 0, "ended in {head:?}");
            let field = head[start..].trim_end().to_ascii_lowercase();
            if let Some(("content-length", value)) = field.split_once(": ") {
                length = value.parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("the body");
        (status(&head), body)
    }

    /// Whether the connection ends without another byte.
    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// What the worker got for a target, if it got anything.
    fn request(&mut self, target: &[u8]) -> Result<Vec<u8>, u16> {
        self.write(&[b"GET ", target, b" HTTP/1.1\r\nHost: a.example\r\n\r\n"].concat());
        let (status, mut body) = self.read_response();
        assert!(status != 200 || body.pop() == Some(b'\n'), "no body");
        if status == 200 { Ok(body) } else { Err(status) }
    }
}

/// What nginx 1.22 passes on of each, with a `proxy_pass` that has no path of its own.
const SERVED: &[(&[u8], &[u8])] = &[
    (b"/a?filter={\"a\":1}", b"/a?filter={\"a\":1}"),
    (b"/a\"b", b"/a\"b"),
    (b"/<x>?<y>", b"/<x>?<y>"),
    (b"/`?`", b"/`?`"),
    (b"/\xff\xfe?\x80", b"/\xff\xfe?\x80"),
    (b"/caf\xc3\xa9?\xc3\xa9", b"/caf\xc3\xa9?\xc3\xa9"),
    (b"/a#b", b"/a#b"),
    (b"/a#b?c#d", b"/a#b?c#d"),
    (b"/a?b#c", b"/a?b#c"),
    (b"/#", b"/#"),
    (b"/^\\|{}[]~", b"/^\\|{}[]~"),
    (b"//x\"y", b"//x\"y"),
    (b"/a\"b/../c", b"/a\"b/../c"),
    (b"http://h.example/x\"y?\"z", b"/x\"y?\"z"),
    (b"HTTP://h.example/\"", b"/\""),
    (b"http://h.example?x\"", b"/?x\""),
    (b"http://h.example?x", b"/?x"),
    (b"http://h.example", b"/"),
];

/// Those that nginx refuses.
const REFUSED: &[&[u8]] = &[
    b"\"",
    b"#",
    b"*",
    b"*\"",
    b"foo\"bar",
    b"?x\"",
    b"/a b",
    b"/a\tb",
    b"/a\0b",
    b"/\x01\"",
    b"/\x7f\"",
    b"/\"\rb",
    b"/\"\nb",
    b"http://h\"x/y",
    b"http://h\xff/y",
    b"http://h.example#x",
    b"http:///x\"",
];

#[test]
fn workers_get_the_same_targets_as_behind_nginx() {
    let front = TestFront::to(AppLimits::default(), vec![echo()]);
    let mut kept = Client::connect(&front);
    for (target, expected) in SERVED {
        let name = target.escape_ascii();
        let first = Client::connect(&front).request(target);
        assert_eq!(first.as_deref(), Ok(*expected), "first: {name}");
        assert_eq!(kept.request(target).as_deref(), Ok(*expected), "later: {name}");
    }
}

#[test]
fn targets_that_nginx_rejects_give_400() {
    let front = TestFront::to(AppLimits::default(), vec![echo()]);
    for target in REFUSED {
        let name = target.escape_ascii();
        let first = Client::connect(&front).request(target);
        // Behind a space there is a version, which this is not.
        assert!(matches!(first, Err(400 | 505)), "first: {name}: {first:?}");
        let mut kept = Client::connect(&front);
        assert_eq!(kept.request(b"/").as_deref(), Ok(&b"/"[..]));
        assert_eq!(kept.request(target), Err(400), "later: {name}");
        // Where the head ends is clear in that one.
        assert!(*target == b"*" || kept.is_closed(), "{name}");
    }
    let answered = "weir_front_app_answers_total{app=\"app\",status=\"2xx\"}";
    assert_eq!(front.metric(answered), REFUSED.len() as u64);
}

/// nginx looks for a `location` before the `#`, too.
#[test]
fn routes_match_the_encoded_target_without_fragment() {
    let (paths, workers) = (vec!["/shop".to_owned(), "/\u{e9}%3C".to_owned()], vec![echo()]);
    let app = AppSettings { workers, paths, ..AppSettings::new("app") };
    let front = TestFront::new(app, ProxySettings::default());
    let mut client = Client::connect(&front);
    for target in [&b"/shop#/other"[..], b"/shop/\"", b"/\xc3\xa9</\xff"] {
        assert_eq!(client.request(target).as_deref(), Ok(target), "{}", target.escape_ascii());
    }
    for target in [&b"/shop\""[..], b"/other#/shop", b"/a`"] {
        assert_eq!(client.request(target), Err(404), "{}", target.escape_ascii());
    }
}

#[tokio::test]
async fn the_access_log_has_targets_as_sent() {
    let logged = Logged::to(LogFormat::Json);
    let front = logged.front_of(AppSettings { workers: vec![echo()], ..AppSettings::new("app") });
    let mut client = Client::connect(&front);
    client.request("/\u{e9}?{\"a\":1}#b".as_bytes()).expect("served");
    client.request(b"/\xff\"").expect("served");
    let records = logged.records(2).await;
    assert_eq!(records[0]["target"], "/\u{e9}?{\"a\":1}#b");
    assert_eq!(records[1]["target"], "/%FF\"", "no text");
}

/// How a request says where its body ends.
#[derive(Clone, Copy, Debug)]
enum Said {
    Nothing,
    Length,
    Chunks(usize),
}

#[derive(Clone, Debug)]
struct TestRequest {
    target: Vec<u8>,
    said: Said,
    /// Beside those that it needs.
    fields: usize,
    body: Vec<u8>,
}

impl TestRequest {
    fn bytes(&self) -> Vec<u8> {
        let (fields, body) = match self.said {
            Said::Nothing => (String::new(), Vec::new()),
            Said::Length => (format!("Content-Length: {}\r\n", self.body.len()), self.body.clone()),
            Said::Chunks(size) => {
                let mut body = Vec::new();
                for chunk in self.body.chunks(size) {
                    body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    body.extend_from_slice(&[chunk, b"\r\n"].concat());
                }
                body.extend_from_slice(b"0\r\n\r\n");
                ("Transfer-Encoding: chunked\r\n".to_owned(), body)
            }
        };
        let more = "A: b\r\n".repeat(self.fields);
        let rest = format!(" HTTP/1.1\r\nHost: a\r\n{more}{fields}\r\n");
        [b"POST ", &self.target[..], rest.as_bytes(), &body].concat()
    }

    /// What its worker answers with.
    fn echoed(&self) -> Vec<u8> {
        [&self.target[..], b"\n", &self.body].concat()
    }
}

fn test_request() -> impl Strategy<Value = TestRequest> {
    let usual = prop_oneof![Just(b'a'), Just(b'?'), Just(b'/')];
    let taken = (0x21_u8..).prop_filter("refused", |byte| *byte != 0x7f);
    let target = prop::collection::vec(prop_oneof![usual, taken], 0..40);
    // Bodies that look like requests with targets.
    let line = Just(b"\r\n\r\nGET /\"<\xff HTTP/1.1\r\n\r\n".to_vec());
    let body = prop_oneof![line, prop::collection::vec(any::<u8>(), 1..300)];
    let said =
        prop_oneof![Just(Said::Nothing), Just(Said::Length), (1_usize..50).prop_map(Said::Chunks)];
    // Usual ones, and more than hyper takes without being told.
    let fields = prop_oneof![8 => Just(0), 1 => 95_usize..105, 1 => Just(300)];
    (target, said, fields, body).prop_map(|(path, said, fields, body)| {
        let body = if matches!(said, Said::Nothing) { Vec::new() } else { body };
        TestRequest { target: [b"/", &path[..]].concat(), said, fields, body }
    })
}

/// Requests behind one another on a connection, sent in pieces without waiting for answers, and at
/// last one with a target that is refused.
#[test]
fn targets_and_bodies_reach_workers_unchanged_or_not_at_all() {
    let front = TestFront::to(AppLimits::default(), vec![echo()]);
    let refused = prop::sample::select((0..=0x20).chain([0x7f]).collect::<Vec<u8>>());
    let case = (
        prop::collection::vec(test_request(), 1..5),
        prop::collection::vec(1_usize..200, 1..6),
        prop::option::of((test_request(), refused)),
    );
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&case, |(requests, sizes, refused)| {
            let mut client = Client::connect(&front);
            let bytes: Vec<u8> = requests.iter().flat_map(TestRequest::bytes).collect();
            let (mut rest, mut sizes) = (&bytes[..], sizes.iter().cycle());
            while let (false, Some(size)) = (rest.is_empty(), sizes.next()) {
                let (piece, more) = rest.split_at(rest.len().min(*size));
                client.write(piece);
                rest = more;
            }
            if let Some((mut last, byte)) = refused.clone() {
                last.target.push(byte);
                last.target.push(b'"');
                client.write(&last.bytes());
            }
            for request in &requests {
                prop_assert_eq!(client.read_response(), (200, request.echoed()));
            }
            if refused.is_some() {
                prop_assert_eq!(client.read_response().0, 400);
                prop_assert!(client.is_closed());
            }
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[tokio::test]
async fn the_target_of_a_websocket_is_kept() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let upgrade = "GET /ws?{\"a\":\u{e9}}#b HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\
        Upgrade: websocket\r\n\r\n\"<> HTTP/1.1\r\n\r\n";
    for before in ["", "GET /before HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut client = front.send(before).await;
        if !before.is_empty() {
            let mut connection = worker.accept().await;
            connection.read_head().await;
            connection.respond("ok").await;
            client.read_until("ok").await;
        }
        client.write(upgrade).await;
        let mut connection = worker.accept().await;
        let head = connection.read_head().await;
        assert!(head.starts_with("GET /ws?{\"a\":\u{e9}}#b HTTP/1.1\r\n"), "{head}");
        connection
            .write("HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            .await;
        client.read_head().await;
        assert_eq!(connection.read_until("\r\n\r\n").await, "\"<> HTTP/1.1\r\n\r\n", "no head");
    }
}

/// As nginx does.
#[test]
fn a_malformed_chunk_size_is_rejected_at_once() {
    let front = TestFront::to(AppLimits::default(), vec![echo()]);
    let start = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (size, expected) in [
        ("ffffffffffffffff", 400),
        ("fffffffffffffffff", 400),
        ("10000000000000005", 400),
        ("8000000000000000", 400),
        ("7fffffffffffffff", 400),
        ("g", 400),
        ("", 400),
        (" 5", 400),
        ("00000000000000000005", 200),
        ("5 ", 200),
        ("5\t", 200),
        ("5;x", 200),
    ] {
        let chunks = format!("{size}\r\nhello\r\n0\r\n\r\n");
        // With the head, and behind it.
        for pieces in [vec![format!("{start}{chunks}")], vec![start.to_owned(), chunks]] {
            let mut client = Client::connect(&front);
            for piece in pieces {
                client.write(piece.as_bytes());
            }
            let (status, body) = client.read_response();
            assert_eq!(status, expected, "{size:?}: {}", body.escape_ascii());
            assert!(status == 200 || client.is_closed(), "{size:?}");
        }
    }
}

#[tokio::test]
async fn a_malformed_chunk_size_in_a_response_gives_502() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    for size in ["ffffffffffffffff", "fffffffffffffffff", "8000000000000000", "g"] {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut client = front.get("/").await;
        let mut connection = worker.accept().await;
        connection.read_head().await;
        connection.write(&format!("{head}5\r\nhello\r\n{size}\r\nhello\r\n")).await;
        assert_eq!(status(&client.read_head().await), 502, "{size}");
        // Too late to say so: it breaks off.
        let mut client = front.get("/").await;
        let mut connection = worker.accept().await;
        connection.read_head().await;
        connection.write(head).await;
        assert_eq!(status(&client.read_head().await), 200);
        connection.write(&format!("{size}\r\nhello\r\n")).await;
        assert_eq!(client.read_to_end().await, "", "{size}");
    }
}
