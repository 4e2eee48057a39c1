//! The marks of cancelled jobs in progress. They are in memory: one lives until its job ends, its worker is given up, or
//! its reservation expires.

use std::collections::BTreeMap;

use weir_base::clock::Timestamp;

use crate::model::Wid;
use crate::rules;

/// The cancelled jobs of a server's workers.
#[derive(Debug, Default)]
pub(crate) struct Cancellations {
    /// Two jobs may have a jid in common.
    by_jid: BTreeMap<Box<str>, Vec<CancelledJob>>,
}

#[derive(Debug)]
struct CancelledJob {
    wid: Option<Wid>,
    until: Timestamp,
}

impl Cancellations {
    /// Marks the job of a reservation.
    pub(crate) fn add(&mut self, jid: &str, wid: Option<&Wid>, until: Timestamp) {
        let marks = self.by_jid.entry(jid.into()).or_default();
        marks.retain(|job| job.wid.as_ref() != wid);
        marks.push(CancelledJob { wid: wid.cloned(), until });
    }

    /// Removes the marks of reservations that have expired.
    pub(crate) fn prune(&mut self, now: Timestamp) {
        self.retain(|job| job.until > now);
    }

    /// Keeps the marks of a job whose reservation is extended.
    pub(crate) fn extend(&mut self, jid: &str, until: Timestamp) {
        for job in self.by_jid.get_mut(jid).into_iter().flatten() {
            job.until = job.until.max(until);
        }
    }

    /// Removes the marks of a worker that is given up: its jobs will run again.
    pub(crate) fn forget_worker(&mut self, wid: &Wid) {
        self.retain(|job| job.wid.as_ref() != Some(wid));
    }

    /// Returns the cancelled jobs of a worker.
    pub(crate) fn of_worker(&self, wid: &str, now: Timestamp) -> Vec<&str> {
        let is_its = |job: &CancelledJob| {
            job.until > now && job.wid.as_ref().is_some_and(|holder| holder.as_str() == wid)
        };
        let marked = self.by_jid.iter().filter(|(_, jobs)| jobs.iter().any(is_its));
        marked.map(|(jid, _)| &**jid).collect()
    }

    /// Returns whether a job is cancelled that `reporter` has, or any worker.
    pub(crate) fn contains(&self, jid: &str, reporter: Option<&Wid>, now: Timestamp) -> bool {
        let is_its =
            |job: &CancelledJob| job.until > now && rules::may_end(job.wid.as_ref(), reporter);
        self.by_jid.get(jid).is_some_and(|jobs| jobs.iter().any(is_its))
    }

    /// Removes the mark of a job whose end `reporter` has reported.
    pub(crate) fn end(&mut self, jid: &str, reporter: Option<&Wid>) {
        if let Some(jobs) = self.by_jid.get_mut(jid) {
            jobs.retain(|job| !rules::may_end(job.wid.as_ref(), reporter));
            if jobs.is_empty() {
                self.by_jid.remove(jid);
            }
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&CancelledJob) -> bool) {
        self.by_jid.retain(|_, jobs| {
            jobs.retain(&is_kept);
            !jobs.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_mark_is_about_one_reservation() {
        let (one, two) = (Wid::new("w1"), Wid::new("w2"));
        let mut marks = Cancellations::default();
        marks.add("a", Some(&one), at(60));
        marks.add("b", Some(&one), at(10));
        marks.add("c", None, at(60));
        assert_eq!(marks.of_worker("w1", at(1)), ["a", "b"]);
        assert_eq!(marks.of_worker("w1", at(10)), ["a"], "it has expired");
        assert!(marks.of_worker("w2", at(1)).is_empty());
        assert!(!marks.contains("a", Some(&two), at(1)), "another worker has another job");
        marks.end("a", Some(&two));
        assert!(marks.contains("a", Some(&one), at(1)));
        marks.end("a", Some(&one));
        assert!(!marks.contains("a", Some(&one), at(1)), "it has ended");
        assert!(!marks.contains("b", Some(&one), at(10)), "its reservation had expired");
        marks.prune(at(60) + Duration::from_micros(1));
        assert!(marks.by_jid.is_empty());
    }

    #[test]
    fn two_jobs_with_one_jid_have_a_mark_each() {
        let (one, two) = (Wid::new("w1"), Wid::new("w2"));
        let mut marks = Cancellations::default();
        marks.add("a", Some(&one), at(60));
        marks.add("a", Some(&two), at(60));
        marks.add("a", Some(&two), at(70));
        assert_eq!(marks.of_worker("w1", at(1)), ["a"]);
        marks.end("a", Some(&two));
        assert_eq!(marks.of_worker("w1", at(1)), ["a"]);
        assert!(marks.of_worker("w2", at(1)).is_empty());
    }

    #[test]
    fn a_mark_lives_as_long_as_the_reservation() {
        let wid = Wid::new("w1");
        let mut marks = Cancellations::default();
        marks.add("a", Some(&wid), at(60));
        marks.extend("a", at(90));
        marks.extend("a", at(70));
        marks.extend("b", at(90));
        assert_eq!(marks.of_worker("w1", at(89)), ["a"]);
        marks.forget_worker(&wid);
        assert!(marks.by_jid.is_empty());
    }
}
