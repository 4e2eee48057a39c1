//! The marks of cancelled jobs in progress. They are in memory: one lives until its job ends, or until its reservation
//! would have expired when it was set.

use std::collections::BTreeMap;

use weir_base::clock::Timestamp;

use crate::model::Wid;
use crate::rules;

/// The cancelled jobs of a server's workers.
#[derive(Debug, Default)]
pub(crate) struct Cancellations {
    by_jid: BTreeMap<Box<str>, CancelledJob>,
}

#[derive(Debug)]
struct CancelledJob {
    wid: Option<Wid>,
    until: Timestamp,
}

impl Cancellations {
    /// Marks the job of a reservation.
    pub(crate) fn add(&mut self, jid: &str, wid: Option<&Wid>, until: Timestamp) {
        self.by_jid.insert(jid.into(), CancelledJob { wid: wid.cloned(), until });
    }

    /// Removes the marks of reservations that have expired.
    pub(crate) fn prune(&mut self, now: Timestamp) {
        self.by_jid.retain(|_, job| job.until > now);
    }

    /// Returns the cancelled jobs of a worker.
    pub(crate) fn of_worker(&self, wid: &str, now: Timestamp) -> Vec<&str> {
        let is_its = |job: &CancelledJob| {
            job.until > now && job.wid.as_ref().is_some_and(|holder| holder.as_str() == wid)
        };
        self.by_jid.iter().filter(|(_, job)| is_its(job)).map(|(jid, _)| &**jid).collect()
    }

    /// Removes the mark of a job whose end `reporter` reports. Returns whether it was cancelled.
    pub(crate) fn end(&mut self, jid: &str, reporter: Option<&Wid>, now: Timestamp) -> bool {
        let Some(job) = self.by_jid.get(jid) else { return false };
        if !rules::may_end(job.wid.as_ref(), reporter) {
            return false;
        }
        let is_valid = job.until > now;
        self.by_jid.remove(jid);
        is_valid
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_mark_is_about_one_reservation() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000);
        let (one, two) = (Wid::new("w1"), Wid::new("w2"));
        let mut marks = Cancellations::default();
        marks.add("a", Some(&one), at(60));
        marks.add("b", Some(&one), at(10));
        marks.add("c", None, at(60));
        assert_eq!(marks.of_worker("w1", at(1)), ["a", "b"]);
        assert_eq!(marks.of_worker("w1", at(10)), ["a"], "it has expired");
        assert!(marks.of_worker("w2", at(1)).is_empty());
        assert!(!marks.end("a", Some(&two), at(1)), "another worker has another job");
        assert!(marks.end("a", Some(&one), at(1)));
        assert!(!marks.end("a", Some(&one), at(1)), "once");
        assert!(!marks.end("b", Some(&one), at(10)), "its reservation had expired");
        marks.prune(at(60) + Duration::from_micros(1));
        assert!(marks.by_jid.is_empty());
    }
}
