//! An application's server that is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver as Inbox, Sender};

use serde_json::Value;

use crate::process::TEST_TIMEOUT;

/// Listens, and answers everything with 200.
pub(super) struct Receiver {
    address: SocketAddr,
    told: Inbox<ReceivedRequest>,
}

/// One request.
pub(super) struct ReceivedRequest {
    pub(super) head: String,
    pub(super) body: Value,
}

impl Receiver {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (sender, told) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, sender) = (stream.expect("a connection"), sender.clone());
                std::thread::spawn(move || serve(stream, &sender));
            }
        });
        Self { address, told }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the next request.
    pub(super) fn request(&self) -> ReceivedRequest {
        self.told.recv_timeout(TEST_TIMEOUT).expect("a request")
    }
}

/// Serves until the connection or the test ends.
fn serve(stream: TcpStream, sender: &Sender<ReceivedRequest>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).unwrap_or_default() == 0 {
                return;
            }
        }
        let length = head.to_ascii_lowercase();
        let length = length.split("content-length: ").nth(1).expect("a length");
        let length = length.lines().next().and_then(|text| text.parse().ok()).expect("a number");
        let mut body = vec![0; length];
        stream.read_exact(&mut body).expect("a body");
        let body = serde_json::from_slice(&body).expect("JSON");
        stream
            .get_mut()
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .expect("answered");
        if sender.send(ReceivedRequest { head: head.to_ascii_lowercase(), body }).is_err() {
            return;
        }
    }
}
