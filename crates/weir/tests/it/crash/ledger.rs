//! What the clients were told, kept outside the server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

/// Shared by all clients.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    /// The server said OK.
    pushed: BTreeSet<String>,
    /// Sent; the answer may have been lost.
    ack_sent: BTreeSet<String>,
    /// The server said OK.
    acked: BTreeSet<String>,
    failed: BTreeSet<String>,
    fetches: u64,
    /// Fetched again after a crash took the reservation (or the ACK's answer) away.
    fetched_again: u64,
    fetched: BTreeSet<String>,
    /// Jobs fetched from each queue in this life of the server, in order.
    in_order: BTreeMap<String, Vec<u64>>,
}

/// What a run came to.
pub(super) struct Counts {
    pushed: usize,
    acked: usize,
    failed: usize,
    fetches: u64,
    fetched_again: u64,
    drained: usize,
}

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn begin_life(&self) {
        self.entries().in_order.clear();
    }

    pub(super) fn record_pushed(&self, jids: &[String]) {
        self.entries().pushed.extend(jids.iter().cloned());
    }

    /// Checks a fetched job against what the server has acknowledged.
    pub(super) fn record_fetched(&self, jid: &str, queue: &str, number: u64) {
        let mut entries = self.entries();
        assert!(!entries.acked.contains(jid), "{jid} was acknowledged as done and came again");
        entries.fetches += 1;
        let again = !entries.fetched.insert(jid.to_owned());
        entries.fetched_again += u64::from(again);
        if entries.failed.contains(jid) {
            return; // A retry comes when it is due, wherever the queue is by then.
        }
        let order = entries.in_order.entry(queue.to_owned()).or_default();
        if let Some(last) = order.last() {
            assert!(*last < number, "{queue}: job {number} came after {last}");
        }
        order.push(number);
    }

    pub(super) fn record_ack_sent(&self, jid: &str) {
        self.entries().ack_sent.insert(jid.to_owned());
    }

    pub(super) fn record_acked(&self, jid: &str) {
        self.entries().acked.insert(jid.to_owned());
    }

    pub(super) fn record_failed(&self, jid: &str) {
        self.entries().failed.insert(jid.to_owned());
    }

    /// Every acknowledged job was acked or is still there; no acknowledged ACK is repeated.
    pub(super) fn check(&self, drained: &[String]) -> Counts {
        let entries = self.entries();
        let left: BTreeSet<_> = drained.iter().cloned().collect();
        let lost: Vec<_> = entries
            .pushed
            .iter()
            .filter(|jid| !entries.ack_sent.contains(*jid) && !left.contains(*jid))
            .collect();
        assert!(lost.is_empty(), "{} acknowledged jobs are lost: {lost:?}", lost.len());
        let repeated: Vec<_> = left.intersection(&entries.acked).collect();
        assert!(repeated.is_empty(), "acknowledged ACKs are repeated: {repeated:?}");
        assert!(!entries.pushed.is_empty() && !entries.acked.is_empty(), "the load did nothing");
        Counts {
            pushed: entries.pushed.len(),
            acked: entries.acked.len(),
            failed: entries.failed.len(),
            fetches: entries.fetches,
            fetched_again: entries.fetched_again,
            drained: left.len(),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pushed, acked, failed, fetches, fetched_again, drained } = self;
        write!(
            formatter,
            "{pushed} pushes acknowledged, {fetches} fetches ({fetched_again} of them again), \
             {acked} ACKs acknowledged, {failed} FAILs, {drained} jobs left at the end: \
             0 lost, 0 ACKs repeated, order kept"
        )
    }
}
