//! Samples all served parts once per interval for the histories, the live streams and the verdict.
//! The load on the job server does not depend on the number of visitors.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use weir_base::clock::Clock;
use weir_base::shutdown::ShutdownToken;
use weir_jobs::handle::HandleError;

use crate::Deps;
use crate::front::{self, FrontSource};
use crate::jobs::Sampling;
use crate::live::{ConsoleSnapshot, Latest, Live, Served};
use crate::observed::ObservedSource;
use crate::realtime::{self, RealtimeSource};

/// The sampler. One per console.
#[derive(Debug)]
pub struct Sampler {
    live: Live,
    clock: Clock,
    interval: Duration,
    jobs: Option<Sampling>,
    realtime: Option<RealtimeSource>,
    realtime_tally: realtime::RealtimeTally,
    front: Option<FrontSource>,
    front_tally: front::FrontTally,
    observed: Option<ObservedSource>,
}

impl Sampler {
    /// Creates the sampler for the console of `deps`.
    #[must_use]
    pub fn new(deps: &Deps) -> Self {
        let interval = deps.settings.limits.sample_interval;
        let sampling = |jobs| Sampling::new(jobs, deps.clock.clone(), interval);
        Self {
            live: deps.live.clone(),
            clock: deps.clock.clone(),
            interval,
            jobs: deps.jobs.clone().map(sampling),
            realtime: deps.realtime.clone(),
            realtime_tally: realtime::RealtimeTally::default(),
            front: deps.front.clone(),
            front_tally: front::FrontTally::default(),
            observed: deps.observed.clone(),
        }
    }

    /// Samples until the shutdown, and then ends all live streams.
    pub async fn run(mut self, shutdown: ShutdownToken) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                () = shutdown.requested() => return self.live.publish(Latest::Ended),
                _ = ticks.tick() => {}
            }
            match self.read().await {
                Ok(reading) => self.live.publish(Latest::Snapshot(Arc::new(reading))),
                Err(error) => self.live.publish(Latest::Down(error.to_string().into())),
            }
        }
    }

    async fn read(&mut self) -> Result<ConsoleSnapshot, HandleError> {
        let realtime = match &self.realtime {
            Some(realtime) => Some(realtime.sample(&mut self.realtime_tally, &self.clock).await),
            None => None,
        };
        let front = match &self.front {
            Some(front) => Some(front.sample(&mut self.front_tally, &self.clock).await),
            None => None,
        };
        let observed = match &self.observed {
            Some(observed) => Some(observed.sample(&self.clock).await),
            None => None,
        };
        let jobs = match &mut self.jobs {
            Some(jobs) => Some(jobs.read(self.live.is_watched()).await?),
            None => None,
        };
        let served = self.jobs.as_ref().map(Sampling::jobs);
        Ok(ConsoleSnapshot::new(
            self.clock.now(),
            served,
            Served { jobs, realtime, front, observed },
        ))
    }
}
