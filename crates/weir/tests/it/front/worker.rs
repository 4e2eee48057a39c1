//! An app's worker: one connection after the other, one request each.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Longer than anything takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A worker that answers with its name and the path; `/wait` waits for [`Worker::go_on`].
pub(crate) struct Worker {
    pub(crate) address: SocketAddr,
    waits: Receiver<()>,
    continue_sender: Sender<()>,
}

impl Worker {
    pub(crate) fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (waiting, waits) = channel();
        let (continue_sender, continue_receiver) = channel();
        // Starts it; it ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that has gone needs no answer.
                let _ = respond(name, &stream, &waiting, &continue_receiver);
            }
        });
        Self { address, waits, continue_sender }
    }

    /// Waits until it has a request for `/wait`.
    pub(crate) fn wait_for_request(&self) {
        self.waits.recv_timeout(TEST_TIMEOUT).expect("a request");
    }

    pub(crate) fn continue_request(&self) {
        self.continue_sender.send(()).expect("it waits");
    }
}

fn respond(
    name: &str,
    mut stream: &TcpStream,
    waiting: &Sender<()>,
    continue_receiver: &Receiver<()>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    if path == "/wait" {
        waiting.send(()).expect("the test waits");
        continue_receiver.recv_timeout(TEST_TIMEOUT).expect("a word");
    }
    let text = format!("{name} {path}");
    let length = text.len();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}")
}
