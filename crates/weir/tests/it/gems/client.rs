//! Who pushes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use weir_gems::package::sample::Sample;

use crate::process::TEST_TIMEOUT;
use crate::weir::Weir;

/// Creates a key with all permissions.
pub(super) fn key(weir: &Weir) -> String {
    let scopes = "push_rubygem,yank_rubygem";
    weir.site.ok(&["gems", "key", "create", "ci", "--scope", scopes]).trim().to_owned()
}

/// Pushes a small gem, which must be accepted.
pub(super) fn push(address: SocketAddr, key: &str, name: &str, version: &str) {
    let answer = bytes(address, &push_request(address, key, name, version));
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
}

fn push_request(address: SocketAddr, key: &str, name: &str, version: &str) -> Vec<u8> {
    let gem = Sample::new(name, version).build();
    let head = format!(
        "POST /api/v1/gems HTTP/1.1\r\nHost: {address}\r\nAuthorization: {key}\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        gem.len()
    );
    [head.as_bytes(), &gem].concat()
}

/// The answer to a push of which some bytes at the end are not sent, when its client says that there
/// is no more to come.
pub(super) fn push_and_shut_down(weir: &Weir, key: &str, name: &str, missing: usize) -> String {
    let address = weir.gems();
    let request = push_request(address, key, name, "1.0");
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream.write_all(&request[..request.len() - missing]).expect("written");
    stream.shutdown(Shutdown::Write).expect("shut down");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    answer
}

/// Sends a request and returns the complete response.
fn bytes(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream.write_all(request).expect("written");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("read");
    answer
}

/// Returns the status line and the length of a file.
pub(super) fn file(weir: &Weir, full_name: &str) -> (String, usize) {
    let address = weir.gems();
    let request = format!(
        "GET /gems/{full_name}.gem HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    let answer = bytes(address, request.as_bytes());
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("a head");
    let line = String::from_utf8_lossy(&answer[..end]).lines().next().map(str::to_owned);
    (line.expect("a line"), answer.len() - end - 4)
}
