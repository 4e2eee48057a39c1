//! Which jobs of a flood have started, so that its summary can say whether any was lost. Pure.

/// The jobs of one flood, by number. A flag each: a flood within the limits has less than 5 million.
#[derive(Debug, Default)]
pub(crate) struct FloodJobs {
    /// The number of the first one. Those of earlier floods are lower.
    first: u64,
    started: Vec<bool>,
    /// Jobs that the server has not acknowledged.
    unacknowledged: u64,
    waiting: u64,
}

/// How far the jobs of a flood are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FloodJobCounts {
    /// Jobs that the server has acknowledged.
    pub(crate) acknowledged: u64,
    /// Those of them that no worker has received.
    pub(crate) waiting: u64,
}

impl FloodJobs {
    /// Forgets the jobs of the earlier flood.
    pub(crate) fn clear(&mut self) {
        *self = Self { first: self.first + self.started.len() as u64, ..Self::default() };
    }

    /// Returns the number of a new job.
    pub(crate) fn add(&mut self) -> u64 {
        self.started.push(false);
        self.waiting += 1;
        self.first + self.started.len() as u64 - 1
    }

    /// A worker has received the job, perhaps not for the first time.
    pub(crate) fn on_started(&mut self, number: u64) {
        self.settle(number);
    }

    /// The server has rejected the job, or the connection ended before its reply.
    pub(crate) fn on_unacknowledged(&mut self, number: u64) {
        if self.settle(number) {
            self.unacknowledged += 1;
        }
    }

    pub(crate) fn counts(&self) -> FloodJobCounts {
        let acknowledged = self.started.len() as u64 - self.unacknowledged;
        FloodJobCounts { acknowledged, waiting: self.waiting }
    }

    /// The job needs to be waited for no longer. Returns whether it was until now.
    fn settle(&mut self, number: u64) -> bool {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let Some(started) = place.and_then(|place| self.started.get_mut(place)) else {
            return false;
        };
        let was_waiting = !std::mem::replace(started, true);
        self.waiting -= u64::from(was_waiting);
        was_waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_counts_once() {
        let mut jobs = FloodJobs::default();
        let numbers: Vec<u64> = (0..3).map(|_| jobs.add()).collect();
        jobs.on_started(numbers[0]);
        jobs.on_started(numbers[0]); // its worker was lost
        jobs.on_unacknowledged(numbers[1]);
        assert_eq!(jobs.counts(), FloodJobCounts { acknowledged: 2, waiting: 1 });
        jobs.on_unacknowledged(numbers[0]); // it was accepted: only the reply was lost
        assert_eq!(jobs.counts().acknowledged, 2);
    }

    #[test]
    fn jobs_of_an_earlier_flood_do_not_count() {
        let mut jobs = FloodJobs::default();
        let earlier = jobs.add();
        jobs.clear();
        let number = jobs.add();
        jobs.on_started(earlier);
        jobs.on_started(99);
        assert_eq!(jobs.counts(), FloodJobCounts { acknowledged: 1, waiting: 1 });
        jobs.on_started(number);
        assert_eq!(jobs.counts().waiting, 0);
    }
}
