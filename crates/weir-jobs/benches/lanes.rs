//! What the lanes of 100,000 tenants cost with 10 million jobs waiting. Tenants follow Zipf's law, in random
//! order, so that a few have most jobs and the lanes of most empty and return. 100 jobs are in progress.
//!
//! `next` is a pick, its start, and the end of another job with its charge. `whole` is the way of a job: it is
//! added, picked, started and ended. `cold` is `next` with lanes that are not in the CPU's caches.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use weir_base::clock::Timestamp;
use weir_jobs::lanes::{LaneId, Lanes, Room, TenantKey};

const TENANTS: u32 = 100_000;
const WAITING: usize = 10_000_000;
const SLOTS: usize = 100;
/// Drawn once, and used over and over.
const DRAWS: usize = 1 << 22;
/// More than the caches of any CPU here.
const EVICTED_BYTES: usize = 128 << 20;
/// Picks between two evictions: few, so that they find no lanes in the caches.
const COLD_PICKS: u64 = 64;

struct Workload {
    lanes: Lanes,
    running: VecDeque<LaneId>,
    tenants: Vec<TenantKey>,
    times: Vec<Duration>,
    next: usize,
}

impl Workload {
    fn new() -> Self {
        let mut random = fastrand::Rng::with_seed(5);
        // The inverse of the distribution function of 1 / rank.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 to TENANTS"
        )]
        let rank = |random: &mut fastrand::Rng| f64::from(TENANTS).powf(random.f64()) as u32;
        let name = |rank: u32| TenantKey::of(Some(&format!("tenant-{rank}")), 1);
        let tenants = (0..DRAWS).map(|_| name(rank(&mut random))).collect();
        let time = |random: &mut fastrand::Rng| -0.2 * (1.0 - random.f64()).ln();
        let times = (0..DRAWS).map(|_| Duration::from_secs_f64(time(&mut random))).collect();
        let lanes = Lanes::new(TENANTS as usize);
        let mut workload = Self { lanes, running: VecDeque::new(), tenants, times, next: 0 };
        for rank in 1..=TENANTS {
            workload.lanes.add(name(rank));
        }
        workload.fill();
        while workload.running.len() < SLOTS {
            workload.start();
        }
        // Until the lanes differ in what they got.
        (0..1_000_000).for_each(|_| workload.whole());
        workload
    }

    fn fill(&mut self) {
        while self.lanes.waiting() < WAITING {
            self.add();
        }
    }

    fn add(&mut self) {
        self.next = (self.next + 1) % DRAWS;
        self.lanes.add(self.tenants[self.next]);
    }

    fn start(&mut self) {
        let id = self.lanes.pick(Room::UNLIMITED).expect("jobs wait");
        self.lanes.start(id, Timestamp::default());
        self.running.push_back(black_box(id));
    }

    fn next(&mut self) {
        self.next = (self.next + 1) % DRAWS;
        let ended = self.running.pop_front().expect("jobs are in progress");
        self.lanes.end(ended, self.times[self.next]);
        self.start();
    }

    fn whole(&mut self) {
        self.add();
        self.next();
    }
}

/// Returns the time of so many steps, in parts before each of which jobs are added until all wait again.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures the real clock")]
fn time_of(
    workload: &mut Workload,
    count: u64,
    per_part: u64,
    mut prepare: impl FnMut(&mut Workload),
    step: impl Fn(&mut Workload),
) -> Duration {
    let (mut left, mut time) = (count, Duration::ZERO);
    while left > 0 {
        let part = left.min(per_part);
        prepare(workload);
        let start = Instant::now();
        (0..part).for_each(|_| step(workload));
        time += start.elapsed();
        left -= part;
    }
    time
}

fn lanes(criterion: &mut Criterion) {
    let mut workload = Workload::new();
    let mut evicted = vec![0_u8; EVICTED_BYTES];
    criterion.bench_function("lanes/next", |bencher| {
        bencher.iter_custom(|count| {
            time_of(&mut workload, count, 100_000, Workload::fill, Workload::next)
        });
    });
    criterion.bench_function("lanes/whole", |bencher| {
        bencher
            .iter_custom(|count| time_of(&mut workload, count, 100_000, |_| {}, Workload::whole));
    });
    criterion.bench_function("lanes/cold", |bencher| {
        bencher.iter_custom(|count| {
            let evict = |workload: &mut Workload| {
                workload.fill();
                evicted.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
                black_box(&evicted);
            };
            time_of(&mut workload, count, COLD_PICKS, evict, Workload::next)
        });
    });
    let counts = workload.lanes.counts();
    assert!(counts.shared < 100, "most tenants have a lane of their own: {counts:?}");
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

criterion_group! { name = benches; config = short(); targets = lanes }
criterion_main!(benches);
