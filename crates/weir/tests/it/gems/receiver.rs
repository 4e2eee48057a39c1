//! A server that webhooks of gems are sent to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver as Inbox, Sender};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use crate::process::TEST_TIMEOUT;

/// Hangs up on everybody until it is opened; then it answers with 200.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    is_open: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
    told: Inbox<ReceivedRequest>,
}

/// One request.
pub(super) struct ReceivedRequest {
    head: String,
    body: Vec<u8>,
}

impl ReceivedRequest {
    pub(super) fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.unwrap_or_else(|| panic!("{name} in {}", self.head)).1
    }

    /// Summarizes the event: `push shop 1.0`.
    pub(super) fn summary(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).expect("JSON");
        let text = |name: &str| body[name].as_str().expect("a text").to_owned();
        format!("{} {} {}", self.header("x-weir-event"), text("name"), text("version"))
    }

    pub(super) fn hmac(&self, secret: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
        mac.update(&self.body);
        hex::encode(mac.finalize().into_bytes())
    }
}

impl Receiver {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (is_open, refused) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (sender, told) = mpsc::channel();
        let receiver =
            Self { address, is_open: Arc::clone(&is_open), refused: Arc::clone(&refused), told };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, sender) = (stream.expect("a connection"), sender.clone());
                match is_open.load(Ordering::SeqCst) {
                    true => drop(std::thread::spawn(move || serve(stream, &sender))),
                    false => drop(refused.fetch_add(1, Ordering::SeqCst)),
                }
            }
        });
        receiver
    }

    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }

    /// Returns the number of connections that it closed.
    pub(super) fn refused_connections(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
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
        let mut told = ReceivedRequest { head, body: Vec::new() };
        let length = told.header("content-length").parse().expect("a length");
        told.body.resize(length, 0);
        stream.read_exact(&mut told.body).expect("a body");
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        if stream.get_mut().write_all(answer).is_err() || sender.send(told).is_err() {
            return;
        }
    }
}
