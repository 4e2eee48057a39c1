//! When clients sent what, and when they were told: which jobs a state of a given moment must have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_base::clock::Clock;

/// Shared by all clients. Times are in microseconds since the Unix epoch.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<BTreeMap<String, JobTimes>>>);

#[derive(Clone, Copy, Default)]
struct JobTimes {
    push_sent: u64,
    pushed: Option<u64>,
    ack_sent: Option<u64>,
    acked: Option<u64>,
}

/// What a check has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    /// Jobs that had to be there.
    pub(super) present: usize,
    /// Jobs that must not be there.
    pub(super) absent: usize,
    /// Jobs for which both are right: a request was in progress.
    pub(super) open: usize,
}

pub(super) fn now() -> u64 {
    Clock::system().now().as_micros()
}

impl Ledger {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, JobTimes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push_sent(&self, jids: &[String]) {
        let times = JobTimes { push_sent: now(), ..JobTimes::default() };
        self.jobs().extend(jids.iter().map(|jid| (jid.clone(), times)));
    }

    pub(super) fn pushed(&self, jids: &[String]) {
        let (now, mut jobs) = (now(), self.jobs());
        jids.iter().for_each(|jid| jobs.entry(jid.clone()).or_default().pushed = Some(now));
    }

    pub(super) fn ack_sent(&self, jid: &str) {
        self.jobs().entry(jid.to_owned()).or_default().ack_sent.get_or_insert_with(now);
    }

    pub(super) fn acked(&self, jid: &str) {
        self.jobs().entry(jid.to_owned()).or_default().acked.get_or_insert_with(now);
    }

    /// Checks the jobs of a restored state, which is of a moment from `earliest` to `latest`.
    pub(super) fn check(&self, restored: &BTreeSet<String>, earliest: u64, latest: u64) -> Checked {
        let jobs = self.jobs();
        let mut checked = Checked { present: 0, absent: 0, open: 0 };
        for jid in restored {
            assert!(jobs.contains_key(jid), "{jid} was never pushed");
        }
        for (jid, times) in jobs.iter() {
            let is_before = |time: Option<u64>| time.is_some_and(|time| time < earliest);
            let is_after = |time: Option<u64>| time.is_none_or(|time| time > latest);
            let is_there = restored.contains(jid);
            if times.push_sent > latest || is_before(times.acked) {
                assert!(
                    !is_there,
                    "{jid} must not be there: {earliest} to {latest}, {}",
                    times.text()
                );
                checked.absent += 1;
            } else if is_before(times.pushed) && is_after(times.ack_sent) {
                assert!(is_there, "{jid} is lost: {earliest} to {latest}, {}", times.text());
                checked.present += 1;
            } else {
                checked.open += 1;
            }
        }
        checked
    }
}

impl JobTimes {
    fn text(&self) -> String {
        let Self { push_sent, pushed, ack_sent, acked } = self;
        format!("push sent {push_sent}, pushed {pushed:?}, ACK sent {ack_sent:?}, acked {acked:?}")
    }
}
