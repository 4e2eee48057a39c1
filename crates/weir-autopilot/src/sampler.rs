//! Turns what the sources report into the samples of the rules.

use std::collections::VecDeque;

use weir_control::{ClassLoad, DatabaseLoad, LoadSample, QueueLoad, ThreadLoad};

use crate::attribution::{Attribution, AttributionMethod};
use crate::load::{ClassFigures, DatabaseActivity, JobsLoad, QueueFigures};
use crate::roster::{LiveRoster, OTHER_CLASSES};
use crate::thread_groups::{self, ThreadGroup};

/// The workers that there are: the most that were seen within this time.
const WORKERS_SECONDS: f64 = 300.0;

/// Builds samples.
#[derive(Debug)]
pub struct Sampler {
    /// Positions of queues and classes.
    pub roster: LiveRoster,
    attribution: Attribution,
    previous: Option<Totals>,
    workers: VecDeque<(f64, u32)>,
    /// Processes whose threads can be changed, where nothing else can be.
    pub groups: Vec<ThreadGroup>,
    has_groups: bool,
    default_target_seconds: f64,
    /// Queues and classes of the last sample without a position.
    pub left_out: (usize, usize),
    /// How the sessions of the last sample were attributed.
    pub method: AttributionMethod,
}

/// Counters at one time, by position.
#[derive(Clone, Debug, Default)]
struct Totals {
    at_seconds: f64,
    pushed: Vec<u64>,
    ended: Vec<u64>,
    run_seconds: Vec<f64>,
}

impl Sampler {
    /// Creates a sampler.
    #[must_use]
    pub fn new(roster: LiveRoster, default_target_seconds: f64) -> Self {
        Self {
            roster,
            attribution: Attribution::default(),
            previous: None,
            workers: VecDeque::new(),
            groups: Vec::new(),
            has_groups: false,
            default_target_seconds,
            left_out: (0, 0),
            method: AttributionMethod::default(),
        }
    }

    /// Begins anew after a pause: the next sample would be an average over it.
    pub fn begin_anew(&mut self) {
        self.previous = None;
        self.workers.clear();
    }

    /// Notes the processes whose threads can be changed.
    pub fn set_groups(&mut self, groups: &[ThreadGroup]) {
        self.has_groups |= !groups.is_empty();
        self.groups = groups.to_vec();
    }

    /// Returns the workers that there are; of processes whose threads can be changed, those that they have without that.
    #[must_use]
    pub fn workers(&self) -> u32 {
        if self.has_groups {
            return thread_groups::plan(&self.groups).max(1);
        }
        self.workers.iter().map(|(_, workers)| *workers).max().unwrap_or_default().max(1)
    }

    /// Returns the sample of the time since the last call; `None` for the first one. Without `activities`, the database
    /// is not known.
    pub fn sample(
        &mut self,
        at_seconds: f64,
        jobs: &JobsLoad,
        activities: &[DatabaseActivity],
        limit: Option<u32>,
    ) -> Option<LoadSample> {
        self.workers.push_back((at_seconds, jobs.busy + jobs.idle));
        self.workers.retain(|(seen, _)| at_seconds - seen < WORKERS_SECONDS);
        let queue_positions = self.queue_positions(&jobs.queues);
        let class_positions = self.class_positions(&jobs.classes);
        let totals = self.totals(at_seconds, jobs, &queue_positions, &class_positions);
        let previous = self.previous.replace(totals.clone())?;
        let mut sample = LoadSample {
            at_seconds,
            span_seconds: at_seconds - previous.at_seconds,
            queues: vec![QueueLoad::default(); totals.pushed.len()],
            classes: vec![ClassLoad::default(); totals.ended.len()],
            threads: self.threads(jobs, limit),
            database: None,
        };
        for (position, queue) in known(&queue_positions, &jobs.queues) {
            sample.queues[position] = QueueLoad {
                waiting: queue.waiting,
                oldest_age_seconds: queue.oldest_age_seconds,
                arrivals: since(&previous.pushed, totals.pushed[position], position),
                in_flight: queue.in_flight,
            };
        }
        for (position, class) in placed(&class_positions, jobs) {
            let ran = totals.run_seconds[position];
            let before = previous.run_seconds.get(position).copied().unwrap_or(ran);
            let load = &mut sample.classes[position];
            load.in_flight += class.in_flight;
            load.finished = since(&previous.ended, totals.ended[position], position);
            load.run_seconds = (ran - before).max(0.0);
        }
        for (name, waiting) in jobs.queues.iter().flat_map(|queue| &queue.waiting_by_class) {
            let position = self.roster.find_class(name).unwrap_or(OTHER_CLASSES);
            sample.classes[position].waiting += waiting;
        }
        self.add_database(&mut sample, activities);
        Some(sample)
    }

    fn queue_positions(&mut self, queues: &[QueueFigures]) -> Vec<Option<usize>> {
        let target = self.default_target_seconds;
        let position = |queue: &QueueFigures| {
            let target = queue.target_seconds.unwrap_or(target);
            self.roster.queue(&queue.name, target, !queue.is_unmanaged)
        };
        let positions: Vec<_> = queues.iter().map(position).collect();
        self.left_out.0 = positions.iter().filter(|position| position.is_none()).count();
        positions
    }

    fn class_positions(&mut self, classes: &[ClassFigures]) -> Vec<Option<usize>> {
        let mut position = |class: &ClassFigures| {
            let position = self.roster.class(&class.name)?;
            self.roster.set_queue_of(position, &class.queue);
            Some(position)
        };
        let positions: Vec<_> = classes.iter().map(&mut position).collect();
        self.left_out.1 = positions.iter().filter(|position| position.is_none()).count();
        positions
    }

    fn totals(
        &self,
        at_seconds: f64,
        jobs: &JobsLoad,
        queues: &[Option<usize>],
        classes: &[Option<usize>],
    ) -> Totals {
        let roster = self.roster.roster();
        let count = roster.classes.len();
        let mut totals = Totals {
            at_seconds,
            pushed: vec![0; roster.queues.len()],
            ended: vec![0; count],
            run_seconds: vec![0.0; count],
        };
        for (position, queue) in known(queues, &jobs.queues) {
            totals.pushed[position] = queue.pushed_total;
        }
        for (position, class) in placed(classes, jobs) {
            totals.ended[position] += class.ended_total;
            totals.run_seconds[position] += class.run_seconds_total;
        }
        totals
    }

    fn threads(&self, jobs: &JobsLoad, limit: Option<u32>) -> ThreadLoad {
        let workers = self.workers();
        let limit = limit.unwrap_or(workers);
        // What an operator limits may be more workers than were seen; processes have no more threads than these.
        let max = if self.has_groups { workers } else { workers.max(limit) };
        ThreadLoad { limit, busy: jobs.busy, max }
    }

    fn add_database(&mut self, sample: &mut LoadSample, activities: &[DatabaseActivity]) {
        let Some(last) = activities.last() else { return };
        let in_flight: Vec<f64> =
            sample.classes.iter().map(|class| f64::from(class.in_flight)).collect();
        let found =
            self.attribution.attribute(sample.at_seconds, activities, &in_flight, &self.roster);
        for (class, load) in sample.classes.iter_mut().enumerate() {
            load.sessions = found.sessions[class];
            load.idle_sessions = found.idle[class];
            load.blocks = found.blocks[class];
        }
        self.method = found.method;
        sample.database = Some(DatabaseLoad {
            connections: last.connections,
            connections_max: last.connections_max,
            // The pools of the workers' programs are not visible.
            waiting_for_connection: 0.0,
            lock_waits: found.lock_waits,
            confidence: found.confidence,
        });
    }
}

fn known<'a, T>(
    positions: &'a [Option<usize>],
    values: &'a [T],
) -> impl Iterator<Item = (usize, &'a T)> {
    positions.iter().zip(values).filter_map(|(position, value)| Some(((*position)?, value)))
}

/// Returns all classes: those without a position are others.
fn placed<'a>(
    positions: &'a [Option<usize>],
    jobs: &'a JobsLoad,
) -> impl Iterator<Item = (usize, &'a ClassFigures)> {
    let classes = positions.iter().zip(&jobs.classes);
    let classes = classes.map(|(position, class)| (position.unwrap_or(OTHER_CLASSES), class));
    classes.chain(jobs.other_classes.iter().map(|class| (OTHER_CLASSES, class)))
}

/// Returns how much a counter has grown. One that was not there before, or that began again, has not.
fn since(previous: &[u64], now: u64, position: usize) -> u64 {
    previous.get(position).map_or(0, |before| now.saturating_sub(*before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::SessionFigures;

    fn jobs(pushed: u64, ended: u64) -> JobsLoad {
        let class = |name: &str, in_flight| ClassFigures {
            name: name.to_owned(),
            queue: "default".to_owned(),
            in_flight,
            ended_total: ended,
            run_seconds_total: ended as f64 * 0.5,
        };
        let queue = QueueFigures {
            name: "default".to_owned(),
            waiting: 10,
            oldest_age_seconds: 3.0,
            pushed_total: pushed,
            in_flight: 6,
            is_unmanaged: false,
            target_seconds: Some(5.0),
            waiting_by_class: vec![("Hog".to_owned(), 8), ("New".to_owned(), 2)],
        };
        JobsLoad {
            queues: vec![queue],
            classes: vec![class("Hog", 4), class("Mail", 1), class("Third", 1)],
            other_classes: None,
            busy: 6,
            idle: 2,
            ..JobsLoad::default()
        }
    }

    #[test]
    fn a_sample_has_what_happened_since_the_one_before() {
        let mut sampler = Sampler::new(LiveRoster::new(10, 2, true), 300.0);
        assert_eq!(sampler.sample(0.0, &jobs(100, 50), &[], None), None);
        let session =
            SessionFigures { pid: 1, comment: Some("Hog".to_owned()), ..SessionFigures::default() };
        let activity =
            DatabaseActivity { sessions: vec![session], connections: 7, connections_max: 100 };
        let sample = sampler.sample(5.0, &jobs(120, 60), &[activity], Some(9)).unwrap();
        let queue = sample.queues[1];
        assert_eq!((queue.arrivals, queue.waiting, queue.in_flight), (20, 10, 6));
        let hog = sample.classes[2];
        assert_eq!((hog.finished, hog.in_flight, hog.waiting), (10, 4, 8));
        assert!((hog.run_seconds - 5.0).abs() < 1e-9 && (hog.sessions - 1.0).abs() < 1e-9);
        // The third type has no place, and "New" is not known: both are others.
        let others = sample.classes[OTHER_CLASSES];
        assert_eq!((others.waiting, sampler.left_out), (2, (0, 1)));
        assert_eq!(sample.threads, ThreadLoad { limit: 9, busy: 6, max: 9 });
        assert_eq!(sample.database.unwrap().connections, 7);
        assert_eq!(sampler.roster.roster().classes[2].queue, 1);
    }

    #[test]
    fn workers_are_the_most_that_were_seen_and_are_forgotten() {
        let mut sampler = Sampler::new(LiveRoster::new(10, 10, true), 300.0);
        sampler.sample(0.0, &jobs(0, 0), &[], None);
        let few = JobsLoad { busy: 1, idle: 1, ..jobs(0, 0) };
        sampler.sample(299.0, &few, &[], None);
        assert_eq!(sampler.workers(), 8);
        sampler.sample(301.0, &few, &[], None);
        assert_eq!(sampler.workers(), 2);
    }

    #[test]
    fn counters_that_begin_again_have_not_grown() {
        let mut sampler = Sampler::new(LiveRoster::new(10, 10, true), 300.0);
        sampler.sample(0.0, &jobs(100, 50), &[], None);
        let sample = sampler.sample(5.0, &jobs(3, 2), &[], None).unwrap();
        assert_eq!((sample.queues[1].arrivals, sample.classes[2].finished), (0, 0));
        assert_eq!(sample.database, None);
    }
}
