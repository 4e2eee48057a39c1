//! What a queue needs, as it was seen to need.
//!
//! Source: Little's law. Jobs in hand are their rate times the seconds of a thread that each takes.

use crate::observation::{Jobs, Queue};

use super::QueueDemand;

/// Seconds of a job where nobody has seen one end: half of what a delivery over the net takes.
const SERVICE_SECONDS: f64 = 0.2;
/// Below, one job more or less makes the difference.
const SERVED_MIN: f64 = 0.2;
/// A longer job was held up, by a debugger or a database.
const SERVICE_SECONDS_MAX: f64 = 600.0;

/// Of two looks at a queue. One that is always empty shows few of its arrivals, but its jobs in hand;
/// one with a backlog shows all that come.
#[must_use]
pub fn demand(queue: &Queue) -> QueueDemand {
    let flow = queue.flow.known();
    let served = flow.map_or(0.0, |flow| flow.served_per_second());
    let arrivals = flow.map_or(0.0, |flow| flow.arrivals_per_second);
    let in_hand = queue.in_hand as f64;
    let service_seconds = if served >= SERVED_MIN && in_hand > 0.0 {
        (in_hand / served).min(SERVICE_SECONDS_MAX)
    } else {
        SERVICE_SECONDS
    };
    let arrivals_per_second = arrivals.max(in_hand / service_seconds);
    let name = queue.name.clone();
    QueueDemand { name, arrivals_per_second, service_seconds, target_seconds: None }
}

/// Of all queues that were ever pushed to, those with most to do first: one that only a process names is
/// misspelt, or none yet.
#[must_use]
pub fn demands(jobs: &Jobs) -> Vec<QueueDemand> {
    let pushed = jobs.queues.iter().filter(|queue| queue.pushed);
    let mut demands: Vec<QueueDemand> = pushed.map(demand).collect();
    let need = |queue: &QueueDemand| queue.arrivals_per_second * queue.service_seconds;
    demands.sort_by(|one, other| need(other).total_cmp(&need(one)));
    demands
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flow::Flow;
    use crate::observation::Fact;

    fn need(before: u64, after: u64, arrivals_per_second: f64, in_hand: u64) -> (f64, f64) {
        let window = Duration::from_secs(10);
        let flow =
            Fact::Known(Flow { window, before, after, arrivals_per_second, deviation: None });
        let demand = demand(&Queue { length: after, in_hand, flow, ..Queue::default() });
        (demand.arrivals_per_second, demand.service_seconds)
    }

    #[test]
    fn a_backlog_shows_what_comes_and_how_long_each_takes() {
        // 10 come, 5 are worked off by 10 threads: 2 s each, so 20 threads keep up.
        assert_eq!(need(1_000, 1_050, 10.0, 10), (10.0, 2.0));
        // It drains at 20 a second, which must stay so.
        assert_eq!(need(1_000, 900, 10.0, 10), (20.0, 0.5));
    }

    #[test]
    fn an_empty_queue_shows_its_jobs_in_hand() {
        let (rate, seconds) = need(0, 0, 0.0, 3);
        assert!((rate * seconds - 3.0).abs() < 1e-9);
        assert_eq!(need(0, 0, 0.0, 0), (0.0, SERVICE_SECONDS));
    }
}
