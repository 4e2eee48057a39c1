//! The end of a service process that was replaced.

use std::future::pending;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::Weir;
use super::cores::Cores;
use super::stop::{JOBS_TIME_MIN, finish_traces};

/// Interval of checks whether operators have paused or resumed apps.
const PAUSED_APPS_INTERVAL: Duration = Duration::from_secs(1);

/// Signals to a replaced process, and the deadline for requests at shutdown.
#[derive(Clone, Debug)]
pub(crate) struct Lingering {
    /// Cancelled to close WebSockets and event streams.
    pub(crate) close_streams: CancellationToken,
    /// Cancelled at shutdown.
    pub(crate) stop: CancellationToken,
    /// Cancelled when the parent is gone: end without waiting.
    pub(crate) at_once: CancellationToken,
    /// The value of `shutdown_deadline`.
    pub(crate) deadline: Duration,
}

impl Weir {
    /// Hands everything over to the process that replaces this one, and serves the existing
    /// connections until they end:
    /// 0. Stop observing and accepting connections.
    /// 1. Hand over the histories, then jobs with the pages and the admin API. Requests that push
    ///    jobs wait for the next process, requests to realtime's API are forwarded to it; it also
    ///    synchronizes mirrors and sends webhooks.
    /// 2. Close each connection with its next response or after `idle_timeout`. WebSockets and
    ///    event streams of apps end when their clients close them, or after `front.stream_drain`.
    /// 3. An `idle_timeout` later, end the rest as in [`Weir::stop`].
    pub(crate) async fn linger(self, lingering: Lingering) -> anyhow::Result<()> {
        let at_once = lingering.at_once.clone();
        tokio::select! {
            ended = self.hand_over_and_drain(lingering) => ended,
            () = at_once.cancelled() => Ok(()),
        }
    }

    async fn hand_over_and_drain(mut self, lingering: Lingering) -> anyhow::Result<()> {
        self.draining.cancel();
        if let Some(observer) = self.observer.take() {
            observer.finish().await;
        }
        let cores = self.cores.take();
        if let Some(cores) = &cores {
            cores.drain();
            // From now on requests to realtime wait for the next process.
            let _ = self.successor.set(cores.successor());
            self.realtime_requests.wait_until_done(Duration::ZERO).await;
            self.hand_over_histories(&cores.liveness()).await;
        }
        let deadline = lingering.deadline.max(JOBS_TIME_MIN);
        let jobs = self.stop_jobs_and_pages(deadline).await;
        if let Some(gems) = self.gems.take() {
            gems.finish(deadline).await;
        }
        tracing::info!(
            "the next service process has taken over; remaining connections end on their own"
        );
        let cores = match cores {
            Some(cores) => self.drain_connections(cores, &lingering).await,
            None => Ok(()),
        };
        self.workers.drain(Duration::ZERO).await;
        if let Some(realtime) = self.realtime {
            realtime.finish(lingering.deadline).await;
        }
        finish_traces(&self.trace_export, lingering.deadline).await;
        jobs.and(cores)
    }

    async fn drain_connections(
        &self,
        mut cores: Cores,
        lingering: &Lingering,
    ) -> anyhow::Result<()> {
        let (stream_drain, idle_timeout) = (self.stream_drain.get(), cores.idle_timeout());
        let streams = async {
            tokio::select! {
                () = sleep(stream_drain) => {}
                () = lingering.close_streams.cancelled() => {}
            }
            self.streams_end.cancel();
            pending::<()>().await;
        };
        tokio::select! {
            () = cores.drained() => {}
            () = lingering.stop.cancelled() => {}
            () = sleep(stream_drain.saturating_add(idle_timeout)) => {}
            () = streams => {}
            () = self.sync_paused_apps() => {}
        }
        self.streams_end.cancel();
        cores.stop(lingering.deadline).await
    }

    /// Applies pauses and resumes by operators to requests that wait in this process, too.
    async fn sync_paused_apps(&self) {
        let mut ticks = interval(PAUSED_APPS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.paused_apps.restore();
        }
    }

    /// Returns a function that reopens the log files.
    pub(crate) fn log_reopener(&self) -> impl Fn() + use<> {
        let log = self.access_log.clone();
        move || {
            if let Some(log) = &log {
                log.reopen();
            }
        }
    }
}
