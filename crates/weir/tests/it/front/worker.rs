//! An app's worker: one connection after the other, one request each.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker that answers with its name and the path; `/wait` waits for [`Worker::go_on`].
pub(crate) struct Worker {
    pub(crate) address: SocketAddr,
    waits: Receiver<()>,
    goes_on: Sender<()>,
}

impl Worker {
    pub(crate) fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (waiting, waits) = channel();
        let (goes_on, may_go_on) = channel();
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that has gone needs no answer.
                let _ = answer(name, &stream, &waiting, &may_go_on);
            }
        });
        Self { address, waits, goes_on }
    }

    /// Waits until it has a request for `/wait`.
    pub(crate) fn has_request(&self) {
        self.waits.recv_timeout(PATIENCE).expect("a request");
    }

    pub(crate) fn go_on(&self) {
        self.goes_on.send(()).expect("it waits");
    }
}

fn answer(
    name: &str,
    mut stream: &TcpStream,
    waiting: &Sender<()>,
    may_go_on: &Receiver<()>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    if path == "/wait" {
        waiting.send(()).expect("the test waits");
        may_go_on.recv_timeout(PATIENCE).expect("a word");
    }
    let text = format!("{name} {path}");
    let length = text.len();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}")
}
