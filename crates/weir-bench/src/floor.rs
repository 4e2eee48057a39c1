//! What this machine can do at best in this minute, so that figures of different minutes and machines compare: a round
//! trip on loopback, a write that is synced to the disk, and a hash.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::clock::now;
use crate::latency::Latencies;

const MESSAGE_BYTES: usize = 64;
const SYNCED_BYTES: usize = 4096;
const HASHED_BYTES: usize = 1 << 20;
/// Time for each of the three.
const MEASURED_FOR: Duration = Duration::from_millis(200);

/// Medians in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Floor {
    /// A round trip of 64 bytes between two threads that block.
    pub(crate) loopback_us: f64,
    /// A write of 4 KiB to the end of a file, and `fdatasync`.
    pub(crate) sync_us: f64,
    /// SHA-256 of 1 MiB.
    pub(crate) hash_us: f64,
}

/// Measures for 0.6 s. The file is in the folder for temporary files, as the data of the servers that scripts start.
pub(crate) fn measure() -> Result<Floor> {
    Ok(Floor { loopback_us: loopback_us()?, sync_us: sync_us()?, hash_us: hash_us() })
}

fn loopback_us() -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a port for the floor")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let echo = thread::spawn(move || {
        let mut message = [0; MESSAGE_BYTES];
        // Ends when the client has closed its side.
        while server.read_exact(&mut message).and_then(|()| server.write_all(&message)).is_ok() {}
    });
    let mut message = [0; MESSAGE_BYTES];
    let median = median_us(|| {
        client.write_all(&message)?;
        client.read_exact(&mut message)
    });
    drop(client);
    let ended = echo.join();
    ended.map_err(|_| anyhow::anyhow!("the echo of the floor panicked"))?;
    Ok(median?)
}

fn sync_us() -> Result<f64> {
    let mut file = tempfile::tempfile().context("a temporary file for the floor")?;
    let block = [1; SYNCED_BYTES];
    Ok(median_us(|| {
        file.write_all(&block)?;
        file.sync_data()
    })?)
}

fn hash_us() -> f64 {
    let bytes = vec![1; HASHED_BYTES];
    let hashed = median_us(|| {
        std::hint::black_box(Sha256::digest(std::hint::black_box(&bytes)));
        Ok(())
    });
    hashed.unwrap_or(f64::NAN)
}

fn median_us(mut operation: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let mut latencies = Latencies::new();
    let began = now();
    while began.elapsed() < MEASURED_FOR {
        let start = now();
        operation()?;
        latencies.record(start.elapsed());
    }
    Ok(latencies.quantile_us(0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_are_measured() {
        let floor = measure().expect("it is measured");
        for figure in [floor.loopback_us, floor.sync_us, floor.hash_us] {
            assert!(figure > 0.0, "{floor:?}");
        }
    }
}
