//! One request at a time on a connection that stays open, as a browser or a server's client library sends them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::http::response;

const READ_BYTES: usize = 16 << 10;
/// Longer than any fault: what takes longer is an error.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Whether a request may be sent again when a connection turns out to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repetition {
    Allowed,
    Forbidden,
}

#[derive(Debug)]
pub(super) struct HttpConnection {
    address: SocketAddr,
    stream: Option<TcpStream>,
    input: Vec<u8>,
}

impl HttpConnection {
    pub(super) const fn new(address: SocketAddr) -> Self {
        Self { address, stream: None, input: Vec::new() }
    }

    /// Uses another server from now on.
    pub(super) fn move_to(&mut self, address: SocketAddr) {
        *self = Self::new(address);
    }

    pub(super) fn close(&mut self) {
        self.stream = None;
    }

    /// Sends a complete request and returns its response. The connection is closed after an error. With
    /// `Repetition::Allowed`, a request on a connection that the server has closed in the meantime is sent again.
    pub(super) fn send(&mut self, request: &[u8], repetition: Repetition) -> Result<HttpResponse> {
        let was_open = self.stream.is_some();
        let mut response = self.attempt(request);
        let is_stale = response.is_err() && was_open && self.input.is_empty();
        if is_stale && repetition == Repetition::Allowed {
            self.stream = None;
            response = self.attempt(request);
        }
        if response.is_err() {
            self.stream = None;
        }
        response.with_context(|| format!("at {}", self.address))
    }

    fn attempt(&mut self, request: &[u8]) -> Result<HttpResponse> {
        self.input.clear();
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(connect(self.address)?),
        };
        stream.write_all(request).context("sending")?;
        let mut chunk = vec![0; READ_BYTES];
        loop {
            let bytes = match stream.read(&mut chunk) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => bail!("no response in time"),
                Err(error) => return Err(error).context("receiving"),
            };
            self.input.extend_from_slice(&chunk[..bytes]);
            let parsed = response::parse(&self.input, bytes == 0).map_err(|text| anyhow!(text))?;
            if let Some(response) = parsed {
                let body_at = response.length - response.body_bytes;
                let body = self.input[body_at..response.length].to_vec();
                let (status, closes) = (response.status, response.closes_connection);
                if closes || bytes == 0 {
                    self.stream = None;
                }
                return Ok(HttpResponse { status, body });
            }
            if bytes == 0 {
                bail!("the connection was closed without a response");
            }
        }
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).context("connecting")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Sends a GET request on a connection of its own. Returns the response.
pub(super) fn get(address: SocketAddr, path: &str) -> Result<HttpResponse> {
    HttpConnection::new(address).send(&get_request(address, path), Repetition::Forbidden)
}

pub(super) fn get_request(address: SocketAddr, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes()
}
