//! Clients that push, fetch, acknowledge and fail until the server is gone.
//!
//! Each queue has one pusher and one worker, so that the order of what the worker gets can be held
//! against the order of what was pushed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::client::Client;
use super::ledger::Ledger;
use super::server::Server;

pub(super) const QUEUES: [&str; 4] = ["a", "b", "c", "later"];

/// Jobs are numbered over all lives of the server.
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(super) struct Load {
    clients: Vec<JoinHandle<()>>,
    over: Arc<AtomicBool>,
}

impl Load {
    /// Stops the clients, after the server was killed. One that had only just connected may use the next server.
    pub(super) fn end(self) {
        self.over.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().expect("a client found a broken promise");
        }
    }
}

/// Starts the clients; they stop when the server does.
pub(super) fn start(server: &Server, ledger: &Ledger, random: &mut fastrand::Rng) -> Load {
    ledger.begin_life();
    let mut clients = Vec::new();
    let over = Arc::new(AtomicBool::new(false));
    for queue in QUEUES {
        let address = server.address();
        let (push, work) = (ledger.clone(), ledger.clone());
        let (push_random, work_random) = (random.fork(), random.fork());
        let (push_over, work_over) = (Arc::clone(&over), Arc::clone(&over));
        clients.push(std::thread::spawn(move || {
            if let Some(client) = Client::connect(address, &format!("pusher-{queue}")) {
                let _ = push_until_stopped(client, &push, queue, push_random, &push_over);
            }
        }));
        clients.push(std::thread::spawn(move || {
            if let Some(client) = Client::connect(address, &format!("worker-{queue}")) {
                let _ = work_until_stopped(client, &work, queue, work_random, &work_over);
            }
        }));
    }
    Load { clients, over }
}

fn push_until_stopped(
    mut client: Client,
    ledger: &Ledger,
    queue: &str,
    mut random: fastrand::Rng,
    over: &AtomicBool,
) -> Option<()> {
    while !over.load(Ordering::SeqCst) {
        let count = if random.u8(..10) == 0 { random.usize(2..40) } else { 1 };
        let jobs: Vec<_> = (0..count).map(|_| job(queue, &mut random)).collect();
        let texts: Vec<&str> = jobs.iter().map(|job| job.1.as_str()).collect();
        let jids: Vec<String> = jobs.iter().map(|job| job.0.clone()).collect();
        let (command, expected) = if count == 1 {
            (format!("PUSH {}", texts[0]), "OK")
        } else {
            (format!("PUSHB [{}]", texts.join(",")), "{}")
        };
        let answer = client.try_send_command(&command)?;
        assert_eq!(answer, expected, "a push was refused");
        ledger.record_pushed(&jids);
    }
    Some(())
}

/// Returns the jid and the JSON of a job. Jobs in the queue `later` become due soon, in any order.
fn job(queue: &str, random: &mut fastrand::Rng) -> (String, String) {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let jid = format!("{queue}-{number:09}");
    let padding = "x".repeat(random.usize(0..600));
    let at = match queue {
        "later" => format!(r#","at":"{}""#, timestamp_soon(random)),
        _ => String::new(),
    };
    let text = format!(
        r#"{{"jid":"{jid}","jobtype":"Crash","queue":"{queue}","args":[{number},"{padding}"]{at}}}"#
    );
    (jid, text)
}

/// Returns a time up to 200 ms from now, as RFC 3339.
fn timestamp_soon(random: &mut fastrand::Rng) -> String {
    use weir_base::clock::Clock;
    let due = Clock::system().now() + std::time::Duration::from_millis(random.u64(0..200));
    weir_jobs::stamp::rfc3339(due)
}

fn work_until_stopped(
    mut client: Client,
    ledger: &Ledger,
    queue: &str,
    mut random: fastrand::Rng,
    over: &AtomicBool,
) -> Option<()> {
    while !over.load(Ordering::SeqCst) {
        let answer = client.try_send_command(&format!("FETCH {queue}"))?;
        if answer.is_empty() {
            continue;
        }
        let job: serde_json::Value = serde_json::from_str(&answer).expect("a job is JSON");
        let jid = job["jid"].as_str().expect("a job has a jid").to_owned();
        let number = job["args"][0].as_u64().expect("a job has its number");
        if queue == "later" {
            ledger.record_fetched(&jid, &jid, number);
        } else {
            ledger.record_fetched(&jid, queue, number);
        }
        match random.u8(..100) {
            // Kept: its reservation is lost with the server, and it waits again.
            0..5 => {}
            5..10 => {
                let fail = format!(r#"FAIL {{"jid":"{jid}","errtype":"E","message":"m"}}"#);
                // Known to have failed before it is sent: the answer may be lost.
                ledger.record_failed(&jid);
                assert_eq!(client.try_send_command(&fail)?, "OK", "a FAIL was refused");
            }
            _ => {
                ledger.record_ack_sent(&jid);
                assert_eq!(client.ack(&jid)?, "OK", "an ACK was refused");
                ledger.record_acked(&jid);
            }
        }
    }
    Some(())
}
