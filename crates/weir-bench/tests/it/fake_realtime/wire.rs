//! HTTP and WebSocket frames as a server reads and writes them; blocking.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use serde_json::Value;
use sha2::Sha256;

pub(super) enum IncomingRequest {
    Upgrade { path: String },
    Publish(Request),
}

pub(super) struct Request {
    path: String,
    head: String,
    raw_body: Vec<u8>,
    pub(super) body: Value,
}

impl Request {
    /// The signature of the Pusher protocol, or Centrifugo's key.
    pub(super) fn check_credentials(&self) {
        if self.path == "/api/publish" {
            return assert!(self.head.contains("X-API-Key: secret\r\n"), "{}", self.head);
        }
        let (path, query) = self.path.split_once('?').expect("a signed request");
        let (signed, signature) = query.split_once("&auth_signature=").expect("a signature");
        assert_eq!(path, "/apps/app/events");
        assert_eq!(signature, hmac_hex("secret", &format!("POST\n{path}\n{signed}")));
        assert!(signed.ends_with(&hex::encode(Md5::digest(&self.raw_body))), "{signed}");
    }
}

pub(super) fn hmac_hex(secret: &str, text: &str) -> String {
    let hmac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    hex::encode(hmac.chain_update(text).finalize().into_bytes())
}

/// The next request on a connection, with its body.
pub(super) fn read_request(stream: &mut TcpStream) -> io::Result<IncomingRequest> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).expect("plain text");
    let path = head.split(' ').nth(1).expect("a path").to_owned();
    if head.starts_with("GET ") {
        return Ok(IncomingRequest::Upgrade { path });
    }
    let length = head.split("Content-Length: ").nth(1).expect("a body");
    let length = length.lines().next().expect("a line").parse().expect("a number");
    let mut raw_body = vec![0; length];
    stream.read_exact(&mut raw_body)?;
    let body = serde_json::from_slice(&raw_body).expect("JSON");
    Ok(IncomingRequest::Publish(Request { path, head, raw_body, body }))
}

pub(super) fn write_response(
    stream: &mut TcpStream,
    (status, body): (&str, &str),
) -> io::Result<()> {
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(answer.as_bytes())
}

pub(super) fn write_status(stream: &mut TcpStream, status: &str) -> io::Result<()> {
    stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes())
}

pub(super) fn write_text(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    write_frame(stream, 0x81, text.as_bytes())
}

pub(super) fn write_ping(stream: &mut TcpStream) -> io::Result<()> {
    write_frame(stream, 0x89, PING)
}

const PING: &[u8] = b"there?";

/// A close frame, and the end of the connection.
pub(super) fn write_close(stream: &mut TcpStream, code: u16) -> io::Result<()> {
    write_frame(stream, 0x88, &code.to_be_bytes())?;
    stream.shutdown(Shutdown::Write)
}

fn write_frame(stream: &mut TcpStream, first: u8, payload: &[u8]) -> io::Result<()> {
    let mut frame = vec![first];
    match u8::try_from(payload.len()) {
        Ok(length) if length < 126 => frame.push(length),
        _ => {
            frame.push(126);
            frame.extend(u16::try_from(payload.len()).expect("short").to_be_bytes());
        }
    }
    frame.extend(payload);
    stream.write_all(&frame)
}

pub(super) enum Message {
    Text(String),
    Pong,
}

/// The next message of a client; `None` at its end. A pong must be the answer to [`write_ping`].
pub(super) fn read_message(stream: &mut TcpStream) -> io::Result<Option<Message>> {
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let length = match head[1] & 0x7F {
        126 => {
            let mut length = [0; 2];
            stream.read_exact(&mut length)?;
            usize::from(u16::from_be_bytes(length))
        }
        length => usize::from(length),
    };
    assert_eq!(head[1] & 0x80, 0x80, "clients mask");
    let mut masked = vec![0; 4 + length];
    stream.read_exact(&mut masked)?;
    let (mask, payload) = masked.split_at(4);
    let payload = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    let payload: Vec<u8> = payload.collect();
    match head[0] {
        0x81 => Ok(Some(Message::Text(String::from_utf8(payload).expect("text")))),
        0x8A if payload == PING => Ok(Some(Message::Pong)),
        _ => Ok(None),
    }
}
