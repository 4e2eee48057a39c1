//! Measurements of Weir's own parts for doctor: the time that requests take in each stage, the
//! throughput of job workers by concurrency, and the queues of the job store.
//!
//! `GET measured` serves them to `weir doctor --weir`; the observer of `[observe]` reads them in
//! the process.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::MissedTickBehavior;
use weir_advisor::observation::{Fact, Observation, RequestPath, Throughput};
use weir_advisor::rules::RULES;
use weir_advisor::{Verdict, VerdictFinding};
use weir_base::clock::Clock;
use weir_base::shutdown::ShutdownToken;
use weir_jobs::handle::Handle;

use self::goodput::JobMeasurements;
use self::paths::RequestMeasurements;
use crate::api_routes::{ApiRoutes, get};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::status::CurrentVerdict;
use crate::workers::Front;

mod goodput;
mod paths;
mod peaks;

/// The interval of measurements.
const MEASURE_INTERVAL: Duration = Duration::from_secs(10);

/// All measurements. Parts that are not served are None.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// Over the last five minutes.
    pub requests: Option<Vec<RequestPath>>,
    pub goodput: Option<Vec<Throughput>>,
    /// What the verdict says about Weir's own parts.
    pub findings: Option<Vec<VerdictFinding>>,
}

impl Parts {
    /// Adds the measurements to an observation. Parts that are not served count as not queried.
    pub fn fill(self, observation: &mut Observation) {
        let Self { requests, goodput, findings } = self;
        observation.requests = requests.map_or(Fact::NotAsked, Fact::Known);
        observation.own_findings = findings.map_or(Fact::NotAsked, Fact::Known);
        let observed = std::mem::take(&mut observation.goodput);
        // Sidekiq's values come from Redis.
        let sidekiq_goodput = observed.known().cloned().unwrap_or_default();
        let all: Vec<_> = sidekiq_goodput.into_iter().chain(goodput.unwrap_or_default()).collect();
        observation.goodput = if all.is_empty() { observed } else { Fact::Known(all) };
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
    verdict: CurrentVerdict,
    state: Mutex<MeasuredState>,
}

#[derive(Debug, Default)]
struct MeasuredState {
    requests: RequestMeasurements,
    jobs: JobMeasurements,
}

impl Measured {
    pub fn new(
        clock: &Clock,
        jobs: Option<Handle>,
        front: Option<Front>,
        verdict: CurrentVerdict,
    ) -> Self {
        let (clock, state) = (clock.clone(), Mutex::default());
        Self(Arc::new(Inner { clock, jobs, front, verdict, state }))
    }

    /// Measures until the shutdown. Boxed, so that it is compiled in this crate.
    pub fn run(self, shutdown: ShutdownToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.measure_until(shutdown))
    }

    async fn measure_until(self, shutdown: ShutdownToken) {
        let mut ticks = tokio::time::interval(MEASURE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                _ = ticks.tick() => {}
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
            self.state().requests.record(clock.now(), front.rows());
        }
        if let Some(jobs) = jobs {
            // An error of the job server is reported elsewhere.
            if let Ok(overview) = jobs.overview().await {
                self.state().jobs.record(clock.now(), overview);
            }
        }
    }

    /// Returns the current measurements.
    pub fn parts(&self) -> Parts {
        let state = self.state();
        Parts {
            requests: self.0.front.is_some().then(|| state.requests.paths()),
            goodput: self.0.jobs.is_some().then(|| state.jobs.goodput()),
            findings: self.0.verdict.get().map(own_findings),
        }
    }

    /// Held only briefly, without waiting.
    fn state(&self) -> MutexGuard<'_, MeasuredState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the findings about Weir's own parts, without those that doctor has made about observed systems.
fn own_findings(verdict: Verdict) -> Vec<VerdictFinding> {
    let is_of_doctor = |rule: &str| RULES.iter().any(|known| known.name == rule);
    verdict.findings.into_iter().filter(|it| !is_of_doctor(&it.finding.rule)).collect()
}

async fn parts(State(measured): State<Measured>) -> Json<Parts> {
    Json(measured.parts())
}

fn routes() -> ApiRoutes<Measured> {
    ApiRoutes::new().route("/measured", get(parts))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the route.
pub fn router(measured: Measured) -> Router {
    routes().into_router().with_state(measured)
}

#[cfg(test)]
mod tests {
    use weir_advisor::{Severity, advise};
    use weir_base::clock::Timestamp;
    use weir_jobs::view::JobServerOverview;

    use super::*;

    /// Threads, and what they work off in ten seconds while jobs wait.
    fn parts(windows: &[(u64, u64)]) -> Parts {
        let (mut jobs, mut processed_total) = (JobMeasurements::default(), 0);
        for (step, (working, done)) in windows.iter().enumerate() {
            processed_total += done;
            let overview = JobServerOverview {
                working: *working,
                enqueued: 9_000,
                processed_total,
                ..JobServerOverview::default()
            };
            let at = Timestamp::from_millis(step as u64 * 10_000);
            jobs.record(at, overview);
        }
        Parts { goodput: Some(jobs.goodput()), findings: None, requests: None }
    }

    #[test]
    fn more_threads_with_lower_throughput_are_reported() {
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
        assert_eq!((findings.len(), &*findings[0].rule), (1, "threads-hurt"));
        assert_eq!(findings[0].severity, Severity::Warning);
        let evidence = "10 threads completed 30.0/s, 40 threads only 10.0/s; 40 run now";
        assert_eq!(findings[0].evidence, evidence);

        let rises: Vec<_> = falls.iter().map(|(threads, _)| (*threads, threads * 30)).collect();
        let mut observation = Observation::default();
        parts(&rises).fill(&mut observation);
        assert_eq!(advise(&observation).findings, []);
    }

    #[test]
    fn measurements_keep_the_goodput_of_sidekiq() {
        let sidekiq_goodput = Throughput { of: "Sidekiq".to_owned(), ..Throughput::default() };
        let goodput = Fact::Known(vec![sidekiq_goodput.clone()]);
        let mut observation = Observation { goodput, ..Observation::default() };
        let mut parts = parts(&[(10, 300); 5]);
        parts.clone().fill(&mut observation);
        assert_eq!(observation.goodput.known().map(Vec::len), Some(2));
        (parts.goodput, observation.goodput) = (None, Fact::Known(vec![sidekiq_goodput]));
        parts.fill(&mut observation);
        assert_eq!(observation.goodput.known().map(Vec::len), Some(1));
    }
}
