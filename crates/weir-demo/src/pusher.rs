//! The Pusher protocol, as a client and an application's server speak it.

use std::io;
use std::net::SocketAddr;

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::config::{APP_ID, APP_KEY};

/// Limit of one frame; the server's messages are far shorter.
const FRAME_BYTES_MAX: u64 = 64 << 10;
/// Limit of a line of the response to the upgrade.
const LINE_BYTES_MAX: u64 = 8 << 10;
/// Limit of such lines.
const LINES_MAX: usize = 100;
/// The buffer of a socket: most messages fit.
const BUFFER_BYTES: usize = 1 << 10;

const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
/// Values of the 7-bit length that announce a longer one (RFC 6455, 5.2).
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;

/// A realtime client's connection.
#[derive(Debug)]
pub(crate) struct PusherConnection {
    stream: BufReader<TcpStream>,
}

impl PusherConnection {
    /// Connects and waits until the server has greeted.
    pub(crate) async fn open(front: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(front).await?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream: BufReader::with_capacity(BUFFER_BYTES, stream) };
        let request = format!(
            "GET /app/{APP_KEY}?protocol=7&client=weir-demo HTTP/1.1\r\nHost: {front}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: d2Vpci1kZW1vLWNsaWVudA==\r\n\r\n"
        );
        connection.stream.write_all(request.as_bytes()).await?;
        connection.read_upgrade().await?;
        connection.wait_for("pusher:connection_established").await?;
        Ok(connection)
    }

    /// Subscribes to a public channel and waits for the confirmation.
    pub(crate) async fn subscribe(&mut self, channel: &str) -> io::Result<()> {
        let message = json!({ "event": "pusher:subscribe", "data": { "channel": channel } });
        self.send(TEXT, message.to_string().as_bytes()).await?;
        self.wait_for("pusher_internal:subscription_succeeded").await
    }

    /// Returns the next event; replies to pings in between.
    pub(crate) async fn next_event(&mut self) -> io::Result<Value> {
        loop {
            let (opcode, payload) = self.read_frame().await?;
            match opcode {
                TEXT => {
                    let event: Value = serde_json::from_slice(&payload)?;
                    match event["event"].as_str() {
                        Some("pusher:ping") => {
                            self.send(TEXT, br#"{"event":"pusher:pong","data":{}}"#).await?;
                        }
                        Some("pusher:error") => return Err(rejected(&event["data"].to_string())),
                        _ => return Ok(event),
                    }
                }
                PING => self.send(PONG, &payload).await?,
                CLOSE => return Err(io::ErrorKind::ConnectionAborted.into()),
                _ => {}
            }
        }
    }

    async fn wait_for(&mut self, name: &str) -> io::Result<()> {
        while self.next_event().await?["event"] != name {}
        Ok(())
    }

    async fn read_upgrade(&mut self) -> io::Result<()> {
        let mut status = String::new();
        for _ in 0..LINES_MAX {
            let mut line = String::new();
            (&mut self.stream).take(LINE_BYTES_MAX).read_line(&mut line).await?;
            match line.trim_end() {
                "" if status.contains(" 101 ") => return Ok(()),
                "" => return Err(rejected(status.trim_end())),
                _ if status.is_empty() => status = line,
                _ => {}
            }
        }
        Err(rejected("a response without an end"))
    }

    async fn read_frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let [first, second] = [self.stream.read_u8().await?, self.stream.read_u8().await?];
        let length = match second {
            LENGTH_16 => u64::from(self.stream.read_u16().await?),
            LENGTH_64 => self.stream.read_u64().await?,
            length => u64::from(length),
        };
        if length > FRAME_BYTES_MAX || first & FINAL == 0 {
            return Err(rejected("a frame that is too long or not whole"));
        }
        let mut payload = Vec::new();
        (&mut self.stream).take(length).read_to_end(&mut payload).await?;
        Ok((first & !FINAL, payload))
    }

    async fn send(&mut self, opcode: u8, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&masked_frame(opcode, payload, fastrand::u32(..))).await
    }
}

fn rejected(why: &str) -> io::Error {
    io::Error::other(format!("realtime sent {why}"))
}

/// Returns a frame as clients send it. The payload has less than 64 KiB.
fn masked_frame(opcode: u8, payload: &[u8], mask: u32) -> Vec<u8> {
    let mut frame = vec![FINAL | opcode];
    match u8::try_from(payload.len()) {
        Ok(short) if short < LENGTH_16 => frame.push(MASKED | short),
        _ => {
            frame.push(MASKED | LENGTH_16);
            frame.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    let mask = mask.to_be_bytes();
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Returns the target of a request that publishes `body`, signed at `now` (seconds since the Unix epoch).
pub(crate) fn publish_target(secret: &str, body: &[u8], now: u64) -> String {
    let path = format!("/apps/{APP_ID}/events");
    let md5 = hex::encode(Md5::digest(body));
    let query = format!("auth_key={APP_KEY}&auth_timestamp={now}&auth_version=1.0&body_md5={md5}");
    let signature = hmac_hex(secret, &format!("POST\n{path}\n{query}"));
    format!("{path}?{query}&auth_signature={signature}")
}

fn hmac_hex(secret: &str, text: &str) -> String {
    let hmac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
    let mut hmac = hmac.expect("HMAC takes a key of any length");
    hmac.update(text.as_bytes());
    hex::encode(hmac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_masked() {
        assert_eq!(masked_frame(TEXT, b"ab", 0x0102_0304), [0x81, 0x82, 1, 2, 3, 4, 0x60, 0x60]);
        let long = masked_frame(TEXT, &[0; 300], 0);
        assert_eq!((&long[..4], long.len()), (&[0x81, 0xFE, 1, 44][..], 308));
    }

    #[test]
    fn target_is_signed() {
        let target = publish_target("secret", b"{}", 7);
        let (signed, signature) = target.split_once("&auth_signature=").unwrap();
        assert_eq!(
            signed,
            "/apps/demo/events?auth_key=demo-key&auth_timestamp=7&auth_version=1.0\
             &body_md5=99914b932bd37a50b983c5e7c90ae93b"
        );
        assert_eq!(signature, hmac_hex("secret", &format!("POST\n{}", signed.replace('?', "\n"))));
    }
}
