//! The rules against a plain model, and quiet tenants beside a hog on a simulated clock.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and times of a test, which are small and not negative"
)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use weir_base::clock::Timestamp;
use weir_base::token_bucket::{Rate, TokenBucket};

use super::heap::LaneHeap;
use super::lane::{Lane, LaneOwner, LanePosition};
use super::{BlockedJobs, LaneCounts, LaneId, LaneLimits, Lanes, Room, TenantKey};

const TENANTS_MAX: usize = 6;

fn tenant(number: u16) -> TenantKey {
    // A few share each remainder.
    let text = number.to_string();
    TenantKey::of(Some(&text), 7)
}

#[derive(Clone, Debug)]
enum Step {
    Add(u16),
    /// Starts a job, if a lane may be served with so many slots free.
    Start(u32),
    /// Ends the nth job in progress after so many milliseconds.
    End(usize, u64),
    TakeBack(usize),
    /// Removes the nth waiting job.
    Remove(usize),
    RemoveAll,
    Weight(u16, u16),
    /// Jobs in progress of each tenant.
    Limit(Option<u32>),
    /// Starts of each tenant: a burst, and an interval in milliseconds.
    Rate(Option<(u32, u64)>),
    /// So many milliseconds pass.
    Pass(u64),
    /// The clock is set back by so many milliseconds.
    SetBack(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..20_u16).prop_map(Step::Add),
        12 => (0..6_u32).prop_map(Step::Start),
        8 => (any::<usize>(), prop_oneof![0..5_u64, 0..3_000_u64, 0..9_000_000_u64])
            .prop_map(|(nth, took)| Step::End(nth, took)),
        1 => any::<usize>().prop_map(Step::TakeBack),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => (0..20_u16, 1..5_u16).prop_map(|(number, weight)| Step::Weight(number, weight)),
    ];
    let limit = prop::option::of(1..4_u32).prop_map(Step::Limit);
    let rate = prop::option::of((1..3_u32, 1..2_000_u64)).prop_map(Step::Rate);
    let pass = prop_oneof![0..50_u64, 0..5_000_u64].prop_map(Step::Pass);
    let step = prop_oneof![
        200 => step,
        1 => Just(Step::RemoveAll),
        2 => limit,
        2 => rate,
        40 => pass,
        4 => (1_001..20_000_u64).prop_map(Step::SetBack),
    ];
    prop::collection::vec(step, 0..400)
}

/// The jobs, beside the lanes under test.
struct Model {
    lanes: Lanes,
    waiting: BTreeMap<LaneId, VecDeque<(u16, u64)>>,
    running: Vec<LaneId>,
    weights: BTreeMap<u16, u16>,
    limits: LaneLimits,
    /// When jobs of each tenant started, in its own lane or in one that it shares, since the rate changed.
    starts: BTreeMap<u16, Vec<Timestamp>>,
    /// The same of all tenants together that share a lane, by its remainder.
    starts_shared: BTreeMap<u16, Vec<Timestamp>>,
    now: Timestamp,
    next: u64,
}

impl Model {
    fn new() -> Self {
        Self {
            lanes: Lanes::new(TENANTS_MAX),
            waiting: BTreeMap::new(),
            running: Vec::new(),
            weights: BTreeMap::new(),
            limits: LaneLimits::default(),
            starts: BTreeMap::new(),
            starts_shared: BTreeMap::new(),
            now: Timestamp::from_millis(1_700_000_000_000),
            next: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Add(number) => {
                self.next += 1;
                let id = self.lanes.add(tenant(number));
                self.waiting.entry(id).or_default().push_back((number, self.next));
            }
            Step::Start(free) => self.start(free),
            Step::End(nth, took) => {
                if let Some(id) = self.pop_running(nth) {
                    self.lanes.end(id, Duration::from_millis(took));
                }
            }
            Step::TakeBack(nth) => {
                if let Some(id) = self.pop_running(nth) {
                    self.lanes.take_back(id);
                }
            }
            Step::Remove(nth) => {
                let ids: Vec<LaneId> = self.waiting.keys().copied().collect();
                if !ids.is_empty() {
                    self.pop(ids[nth % ids.len()]);
                    self.lanes.remove(ids[nth % ids.len()]);
                }
            }
            Step::RemoveAll => {
                self.waiting.clear();
                self.lanes.remove_all();
            }
            Step::Weight(number, weight) => {
                self.weights.insert(number, weight);
                let weights =
                    self.weights.iter().map(|(number, weight)| (tenant(*number), *weight));
                self.lanes.set_weights(weights);
            }
            Step::Limit(most) => {
                self.limits.concurrency = most;
                self.lanes.set_limits(self.limits, []);
            }
            Step::Rate(rate) => {
                let rate = rate.map(|(burst, ms)| Rate::new(burst, Duration::from_millis(ms)));
                self.limits.rate = rate;
                self.lanes.set_limits(self.limits, []);
                self.forget_starts();
            }
            Step::Pass(ms) => self.now = self.now + Duration::from_millis(ms),
            Step::SetBack(ms) => {
                self.now = self.now - Duration::from_millis(ms);
                self.forget_starts();
            }
        }
        self.lanes.wake(self.now);
        self.check_blocked();
    }

    /// Checks the number of jobs that wait in lanes with as many in progress as they may have, and in those whose next job
    /// may not start yet.
    fn check_blocked(&self) {
        let mut expected = BlockedJobs::default();
        for (id, jobs) in &self.waiting {
            let jobs = jobs.len() as u64;
            match (self.is_full(*id), self.blocked_until(*id)) {
                (true, _) => expected.concurrency += jobs,
                (false, Some(_)) => expected.rate += jobs,
                (false, None) => {}
            }
        }
        assert_eq!(self.lanes.blocked(), expected);
        let sleeping = self.waiting.keys().filter(|id| !self.is_full(**id));
        let first = sleeping.filter_map(|id| self.blocked_until(*id)).min();
        assert_eq!(self.lanes.next_wake(), first);
    }

    /// Returns when the next job of a lane may start, unless it may now.
    fn blocked_until(&self, id: LaneId) -> Option<Timestamp> {
        let bucket = self.lanes.lanes[id.index()].bucket;
        let at = bucket.available_at(self.limits.rate?, self.now);
        (at > self.now).then_some(at)
    }

    /// Forgets the starts, because the rate changed, or the clock was set back.
    fn forget_starts(&mut self) {
        self.starts.clear();
        self.starts_shared.clear();
    }

    /// Records a start. In any period, a tenant starts at most the burst and one job per interval, although its lane
    /// was dropped in between, or it shared one. So do all tenants together that share a lane.
    fn note_start(&mut self, number: u16, id: LaneId) {
        let Some(rate) = self.limits.rate else { return };
        let interval = rate.interval().as_micros() as u64;
        let shared = match self.lanes.lanes[id.index()].owner {
            LaneOwner::Shared(remainder) => Some(self.starts_shared.entry(remainder).or_default()),
            LaneOwner::Tenant(_) => None,
        };
        let own = self.starts.entry(number).or_default();
        for starts in std::iter::once(own).chain(shared) {
            starts.push(self.now);
            for (count, first) in starts.iter().rev().enumerate() {
                let elapsed = self.now.since(*first).as_micros() as u64;
                let most = u64::from(rate.burst()) + elapsed / interval;
                assert!((count as u64) < most, "{starts:?}");
            }
        }
    }

    fn is_full(&self, id: LaneId) -> bool {
        let running = self.running.iter().filter(|running| **running == id).count();
        self.limits.concurrency.is_some_and(|most| running >= most as usize)
    }

    fn start(&mut self, free: u32) {
        let running = u32::try_from(self.running.len()).unwrap();
        let room = Room { slots: running + free, free, headroom: 2 };
        let expected = self.least_served(room);
        let picked = self.lanes.pick(room);
        assert_eq!(picked.is_some(), expected.is_some(), "{room:?}");
        let (Some(id), Some(least)) = (picked, expected) else { return };
        assert_eq!(self.standing(id), least);
        let (number, job) = self.pop(id);
        let earlier =
            |jobs: &VecDeque<(u16, u64)>| jobs.iter().any(|it| it.0 == number && it.1 < job);
        assert!(!self.waiting.values().any(earlier), "a job passed an earlier one of its tenant");
        self.lanes.start(id, self.now);
        self.running.push(id);
        self.note_start(number, id);
    }

    /// What decides about a lane: work in progress for its weight, then time.
    fn standing(&self, id: LaneId) -> (u32, u64) {
        let lane = &self.lanes.lanes[id.index()];
        let level = lane.running / u32::from(lane.weight);
        let steps = lane.served_steps();
        (level, if level == 0 { steps.max(self.lanes.levels.now()) } else { steps })
    }

    /// The standing of the least served lane that may be served, by a look at all of them.
    fn least_served(&self, room: Room) -> Option<(u32, u64)> {
        let open = self.waiting.keys().filter(|id| !self.is_full(**id));
        let open = open.filter(|id| self.blocked_until(**id).is_none());
        let least = open.map(|id| self.standing(*id)).min()?;
        let busy = self.lanes.lanes.iter().filter(|lane| lane.is_busy());
        let weights: u32 = busy.map(|lane| u32::from(lane.weight)).sum();
        let share = (room.slots / (weights + 1)).max(1);
        (room.free > room.headroom || least.0 < share).then_some(least)
    }

    fn pop(&mut self, id: LaneId) -> (u16, u64) {
        let jobs = self.waiting.get_mut(&id).unwrap();
        let job = jobs.pop_front().unwrap();
        if jobs.is_empty() {
            self.waiting.remove(&id);
        }
        job
    }

    fn pop_running(&mut self, nth: usize) -> Option<LaneId> {
        let count = self.running.len();
        (count > 0).then(|| self.running.swap_remove(nth % count))
    }

    fn check(&self) {
        let lanes = &self.lanes;
        for (index, lane) in lanes.lanes.iter().enumerate() {
            let id = LaneId(u32::try_from(index).unwrap());
            if lanes.vacant.contains(&id) {
                continue;
            }
            let waiting = self.waiting.get(&id).map_or(0, VecDeque::len);
            let running = self.running.iter().filter(|it| **it == id).count();
            assert_eq!((lane.waiting as usize, lane.running as usize), (waiting, running));
            let is_placed = matches!(lane.position, LanePosition::Wheel(_) | LanePosition::Level);
            let blocked_until =
                self.blocked_until(id).filter(|_| lane.waiting > 0 && !lane.is_full());
            let is_in_time =
                |rate: Rate| blocked_until.is_none_or(|at| at <= self.now + rate.interval());
            assert!(self.limits.rate.is_none_or(is_in_time), "it waits for more than one interval");
            let is_blocked = self.blocked_until(id).is_some();
            assert_eq!(is_placed, waiting > 0 && !lane.is_full() && !is_blocked);
            let is_asleep = lane.position == LanePosition::Sleeping;
            assert_eq!(is_asleep, waiting > 0 && !lane.is_full() && is_blocked);
            let is_idle = matches!(lane.position, LanePosition::Idle | LanePosition::Refilling);
            assert_eq!(is_idle, !lane.is_busy());
        }
        assert_eq!(lanes.waiting(), self.waiting.values().map(VecDeque::len).sum::<usize>());
        let LaneCounts { tenants, shared, .. } = lanes.counts();
        assert!(tenants as usize <= TENANTS_MAX, "{tenants}");
        assert_eq!(lanes.lanes.len() - lanes.vacant.len(), (tenants + shared) as usize);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn the_least_served_lane_is_picked_and_no_job_passes_one_of_its_tenant(steps in steps()) {
        let mut model = Model::new();
        for step in steps {
            model.step(&step);
            model.check();
        }
    }
}

fn lane(served_us: u64) -> Lane {
    Lane {
        owner: LaneOwner::Shared(0),
        served_us,
        waiting: 0,
        running: 0,
        running_max: u32::MAX,
        bucket: TokenBucket::default(),
        previous: LaneId::NONE,
        next: LaneId::NONE,
        heap_place: 0,
        weight: 1,
        position: LanePosition::Nowhere,
    }
}

proptest! {
    #[test]
    fn a_heap_has_the_least_lane_first(
        times in prop::collection::vec(0..100_000_u64, 1..200),
        steps in prop::collection::vec(any::<usize>(), 0..600),
    ) {
        let mut lanes: Vec<Lane> = times.into_iter().map(lane).collect();
        let (mut heap, mut model) = (LaneHeap::default(), BTreeSet::new());
        for step in steps {
            let id = LaneId((step % lanes.len()) as u32);
            let entry = (lanes[id.index()].served_steps(), id);
            if model.remove(&entry) {
                heap.remove(&mut lanes, id);
            } else {
                model.insert(entry);
                heap.insert(&mut lanes, id);
            }
            prop_assert_eq!(heap.first(), model.first().copied());
        }
    }
}

#[test]
fn a_tenant_that_is_behind_is_still_behind_when_it_returns() {
    let mut lanes = Lanes::new(10);
    let slow = lanes.add(tenant(1));
    lanes.start(slow, Timestamp::default());
    lanes.end(slow, Duration::from_secs(10));
    assert_eq!(lanes.counts().tenants, 1, "it has no jobs, but a debt");
    lanes.add(tenant(1));
    let other = lanes.add(tenant(2));
    assert_eq!(lanes.pick(Room::UNLIMITED), Some(other));
}

#[test]
fn a_tenant_of_slow_jobs_pays_for_their_time() {
    let mut lanes = Lanes::new(10);
    let (slow, fast) = (tenant(1), tenant(2));
    let mut spent = BTreeMap::<LaneId, (u32, u64)>::new();
    let ids = [slow, fast].map(|tenant| lanes.add(tenant));
    for id in ids {
        (0..10_000).for_each(|_| lanes.add_to(id));
    }
    // One worker.
    for _ in 0..5_000 {
        let id = lanes.pick(Room::UNLIMITED).unwrap();
        let took = if id == ids[0] { 1_000 } else { 100 };
        lanes.start(id, Timestamp::default());
        lanes.end(id, Duration::from_millis(took));
        let spent = spent.entry(id).or_default();
        (spent.0, spent.1) = (spent.0 + 1, spent.1 + took);
    }
    let [slow, fast] = ids.map(|id| spent[&id]);
    assert!(fast.0 > 9 * slow.0 && fast.0 < 11 * slow.0, "{slow:?} {fast:?}");
    assert!(slow.1.abs_diff(fast.1) <= 2_000, "{slow:?} {fast:?}");
}

#[test]
fn a_tenant_that_pushes_more_does_not_lose_its_turn() {
    let mut lanes = Lanes::new(10);
    let [first, second] = [1, 2].map(|number| lanes.add(tenant(number)));
    lanes.add(tenant(1));
    assert_eq!(lanes.pick(Room::UNLIMITED), Some(first));
    lanes.start(first, Timestamp::default());
    assert_eq!(lanes.pick(Room::UNLIMITED), Some(second));
}

#[test]
fn weights_divide_slots_and_time() {
    let mut lanes = Lanes::new(10);
    lanes.set_weights([(tenant(1), 3)]);
    let ids = [1, 2].map(|number| lanes.add(tenant(number)));
    for id in ids {
        (0..10_000).for_each(|_| lanes.add_to(id));
    }
    let started: Vec<LaneId> = (0..40)
        .map(|_| {
            let id = lanes.pick(Room::UNLIMITED).unwrap();
            lanes.start(id, Timestamp::default());
            id
        })
        .collect();
    assert_eq!(started.iter().filter(|id| **id == ids[0]).count(), 30);
    for id in started {
        lanes.end(id, Duration::from_secs(1));
    }
    let mut count = 0;
    for _ in 0..400 {
        let id = lanes.pick(Room::UNLIMITED).unwrap();
        lanes.start(id, Timestamp::default());
        lanes.end(id, Duration::from_secs(1));
        count += usize::from(id == ids[0]);
    }
    assert!((295..=305).contains(&count), "{count}");
}

#[test]
fn a_million_tenants_share_a_limited_number_of_lanes() {
    let mut lanes = Lanes::new(1_000);
    for number in 0..1_000_000_u32 {
        lanes.add(TenantKey::of(Some(&number.to_string()), 3));
    }
    let counts = lanes.counts();
    assert_eq!(counts.tenants, 1_000);
    assert!(counts.shared <= 1_024, "{counts:?}");
    let mut served = 0;
    while let Some(id) = lanes.pick(Room::UNLIMITED) {
        lanes.start(id, Timestamp::default());
        lanes.end(id, Duration::from_millis(1));
        served += 1;
    }
    assert_eq!((served, lanes.waiting()), (1_000_000, 0));
}

#[test]
fn an_alone_tenant_leaves_the_headroom_free() {
    let mut lanes = Lanes::new(10);
    let hog = lanes.add(tenant(1));
    (0..100).for_each(|_| lanes.add_to(hog));
    let mut running = 0_u32;
    let room = |running| Room { slots: 20, free: 20 - running, headroom: 3 };
    while lanes.pick(room(running)).is_some() {
        lanes.start(hog, Timestamp::default());
        running += 1;
    }
    assert_eq!(running, 17);
    let quiet = lanes.add(tenant(2));
    assert_eq!(lanes.pick(room(running)), Some(quiet));
}

/// Arrivals and service times of the simulation, in microseconds.
struct Hog {
    jobs: u64,
    mean_us: f64,
    headroom: u32,
}

#[derive(Debug)]
struct Outcome {
    wait_p99_ms: f64,
    #[expect(dead_code, reason = "shown if a test fails")]
    wait_max_ms: f64,
    /// Of the slots that the quiet tenants leave.
    hog_share: f64,
}

const SLOTS: u32 = 100;
const QUIET_TENANTS: u16 = 200;
const QUIET_RATE: f64 = 100.0;
const QUIET_MEAN_US: f64 = 200_000.0;
const HOG_AT_US: u64 = 10_000_000;
const END_US: u64 = 120_000_000;
const HOG: u16 = u16::MAX;

fn exponential(random: &mut fastrand::Rng, mean: f64) -> u64 {
    // 1 - f64() is never 0.
    (-mean * (1.0 - random.f64()).ln()) as u64
}

/// Simulates the workload of 100 slots, 200 quiet tenants and a hog. The hog pushes all its jobs within three
/// seconds.
fn simulate(hog: &Hog, seed: u64) -> Outcome {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut arrivals: Vec<(u64, u16)> = Vec::new();
    let mut at = 0;
    while at < END_US {
        at += exponential(&mut random, 1e6 / QUIET_RATE);
        arrivals.push((at, random.u16(..QUIET_TENANTS)));
    }
    arrivals.extend((0..hog.jobs).map(|n| (HOG_AT_US + n * 3_000_000 / hog.jobs, HOG)));
    arrivals.sort_unstable();
    let mut lanes = Lanes::new(10_000);
    let mut jobs: BTreeMap<LaneId, VecDeque<(u64, u16)>> = BTreeMap::new();
    let mut ends: BinaryHeap<Reverse<(u64, LaneId, u64, u16)>> = BinaryHeap::new();
    let (mut waits, mut busy) = (Vec::new(), [0_u64; 2]);
    let mut arrivals = arrivals.into_iter().peekable();
    loop {
        let next_arrival = arrivals.peek().map_or(u64::MAX, |(at, _)| *at);
        let next_end = ends.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        let now = next_arrival.min(next_end);
        if now >= END_US {
            break;
        }
        if next_arrival <= next_end {
            let (at, number) = arrivals.next().unwrap();
            jobs.entry(lanes.add(tenant(number))).or_default().push_back((at, number));
        } else if let Some(Reverse((at, id, since, _))) = ends.pop() {
            lanes.end(id, Duration::from_micros(at - since));
        }
        loop {
            let running = u32::try_from(ends.len()).unwrap();
            let room = Room { slots: SLOTS, free: SLOTS - running, headroom: hog.headroom };
            if room.free == 0 {
                break;
            }
            let Some(id) = lanes.pick(room) else { break };
            lanes.start(id, Timestamp::default());
            let (at, number) = jobs.get_mut(&id).unwrap().pop_front().unwrap();
            let mean = if number == HOG { hog.mean_us } else { QUIET_MEAN_US };
            let end = now + exponential(&mut random, mean);
            let counted = end.min(END_US).saturating_sub(now.max(HOG_AT_US));
            busy[usize::from(number == HOG)] += counted;
            if number != HOG && at >= HOG_AT_US {
                waits.push(now - at);
            }
            ends.push(Reverse((end, id, now, number)));
        }
    }
    waits.sort_unstable();
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize] as f64 / 1e3;
    let left = f64::from(SLOTS) * (END_US - HOG_AT_US) as f64 - busy[0] as f64;
    Outcome { wait_p99_ms: at(0.99), wait_max_ms: at(1.0), hog_share: busy[1] as f64 / left }
}

/// One setting for both hogs.
const HEADROOM: u32 = 14;
const SEEDS: std::ops::Range<u64> = 0..4;

#[test]
fn quiet_tenants_start_at_once_beside_a_hog_of_short_jobs() {
    let hog = Hog { jobs: 60_000, mean_us: 200_000.0, headroom: HEADROOM };
    for outcome in SEEDS.map(|seed| simulate(&hog, seed)) {
        assert!(outcome.wait_p99_ms <= 20.0, "{outcome:?}");
        assert!(outcome.hog_share >= 0.8, "{outcome:?}");
    }
}

#[test]
fn quiet_tenants_start_at_once_beside_a_hog_of_long_jobs() {
    let hog = Hog { jobs: 3_000, mean_us: 10_000_000.0, headroom: HEADROOM };
    for outcome in SEEDS.map(|seed| simulate(&hog, seed)) {
        assert!(outcome.wait_p99_ms <= 50.0, "{outcome:?}");
        assert!(outcome.hog_share >= 0.8, "{outcome:?}");
    }
}
