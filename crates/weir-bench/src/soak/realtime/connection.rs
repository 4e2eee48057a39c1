//! A WebSocket of a Pusher client, blocking, for one thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::clock::monotonic;
use crate::realtime::close_reason::parse_upgrade_response;
use crate::realtime::codec::{ServerMessage, SubscribeRequest};
use crate::realtime::frame::{self, CLOSE, PING, PONG, TEXT};
use crate::realtime::pusher;
use crate::realtime::target::App;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one read may block.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// Bytes of `input` that were processed.
    consumed: usize,
    socket_id: String,
}

impl Connection {
    /// Connects and waits for `pusher:connection_established`.
    pub(super) fn open(address: SocketAddr, app: &App) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).context("connecting")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        let (input, socket_id) = (Vec::new(), String::new());
        let mut connection = Self { stream, input, consumed: 0, socket_id };
        connection.upgrade(address, app)?;
        let greeting = connection.wait_for("connection_established", |message| match message {
            ServerMessage::Connected { socket_id } => Some(socket_id),
            _ => None,
        })?;
        connection.socket_id = greeting;
        Ok(connection)
    }

    fn upgrade(&mut self, address: SocketAddr, app: &App) -> Result<()> {
        let path = pusher::websocket_path(app);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: d2Vpci1iZW5jaC0wMDAwMA==\r\n\r\n"
        );
        self.stream.write_all(request.as_bytes()).context("sending")?;
        let deadline = monotonic() + CONNECT_TIMEOUT;
        loop {
            let parsed = parse_upgrade_response(&self.input);
            if let Some(length) = parsed.map_err(|reason| anyhow!("{}", reason.name()))? {
                self.consumed = length;
                return Ok(());
            }
            self.read()?;
            if monotonic() > deadline {
                bail!("no response to the upgrade in time");
            }
        }
    }

    /// Waits for the message for which `select` returns something. Others are dropped.
    fn wait_for<T>(
        &mut self,
        what: &str,
        select: impl Fn(ServerMessage) -> Option<T>,
    ) -> Result<T> {
        let deadline = monotonic() + CONNECT_TIMEOUT;
        while monotonic() < deadline {
            let Some(text) = self.next()? else { continue };
            if let Some(found) = select(pusher::parse_message(&text)) {
                return Ok(found);
            }
        }
        bail!("no {what} in time")
    }

    pub(super) fn subscribe(&mut self, app: &App, request: &SubscribeRequest<'_>) -> Result<()> {
        self.send(&pusher::subscribe_message(app, request))
    }

    pub(super) fn send(&mut self, text: &str) -> Result<()> {
        self.send_frame(TEXT, text.as_bytes())
    }

    fn send_frame(&mut self, opcode: u8, payload: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(payload.len() + 16);
        frame::append(opcode, payload, &mut bytes);
        self.stream.write_all(&bytes).context("sending")
    }

    /// Returns the next text message, or `None` if there is none for a while. Pings are answered.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let Some((opcode, payload)) = self.next_frame()? else {
                if self.read()? { continue } else { return Ok(None) }
            };
            match opcode {
                TEXT => match pusher::parse_message(&payload) {
                    ServerMessage::Ping => self.send(pusher::PONG)?,
                    _ => return Ok(Some(payload)),
                },
                PING => self.send_frame(PONG, &payload)?,
                CLOSE => bail!("closed with {:?}", frame::close_code(&payload)),
                _ => {}
            }
        }
    }

    fn next_frame(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        let parsed = frame::parse(&self.input[self.consumed..]).map_err(|it| anyhow!("{it}"))?;
        let Some(frame) = parsed else {
            self.input.drain(..self.consumed);
            self.consumed = 0;
            return Ok(None);
        };
        let (opcode, payload, bytes) = (frame.opcode, frame.payload.to_vec(), frame.bytes);
        self.consumed += bytes;
        Ok(Some((opcode, payload)))
    }

    /// Returns whether something has arrived.
    fn read(&mut self) -> Result<bool> {
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let outcome = self.stream.read(&mut self.input[start..]);
        self.input.truncate(start + outcome.as_ref().copied().unwrap_or(0));
        match outcome {
            Ok(0) => bail!("closed without a close frame"),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error).context("receiving"),
        }
    }

    pub(super) fn socket_id(&self) -> String {
        self.socket_id.clone()
    }

    /// Gives the kernel less room for what this client does not read.
    pub(super) fn shrink_receive_buffer(&self, bytes: usize) -> Result<()> {
        Ok(rustix::net::sockopt::set_socket_recv_buffer_size(&self.stream, bytes)?)
    }
}
