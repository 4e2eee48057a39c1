//! Compares forecasts after ten seconds with event-by-event simulations of several scenarios.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::Forecast;
use crate::flow::{Drain, Flow, variance};
use crate::observation::{
    Capsule, Fact, JobProcess, ObservedQueue, Ordering, SidekiqObservation, WeightedQueue,
};

/// A queue with its arrival rate and job duration.
#[derive(Clone, Copy)]
struct SimulatedQueue {
    name: &'static str,
    waiting: u64,
    arrivals_per_second: f64,
    millis: u64,
    /// One in this many jobs takes twenty times as long; 0: none.
    long_in: u64,
}

/// Threads that serve queues in strict order.
#[derive(Clone, Copy)]
struct SimulatedProcess {
    threads: u32,
    queues: &'static [usize],
}

/// Microseconds since the start, and the event at that time.
type TimedEvent = Reverse<(u64, Happening)>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrival(usize),
    Done(usize),
}

struct Simulation {
    sources: Vec<SimulatedQueue>,
    processes: Vec<SimulatedProcess>,
    lengths: Vec<u64>,
    came: Vec<u64>,
    idle: Vec<u32>,
    events: BinaryHeap<TimedEvent>,
    now: u64,
    random: fastrand::Rng,
}

const SECOND: u64 = 1_000_000;
const WINDOW_SECONDS: u64 = 10;

impl Simulation {
    fn new(sources: &[SimulatedQueue], processes: &[SimulatedProcess], seed: u64) -> Self {
        let mut all = Self {
            sources: sources.to_vec(),
            processes: processes.to_vec(),
            lengths: sources.iter().map(|source| source.waiting).collect(),
            came: vec![0; sources.len()],
            idle: processes.iter().map(|process| process.threads).collect(),
            events: BinaryHeap::new(),
            now: 0,
            random: fastrand::Rng::with_seed(seed),
        };
        (0..sources.len()).for_each(|place| all.expect_arrival(place));
        (0..processes.len()).for_each(|process| all.fetch(process));
        all
    }

    /// Schedules the next Poisson arrival.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds")]
    fn expect_arrival(&mut self, place: usize) {
        let rate = self.sources[place].arrivals_per_second;
        if rate > 0.0 {
            let wait = -(1.0 - self.random.f64()).ln() / rate;
            let at = self.now + (wait * SECOND as f64) as u64;
            self.events.push(Reverse((at, Happening::Arrival(place))));
        }
    }

    fn fetch(&mut self, process: usize) {
        while self.idle[process] > 0 {
            let queues = self.processes[process].queues;
            let Some(&place) = queues.iter().find(|place| self.lengths[**place] > 0) else {
                return;
            };
            self.lengths[place] -= 1;
            self.idle[process] -= 1;
            let SimulatedQueue { millis, long_in, .. } = self.sources[place];
            let is_long = long_in > 0 && self.random.u64(..long_in) == 0;
            let takes = millis * 1_000 * if is_long { 20 } else { 1 };
            self.events.push(Reverse((self.now + takes, Happening::Done(process))));
        }
    }

    fn step(&mut self) {
        let Reverse((at, happening)) = self.events.pop().expect("jobs are under way");
        self.now = at;
        match happening {
            Happening::Done(process) => {
                self.idle[process] += 1;
                self.fetch(process);
            }
            Happening::Arrival(place) => {
                self.lengths[place] += 1;
                self.came[place] += 1;
                self.expect_arrival(place);
                (0..self.processes.len()).for_each(|process| self.fetch(process));
            }
        }
    }

    fn run_until(&mut self, second: u64) {
        while self.events.peek().is_some_and(|Reverse((at, _))| *at <= second * SECOND) {
            self.step();
        }
    }

    /// Returns the forecast from a window that begins at `from`, with a count every second.
    fn look(&mut self, from: u64, ordering: Ordering) -> Forecast {
        self.run_until(from);
        let came = self.came.clone();
        let mut counts = vec![self.lengths.clone()];
        for second in 1..=WINDOW_SECONDS {
            self.run_until(from + second);
            counts.push(self.lengths.clone());
        }
        let queue = |place: usize| {
            let lengths = counts.iter().map(|lengths| lengths[place]);
            let lengths = lengths.enumerate().map(|(second, length)| (second as f64, length));
            let lengths: Vec<_> = lengths.collect();
            let came = (self.came[place] - came[place]) as f64;
            let flow = Flow {
                window: Duration::from_secs(WINDOW_SECONDS),
                before: lengths[0].1,
                after: self.lengths[place],
                arrivals_per_second: came / WINDOW_SECONDS as f64,
                deviation: variance(&lengths).map(f64::sqrt),
            };
            ObservedQueue {
                name: self.sources[place].name.to_owned(),
                length: flow.after,
                flow: Fact::Known(flow),
                ..ObservedQueue::default()
            }
        };
        let queues = (0..self.sources.len()).map(queue).collect();
        Forecast::of(&SidekiqObservation {
            queues,
            processes: self.heartbeats(ordering),
            ..SidekiqObservation::default()
        })
    }

    fn heartbeats(&self, ordering: Ordering) -> Vec<JobProcess> {
        let served =
            |place: &usize| WeightedQueue { name: self.sources[*place].name.to_owned(), weight: 0 };
        let process = |process: &SimulatedProcess| {
            let queues = process.queues.iter().map(served).collect();
            let capsule =
                Capsule { concurrency: process.threads, ordering, queues, ..Capsule::default() };
            JobProcess { capsules: vec![capsule], ..JobProcess::default() }
        };
        self.processes.iter().map(process).collect()
    }

    /// Runs until no queue has more jobs than threads, and returns the seconds that it took.
    fn drain(&mut self) -> f64 {
        let (from, threads) =
            (self.now, self.processes.iter().map(|it| u64::from(it.threads)).sum());
        while self.lengths.iter().any(|length| *length > threads) {
            self.step();
        }
        (self.now - from) as f64 / SECOND as f64
    }
}

const fn source(
    name: &'static str,
    waiting: u64,
    arrivals_per_second: f64,
    millis: u64,
) -> SimulatedQueue {
    SimulatedQueue { name, waiting, arrivals_per_second, millis, long_in: 0 }
}

/// Returns the forecast and the simulated time in seconds for each of `seeds`.
fn said_and_true(
    sources: &[SimulatedQueue],
    processes: &[SimulatedProcess],
    ordering: Ordering,
) -> Vec<(Forecast, f64, f64)> {
    let one = |seed| {
        let mut simulation = Simulation::new(sources, processes, seed);
        let forecast = simulation.look(2, ordering);
        let Some(Drain::After(said)) = forecast.all else { panic!("{seed}: {forecast:?}") };
        (forecast, said.as_secs_f64(), simulation.drain())
    };
    (0..20).map(one).collect()
}

/// Asserts that the forecast is within a tenth of the simulated time.
fn assert_close(sources: &[SimulatedQueue], processes: &[SimulatedProcess], ordering: Ordering) {
    for (forecast, said, truth) in said_and_true(sources, processes, ordering) {
        assert!((said / truth - 1.0).abs() < 0.1, "{said} s said, {truth} s true: {forecast:?}");
        let between = forecast.between.expect("a range");
        let longest = between.longest.map_or(said, |it| it.as_secs_f64());
        let ratio = longest / between.shortest.as_secs_f64();
        assert!(ratio < 1.3, "it is sure enough: {between:?}");
    }
}

#[test]
fn one_queue_whose_jobs_take_equally_long() {
    let sources = [source("pull", 20_000, 0.0, 20)];
    assert_close(&sources, &[SimulatedProcess { threads: 10, queues: &[0] }], Ordering::Strict);
}

#[test]
fn one_of_several_queues_waits_and_one_process_serves_only_others() {
    let sources = [
        source("default", 0, 100.0, 20),
        source("push", 0, 150.0, 20),
        source("pull", 20_000, 20.0, 20),
    ];
    let processes = [
        SimulatedProcess { threads: 10, queues: &[0, 1, 2] },
        SimulatedProcess { threads: 4, queues: &[1, 0] },
    ];
    assert_close(&sources, &processes, Ordering::Strict);
    assert_close(&sources, &processes, Ordering::Unknown);
}

#[test]
fn queues_of_processes_of_their_own_do_not_wait_for_each_other() {
    let sources = [source("push", 40_000, 0.0, 20), source("pull", 8_000, 0.0, 20)];
    let processes = [
        SimulatedProcess { threads: 10, queues: &[0] },
        SimulatedProcess { threads: 10, queues: &[1] },
    ];
    assert_close(&sources, &processes, Ordering::Unknown);
}

#[test]
fn a_queue_that_is_not_served_yet_gets_those_threads_only_that_serve_it() {
    let sources = [source("push", 20_000, 0.0, 20), source("pull", 8_000, 0.0, 20)];
    let processes = [
        SimulatedProcess { threads: 5, queues: &[0, 1] },
        SimulatedProcess { threads: 5, queues: &[0] },
    ];
    assert_close(&sources, &processes, Ordering::Strict);
    assert_close(&sources, &processes, Ordering::Unknown);
    for (forecast, _, truth) in said_and_true(&sources, &processes, Ordering::Strict) {
        let Some(Drain::After(pull)) = forecast.queue("pull") else { panic!("{forecast:?}") };
        assert!((pull.as_secs_f64() / truth - 1.0).abs() < 0.1, "{pull:?} {truth}");
        let ends = [forecast.between, forecast.queue_between("pull")].map(|it| it.unwrap().longest);
        assert_eq!(ends, [None; 2], "how long its jobs take is not known");
    }
}

/// Seeds of each of the systems in [`systems`].
const SEEDS: u64 = 40;
const WITHIN_MIN: f64 = 0.85;
/// Of the end of a range to its start.
const MEDIAN_RATIO_MAX: f64 = 1.5;

type System = (Vec<SimulatedQueue>, Vec<SimulatedProcess>);

/// Returns systems with steady and uneven jobs, with and without arrivals.
fn systems() -> Vec<System> {
    let alone = |queue| (vec![queue], vec![SimulatedProcess { threads: 10, queues: &[0] }]);
    let heavy = |queue| SimulatedQueue { long_in: 20, ..queue };
    let beside = vec![
        source("default", 0, 60.0, 20),
        source("push", 0, 60.0, 20),
        source("pull", 20_000, 20.0, 20),
    ];
    let linked = vec![
        SimulatedProcess { threads: 10, queues: &[0, 1, 2] },
        SimulatedProcess { threads: 3, queues: &[1, 0] },
    ];
    vec![
        alone(source("pull", 20_000, 0.0, 20)),
        alone(source("push", 15_000, 200.0, 20)),
        alone(heavy(source("push", 20_000, 100.0, 10))),
        alone(heavy(source("push", 12_000, 300.0, 10))),
        (beside, linked.clone()),
        (
            vec![source("push", 20_000, 0.0, 20), heavy(source("pull", 2_000, 0.0, 10))],
            vec![
                SimulatedProcess { threads: 5, queues: &[0, 1] },
                SimulatedProcess { threads: 5, queues: &[0] },
            ],
        ),
    ]
}

#[test]
fn nine_of_ten_drains_end_within_their_range() {
    let (mut within, mut withheld, mut ratios) = (0, 0, Vec::new());
    for (sources, processes) in systems() {
        for seed in 0..SEEDS {
            let mut simulation = Simulation::new(&sources, &processes, seed);
            let forecast = simulation.look(2, Ordering::Strict);
            let between = forecast.between.and_then(|it| Some((it.shortest, it.longest?)));
            let Some((shortest, longest)) = between else {
                withheld += 1;
                continue;
            };
            let (shortest, longest) = (shortest.as_secs_f64(), longest.as_secs_f64());
            within += usize::from((shortest..=longest).contains(&simulation.drain()));
            ratios.push(longest / shortest);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let (share, ratio) = (within as f64 / ratios.len() as f64, ratios[ratios.len() / 2]);
    let result = format!(
        "{share:.3} of {} are within, {withheld} without a range, median ratio {ratio:.2}",
        ratios.len()
    );
    eprintln!("{result}");
    assert!(share >= WITHIN_MIN && ratio <= MEDIAN_RATIO_MAX, "{result}");
    assert!(ratios.len() > 4 * withheld, "{result}");
}
