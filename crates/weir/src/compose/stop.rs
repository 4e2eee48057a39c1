//! The shutdown of all parts, in order.

use std::time::Duration;

use weir_base::shutdown::{Drained, ShutdownToken};
use weir_net::server::LivenessProbe;

use super::Weir;

/// The least time that the job server gets to finish commands and to close its store, however long
/// requests of the front took. Less than supervisor.kill_after.
pub(super) const JOBS_TIME_MIN: Duration = Duration::from_secs(2);

/// The least time that realtime gets to remove its members from the Redis that nodes share, and to
/// send webhooks. Otherwise other nodes remove the members when its lease has lapsed.
const REALTIME_TIME_MIN: Duration = Duration::from_secs(1);

/// The least time that the remaining traces get to be exported.
const TRACES_TIME_MIN: Duration = Duration::from_secs(1);

/// Exports the remaining traces. Call it when nothing begins spans any more.
pub(super) async fn finish_traces(export: &ShutdownToken, time_left: Duration) {
    if let Drained::DeadlinePassed { .. } = export.drain(time_left).await {
        tracing::warn!("unsent traces are lost: the shutdown deadline has passed");
    }
}

impl Weir {
    /// Shuts down all parts in order (a store that is still being opened has acknowledged nothing
    /// and is not waited for):
    /// 0. Stop observing, without waiting.
    /// 1. Accept no new clients at the front and at realtime; finish requests in progress, within
    ///    `deadline` (zero: cut off at once, and only leave the Redis that nodes share).
    /// 2. As soon as nothing can be published any more, save histories for the next process.
    /// 3. Stop jobs last, since requests in progress may have pushed some: accept no new clients at
    ///    the job server, over HTTP and at the admin API, end live streams, close the store. What
    ///    was acknowledged is durable, and the next process may open the store.
    /// 4. Send the remaining webhooks of realtime in the time left; of the webhooks of gems only
    ///    those in progress, since the next process sends the others. The mirror leaves its work to
    ///    the next process.
    /// 5. Export the remaining traces.
    pub(crate) async fn stop(mut self, deadline: Duration) -> anyhow::Result<()> {
        let (clock, began) = (self.clock.clone(), self.clock.now());
        let time_left = || deadline.saturating_sub(clock.now().since(began));
        self.draining.cancel();
        self.streams_end.cancel();
        if let Some(observer) = self.observer.take() {
            observer.finish().await;
        }
        let cores = self.stop_cores(deadline).await;
        // Even if requests took all of the time, the store gets its minimum.
        let jobs_deadline =
            if deadline.is_zero() { deadline } else { time_left().max(JOBS_TIME_MIN) };
        let jobs = self.stop_jobs_and_pages(jobs_deadline).await;
        // The remaining tasks have no service to work for.
        self.workers.drain(Duration::ZERO).await;
        let (realtime, gems) = (self.realtime, self.gems);
        tokio::join!(
            async {
                if let Some(realtime) = realtime {
                    realtime.finish(time_left().max(REALTIME_TIME_MIN)).await;
                }
            },
            async {
                if let Some(gems) = gems {
                    gems.finish(time_left()).await;
                }
            },
        );
        let time_min = if deadline.is_zero() { deadline } else { TRACES_TIME_MIN };
        finish_traces(&self.trace_export, time_left().max(time_min)).await;
        jobs.and(cores)
    }

    /// Closes the store, ends the pages and the admin API, and releases them for another process.
    pub(super) async fn stop_jobs_and_pages(&mut self, deadline: Duration) -> anyhow::Result<()> {
        // Its files are the next process' as well.
        if let Some(autopilot) = self.autopilot.take() {
            autopilot.finish().await;
        }
        let jobs = self.jobs.take();
        let stopping = async {
            match jobs {
                Some(jobs) => jobs.stop(deadline).await,
                None => Ok(()),
            }
        };
        let (stopped, drained) = tokio::join!(stopping, self.http.drain(deadline));
        if let Drained::DeadlinePassed { tasks_left } = drained {
            tracing::warn!(
                tasks_left,
                "aborted HTTP requests that were still in progress at the shutdown deadline"
            );
        }
        self.locks.jobs_and_pages = None;
        stopped
    }

    /// Stops the cores, and hands over realtime's histories as soon as possible.
    async fn stop_cores(&mut self, deadline: Duration) -> anyhow::Result<()> {
        let Some(cores) = self.cores.take() else { return Ok(()) };
        let (liveness, last_request) = (cores.liveness(), cores.last_request_timeout());
        let mut stopping = Box::pin(cores.stop(deadline));
        if !deadline.is_zero() {
            let stopped = tokio::select! {
                stopped = &mut stopping => Some(stopped),
                () = self.realtime_requests.wait_until_done(last_request) => None,
            };
            self.hand_over_histories(&liveness).await;
            if let Some(stopped) = stopped {
                return stopped;
            }
        }
        stopping.await
    }

    /// Hands over the histories: this process publishes nothing any more, so the next one may.
    pub(super) async fn hand_over_histories(&mut self, liveness: &LivenessProbe) {
        if let Some(realtime) = self.realtime.as_ref().filter(|realtime| realtime.has_apps()) {
            realtime.hand_over(liveness).await;
        }
        self.locks.histories = None;
    }
}
