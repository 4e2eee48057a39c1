//! Arbitrary bytes on a connection of a whole server: each line gets exactly one well-formed reply
//! of a kind that its verb has, in order, and nothing panics (a panic on any thread ends the run).
//!
//! The first byte chooses: speak the greeting's HELLO from the input or an honest one, as a producer
//! or a worker; hang up at the end or say END; send all at once or in pieces. Every run begins with
//! FLUSH, so that an input that fails does so alone, too.
//!
//! Run with `cargo +nightly fuzz run protocol fuzz/corpus/protocol fuzz/seeds/protocol --
//! -dict=fuzz/protocol.dict` in `crates/weir-jobs`: the dictionary has the verbs and the members of
//! jobs, the seeds whole conversations and a line that is too long.
#![no_main]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::server::{RunningJobServer, JobServerOptions, JobServerStop, start};
use weir_jobs::settings::{JobServerSettings, StoreKind};

/// Below libFuzzer's largest input, so that longer lines come up.
const LINE_BYTES_MAX: usize = 1_000;
/// Errors repeat a bounded part of what was sent.
const ERROR_BYTES_MAX: usize = 1_000;
/// What the server has, a machine under load included.
const PATIENCE: Duration = Duration::from_secs(60);

const RAW: u8 = 1;
const WORKER: u8 = 2;
const HANG_UP: u8 = 4;
const PIECES: u8 = 8;

/// One server for all runs.
static SERVER: LazyLock<(SocketAddr, RunningJobServer)> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut settings =
        JobServerSettings { store: StoreKind::Memory, allow_flush: true, ..JobServerSettings::default() };
    settings.limits.fetch_wait = Duration::ZERO;
    settings.limits.line_bytes_max = LINE_BYTES_MAX;
    // Every worker is a new one and stays until it is reaped.
    settings.limits.workers_max = usize::MAX;
    let stop = JobServerStop {
        graceful: CancellationToken::new(),
        at_once: CancellationToken::new(),
        deadline: Duration::from_secs(10),
    };
    let start_with = JobServerOptions {
        console: String::new(),
        external: None,
        listeners: vec![listener],
        settings,
        clock: Clock::system(),
        tracer: Default::default(),
        metrics: JobsMetrics::detached(),
        tls: None,
        stop,
    };
    (address, start(start_with).expect("the server starts"))
});

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else {
        return;
    };
    let is = |flag| choice & flag != 0;
    let mut sent = if is(RAW) {
        bytes.to_vec()
    } else {
        [hello(is(WORKER)).as_bytes(), b"FLUSH\n", bytes].concat()
    };
    // Nobody waits for the end of a greeting: the connection must be closed, too.
    let hang_up = is(HANG_UP) || is(RAW);
    if !hang_up {
        sent.extend_from_slice(b"\nEND\n");
    }
    let pieces = if is(PIECES) { choice >> 4 } else { 0 };
    let replies = talk(&sent, usize::from(pieces) + 1, hang_up);
    let replies = split(&replies);
    assert!(replies[0].starts_with(b"+HI "), "no greeting");
    if !is(RAW) {
        check(&sent, &replies[1..], !hang_up);
    }
});

fn hello(worker: bool) -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    if worker {
        format!("HELLO {{\"v\":2,\"wid\":\"fuzz-{run}\"}}\n")
    } else {
        "HELLO {\"v\":2}\n".to_owned()
    }
}

/// Sends `bytes` in `pieces` and reads until the server closes.
fn talk(bytes: &[u8], pieces: usize, hang_up: bool) -> Vec<u8> {
    let mut client = TcpStream::connect(SERVER.0).expect("a connection");
    client.set_nodelay(true).expect("an option");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    for piece in bytes.chunks(bytes.len() / pieces + 1) {
        // The server may close before it has read all: that is one of its answers.
        let _ = client.write_all(piece);
    }
    if hang_up {
        let _ = client.shutdown(Shutdown::Write);
    }
    let mut replies = Vec::new();
    match client.read_to_end(&mut replies) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server neither answers nor closes: {error}"),
    }
    replies
}

/// The replies, each from its first byte to the end of its line or bulk.
fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let length = reply_bytes(bytes);
        let length = length.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(bytes)));
        let (reply, rest) = bytes.split_at(length);
        replies.push(&reply[..length - 2]);
        bytes = rest;
    }
    replies
}

/// Bytes of the first reply; None: it is not well-formed.
fn reply_bytes(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &bytes[..end];
    match line {
        [b'+', ..] | b"$-1" => Some(end + 2),
        [b'*', count @ ..] => {
            let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
            (0..count).try_fold(end + 2, |at, _| Some(at + bulk_bytes(bytes.get(at..)?)?))
        }
        [b'-', ..] => {
            let plain = end <= ERROR_BYTES_MAX && !line.iter().any(u8::is_ascii_control);
            (plain && line.starts_with(b"-ERR ") && std::str::from_utf8(line).is_ok())
                .then_some(end + 2)
        }
        [b'$', ..] => bulk_bytes(bytes),
        _ => None,
    }
}

/// Bytes of the first reply, if it is a bulk that holds JSON.
fn bulk_bytes(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let length: usize = std::str::from_utf8(bytes[..end].strip_prefix(b"$")?).ok()?.parse().ok()?;
    let bulk = bytes.get(end + 2..)?.get(..length)?;
    serde_json::from_slice::<IgnoredAny>(bulk).ok()?;
    let end = end + 2 + length;
    bytes[end..].starts_with(b"\r\n").then_some(end + 2)
}

/// Reply by reply; `all`: and none is missing.
fn check(sent: &[u8], replies: &[&[u8]], all: bool) {
    let mut replies = replies.iter();
    for line in sent.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let verb = line.split(|byte| *byte == b' ').next().unwrap_or(line);
        // With or without its end, which may come later, it is at the limit.
        let at_limit = (LINE_BYTES_MAX..=LINE_BYTES_MAX + 2).contains(&line.len());
        let too_long = line.len() > LINE_BYTES_MAX;
        let reply = match (verb, replies.next()) {
            (_, None) if !all => return,
            (b"END", None) => return,
            (_, None) => panic!("no reply to {}", String::from_utf8_lossy(line)),
            (_, Some(reply)) => reply,
        };
        let text = String::from_utf8_lossy(reply);
        if text.starts_with("-ERR line too long: ") && (too_long || at_limit) {
            break;
        }
        assert!(!too_long || at_limit, "{} bytes: {text}", line.len());
        assert!(kinds(verb).contains(&reply[0]), "{}: {text}", String::from_utf8_lossy(line));
    }
    assert_eq!(replies.next(), None, "a reply to nothing");
}

/// How replies to this verb may begin.
fn kinds(verb: &[u8]) -> &'static [u8] {
    match verb {
        b"HELLO" => b"+-",
        b"ACKB" | b"FAILB" => b"$-",
        b"FETCHB" => b"*-",
        b"PUSH" | b"ACK" | b"FAIL" | b"MUTATE" => b"+-",
        b"PUSHB" | b"FETCH" => b"$-",
        b"BEAT" | b"QUEUE" => b"+$-",
        b"INFO" => b"$",
        b"FLUSH" => b"+",
        b"END" => b"",
        _ => b"-",
    }
}
