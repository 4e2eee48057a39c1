//! Simulates the dispatcher with the service times of a real site: what `docs/benchmarks.md`
//! measures over sockets, without the noise.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_net::client::ClientAddress;

use super::*;

const WORKERS: usize = 16;
const REQUESTS: usize = 200_000;
/// A lognormal distribution: the mean is 59 ms, the median 20 ms, the 95th percentile 224 ms.
const MEDIAN_MS: f64 = 20.0;
const SIGMA: f64 = 1.47;
const MEAN_MS: f64 = 59.0;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SimulationEvent {
    Arrival,
    End(usize),
}

/// The sorted durations of served requests from their arrival, and how many were not served.
struct SimulationOutcome {
    took_ms: Vec<f64>,
    rejected: usize,
}

impl SimulationOutcome {
    fn percentile(&self, percent: usize) -> f64 {
        self.took_ms[self.took_ms.len() * percent / 100]
    }
}

fn normal(random: &mut fastrand::Rng) -> f64 {
    // Box and Muller's method.
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

fn limits() -> QueueLimits {
    QueueLimits {
        queue_max: 1_024,
        queue_timeout: Duration::from_secs(30),
        overload_delay: Duration::from_secs(2),
        overload_after: Duration::from_secs(2),
        overload_wait: Duration::from_secs(3),
    }
}

/// Simulates a load; 1.0 is the capacity of the workers.
fn simulate(load: f64, seed: u64) -> SimulationOutcome {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut dispatcher: Dispatcher<Timestamp> = Dispatcher::new(limits());
    for _ in 0..WORKERS {
        dispatcher.add_worker(Slots { requests: 1, streams: 0 }, Timestamp::default());
    }
    let mut events = BinaryHeap::from([Reverse((0_u64, SimulationEvent::Arrival))]);
    let mut running: Slab<(Permit, Timestamp)> = Slab::new();
    let mut outcome = SimulationOutcome { took_ms: Vec::new(), rejected: 0 };
    let mut arrivals = 0;
    while let Some(Reverse((micros, event))) = events.pop() {
        let now = Timestamp::from_micros(micros);
        outcome.rejected += dispatcher.expire(now).len();
        let started = match event {
            SimulationEvent::Arrival => {
                arrivals += 1;
                if arrivals < REQUESTS {
                    let gap_ms = -(1.0 - random.f64()).ln() * MEAN_MS / (load * WORKERS as f64);
                    events.push(Reverse((micros + to_micros(gap_ms), SimulationEvent::Arrival)));
                }
                arrive(&mut dispatcher, &mut outcome, &mut random, now)
            }
            SimulationEvent::End(key) => {
                let (permit, arrived) = running.remove(key);
                outcome.took_ms.push(now.since(arrived).as_secs_f64() * 1e3);
                dispatcher.end(permit);
                dispatcher.next(now).map(|(arrived, permit)| (permit, arrived))
            }
        };
        if let Some(started) = started {
            let service_ms = MEDIAN_MS * (SIGMA * normal(&mut random)).exp();
            let end = SimulationEvent::End(running.insert(started));
            events.push(Reverse((micros + to_micros(service_ms), end)));
        }
    }
    outcome.took_ms.sort_by(f64::total_cmp);
    outcome
}

fn arrive(
    dispatcher: &mut Dispatcher<Timestamp>,
    outcome: &mut SimulationOutcome,
    random: &mut fastrand::Rng,
    now: Timestamp,
) -> Option<(Permit, Timestamp)> {
    if let Some(permit) = dispatcher.take(now) {
        return Some((permit, now));
    }
    let client = ClientAddress::from_ip([10, 0, random.u8(..), random.u8(..)].into());
    let class = RequestClass { priority: Priority::Normal, client };
    match dispatcher.wait(class, now, now) {
        EnqueueOutcome::Queued { displaced, .. } => {
            outcome.rejected += usize::from(displaced.is_some())
        }
        EnqueueOutcome::Rejected(..) => outcome.rejected += 1,
    }
    None
}

fn to_micros(millis: f64) -> u64 {
    Duration::from_secs_f64(millis / 1e3).as_micros().try_into().expect("a service time")
}

#[test]
fn at_80_percent_load_queueing_time_is_negligible() {
    let outcome = simulate(0.8, 1);
    let (p50, p99) = (outcome.percentile(50), outcome.percentile(99));
    assert!(p50 <= 35.0 && p99 <= 700.0, "p50 {p50} ms, p99 {p99} ms");
    let served = outcome.took_ms.len();
    assert_eq!(served + outcome.rejected, REQUESTS);
    assert!(outcome.rejected * 1_000 < REQUESTS, "{} refused", outcome.rejected);
}

#[test]
fn at_twice_the_capacity_half_is_served_quickly() {
    let outcome = simulate(2.0, 1);
    let served = outcome.took_ms.len();
    assert_eq!(served + outcome.rejected, REQUESTS);
    let (p50, p95) = (outcome.percentile(50), outcome.percentile(95));
    assert!(served * 100 > REQUESTS * 49, "{served} served");
    assert!(p50 <= 60.0 && p95 <= 900.0, "p50 {p50} ms, p95 {p95} ms");
}

/// Clients behind one address, each of which sends a request once it has the previous response.
struct ClosedLoop {
    clients: u32,
    workers: usize,
    service_ms: u64,
    /// All workers stop for this long after ten seconds.
    stall_ms: u64,
}

impl ClosedLoop {
    /// Returns how many requests are rejected in the first minute, and in the second.
    fn rejected(&self) -> [usize; 2] {
        let mut dispatcher: Dispatcher<u32> = Dispatcher::new(limits());
        for _ in 0..self.workers {
            dispatcher.add_worker(Slots { requests: 1, streams: 0 }, Timestamp::default());
        }
        let mut ends = BinaryHeap::new();
        let mut running: Slab<(u32, Permit)> = Slab::new();
        let (mut now, mut rejected) = (0, [0, 0]);
        let mut sending: Vec<u32> = (0..self.clients).collect();
        while now < 120_000 {
            let time = Timestamp::from_millis(now);
            for client in sending.drain(..) {
                let class = RequestClass { priority: Priority::Normal, client: None };
                if let Some(permit) = dispatcher.take(time) {
                    ends.push(Reverse((self.end(now), running.insert((client, permit)))));
                } else {
                    let waiting = dispatcher.wait(class, client, time);
                    assert!(matches!(waiting, EnqueueOutcome::Queued { displaced: None, .. }));
                }
            }
            let Some(Reverse((end, key))) = ends.pop() else { unreachable!("somebody runs") };
            now = end;
            let time = Timestamp::from_millis(now);
            let (client, permit) = running.remove(key);
            sending.push(client);
            dispatcher.end(permit);
            if let Some(started) = dispatcher.next(time) {
                ends.push(Reverse((self.end(now), running.insert(started))));
            }
            let expired = dispatcher.expire(time);
            rejected[usize::from(now >= 60_000)] += expired.len();
            sending.extend(expired.into_iter().map(|(client, _)| client));
        }
        rejected
    }

    /// Returns when a request ends that begins at `now`.
    fn end(&self, now: u64) -> u64 {
        let end = now + self.service_ms;
        if now < 10_000 && end >= 10_000 { end + self.stall_ms } else { end }
    }
}

#[test]
fn closed_loop_clients_are_all_served_within_the_overload_delay() {
    for (clients, workers, service_ms) in
        [(16, 4, 20), (160, 4, 20), (320, 32, 100), (560, 32, 100)]
    {
        let load = ClosedLoop { clients, workers, service_ms, stall_ms: 0 };
        assert_eq!(load.rejected(), [0, 0], "{clients} clients");
    }
}

#[test]
fn closed_loop_clients_recover_after_a_stall() {
    let load = ClosedLoop { clients: 320, workers: 32, service_ms: 100, stall_ms: 30_000 };
    let [first, second] = load.rejected();
    assert!(first > 0, "a stall is an overload");
    assert_eq!(second, 0);
}

#[test]
fn closed_loop_clients_with_a_long_queue_are_an_overload() {
    let load = ClosedLoop { clients: 800, workers: 4, service_ms: 20, stall_ms: 0 };
    assert!(load.rejected()[1] > 0);
}

/// Simulates requests at `load` from clients that leave after `patience_ms`. Returns the percentage
/// of the responses after the first minute whose clients were still there.
fn useful_percent(load: f64, patience_ms: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(7);
    let mut dispatcher: Dispatcher<u64> = Dispatcher::new(limits());
    for _ in 0..4 {
        dispatcher.add_worker(Slots { requests: 1, streams: 0 }, Timestamp::default());
    }
    // Kinds of events: 0 an arrival, 1 the end of a service, 2 a client gives up.
    let mut events = BinaryHeap::from([Reverse((0_u64, 0_u8, 0_usize, 0_u64))]);
    let mut running: Slab<Permit> = Slab::new();
    let mut tickets = std::collections::HashMap::new();
    let (mut served, mut useful, mut number) = (0, 0, 0_u64);
    while let Some(Reverse((micros, kind, key, arrived))) = events.pop() {
        if micros > 120_000_000 {
            break;
        }
        let now = Timestamp::from_micros(micros);
        let _ = dispatcher.expire(now);
        let started = match kind {
            0 => {
                let gap_ms = -(1.0 - random.f64()).ln() * 20.0 / (load * 4.0);
                events.push(Reverse((micros + to_micros(gap_ms), 0, 0, 0)));
                number += 1;
                let class = RequestClass { priority: Priority::Normal, client: client_of(number) };
                dispatcher.take(now).map(|permit| (micros, permit)).or_else(|| {
                    if let EnqueueOutcome::Queued { ticket, .. } =
                        dispatcher.wait(class, micros, now)
                    {
                        tickets.insert(number, ticket);
                        events.push(Reverse((micros + 1_000 * patience_ms, 2, 0, number)));
                    }
                    None
                })
            }
            1 => {
                dispatcher.end(running.remove(key));
                if micros > 60_000_000 {
                    served += 1;
                    useful += usize::from(micros - arrived < 1_000 * patience_ms);
                }
                dispatcher.next(now)
            }
            _ => {
                let _ = dispatcher.cancel(tickets[&arrived], now);
                None
            }
        };
        if let Some((arrived, permit)) = started {
            events.push(Reverse((micros + 20_000, 1, running.insert(permit), arrived)));
        }
    }
    100 * useful / served
}

fn client_of(number: u64) -> FlowKey {
    let [.., a, b] = number.to_be_bytes();
    ClientAddress::from_ip([10, 0, a, b].into())
}

#[test]
fn workers_serve_clients_that_are_still_connected() {
    for patience_ms in [300, 1_000, 2_000, 5_000] {
        let useful = useful_percent(2.0, patience_ms);
        assert!(useful >= 90, "{useful} % with a patience of {patience_ms} ms");
    }
}
