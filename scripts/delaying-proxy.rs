//! A TCP proxy on loopback that forwards everything some time later.
//!
//! `delaying-proxy UPSTREAM_PORT ONE_WAY_MICROSECONDS`. It prints its own port, and runs until it is killed. Each direction of a connection has a thread that reads and one
//! that writes, so data that follows within the delay is not held up further, as on a long line. Build:
//! `rustc --edition 2021 -O scripts/delaying-proxy.rs`; nothing but the standard library is needed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

/// Pieces on the way in one direction; further ones wait in the socket.
const PIECES_MAX: usize = 4_096;
const PIECE_BYTES_MAX: usize = 65_536;
/// A sleeping thread wakes this much late (the kernel's timer slack), so it asks for less.
const WAKE_UP_LATENCY: Duration = Duration::from_micros(60);

type Piece = (Instant, Vec<u8>);

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>().expect("a number"));
    let upstream = u16::try_from(numbers.next().expect("UPSTREAM_PORT")).expect("a port");
    let delay = Duration::from_micros(numbers.next().expect("ONE_WAY_MICROSECONDS").into());
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    for client in listener.incoming() {
        let client = client?;
        let Ok(server) = TcpStream::connect(("127.0.0.1", upstream)) else { continue };
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        forward(client.try_clone()?, server.try_clone()?, delay);
        forward(server, client, delay);
    }
    Ok(())
}

fn forward(source: TcpStream, target: TcpStream, delay: Duration) {
    if delay.is_zero() {
        thread::spawn(move || forward_at_once(source, target));
        return;
    }
    let (sender, pieces) = sync_channel(PIECES_MAX);
    thread::spawn(move || read(source, delay, &sender));
    thread::spawn(move || write(target, &pieces));
}

fn forward_at_once(mut source: TcpStream, mut target: TcpStream) {
    let mut buffer = vec![0; PIECE_BYTES_MAX];
    while let Ok(length @ 1..) = source.read(&mut buffer) {
        if target.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = target.shutdown(Shutdown::Write);
}

fn read(mut source: TcpStream, delay: Duration, pieces: &SyncSender<Piece>) {
    let mut buffer = vec![0; PIECE_BYTES_MAX];
    while let Ok(length @ 1..) = source.read(&mut buffer) {
        if pieces.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

/// Ends when the reading thread has ended and everything is written.
fn write(mut target: TcpStream, pieces: &Receiver<Piece>) {
    for (due, bytes) in pieces {
        let wait = due.saturating_duration_since(Instant::now());
        thread::sleep(wait.saturating_sub(WAKE_UP_LATENCY));
        if target.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = target.shutdown(Shutdown::Both);
}
