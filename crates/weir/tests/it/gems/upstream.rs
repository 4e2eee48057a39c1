//! An index that answers what a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// What a path is answered: a status line and headers, and a body.
pub(super) type Reply = (&'static str, String);

/// Starts it; it ends with the process of the test.
pub(super) fn start(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that has gone needs no answer.
            let _ = stream.and_then(|stream| respond(&stream, &reply));
        }
    });
    address
}

/// Serves one request per connection.
fn respond(mut stream: &TcpStream, reply: impl Fn(&str) -> Reply) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let (head, body) = reply(first.split(' ').nth(1).unwrap_or_default());
    let length = body.len();
    let end = format!("Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(format!("HTTP/1.1 {head}\r\n{end}").as_bytes())
}
