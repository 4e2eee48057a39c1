//! Against tungstenite, in both directions: over TCP with handshake, messages and closing, and the
//! whole table of cases.

use std::io::{self, Cursor, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tungstenite::error::Error;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::{self, WebSocketConfig};
use tungstenite::{Bytes, WebSocket};
use weir_realtime::websocket::handshake::{self, RequestHead};
use weir_realtime::websocket::{Decoder, MaskKey, Message, Role};

use super::websocket::{Event, KEY};
use super::websocket_cases::{LARGE, all};

const READ_BYTES: usize = 16 << 10;
const CLIENT_KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// A peer's message in our words.
fn event(message: tungstenite::Message) -> Event {
    match message {
        tungstenite::Message::Text(text) => Event::Text(text.as_str().to_owned()),
        tungstenite::Message::Binary(bytes) => Event::Binary(bytes.to_vec()),
        tungstenite::Message::Ping(payload) => Event::Ping(payload.to_vec()),
        tungstenite::Message::Pong(payload) => Event::Pong(payload.to_vec()),
        tungstenite::Message::Close(frame) => {
            Event::Close(frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned())))
        }
        tungstenite::Message::Frame(frame) => panic!("{frame}"),
    }
}

/// What a client sends in these tests: every kind, at every form of the length.
fn messages() -> Vec<Event> {
    let mut messages = vec![
        Event::Ping(b"are you there?".to_vec()),
        Event::Text("κόσμε \u{10ffff}".to_owned()),
        Event::Ping(vec![0xff; 125]),
    ];
    for bytes in [0, 1, 125, 126, 127, 1_000, 65_535, 65_536, 1 << 20] {
        messages.push(Event::Text("*".repeat(bytes)));
        messages.push(Event::Binary(vec![0xfe; bytes]));
    }
    messages
}

/// The answer of an echo server: a pong for a ping, a close for a close.
fn echo(message: &Message<'_>, output: &mut Vec<u8>) {
    match message {
        Message::Ping(payload) => Message::Pong(payload).encode(output, None),
        Message::Pong(_) => {}
        message => message.encode(output, None),
    }
}

fn echoed(sent: &[Event]) -> Vec<Event> {
    let pong = |event: &Event| match event {
        Event::Ping(payload) => Event::Pong(payload.clone()),
        event => event.clone(),
    };
    sent.iter().map(pong).collect()
}

struct Head<'a, 'b>(httparse::Request<'a, 'b>);

impl RequestHead for Head<'_, '_> {
    fn method(&self) -> &str {
        self.0.method.unwrap()
    }

    fn http_minor_version(&self) -> u8 {
        self.0.version.unwrap()
    }

    fn header_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let headers = self.0.headers.iter();
        headers.filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|one| one.value)
    }
}

/// Everything up to the empty line. Nobody here sends a frame before the answer.
fn read_head(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    head
}

/// A peer that says nothing any more is an error, not a test that never ends.
const SILENCE_MAX: Duration = Duration::from_secs(60);

fn impatient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    stream
}

/// Our server: one connection, until it is closed.
fn serve(listener: &TcpListener) {
    let mut stream = impatient(listener.accept().unwrap().0);
    let bytes = read_head(&mut stream);
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    assert!(request.parse(&bytes).unwrap().is_complete());
    let mut output = Vec::new();
    handshake::accept(&Head(request), &["echo"]).unwrap().write_response(&mut output);
    let mut decoder = Decoder::default();
    let mut input = vec![0; READ_BYTES];
    loop {
        stream.write_all(&output).unwrap();
        output.clear();
        if decoder.is_closed() {
            return;
        }
        let read = stream.read(&mut input).unwrap();
        assert!(read > 0, "the client closes with a close frame");
        let mut messages = decoder.messages(&mut input[..read], Role::Server, &LARGE);
        while let Some(message) = messages.next().unwrap() {
            echo(&message, &mut output);
        }
    }
}

#[test]
fn a_tungstenite_client_interoperates_with_our_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || serve(&listener));
    let stream = impatient(TcpStream::connect(address).unwrap());
    let request =
        tungstenite::ClientRequestBuilder::new(format!("ws://{address}/app/key").parse().unwrap())
            .with_sub_protocol("echo");
    let (mut client, response) = tungstenite::client(request, stream).unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "echo");
    for expected in messages() {
        client.send(as_peers(&expected)).unwrap();
        let answer = event(client.read().unwrap());
        assert_eq!([answer], *echoed(&[expected]));
    }
    send_fragments(&mut client, &[b"\xce", b"\xba", b"", b"x"]);
    assert_eq!(event(client.read().unwrap()), Event::Text("κx".to_owned()));
    let frame = protocol::CloseFrame { code: 4_100.into(), reason: "later".into() };
    client.close(Some(frame)).unwrap();
    assert_eq!(event(client.read().unwrap()), Event::Close(Some((4_100, "later".to_owned()))));
    assert!(matches!(client.read(), Err(Error::ConnectionClosed)));
    server.join().unwrap();
}

fn as_peers(event: &Event) -> tungstenite::Message {
    match event {
        Event::Text(text) => tungstenite::Message::text(text.as_str()),
        Event::Binary(bytes) => tungstenite::Message::binary(bytes.clone()),
        Event::Ping(payload) => tungstenite::Message::Ping(payload.clone().into()),
        event => panic!("{event:?} is not sent"),
    }
}

fn send_fragments(client: &mut WebSocket<TcpStream>, fragments: &[&'static [u8]]) {
    for (number, payload) in fragments.iter().enumerate() {
        let data = if number == 0 { Data::Text } else { Data::Continue };
        let is_final = number + 1 == fragments.len();
        let payload = Bytes::from_static(payload);
        let frame = protocol::frame::Frame::message(payload, OpCode::Data(data), is_final);
        client.send(tungstenite::Message::Frame(frame)).unwrap();
    }
}

/// tungstenite as an echo server, until the connection is closed.
fn serve_as_peer(listener: &TcpListener) {
    let stream = impatient(listener.accept().unwrap().0);
    let mut server = tungstenite::accept(stream).unwrap();
    loop {
        match server.read() {
            Ok(message @ (tungstenite::Message::Text(_) | tungstenite::Message::Binary(_))) => {
                server.send(message).unwrap();
            }
            // It answers a ping and a close by itself, as soon as it is flushed.
            Ok(_) => match server.flush() {
                Ok(()) => {}
                Err(Error::ConnectionClosed) => return,
                Err(error) => panic!("{error}"),
            },
            Err(Error::ConnectionClosed) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Our client: opens the connection.
fn connect(stream: &mut TcpStream) {
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: weir\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {CLIENT_KEY}\r\n\r\n"
    )
    .unwrap();
    let head = String::from_utf8(read_head(stream)).unwrap();
    let accept = handshake::accept_key(CLIENT_KEY.as_bytes());
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains(std::str::from_utf8(&accept).unwrap()), "{head}");
}

#[test]
fn our_client_interoperates_with_a_tungstenite_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || serve_as_peer(&listener));
    let mut stream = impatient(TcpStream::connect(address).unwrap());
    connect(&mut stream);
    let mut sent = messages();
    sent.push(Event::Close(None));
    let mut decoder = Decoder::default();
    let mut input = vec![0; READ_BYTES];
    for (number, message) in (0_u8..).zip(&sent) {
        let mut output = Vec::new();
        let mask = Some(MaskKey::new(KEY.map(|byte| byte.wrapping_add(number))));
        match message {
            Event::Text(text) => Message::Text(text).encode(&mut output, mask),
            Event::Binary(bytes) => Message::Binary(bytes).encode(&mut output, mask),
            Event::Ping(payload) => Message::Ping(payload).encode(&mut output, mask),
            _ => Message::Close(None).encode(&mut output, mask),
        }
        stream.write_all(&output).unwrap();
        let mut answers = Vec::new();
        while answers.is_empty() {
            let read = stream.read(&mut input).unwrap();
            assert!(read > 0, "the server closes with a close frame");
            let mut messages = decoder.messages(&mut input[..read], Role::Client, &LARGE);
            while let Some(message) = messages.next().unwrap() {
                answers.push(Event::from(message));
            }
        }
        assert!(answers == echoed(std::slice::from_ref(message)), "message {number}");
    }
    assert!(decoder.is_closed() && decoder.buffered_bytes() == 0);
    server.join().unwrap();
}

/// A stream whose other end has sent all that it will ever send.
struct Received(Cursor<Vec<u8>>);

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            read => Ok(read),
        }
    }
}

impl Write for Received {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What tungstenite makes of the bytes: messages, and whether it refused what came after them.
fn read_as_peer(bytes: Vec<u8>, role: protocol::Role) -> (Vec<Event>, bool) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGE.message_bytes_max))
        .max_frame_size(Some(LARGE.frame_bytes_max));
    let stream = Received(Cursor::new(bytes));
    let mut socket = WebSocket::from_raw_socket(stream, role, Some(config));
    let mut events = Vec::new();
    loop {
        match socket.read() {
            // So it reports a code that may not be sent.
            Ok(tungstenite::Message::Close(Some(frame)))
                if frame.code == CloseCode::Protocol && frame.reason == "Protocol violation" =>
            {
                return (events, true);
            }
            Ok(message) => events.push(event(message)),
            Err(Error::ConnectionClosed) => return (events, false),
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                return (events, false);
            }
            Err(_) => return (events, true),
        }
        if matches!(events.last(), Some(Event::Close(_))) {
            return (events, false);
        }
    }
}

/// Where tungstenite does otherwise, and why that is no reason to do as it does.
fn peer_differs(name: &str) -> bool {
    // It takes any form of a length; RFC 6455, 5.2: "the minimal number of bytes MUST be used".
    name.ends_with(" in two bytes")
        || name.ends_with(" in eight bytes")
        // It waits for the frame's end; 8.1 lets an endpoint fail as soon as it knows.
        || name.ends_with(", before the frame ends")
        // Registered for gateways after the RFC.
        || name == "close code 1014"
        // It has no such limit.
        || name == "4 MiB in fragments of 2 KiB"
}

#[test]
fn tungstenite_decodes_every_case_in_the_same_way() {
    for case in all() {
        let refuses = matches!(case.events.last(), Some(Event::Error(_)));
        let messages = &case.events[..case.events.len() - usize::from(refuses)];
        for (role, peers) in
            [(Role::Server, protocol::Role::Server), (Role::Client, protocol::Role::Client)]
        {
            let (events, refused) = read_as_peer(case.bytes(role), peers);
            let is_same = events == messages && refused == refuses;
            let start: String = format!("{events:?}").chars().take(200).collect();
            assert!(
                is_same != peer_differs(&case.name),
                "{} as {role:?}: {start}, refused: {refused}",
                case.name
            );
        }
    }
}
