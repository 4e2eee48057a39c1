//! A collector on a port of its own.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A listening collector; each request is answered by the test.
pub(crate) struct TestCollector {
    listener: TcpListener,
    connection: Option<TcpStream>,
}

/// A request: its head, and its body.
pub(crate) struct ReceivedRequest {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl TestCollector {
    pub(crate) async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self { listener, connection: None }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.listener.local_addr().expect("an address"))
    }

    /// Waits for the next request.
    pub(crate) async fn receive(&mut self) -> ReceivedRequest {
        loop {
            if self.connection.is_none() {
                let (connection, _) = self.listener.accept().await.expect("a connection");
                self.connection = Some(connection);
            }
            let connection = self.connection.as_mut().expect("it was accepted");
            if let Some(request) = read_request(connection).await {
                return request;
            }
            self.connection = None;
        }
    }

    /// Responds to the last request.
    pub(crate) async fn respond(&mut self, status: &str, headers: &str, body: &[u8]) {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
        let connection = self.connection.as_mut().expect("a request came");
        connection.write_all(&[head.as_bytes(), body].concat()).await.expect("to respond");
    }

    /// Closes the connection of the last request without a response.
    pub(crate) fn hang_up(&mut self) {
        self.connection = None;
    }
}

/// Reads a request. None: the connection ended.
async fn read_request(connection: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break end + 4;
        }
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head is text").to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("a length").parse().expect("a number");
    while bytes.len() < end + length {
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(ReceivedRequest { head, body: bytes.split_off(end) })
}
