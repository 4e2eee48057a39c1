//! Measurements of Weir's own parts for doctor: the time that requests take in each stage, the
//! throughput of job workers by concurrency, and the queues of the job store.
//!
//! `GET measured` serves them to `weir doctor --weir`; the observer of `[observe]` reads them in
//! the process.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::time::MissedTickBehavior;
use weir_advisor::observation::{Fact, Observation, OwnQueue, RequestPath, Throughput};
use weir_base::clock::Clock;
use weir_base::shutdown::ShutdownToken;
use weir_jobs::handle::Handle;

use self::goodput::OfJobs;
use self::paths::OfRequests;
use crate::workers::Front;

mod goodput;
mod paths;

/// The interval of measurements.
const STEP: Duration = Duration::from_secs(10);

/// All measurements. Parts that are not served are None.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Over the last five minutes.
    pub requests: Option<Vec<RequestPath>>,
    pub goodput: Option<Vec<Throughput>>,
    pub own_queues: Option<Vec<OwnQueue>>,
}

impl Parts {
    /// Adds the measurements to an observation. Parts that are not served count as not queried.
    pub fn fill(self, observation: &mut Observation) {
        let Self { requests, goodput, own_queues } = self;
        observation.requests = requests.map_or(Fact::NotAsked, Fact::Known);
        observation.own_queues = own_queues.map_or(Fact::NotAsked, Fact::Known);
        let seen = std::mem::take(&mut observation.goodput);
        // Sidekiq's values come from Redis.
        let of_sidekiq = seen.known().cloned().unwrap_or_default();
        let all: Vec<_> = of_sidekiq.into_iter().chain(goodput.unwrap_or_default()).collect();
        observation.goodput = if all.is_empty() { seen } else { Fact::Known(all) };
    }
}

/// Takes and stores measurements. Cheap to clone; clones share the state.
#[derive(Clone, Debug)]
pub struct Measured(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    jobs: Option<Handle>,
    /// None: no apps are served here.
    front: Option<Front>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    requests: OfRequests,
    jobs: OfJobs,
}

impl Measured {
    pub fn new(clock: &Clock, jobs: Option<Handle>, front: Option<Front>) -> Self {
        Self(Arc::new(Inner { clock: clock.clone(), jobs, front, kept: Mutex::default() }))
    }

    /// Measures until the shutdown. Boxed, so that it is compiled in this crate.
    pub fn run(self, shutdown: ShutdownToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.measure_until(shutdown))
    }

    async fn measure_until(self, shutdown: ShutdownToken) {
        let mut steps = tokio::time::interval(STEP);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                _ = steps.tick() => {}
            }
            tokio::select! {
                () = shutdown.requested() => return,
                () = self.measure() => {}
            }
        }
    }

    async fn measure(&self) {
        let Inner { clock, jobs, front, .. } = &*self.0;
        if let Some(front) = front {
            self.kept().requests.note(clock.now(), front.rows());
        }
        if let Some(jobs) = jobs {
            // An error of the job server is reported elsewhere.
            let asked = tokio::join!(jobs.overview(), jobs.queues(), jobs.workers());
            if let (Ok(overview), Ok(queues), Ok(workers)) = asked {
                self.kept().jobs.note(clock.now(), overview, queues, workers);
            }
        }
    }

    /// Returns the current measurements.
    pub fn parts(&self) -> Parts {
        let kept = self.kept();
        Parts {
            requests: self.0.front.is_some().then(|| kept.requests.paths()),
            goodput: self.0.jobs.is_some().then(|| kept.jobs.goodput()),
            own_queues: self.0.jobs.is_some().then(|| kept.jobs.queues()),
        }
    }

    /// Held only briefly, without waiting.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the route.
pub fn router(measured: Measured) -> Router {
    let answer = async |State(measured): State<Measured>| Json(measured.parts());
    Router::new().route("/measured", get(answer)).with_state(measured)
}

#[cfg(test)]
mod tests {
    use weir_advisor::{Severity, advise};
    use weir_base::clock::Timestamp;
    use weir_jobs::view::JobServerOverview;

    use super::*;

    /// Threads, and what they work off in ten seconds while jobs wait.
    fn parts(windows: &[(u64, u64)]) -> Parts {
        let (mut jobs, mut processed_total) = (OfJobs::default(), 0);
        for (step, (working, done)) in windows.iter().enumerate() {
            processed_total += done;
            let overview = JobServerOverview {
                working: *working,
                enqueued: 9_000,
                processed_total,
                ..JobServerOverview::default()
            };
            let at = Timestamp::from_millis(step as u64 * 10_000);
            jobs.note(at, overview, Vec::new(), Vec::new());
        }
        Parts { goodput: Some(jobs.goodput()), own_queues: Some(jobs.queues()), requests: None }
    }

    #[test]
    fn threads_that_work_off_less_than_fewer_did_hurt() {
        let falls = [
            (10, 300),
            (10, 300),
            (10, 300),
            (10, 300),
            (40, 100),
            (40, 100),
            (40, 100),
            (40, 100),
            (40, 100),
        ];
        let mut observation = Observation::default();
        parts(&falls).fill(&mut observation);
        let findings = advise(&observation).findings;
        assert_eq!((findings.len(), findings[0].rule), (1, "threads-hurt"));
        assert_eq!(findings[0].severity, Severity::Warning);
        let evidence = "10 threads completed 30.0/s, 40 threads only 10.0/s; 40 run now";
        assert_eq!(findings[0].evidence, evidence);

        let rises: Vec<_> = falls.iter().map(|(threads, _)| (*threads, threads * 30)).collect();
        let mut observation = Observation::default();
        parts(&rises).fill(&mut observation);
        assert_eq!(advise(&observation).findings, []);
    }

    #[test]
    fn what_redis_has_told_of_sidekiq_stays_beside_it() {
        let of_sidekiq = Throughput { of: "Sidekiq".to_owned(), ..Throughput::default() };
        let goodput = Fact::Known(vec![of_sidekiq.clone()]);
        let mut observation = Observation { goodput, ..Observation::default() };
        let mut parts = parts(&[(10, 300); 5]);
        parts.clone().fill(&mut observation);
        assert_eq!(observation.goodput.known().map(Vec::len), Some(2));
        (parts.goodput, observation.goodput) = (None, Fact::Known(vec![of_sidekiq]));
        parts.fill(&mut observation);
        assert_eq!(observation.goodput.known().map(Vec::len), Some(1));
    }
}
