//! Clients that push and acknowledge until they are told to stop or the server is gone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::ledger::Ledger;
use crate::crash::client::{Client, jid_in_reply};

const QUEUES: [&str; 2] = ["a", "b"];
/// Jobs of one push.
const BATCH: usize = 10;
/// Large enough that segments fill and are removed while a test runs.
const PADDING_BYTES: usize = 1_500;

/// Jobs are numbered over all lives of the server.
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(super) struct Load {
    clients: Vec<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    pub(super) fn start(address: SocketAddr, ledger: &Ledger) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for queue in QUEUES {
            let (push, work) = (ledger.clone(), ledger.clone());
            let (push_over, work_over) = (Arc::clone(&is_over), Arc::clone(&is_over));
            clients.push(std::thread::spawn(move || {
                if let Some(client) = Client::connect(address, &format!("pusher-{queue}")) {
                    let _ = push_until_over(client, &push, queue, &push_over);
                }
            }));
            clients.push(std::thread::spawn(move || {
                if let Some(client) = Client::connect(address, &format!("worker-{queue}")) {
                    let _ = work_until_over(client, &work, queue, &work_over);
                }
            }));
        }
        Self { clients, is_over }
    }

    pub(super) fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().expect("a client found a broken promise");
        }
    }
}

fn push_until_over(
    mut client: Client,
    ledger: &Ledger,
    queue: &str,
    is_over: &AtomicBool,
) -> Option<()> {
    let padding = "x".repeat(PADDING_BYTES);
    while !is_over.load(Ordering::SeqCst) {
        let jids: Vec<String> = (0..BATCH)
            .map(|_| format!("{queue}-{:09}", NEXT.fetch_add(1, Ordering::Relaxed)))
            .collect();
        let job = |jid: &String| {
            format!(r#"{{"jid":"{jid}","jobtype":"B","queue":"{queue}","args":["{padding}"]}}"#)
        };
        let jobs: Vec<String> = jids.iter().map(job).collect();
        ledger.push_sent(&jids);
        let reply = client.try_send_command(&format!("PUSHB [{}]", jobs.join(",")))?;
        assert_eq!(reply, "{}", "a push was refused");
        ledger.pushed(&jids);
    }
    Some(())
}

/// Acknowledges nine jobs in ten; the others stay reserved.
fn work_until_over(
    mut client: Client,
    ledger: &Ledger,
    queue: &str,
    is_over: &AtomicBool,
) -> Option<()> {
    let mut fetched: u64 = 0;
    while !is_over.load(Ordering::SeqCst) {
        let reply = client.try_send_command(&format!("FETCH {queue}"))?;
        let Some(jid) = jid_in_reply(&reply) else { continue };
        fetched += 1;
        if fetched.is_multiple_of(10) {
            continue;
        }
        ledger.ack_sent(&jid);
        assert_eq!(client.ack(&jid)?, "OK", "an ACK was refused");
        ledger.acked(&jid);
    }
    Some(())
}
