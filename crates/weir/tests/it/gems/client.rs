//! Who pushes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use weir_gems::package::sample::Sample;

use crate::process::PATIENCE;
use crate::weir::Weir;

/// A key that may do everything.
pub(super) fn key(weir: &Weir) -> String {
    let scopes = "push_rubygem,yank_rubygem";
    weir.site.ok(&["gems", "key", "create", "ci", "--scope", scopes]).trim().to_owned()
}

/// Pushes a small gem, which must be taken.
pub(super) fn push(address: SocketAddr, key: &str, name: &str, version: &str) {
    let gem = Sample::new(name, version).build();
    let head = format!(
        "POST /api/v1/gems HTTP/1.1\r\nHost: {address}\r\nAuthorization: {key}\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        gem.len()
    );
    let answer = bytes(address, &[head.as_bytes(), &gem].concat());
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
}

/// A whole answer to a whole request.
pub(super) fn bytes(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(request).expect("written");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("read");
    answer
}
