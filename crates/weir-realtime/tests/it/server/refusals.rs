//! What is refused, and when.

use super::*;

const NEVER: Duration = Duration::from_secs(3_600);

/// The answer to a request whose body never comes.
fn answer_without_body(server: &Server, target: &str, length: usize) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = format!("POST {target} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") || !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut bytes = [0; 1_000];
        let read = stream.read(&mut bytes).expect("an answer before the body");
        assert!(read > 0, "no answer: {answer:?}");
        answer.extend_from_slice(&bytes[..read]);
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn an_unauthorized_request_is_rejected_before_its_body_is_read() {
    let clock = Clock::manual(weir_base::clock::Timestamp::from_millis(1_000_000_000));
    let server =
        Server::with_clock(clock.clone(), |settings, _| settings.limits.api_body_timeout = NEVER);
    let body = json!({ "name": "e", "channel": "a", "data": "x".repeat(9_000) }).to_string();
    let path = "/apps/1/events";
    let right = server.target("POST", path, "", &body);
    let answer = |target: &str| answer_without_body(&server, target, body.len());
    for (target, status, why) in [
        (right.replace("/apps/1/", "/apps/2/"), 404, "no app has the id '2'"),
        (right.replace(KEY, "another-key"), 401, "auth_key 'another-key'"),
        (right.replace("auth_version=1.0", "auth_version=2.0"), 401, "auth_version '2.0'"),
        (right.replace("auth_signature=", "auth_signature=0"), 401, "Invalid signature"),
    ] {
        let answer = answer(&target);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {answer}");
        assert!(answer.contains(why), "{answer}");
    }
    let answer_to_long = answer_without_body(&server, &right, 100 << 20);
    assert!(answer_to_long.starts_with("HTTP/1.1 413 "), "{answer_to_long}");
    clock.advance(NEVER);
    assert!(answer(&right).contains("Timestamp expired"));
    let mut off = app();
    off.is_enabled = false;
    server.hub.reload(Settings::default(), vec![off]);
    let signed_now = server.target("POST", path, "", &body);
    assert!(answer(&signed_now).starts_with("HTTP/1.1 403 "));
}

/// Whose signature holds, but not for this body.
#[test]
fn a_body_that_differs_from_the_signed_one_is_rejected() {
    let server = Server::start();
    let body = json!({ "name": "e", "channel": "a", "data": "1" }).to_string();
    let target = server.target("POST", "/apps/1/events", "", &body);
    let other = body.replace('1', "2");
    let (status, text) = http(server.address, "POST", &target, "", &other);
    assert_eq!(status, 401);
    assert!(text.contains("Invalid body_md5"), "{text}");
    assert_eq!(http(server.address, "POST", &target, "", &body).0, 200);
}

/// Its histories would be counted for ever.
#[test]
fn an_app_removed_during_the_request_body_publishes_nothing() {
    let server = Server::start();
    let body = json!({ "name": "e", "channel": "a", "data": "1" }).to_string();
    let target = server.target("POST", "/apps/1/events", "", &body);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let length = body.len();
    // The server says when it waits for the body.
    write!(stream, "POST {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n").unwrap();
    let mut line = [0; 25];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.hub.reload(Settings::default(), vec![]);
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert_eq!(server.hub.overview().history_bytes, 0);
}
