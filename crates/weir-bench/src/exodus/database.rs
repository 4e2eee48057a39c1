//! The database of the surge: it serves so many jobs at full speed; with more, all become slower in proportion, so
//! that its throughput stays the same (processor sharing).
//!
//! Pure: the caller says what time it is. Times are since the start of the run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A job in the database ends when the work that each job got since the start reaches this. Equal ones by number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct EndOfWork(f64, u64);

impl Eq for EndOfWork {}

impl Ord for EndOfWork {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for EndOfWork {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
pub(crate) struct Database {
    sessions: f64,
    /// Seconds of work that each job got that was there since the start.
    work: f64,
    /// Until when `work` is right.
    at: Duration,
    jobs: BinaryHeap<Reverse<EndOfWork>>,
}

impl Database {
    #[expect(clippy::cast_precision_loss, reason = "at most 100,000")]
    pub(crate) fn new(sessions: u64) -> Self {
        Self { sessions: sessions as f64, work: 0.0, at: Duration::ZERO, jobs: BinaryHeap::new() }
    }

    /// A job begins. All jobs that end before must have been removed.
    pub(crate) fn begin(&mut self, number: u64, work: Duration, now: Duration) {
        self.advance(now);
        self.jobs.push(Reverse(EndOfWork(self.work + work.as_secs_f64(), number)));
    }

    /// Returns when the next job ends if none begins before.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        let Reverse(EndOfWork(end, _)) = self.jobs.peek()?;
        let seconds = (end - self.work).max(0.0) * self.stretch();
        Some(self.at + Duration::from_secs_f64(seconds))
    }

    /// Removes the next job that has ended by now. Returns its number and when it ended.
    pub(crate) fn pop_ended(&mut self, now: Duration) -> Option<(u64, Duration)> {
        let end = self.next_end().filter(|end| *end <= now)?;
        self.advance(end);
        let Reverse(EndOfWork(_, number)) = self.jobs.pop()?;
        Some((number, end))
    }

    fn advance(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        self.work += elapsed / self.stretch();
        self.at = self.at.max(now);
    }

    /// Returns how many times longer jobs take than alone.
    #[expect(clippy::cast_precision_loss, reason = "as many as there are workers")]
    fn stretch(&self) -> f64 {
        (self.jobs.len() as f64 / self.sessions).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Returns when each job ends; all begin at their time with their work.
    fn ends(sessions: u64, jobs: &[(f64, f64)]) -> Vec<(u64, f64)> {
        let mut database = Database::new(sessions);
        let mut ends = Vec::new();
        let mut collect = |database: &mut Database, now: Duration| {
            while let Some((number, end)) = database.pop_ended(now) {
                ends.push((number, (end.as_secs_f64() * 1e6).round() / 1e6));
            }
        };
        for (number, (at, work)) in (0..).zip(jobs) {
            collect(&mut database, seconds(*at));
            database.begin(number, seconds(*work), seconds(*at));
        }
        collect(&mut database, seconds(1e6));
        ends
    }

    #[test]
    fn up_to_its_sessions_jobs_take_their_time() {
        assert_eq!(ends(2, &[(0.0, 3.0), (1.0, 1.0), (5.0, 1.0)]), [(1, 2.0), (0, 3.0), (2, 6.0)]);
    }

    #[test]
    fn more_jobs_take_longer_in_proportion() {
        assert_eq!(ends(1, &[(0.0, 1.0), (0.0, 1.0)]), [(0, 2.0), (1, 2.0)]);
        // Half speed from 1 to 3; then the first is alone with one second left.
        assert_eq!(ends(1, &[(0.0, 3.0), (1.0, 1.0)]), [(1, 3.0), (0, 4.0)]);
    }
}
