//! Jobs that wait, by class; those of a queue in the order of their arrival.

use std::collections::VecDeque;

/// A job that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingJob {
    pub(super) enqueued: f64,
    pub(super) id: u32,
    /// Runs before this one, and one.
    pub(super) attempt: u32,
    /// It waited when the simulation began: its wait says nothing about the policy.
    pub(super) is_backlog: bool,
}

/// With newest first, one of so many jobs is the oldest.
const OLDEST_SHARE: u32 = 10;

/// A class' jobs, and how many of them run.
#[derive(Debug, Default)]
pub(super) struct ClassLine {
    pub(super) jobs: VecDeque<WaitingJob>,
    pub(super) in_flight: u32,
    pub(super) cap: Option<u32>,
}

impl ClassLine {
    fn is_eligible(&self) -> bool {
        !self.jobs.is_empty() && self.cap.is_none_or(|cap| self.in_flight < cap)
    }
}

/// All jobs that wait.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) classes: Vec<ClassLine>,
    /// The classes of each queue.
    of_queue: Vec<Vec<usize>>,
    /// Jobs that were taken from each queue while it served its newest first.
    taken: Vec<u32>,
    pub(super) total: u64,
}

impl Lines {
    pub(super) fn new(queue_of: &[usize], queues: usize) -> Self {
        let of_queue = (0..queues).map(|queue| {
            queue_of.iter().enumerate().filter(|(_, of)| **of == queue).map(|(at, _)| at).collect()
        });
        Self {
            classes: queue_of.iter().map(|_| ClassLine::default()).collect(),
            of_queue: of_queue.collect(),
            taken: vec![0; queues],
            total: 0,
        }
    }

    pub(super) fn push(&mut self, class: usize, job: WaitingJob) {
        self.classes[class].jobs.push_back(job);
        self.total += 1;
    }

    /// Returns when the oldest job that may run was enqueued.
    pub(super) fn oldest_eligible(&self, queue: usize) -> Option<f64> {
        self.first(queue, ClassLine::is_eligible)
    }

    /// Returns when the oldest job was enqueued.
    pub(super) fn oldest(&self, queue: usize) -> Option<f64> {
        self.first(queue, |line| !line.jobs.is_empty())
    }

    /// Returns when the oldest job of the classes that are considered was enqueued.
    pub(super) fn oldest_where(
        &self,
        queue: usize,
        is_considered: impl Fn(usize) -> bool,
    ) -> Option<f64> {
        let classes = self.of_queue[queue].iter().filter(|class| is_considered(**class));
        let heads = classes.filter_map(|class| self.classes[*class].jobs.front());
        heads.map(|job| job.enqueued).reduce(f64::min)
    }

    fn first(&self, queue: usize, is_considered: fn(&ClassLine) -> bool) -> Option<f64> {
        let lines = self.of_queue[queue].iter().map(|class| &self.classes[*class]);
        let heads = lines.filter(|line| is_considered(line)).filter_map(|it| it.jobs.front());
        heads.map(|job| job.enqueued).reduce(f64::min)
    }

    pub(super) fn waiting(&self, queue: usize) -> usize {
        self.of_queue[queue].iter().map(|class| self.classes[*class].jobs.len()).sum()
    }

    pub(super) fn in_flight(&self, queue: usize) -> u32 {
        self.of_queue[queue].iter().map(|class| self.classes[*class].in_flight).sum()
    }

    /// Takes the job that is next in the queue, and counts it as in progress.
    pub(super) fn take(
        &mut self,
        queue: usize,
        is_newest_first: bool,
    ) -> Option<(usize, WaitingJob)> {
        let is_newest = is_newest_first && {
            self.taken[queue] += 1;
            !self.taken[queue].is_multiple_of(OLDEST_SHARE)
        };
        let eligible = self.of_queue[queue].iter().filter(|it| self.classes[**it].is_eligible());
        let class = if is_newest {
            let last =
                |class: &usize| self.classes[*class].jobs.back().map_or(0.0, |it| it.enqueued);
            eligible.max_by(|a, b| last(a).total_cmp(&last(b)))
        } else {
            let first = |it: &usize| self.classes[*it].jobs.front().map_or(0.0, |it| it.enqueued);
            eligible.min_by(|a, b| first(a).total_cmp(&first(b)))
        };
        let class = *class?;
        let line = &mut self.classes[class];
        let job = if is_newest { line.jobs.pop_back() } else { line.jobs.pop_front() }?;
        line.in_flight += 1;
        self.total -= 1;
        Some((class, job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(enqueued: f64) -> WaitingJob {
        WaitingJob { enqueued, id: 0, attempt: 1, is_backlog: false }
    }

    #[test]
    fn oldest_job_of_a_class_below_its_limit_is_next() {
        let mut lines = Lines::new(&[0, 0], 1);
        lines.push(0, job(1.0));
        lines.push(0, job(2.0));
        lines.push(1, job(3.0));
        lines.classes[0].cap = Some(1);
        let taken: Vec<_> =
            (0..3).map(|_| lines.take(0, false).map(|(class, it)| (class, it.enqueued))).collect();
        assert_eq!(taken, [Some((0, 1.0)), Some((1, 3.0)), None]);
        assert_eq!((lines.oldest(0), lines.oldest_eligible(0)), (Some(2.0), None));
    }

    #[test]
    fn newest_first_leaves_a_tenth_to_the_oldest() {
        let mut lines = Lines::new(&[0], 1);
        (0..100).for_each(|at| lines.push(0, job(f64::from(at))));
        let taken: Vec<f64> =
            (0..20).filter_map(|_| lines.take(0, true)).map(|(_, it)| it.enqueued).collect();
        assert_eq!(taken.iter().filter(|it| **it < 50.0).count(), 2, "{taken:?}");
        assert_eq!(taken[0], 99.0);
    }
}
