//! Clients that mean no good: the port answers others all the while.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::faktory::Client;
use crate::http::get;
use crate::process::TEST_TIMEOUT;
use crate::weir::Site;

#[test]
fn endless_requests_are_cut_off() {
    let weir = Site::new("[admin]\nhead_timeout = \"50ms\"\nadvanced.connections_max = 4").start();
    let mut slow: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = TcpStream::connect(weir.console()).expect("connects");
            stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
            stream.write_all(b"GET / HTTP/1.1\r\nX: ").expect("written");
            stream
        })
        .collect();
    // All slots are taken; this one is served once they are cut off.
    assert_eq!(get(weir.console(), "/health", "").1, "ok\n");
    for stream in &mut slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(weir.stop().success());
}

#[test]
fn garbage_on_every_port_is_harmless() {
    let weir = Site::new("[gems]\nlisten = \"127.0.0.1:0\"").start();
    for garbage in [&b"\x00\xff\xfe\r\n\r\n"[..], b"GET / HTTP/9.9\r\n\r\n", &[b'A'; 100_000]] {
        for address in [weir.console(), weir.jobs(), weir.gems()] {
            let mut stream = TcpStream::connect(address).expect("connects");
            stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
            let _ = stream.write_all(garbage);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
        }
    }
    assert_eq!(get(weir.console(), "/health", "").1, "ok\n");
    assert_eq!(get(weir.gems(), "/names", "").1, "---\n");
    Client::connect(weir.jobs());
    assert!(weir.stop().success());
}
