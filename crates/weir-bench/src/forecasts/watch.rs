//! Reads the depths until all queues were empty, and forecasts at random times.

use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::admin::{AdminApi, QueueState};
use super::record::{Forecast, ForecastRecord};
use super::scenarios::QueueScenario;
use crate::clock::monotonic;

const POLL: Duration = Duration::from_millis(100);
/// A forecast of each queue is read after a random time between these, in seconds.
const PAUSE_SECONDS: (f64, f64) = (6.0, 14.0);
/// A round that is not over by then fails.
const ROUND_MAX: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct WatchedQueue {
    name: String,
    scenario: &'static str,
    forecasts: Vec<(Duration, Forecast)>,
    next: Duration,
    empty_at: Option<Duration>,
}

/// Returns the forecasts of all queues once each was empty. `check` fails if a worker did.
pub(super) fn watch(
    scenarios: &[QueueScenario],
    api: &mut AdminApi,
    random: &mut Rng,
    mut check: impl FnMut() -> Result<()>,
) -> Result<Vec<ForecastRecord>> {
    let began = monotonic();
    let queue = |scenario: &QueueScenario| WatchedQueue {
        name: scenario.queue.clone(),
        scenario: scenario.name,
        forecasts: Vec::new(),
        next: began + pause(random),
        empty_at: None,
    };
    let mut queues: Vec<WatchedQueue> = scenarios.iter().map(queue).collect();
    while queues.iter().any(|queue| queue.empty_at.is_none()) {
        check()?;
        let now = monotonic();
        ensure!(now - began < ROUND_MAX, "queues that did not drain: {}", undrained(&queues));
        for state in api.queues()? {
            let watched = queues.iter_mut().find(|queue| queue.name == state.name);
            if let Some(queue) = watched.filter(|queue| queue.empty_at.is_none()) {
                queue.see(&state, now, random);
            }
        }
        std::thread::sleep(POLL);
    }
    Ok(queues.into_iter().flat_map(WatchedQueue::into_records).collect())
}

fn undrained(queues: &[WatchedQueue]) -> String {
    let waiting = queues.iter().filter(|queue| queue.empty_at.is_none());
    waiting.map(|queue| queue.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn pause(random: &mut Rng) -> Duration {
    let (shortest, longest) = PAUSE_SECONDS;
    Duration::from_secs_f64(shortest + (longest - shortest) * random.f64())
}

impl WatchedQueue {
    fn see(&mut self, state: &QueueState, now: Duration, random: &mut Rng) {
        if state.depth == 0 {
            self.empty_at = Some(now);
        } else if now >= self.next {
            self.forecasts.push((now, state.forecast()));
            self.next = now + pause(random);
        }
    }

    fn into_records(self) -> impl Iterator<Item = ForecastRecord> {
        let empty_at = self.empty_at.unwrap_or_default();
        self.forecasts.into_iter().map(move |(at, forecast)| ForecastRecord {
            scenario: self.scenario,
            forecast,
            actual: empty_at.saturating_sub(at).as_secs_f64(),
        })
    }
}
