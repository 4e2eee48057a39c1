//! The dispatcher against the service times of a real site, in simulated time: what
//! `docs/benchmarks.md` measures over sockets, without the noise.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

const WORKERS: usize = 16;
const REQUESTS: usize = 200_000;
/// A lognormal distribution with a mean of 59 ms, a median of 20 and 224 at the 95th percentile.
const MEDIAN_MS: f64 = 20.0;
const SIGMA: f64 = 1.47;
const MEAN_MS: f64 = 59.0;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    End(usize),
}

/// How long each served request took from its arrival, sorted, and how many were not served.
struct Outcome {
    took_ms: Vec<f64>,
    refused: usize,
}

impl Outcome {
    fn percentile(&self, percent: usize) -> f64 {
        self.took_ms[self.took_ms.len() * percent / 100]
    }
}

fn normal(random: &mut fastrand::Rng) -> f64 {
    // Box and Muller's method.
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

fn limits() -> Limits {
    Limits {
        queue_max: 1_024,
        queue_timeout: Duration::from_secs(30),
        overload_delay: Duration::from_millis(200),
        overload_after: Duration::from_secs(2),
        overload_wait: Duration::from_secs(1),
    }
}

/// `load`: 1.0 is all that the workers can do.
fn simulate(load: f64, seed: u64) -> Outcome {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut dispatcher: Dispatcher<Timestamp> = Dispatcher::new(limits());
    for _ in 0..WORKERS {
        dispatcher.add_worker(Slots { requests: 1, streams: 0 }, Timestamp::default());
    }
    let mut events = BinaryHeap::from([Reverse((0_u64, Event::Arrival))]);
    let mut running: Slab<(Permit, Timestamp)> = Slab::new();
    let mut outcome = Outcome { took_ms: Vec::new(), refused: 0 };
    let mut arrivals = 0;
    while let Some(Reverse((micros, event))) = events.pop() {
        let now = Timestamp::from_micros(micros);
        outcome.refused += dispatcher.expire(now).len();
        let begun = match event {
            Event::Arrival => {
                arrivals += 1;
                if arrivals < REQUESTS {
                    let gap_ms = -(1.0 - random.f64()).ln() * MEAN_MS / (load * WORKERS as f64);
                    events.push(Reverse((micros + to_micros(gap_ms), Event::Arrival)));
                }
                arrive(&mut dispatcher, &mut outcome, &mut random, now)
            }
            Event::End(key) => {
                let (permit, arrived) = running.remove(key);
                outcome.took_ms.push(now.since(arrived).as_secs_f64() * 1e3);
                dispatcher.end(permit);
                dispatcher.next(now).map(|(arrived, permit)| (permit, arrived))
            }
        };
        if let Some(begun) = begun {
            let service_ms = MEDIAN_MS * (SIGMA * normal(&mut random)).exp();
            let end = Event::End(running.insert(begun));
            events.push(Reverse((micros + to_micros(service_ms), end)));
        }
    }
    outcome.took_ms.sort_by(f64::total_cmp);
    outcome
}

fn arrive(
    dispatcher: &mut Dispatcher<Timestamp>,
    outcome: &mut Outcome,
    random: &mut fastrand::Rng,
    now: Timestamp,
) -> Option<(Permit, Timestamp)> {
    if let Some(permit) = dispatcher.take(now) {
        return Some((permit, now));
    }
    let client = Client::of(Some([10, 0, random.u8(..), random.u8(..)].into()));
    let wish = Wish { priority: Priority::Normal, client };
    match dispatcher.wait(wish, now, now) {
        Waiting::Queued { displaced, .. } => outcome.refused += usize::from(displaced.is_some()),
        Waiting::Refused(..) => outcome.refused += 1,
    }
    None
}

fn to_micros(millis: f64) -> u64 {
    Duration::from_secs_f64(millis / 1e3).as_micros().try_into().expect("a service time")
}

#[test]
fn at_80_percent_load_nearly_all_time_is_service_time() {
    let outcome = simulate(0.8, 1);
    let (p50, p99) = (outcome.percentile(50), outcome.percentile(99));
    assert!(p50 <= 35.0 && p99 <= 700.0, "p50 {p50} ms, p99 {p99} ms");
    let served = outcome.took_ms.len();
    assert_eq!(served + outcome.refused, REQUESTS);
    assert!(outcome.refused * 1_000 < REQUESTS, "{} refused", outcome.refused);
}

#[test]
fn at_twice_the_load_half_is_served_and_soon() {
    let outcome = simulate(2.0, 1);
    let served = outcome.took_ms.len();
    assert_eq!(served + outcome.refused, REQUESTS);
    let (p50, p99) = (outcome.percentile(50), outcome.percentile(99));
    assert!(served * 100 > REQUESTS * 49, "{served} served");
    assert!(p50 <= 60.0 && p99 <= 900.0, "p50 {p50} ms, p99 {p99} ms");
}

/// Clients behind one address, each of which asks again when it has its answer; how many answers were
/// refusals.
fn closed_loop(clients: u32, workers: usize, service_ms: u64, seconds: u64) -> usize {
    let mut dispatcher: Dispatcher<u32> = Dispatcher::new(limits());
    for _ in 0..workers {
        dispatcher.add_worker(Slots { requests: 1, streams: 0 }, Timestamp::default());
    }
    let mut ends = BinaryHeap::new();
    let mut running: Slab<(u32, Permit)> = Slab::new();
    let (mut now, mut refused) = (0, 0);
    let mut asking: Vec<u32> = (0..clients).collect();
    while now < seconds * 1_000 {
        let time = Timestamp::from_millis(now);
        for client in asking.drain(..) {
            let wish = Wish { priority: Priority::Normal, client: Client::of(None) };
            if let Some(permit) = dispatcher.take(time) {
                ends.push(Reverse((now + service_ms, running.insert((client, permit)))));
            } else {
                let waiting = dispatcher.wait(wish, client, time);
                assert!(matches!(waiting, Waiting::Queued { displaced: None, .. }));
            }
        }
        let Some(Reverse((end, key))) = ends.pop() else { unreachable!("somebody runs") };
        now = end;
        let time = Timestamp::from_millis(now);
        let (client, permit) = running.remove(key);
        asking.push(client);
        dispatcher.end(permit);
        if let Some(begun) = dispatcher.next(time) {
            ends.push(Reverse((now + service_ms, running.insert(begun))));
        }
        let expired = dispatcher.expire(time);
        refused += expired.len();
        asking.extend(expired.into_iter().map(|(client, _)| client));
    }
    refused
}

#[test]
fn clients_that_wait_for_their_answers_are_no_overload_while_the_queue_is_short() {
    assert_eq!(closed_loop(16, 4, 20, 60), 0);
}

#[test]
fn clients_that_wait_for_their_answers_are_one_when_the_queue_is_long() {
    assert_ne!(closed_loop(200, 4, 20, 60), 0);
}
