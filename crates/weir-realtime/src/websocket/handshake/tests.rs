use super::*;

/// A request as a list of header fields. `-name` in a test's changes removes a field.
struct Request {
    method: &'static str,
    minor_version: u8,
    headers: Vec<(&'static str, &'static [u8])>,
}

impl RequestHead for Request {
    fn method(&self) -> &str {
        self.method
    }

    fn http_minor_version(&self) -> u8 {
        self.minor_version
    }

    fn header_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers
            .iter()
            .filter(move |(candidate, _)| candidate.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }
}

/// Returns the example request of RFC 6455, 1.2.
fn request() -> Request {
    Request {
        method: "GET",
        minor_version: 1,
        headers: vec![
            ("Host", b"server.example.com"),
            ("Upgrade", b"websocket"),
            ("Connection", b"Upgrade"),
            ("Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Version", b"13"),
        ],
    }
}

impl Request {
    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value.as_bytes()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        let before = self.headers.len();
        self.headers.retain(|(candidate, _)| *candidate != name);
        assert!(self.headers.len() < before, "{name} is there");
        self
    }

    fn instead(self, name: &'static str, value: &'static str) -> Self {
        self.without(name).with(name, value)
    }

    fn refusal(&self) -> HandshakeError {
        accept(self, &[]).expect_err("refused")
    }

    fn protocol(&self, spoken: &[&str]) -> Option<&str> {
        accept(self, spoken).expect("accepted").protocol
    }
}

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut output = Vec::new();
    write(&mut output);
    String::from_utf8(output).expect("text")
}

#[test]
fn the_handshake_example_of_the_standard_is_accepted() {
    let request = request();
    let upgrade = accept(&request, &[]).expect("accepted");
    assert_eq!(
        text(|output| upgrade.write_response(output)),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    );
    assert_eq!((upgrade.protocol, upgrade.origin), (None, None));
}

#[test]
fn header_names_and_lists_are_compared_case_insensitively() {
    let request = request()
        .without("Upgrade")
        .with("upgrade", "h2c, WebSocket")
        .without("Connection")
        .with("CONNECTION", "keep-alive")
        .with("connection", " , upgrade");
    assert!(accept(&request, &[]).is_ok());
}

#[test]
fn a_request_without_upgrade_gets_426_with_the_version() {
    for request in [
        request().without("Upgrade"),
        request().without("Connection"),
        request().instead("Upgrade", "websockets"),
        request().instead("Connection", "keep-alive"),
    ] {
        assert_eq!(request.refusal(), HandshakeError::NotAnUpgrade);
    }
    for request in [
        request().without("Sec-WebSocket-Version"),
        request().instead("Sec-WebSocket-Version", "8"),
        request().instead("Sec-WebSocket-Version", "13, 8"),
        request().with("Sec-WebSocket-Version", "8"),
    ] {
        assert_eq!(request.refusal(), HandshakeError::WebSocketVersion);
    }
    let body = "only version 13 of WebSocket is spoken here (Sec-WebSocket-Version)\n";
    assert_eq!(
        text(|output| HandshakeError::WebSocketVersion.write_response(output)),
        format!(
            "HTTP/1.1 426 Upgrade Required\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    );
}

#[test]
fn other_methods_and_older_http_are_rejected() {
    for method in ["POST", "get", "CONNECT"] {
        let request = Request { method, ..request() };
        assert_eq!(request.refusal(), HandshakeError::MethodNotGet);
    }
    let request = Request { minor_version: 0, ..request() };
    assert_eq!(request.refusal(), HandshakeError::HttpVersion);
    let response = text(|output| HandshakeError::MethodNotGet.write_response(output));
    assert!(response.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{response}");
    assert!(response.contains("\r\nAllow: GET\r\n"), "{response}");
}

#[test]
fn a_key_occurs_once_and_has_16_bytes() {
    for key in [
        "",
        "dGhlIHNhbXBsZSBub25j",
        "dGhlIHNhbXBsZSBub25jZWQ=",
        "dGhlIHNhbXBsZSBub25jZQ",
        "dGhlIHNhbXBsZSBub25jZ!==",
        "dGhlIHNhbXBsZSBub25jZWRkZGRkZGRkZGRkZGRkZGRkZGRkZA==",
    ] {
        assert_eq!(
            request().instead("Sec-WebSocket-Key", key).refusal(),
            HandshakeError::Key,
            "{key}"
        );
    }
    assert_eq!(request().without("Sec-WebSocket-Key").refusal(), HandshakeError::Key);
    let twice = request().with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    assert_eq!(twice.refusal(), HandshakeError::Key);
    let spaces = request().instead("Sec-WebSocket-Key", " dGhlIHNhbXBsZSBub25jZQ==\t");
    assert!(accept(&spaces, &[]).is_ok());
}

#[test]
fn a_request_has_one_host_and_no_body() {
    assert_eq!(request().without("Host").refusal(), HandshakeError::Host);
    assert_eq!(request().with("Host", "other").refusal(), HandshakeError::Host);
    assert_eq!(request().with("Content-Length", "1").refusal(), HandshakeError::Body);
    assert_eq!(request().with("Transfer-Encoding", "chunked").refusal(), HandshakeError::Body);
    assert!(accept(&request().with("Content-Length", "0"), &[]).is_ok());
}

#[test]
fn the_clients_first_supported_protocol_is_chosen() {
    let offer = || request().with("Sec-WebSocket-Protocol", "soap, wamp");
    assert_eq!(offer().protocol(&[]), None);
    assert_eq!(offer().protocol(&["mqtt"]), None);
    assert_eq!(offer().protocol(&["wamp", "soap"]), Some("soap"));
    assert_eq!(offer().protocol(&["WAMP", "wamp"]), Some("wamp"));
    let twice = offer().with("Sec-WebSocket-Protocol", "mqtt");
    assert_eq!(twice.protocol(&["mqtt"]), Some("mqtt"));
    let response =
        text(|output| accept(&offer(), &["wamp"]).expect("accepted").write_response(output));
    assert!(response.ends_with("\r\nSec-WebSocket-Protocol: wamp\r\n\r\n"), "{response}");
    let malformed = request().with("Sec-WebSocket-Protocol", "wamp, two words");
    assert_eq!(malformed.refusal(), HandshakeError::Protocol);
}

#[test]
fn the_origin_is_returned_for_the_caller_to_check() {
    let from = request().with("Origin", "https://example.com");
    assert_eq!(accept(&from, &[]).expect("accepted").origin, Some("https://example.com"));
    let twice = from.with("Origin", "https://example.org");
    assert_eq!(twice.refusal(), HandshakeError::OriginMalformed);
    assert_eq!(request().with("Origin", "https://é").refusal(), HandshakeError::OriginMalformed);
    assert_eq!(HandshakeError::OriginNotAllowed.status(), 403);
}

#[test]
fn extensions_are_not_negotiated() {
    let request = request()
        .with("Sec-WebSocket-Extensions", "permessage-deflate; server_no_context_takeover");
    let upgrade = accept(&request, &[]).expect("accepted");
    let response = text(|output| upgrade.write_response(output)).to_ascii_lowercase();
    assert!(!response.contains("extensions") && !response.contains("deflate"), "{response}");
}
