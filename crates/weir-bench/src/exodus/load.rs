//! The jobs of the surge. Everything follows from the seed, so every policy gets the same jobs at the same times.

use std::time::Duration;

use fastrand::Rng;

use crate::draw::exponential;

/// A queue of the surge. Rates and times are those of the surge, not scaled.
#[derive(Debug)]
pub(crate) struct QueueLoad {
    pub(crate) name: &'static str,
    /// Its part of the backlog, in thousandths.
    backlog_permille: u64,
    /// Jobs that arrive, per second.
    rate: f64,
    /// Mean time of a job outside of the database and in it, in seconds (exponential).
    own_mean: f64,
    database_mean: f64,
    /// The time within which a job is to start, in seconds.
    pub(crate) target: f64,
    /// Its weight with the policy `weighted`, as admins set it.
    pub(crate) weight: u32,
}

/// The queues, in the order of the workers' FETCH. Arrivals need about two thirds of 150 workers and of 50 database
/// sessions, so that a backlog of 200,000 jobs takes some six hours.
pub(crate) const QUEUES: [QueueLoad; 5] = [
    QueueLoad::of("default", 300, (6.0, 1.0, 3.0), 30.0, 6),
    QueueLoad::of("push", 400, (8.0, 2.0, 1.0), 60.0, 4),
    QueueLoad::of("mailers", 8, (0.5, 1.5, 0.5), 5.0, 2),
    QueueLoad::of("pull", 290, (1.5, 12.0, 3.0), 300.0, 1),
    QueueLoad::of("scheduler", 2, (0.1, 1.0, 4.0), 5.0, 1),
];

impl QueueLoad {
    const fn of(
        name: &'static str,
        backlog_permille: u64,
        (rate, own_mean, database_mean): (f64, f64, f64),
        target: f64,
        weight: u32,
    ) -> Self {
        Self { name, backlog_permille, rate, own_mean, database_mean, target, weight }
    }
}

/// The work of a job, scaled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Work {
    pub(crate) own: Duration,
    pub(crate) database: Duration,
}

/// A job that arrives during the run, with its time since the start, scaled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ArrivingJob {
    pub(crate) queue: usize,
    pub(crate) at: Duration,
}

/// All jobs: first those of the backlog, then those that arrive.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    seed: u64,
    backlog: Vec<u8>,
    time_scale: f64,
}

impl Load {
    pub(crate) fn new(seed: u64, backlog: u64, time_scale: f64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let backlog = (0..backlog).map(|_| draw_backlog_queue(&mut rng)).collect();
        Self { seed, backlog, time_scale }
    }

    pub(crate) fn backlog(&self) -> u64 {
        self.backlog.len() as u64
    }

    /// Returns the queue of a job of the backlog.
    pub(crate) fn backlog_queue(&self, number: u64) -> Option<usize> {
        let number = usize::try_from(number).ok()?;
        self.backlog.get(number).map(|queue| usize::from(*queue))
    }

    /// Returns the work of job `number` of `queue`.
    pub(crate) fn work(&self, queue: usize, number: u64) -> Work {
        let mut rng = Rng::with_seed(self.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let QueueLoad { own_mean, database_mean, .. } = QUEUES[queue];
        let mut draw =
            |mean: f64| Duration::from_secs_f64(exponential(&mut rng, mean) / self.time_scale);
        Work { own: draw(own_mean), database: draw(database_mean) }
    }

    /// Returns the jobs that arrive, in their order, without end.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = ArrivingJob> + use<> {
        // Not the numbers of the backlog.
        let mut rng = Rng::with_seed(!self.seed);
        let rate: f64 = QUEUES.iter().map(|queue| queue.rate).sum();
        let (mut at, time_scale) = (0.0, self.time_scale);
        std::iter::repeat_with(move || {
            at += exponential(&mut rng, 1.0 / rate) / time_scale;
            let queue = draw_by_rate(&mut rng, rate);
            ArrivingJob { queue, at: Duration::from_secs_f64(at) }
        })
    }
}

fn draw_backlog_queue(rng: &mut Rng) -> u8 {
    let mut drawn = rng.u64(0..QUEUES.iter().map(|queue| queue.backlog_permille).sum::<u64>());
    for (number, queue) in (0..).zip(&QUEUES) {
        if drawn < queue.backlog_permille {
            return number;
        }
        drawn -= queue.backlog_permille;
    }
    0
}

fn draw_by_rate(rng: &mut Rng, total: f64) -> usize {
    let mut drawn = rng.f64() * total;
    for (number, queue) in QUEUES.iter().enumerate() {
        if drawn < queue.rate {
            return number;
        }
        drawn -= queue.rate;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_everything() {
        let facts = |seed| {
            let load = Load::new(seed, 1_000, 100.0);
            let queues: Vec<_> = (0..1_000).map(|number| load.backlog_queue(number)).collect();
            let arrivals: Vec<_> = load.arrivals().take(1_000).collect();
            (queues, arrivals, load.work(3, 77))
        };
        assert_eq!(facts(1), facts(1));
        assert_ne!(facts(1).1, facts(2).1);
        assert_ne!(facts(1).2, facts(2).2);
        assert_eq!(Load::new(1, 1_000, 100.0).backlog_queue(1_000), None);
    }

    #[test]
    fn arrivals_have_the_rates_of_their_queues_and_scaled_times() {
        let load = Load::new(5, 1, 100.0);
        let arrivals: Vec<_> = load.arrivals().take(100_000).collect();
        let seconds = arrivals.last().expect("some").at.as_secs_f64() * 100.0;
        for (number, queue) in QUEUES.iter().enumerate() {
            let count = arrivals.iter().filter(|job| job.queue == number).count();
            let rate = f64::from(u32::try_from(count).expect("few")) / seconds;
            assert!((rate / queue.rate - 1.0).abs() < 0.1, "{}: {rate}", queue.name);
        }
        let mean = |time: fn(Work) -> Duration| {
            (0..10_000).map(|number| time(load.work(3, number))).sum::<Duration>().as_secs_f64()
                / 100.0
        };
        assert!((mean(|work| work.own) / 12.0 - 1.0).abs() < 0.05);
        assert!((mean(|work| work.database) / 3.0 - 1.0).abs() < 0.05);
    }
}
