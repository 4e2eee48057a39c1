//! Hostile HTTP against the real binary, between clients that mean harm and workers that look at
//! every byte they get.
//!
//! What must hold: nothing that only a confused reading makes a request reaches a worker, every
//! message that does has one meaning, memory stays flat, and whoever is fair is served.
//! `WEIR_HOSTILE_SECONDS` and `WEIR_HOSTILE_SEED` ask for more.

mod attacks;
mod inspector;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use self::attacks::{Attack, How};
use self::inspector::Inspector;
use super::{BASE, body};
use crate::weir::{Site, Weir};

const LIMITS: &str =
    "[front.limits]\nhead_timeout = \"1s\"\n[front.access_log]\npath = \"access.log\"\n";
const APP: &str = "body_timeout = \"1s\"\nqueue_timeout = \"5s\"\n";
/// Clients at once.
const CLIENTS: usize = 8;
/// How long a client listens for an answer that may never come.
const LISTEN: Duration = Duration::from_millis(40);
/// The service may grow by this much, whatever comes: caches of the allocator and of each core.
const GROWTH_MAX: u64 = 64 << 20;

#[expect(clippy::disallowed_methods, reason = "a long run by hand asks for more")]
fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// How attacks ended, by the first digit of the answers or the lack of any.
type Tally = BTreeMap<String, u64>;

#[test]
fn hostile_requests_reach_no_worker() {
    let seconds = number_from_environment("WEIR_HOSTILE_SECONDS", 4);
    let seed = number_from_environment("WEIR_HOSTILE_SEED", 1);
    let inspectors: Vec<Inspector> = (0..4).map(|_| Inspector::start()).collect();
    let weir = start(&inspectors);
    let (address, is_over) = (weir.front(), AtomicBool::new(false));
    let mut memory = Vec::new();
    let tally = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let is_over = &is_over;
                let random = fastrand::Rng::with_seed(seed ^ (client as u64) << 32);
                scope.spawn(move || attack(address, random, is_over))
            })
            .collect();
        for _ in 0..8 {
            thread::sleep(Duration::from_millis(seconds * 1_000 / 8));
            memory.push(resident_bytes(&weir));
            assert!(body(address, "/fair", "").starts_with("seen"), "who is fair is served");
        }
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("no panic")).fold(
            Tally::new(),
            |mut all, one| {
                one.into_iter().for_each(|(how, count)| *all.entry(how).or_default() += count);
                all
            },
        )
    });
    let seen: u64 = inspectors.iter().map(Inspector::request_count).sum();
    println!("{tally:?}, {seen} requests at workers, resident {memory:?}");
    for inspector in &inspectors {
        assert_eq!(inspector.problems(), Vec::<String>::new());
    }
    assert!(memory[7] < memory[1] + GROWTH_MAX, "{memory:?}");
    assert!(tally.values().sum::<u64>() > 100 && tally.contains_key("4xx"), "{tally:?}");
    assert!(weir.stop().success());
}

fn start(inspectors: &[Inspector]) -> Weir {
    let upstreams: Vec<_> = inspectors.iter().map(|one| format!("\"{}\"", one.address)).collect();
    let upstreams = upstreams.join(", ");
    let site = Site::new("");
    site.write(&format!(
        "{BASE}{LIMITS}[[front.apps]]\nname = \"shop\"\nupstreams = [{upstreams}]\n{APP}"
    ));
    site.start()
}

/// Returns the resident memory of the service process, in bytes.
fn resident_bytes(weir: &Weir) -> u64 {
    let path = format!("/proc/{}/statm", weir.service().as_raw_nonzero());
    let text = std::fs::read_to_string(path).expect("a running service");
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    pages * rustix::param::page_size() as u64
}

fn attack(address: SocketAddr, mut random: fastrand::Rng, is_over: &AtomicBool) -> Tally {
    let mut tally = Tally::new();
    while !is_over.load(Ordering::Relaxed) {
        let attack = attacks::next(&mut random);
        let ends = execute(address, &attack, &mut random);
        for end in ends {
            *tally.entry(end).or_default() += 1;
        }
    }
    tally
}

/// Executes an attack; returns the status classes of the responses.
fn execute(address: SocketAddr, attack: &Attack, random: &mut fastrand::Rng) -> Vec<String> {
    let Ok(mut stream) = TcpStream::connect(address) else { return vec!["refused".to_owned()] };
    stream.set_read_timeout(Some(LISTEN)).expect("a timeout");
    stream.set_write_timeout(Some(LISTEN)).expect("a timeout");
    send(&mut stream, attack, random);
    if attack.how == How::Reset {
        let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
        return vec!["reset".to_owned()];
    }
    let answer = read(&mut stream, &attack.bytes);
    let statuses = answer.split("HTTP/1.1 ").skip(1).filter_map(|rest| rest.chars().next());
    let statuses = statuses.filter(char::is_ascii_digit);
    let ends: Vec<String> = statuses.map(|digit| format!("{digit}xx")).collect();
    if ends.is_empty() { vec!["silent".to_owned()] } else { ends }
}

/// Sends an attack. If the server closes the connection early, there is a response to read.
fn send(stream: &mut TcpStream, attack: &Attack, random: &mut fastrand::Rng) {
    match attack.how {
        How::AtOnce | How::Reset => drop(stream.write_all(&attack.bytes)),
        How::HalfClosed => {
            let _ = stream.write_all(&attack.bytes);
            let _ = stream.shutdown(Shutdown::Write);
        }
        How::InPieces => {
            let mut rest = &attack.bytes[..];
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(random.usize(1..=rest.len()));
                if stream.write_all(piece).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(random.u64(0..3)));
                rest = more;
            }
        }
        How::Dripping => {
            for byte in attack.bytes.iter().take(60) {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(25));
            }
        }
    }
}

/// Reads until the connection ends or nothing more arrives. A client that requested many responses may read slowly.
fn read(stream: &mut TcpStream, sent: &[u8]) -> String {
    let (mut answer, mut chunk) = (Vec::new(), [0; 4_096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock && answer.len() < sent.len() => {
                break;
            }
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}
