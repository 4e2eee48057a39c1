//! Arbitrary bytes behind a HELLO: a whole server answers each line, in well-formed replies, and
//! never panics (a panic on any thread ends the run).
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::server::{Running, Start, Stop, start};
use weir_jobs::settings::{Settings, StoreKind};

/// One server for all runs: what earlier inputs left behind is part of the test.
static SERVER: LazyLock<(SocketAddr, Running)> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut settings = Settings {
        store: StoreKind::Memory,
        allow_flush: true,
        ..Settings::default()
    };
    settings.limits.fetch_wait = Duration::ZERO;
    settings.limits.line_bytes_max = 4 << 10;
    let stop = Stop {
        graceful: CancellationToken::new(),
        at_once: CancellationToken::new(),
        deadline: Duration::from_secs(10),
    };
    let start_with = Start {
        listeners: vec![listener],
        settings,
        clock: Clock::system(),
        metrics: JobsMetrics::detached(),
        tls: None,
        stop,
    };
    (address, start(start_with).expect("the server starts"))
});

fuzz_target!(|bytes: &[u8]| {
    let mut client = TcpStream::connect(SERVER.0).expect("a connection");
    client
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    // The server may close before it has read all: that is one of its answers.
    let _ = client.write_all(b"HELLO {\"v\":2,\"wid\":\"fuzz\"}\n");
    let _ = client.write_all(bytes);
    let _ = client.shutdown(Shutdown::Write);
    let mut replies = Vec::new();
    let _ = client.read_to_end(&mut replies);
    assert!(replies.starts_with(b"+HI "), "no greeting");
    assert!(
        well_formed(&replies),
        "{}",
        String::from_utf8_lossy(&replies)
    );
});

fn well_formed(mut replies: &[u8]) -> bool {
    while !replies.is_empty() {
        let Some(end) = replies.windows(2).position(|pair| pair == b"\r\n") else {
            return false;
        };
        let (line, rest) = (&replies[..end], &replies[end + 2..]);
        replies = match line {
            [b'+' | b'-', ..] | b"$-1" => rest,
            [b'$', length @ ..] => {
                let length = std::str::from_utf8(length)
                    .ok()
                    .and_then(|n| n.parse::<usize>().ok());
                match length.and_then(|length| rest.get(length..)) {
                    Some([b'\r', b'\n', rest @ ..]) => rest,
                    _ => return false,
                }
            }
            _ => return false,
        };
    }
    true
}
