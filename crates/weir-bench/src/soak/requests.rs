//! Requests to the app behind the front, to the gem index and to the console.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};

use super::http_connection::{HttpConnection, HttpResponse, Repetition, get_request};
use super::journal::Part;
use super::pace::Pace;
use super::shared::{Shared, count};
use crate::clock::monotonic;
use crate::gems::gem_file;
use crate::latency::Latencies;

/// The longest time that the app works on a request.
const SERVICE_US_MAX: u64 = 5_000;
/// One request of so many closes its connection.
const CLOSE_EVERY: u64 = 10;
const PAGES_PER_SECOND: f64 = 0.2;
const GEM_READS_PER_SECOND: f64 = 5.0;
const GEM_PUSHES_PER_SECOND: f64 = 0.1;

/// Sends requests to the app at one node. Each names a token that its response must contain.
pub(super) fn run(shared: &Shared, node: usize, rate: f64, latencies: &Mutex<Latencies>) {
    let address = shared.nodes[node].front;
    let mut connection = HttpConnection::new(address);
    let mut pace = Pace::per_second(rate);
    let mut own = Latencies::new();
    let mut number: u64 = 0;
    while pace.wait(shared) {
        number += 1;
        let token = format!("{:016x}", fastrand::u64(..));
        let path = format!("/soak?us={}&echo={token}", fastrand::u64(..SERVICE_US_MAX));
        let began = monotonic();
        let response =
            connection.send(&get_request(address, &path), Repetition::Allowed).and_then(expect_ok);
        match response {
            Err(error) => shared.journal.record(Part::Front, began, format!("{error:#}")),
            Ok(body) if body != token.as_bytes() => {
                count(&shared.counts.wrong_responses);
                let body = String::from_utf8_lossy(&body).into_owned();
                let text = format!("the response to {token} is {body:?}");
                shared.journal.record(Part::Front, began, text);
            }
            Ok(_) => {
                own.record(monotonic() - began);
                count(&shared.counts.requests);
            }
        }
        if number.is_multiple_of(CLOSE_EVERY) {
            connection.close();
        }
    }
    latencies.lock().unwrap_or_else(PoisonError::into_inner).merge(&own);
}

fn expect_ok(response: HttpResponse) -> Result<Vec<u8>> {
    let (status, body) = (response.status, response.body);
    ensure!(status == 200, "status {status}: {}", String::from_utf8_lossy(&body).trim());
    Ok(body)
}

/// Reads the console's metrics now and then, as Prometheus does.
pub(super) fn run_pages(shared: &Shared, node: usize) {
    let address = shared.nodes[node].console;
    let mut connection = HttpConnection::new(address);
    let mut pace = Pace::per_second(PAGES_PER_SECOND);
    while pace.wait(shared) {
        let began = monotonic();
        let request = get_request(address, "/metrics");
        match connection.send(&request, Repetition::Allowed).and_then(expect_ok) {
            Ok(_) => count(&shared.counts.page_reads),
            Err(error) => shared.journal.record(Part::Console, began, format!("{error:#}")),
        }
    }
}

/// Gems that were pushed and acknowledged: name and checksum.
#[derive(Debug, Default)]
pub(super) struct Gems {
    pushed: Mutex<HashMap<usize, (String, String)>>,
}

impl Gems {
    fn add(&self, name: String, checksum: String) {
        let mut pushed = self.pushed.lock().unwrap_or_else(PoisonError::into_inner);
        let number = pushed.len();
        pushed.insert(number, (name, checksum));
    }

    fn any(&self) -> Option<(String, String)> {
        let pushed = self.pushed.lock().unwrap_or_else(PoisonError::into_inner);
        pushed.get(&fastrand::usize(..pushed.len().max(1))).cloned()
    }
}

/// Pushes new gems.
pub(super) fn run_gem_pushes(shared: &Shared, address: SocketAddr, key: &str, gems: &Arc<Gems>) {
    let mut pace = Pace::per_second(GEM_PUSHES_PER_SECOND);
    let mut number = 0;
    while pace.wait(shared) {
        number += 1;
        let name = format!("soak-{number}");
        let gem = gem_file::build(&name);
        let began = monotonic();
        let head = format!(
            "POST /api/v1/gems HTTP/1.1\r\nHost: {address}\r\nAuthorization: {key}\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            gem.len()
        );
        let request = [head.as_bytes(), &gem].concat();
        let mut connection = HttpConnection::new(address);
        match connection.send(&request, Repetition::Forbidden).and_then(expect_ok) {
            Ok(_) => {
                count(&shared.counts.gem_pushes);
                gems.add(name, hex::encode(Sha256::digest(&gem)));
            }
            Err(error) => shared.journal.record(Part::Gems, began, format!("push: {error:#}")),
        }
    }
}

/// Reads the entries of gems that were pushed: they must be there, with the checksum of the file.
pub(super) fn run_gem_reads(shared: &Shared, address: SocketAddr, gems: &Arc<Gems>) {
    let mut connection = HttpConnection::new(address);
    let mut pace = Pace::per_second(GEM_READS_PER_SECOND);
    while pace.wait(shared) {
        let Some((name, checksum)) = gems.any() else {
            shared.sleep(Duration::from_secs(1));
            continue;
        };
        let began = monotonic();
        let request = get_request(address, &format!("/info/{name}"));
        match connection.send(&request, Repetition::Allowed) {
            Ok(HttpResponse { status: 200, body })
                if memchr::memmem::find(&body, checksum.as_bytes()).is_some() =>
            {
                count(&shared.counts.gem_reads);
            }
            Ok(HttpResponse { status: status @ (200 | 404), .. }) => {
                count(&shared.counts.wrong_responses);
                let text = format!("{name} was pushed, and its entry is wrong (status {status})");
                shared.journal.record(Part::Gems, began, text);
            }
            Ok(HttpResponse { status, .. }) => {
                shared.journal.record(Part::Gems, began, format!("status {status}"));
            }
            Err(error) => shared.journal.record(Part::Gems, began, format!("{error:#}")),
        }
    }
}
