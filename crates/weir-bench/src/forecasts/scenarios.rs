//! How queues drain: their backlog, what arrives meanwhile, and their workers. All of it is drawn from the seed.

use fastrand::Rng;

use super::arrivals::Arrivals;
use super::run_time::RunTime;

/// A worker process, in seconds of the round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WorkerPlan {
    pub(super) threads: u64,
    pub(super) from: f64,
    /// At this time it is killed.
    pub(super) killed_at: Option<f64>,
}

#[derive(Debug, Clone)]
pub(super) struct QueueScenario {
    pub(super) name: &'static str,
    pub(super) queue: String,
    pub(super) backlog: u64,
    pub(super) arrivals: Arrivals,
    pub(super) run_time: RunTime,
    /// The share of jobs that fail. The server has them tried again after 15 s and more.
    pub(super) failing: f64,
    pub(super) workers: Vec<WorkerPlan>,
}

/// Returns a number between two.
fn between(random: &mut Rng, least: f64, most: f64) -> f64 {
    least + (most - least) * random.f64()
}

/// What the scenarios of a round start from: workers, run times and the time to drain.
struct Plan<'r> {
    random: &'r mut Rng,
    round: u64,
}

impl Plan<'_> {
    fn between(&mut self, least: f64, most: f64) -> f64 {
        between(self.random, least, most)
    }

    /// Returns a queue that one worker process drains in 35 to 90 s, while jobs arrive at a share of its capacity.
    /// `arrivals` gets their rate.
    fn queue(
        &mut self,
        name: &'static str,
        share: (f64, f64),
        arrivals: impl FnOnce(&mut Rng, f64) -> Arrivals,
    ) -> QueueScenario {
        let threads = self.random.u64(3..=8);
        let run_time = RunTime::Random { mean: self.between(0.1, 0.4) };
        let capacity = as_f64(threads) / run_time.mean_seconds();
        let per_second = capacity * self.between(share.0, share.1);
        let seconds = self.between(35.0, 90.0);
        QueueScenario {
            name,
            queue: format!("{}-{}", name.replace(' ', "-"), self.round),
            backlog: rounded((capacity - per_second) * seconds),
            arrivals: arrivals(self.random, per_second),
            run_time,
            failing: 0.0,
            workers: vec![WorkerPlan { threads, from: 0.0, killed_at: None }],
        }
    }

    fn alone(&mut self, name: &'static str) -> QueueScenario {
        self.queue(name, (0.0, 0.0), |_, _| Arrivals::None)
    }

    fn with_random_arrivals(&mut self, name: &'static str, share: (f64, f64)) -> QueueScenario {
        self.queue(name, share, |_, per_second| Arrivals::Random { per_second })
    }

    /// Half of the workers start later than the others.
    fn workers_added(&mut self) -> QueueScenario {
        let queue = self.with_random_arrivals("workers added", (0.0, 0.2));
        let at = self.between(10.0, 45.0);
        let threads = queue.workers[0].threads;
        let plan = |threads, from| WorkerPlan { threads, from, killed_at: None };
        let added = self.random.u64(1..=threads - 1);
        QueueScenario { workers: vec![plan(threads - added, 0.0), plan(added, at)], ..queue }
    }

    /// One of two worker processes is killed.
    fn worker_killed(&mut self) -> QueueScenario {
        let queue = self.with_random_arrivals("worker killed", (0.0, 0.2));
        let killed_at = Some(self.between(10.0, 45.0));
        let threads = queue.workers[0].threads;
        let killed = self.random.u64(1..=threads / 2);
        let plan = |threads, killed_at| WorkerPlan { threads, from: 0.0, killed_at };
        QueueScenario {
            workers: vec![plan(threads - killed, None), plan(killed, killed_at)],
            ..queue
        }
    }

    /// Workers start one after the other, as in a deploy.
    fn slow_start(&mut self) -> QueueScenario {
        let queue = self.alone("slow start");
        let pause = self.between(2.0, 6.0);
        let worker = |at: u64| WorkerPlan { threads: 1, from: as_f64(at) * pause, killed_at: None };
        QueueScenario { workers: (0..queue.workers[0].threads).map(worker).collect(), ..queue }
    }

    fn mixed(&mut self) -> QueueScenario {
        let queue = self.with_random_arrivals("mixed run times", (0.0, 0.3));
        let mean = self.between(0.05, 0.2);
        let long = mean * self.between(10.0, 40.0);
        let run_time = RunTime::Mixed { mean, long, one_in: self.between(20.0, 60.0) };
        queue.running(run_time)
    }

    fn computing(&mut self) -> QueueScenario {
        let (cpu, wait) = (self.between(0.01, 0.03), self.between(0.1, 0.3));
        self.with_random_arrivals("computing", (0.0, 0.3)).running(RunTime::Computing { cpu, wait })
    }

    fn retries(&mut self) -> QueueScenario {
        let queue = self.with_random_arrivals("retries", (0.0, 0.2));
        QueueScenario { failing: self.between(0.1, 0.4), ..queue }
    }
}

impl QueueScenario {
    /// Returns the queue with other run times, at the same load.
    fn running(self, run_time: RunTime) -> Self {
        let factor = self.run_time.mean_seconds() / run_time.mean_seconds();
        let arrivals = match self.arrivals {
            Arrivals::Random { per_second } => Arrivals::Random { per_second: per_second * factor },
            arrivals => arrivals,
        };
        Self { backlog: rounded(as_f64(self.backlog) * factor), arrivals, run_time, ..self }
    }
}

/// Returns a queue of each scenario.
pub(super) fn scenarios(seed: u64, round: u64) -> Vec<QueueScenario> {
    // Rounds do not depend on each other, nor on when anything happened.
    let mut random = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(round));
    let mut plan = Plan { random: &mut random, round };
    let steady = plan.alone("steady");
    let seconds = steady.run_time.mean_seconds();
    vec![
        QueueScenario { run_time: RunTime::Fixed { seconds }, ..steady },
        plan.with_random_arrivals("arrivals", (0.2, 0.7)),
        plan.queue("growing arrivals", (0.2, 0.6), |random, per_second| Arrivals::Growing {
            per_second,
            over_seconds: between(random, 40.0, 90.0),
        }),
        plan.queue("bursts", (0.2, 0.6), |random, per_second| {
            let every_seconds = between(random, 3.0, 10.0);
            Arrivals::Bursts { every_seconds, jobs: rounded(per_second * every_seconds) }
        }),
        plan.queue("oscillating", (0.2, 0.5), |random, per_second| Arrivals::Oscillating {
            per_second: per_second.max(0.1),
            period_seconds: between(random, 10.0, 30.0),
        }),
        plan.retries(),
        plan.mixed(),
        plan.computing(),
        plan.slow_start(),
        plan.workers_added(),
        plan.worker_killed(),
    ]
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousand jobs")]
fn rounded(jobs: f64) -> u64 {
    jobs.round().max(1.0) as u64
}

#[expect(clippy::cast_precision_loss, reason = "some thousand")]
const fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_queues_of_its_own() {
        let names = |round| scenarios(1, round).into_iter().map(|it| it.queue).collect::<Vec<_>>();
        assert_eq!(names(2)[9], "workers-added-2");
        assert!(names(1).iter().all(|name| !names(2).contains(name)));
    }

    #[test]
    fn scenarios_follow_from_the_seed() {
        let backlogs = |seed| {
            let queues = scenarios(seed, 1).into_iter();
            queues.map(|queue| queue.backlog).collect::<Vec<_>>()
        };
        assert_eq!(backlogs(7), backlogs(7));
        assert_ne!(backlogs(7), backlogs(8));
    }

    #[test]
    fn every_queue_drains() {
        for queue in (1..50).flat_map(|seed| scenarios(seed, 1)) {
            let lasting = queue.workers.iter().filter(|worker| worker.killed_at.is_none());
            let threads = lasting.map(|worker| worker.threads).sum();
            let capacity = as_f64(threads) / queue.run_time.mean_seconds();
            let arriving = match queue.arrivals {
                Arrivals::None => 0.0,
                Arrivals::Random { per_second }
                | Arrivals::Growing { per_second, .. }
                | Arrivals::Oscillating { per_second, .. } => per_second,
                Arrivals::Bursts { every_seconds, jobs } => as_f64(jobs) / every_seconds,
            };
            assert!(arriving < capacity * (1.0 - queue.failing) * 0.8, "{queue:?}");
        }
    }
}
