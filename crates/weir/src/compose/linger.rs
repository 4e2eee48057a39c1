//! The end of a process whose place another one has taken.

use std::future::pending;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::Weir;
use super::cores::Cores;
use super::stop::JOBS_TIME_MIN;

/// How often it is looked whether operators have paused or resumed apps.
const HOLDS_INTERVAL: Duration = Duration::from_secs(1);

/// What such a process is told on the way, and the time that requests have once everything ends.
#[derive(Clone, Debug)]
pub(crate) struct Lingering {
    /// WebSockets and event streams are to be closed now.
    pub(crate) close_streams: CancellationToken,
    /// Everything ends.
    pub(crate) stop: CancellationToken,
    /// The parent is gone: nobody may be waited for.
    pub(crate) at_once: CancellationToken,
    /// `shutdown_deadline`
    pub(crate) deadline: Duration,
}

impl Weir {
    /// Gives everything to the process that has taken this one's place, and serves the connections
    /// that there are until they end:
    /// 0. nothing is observed any more, nobody new is accepted;
    /// 1. histories, then jobs with the pages and the admin API, change hands. Requests that push jobs
    ///    wait for the next process, those to realtime's API are passed on to it; upstreams of gems and
    ///    webhooks are its business, too;
    /// 2. a connection ends with its next response, or with `idle_timeout`. WebSockets and event streams
    ///    of apps end when their clients want, or after `front.stream_drain`;
    /// 3. what is left an `idle_timeout` later ends as in [`Weir::stop`].
    pub(crate) async fn linger(self, lingering: Lingering) -> anyhow::Result<()> {
        let at_once = lingering.at_once.clone();
        tokio::select! {
            ended = self.give_up_and_linger(lingering) => ended,
            () = at_once.cancelled() => Ok(()),
        }
    }

    async fn give_up_and_linger(mut self, lingering: Lingering) -> anyhow::Result<()> {
        self.draining.cancel();
        if let Some(observer) = self.observer.take() {
            observer.finish().await;
        }
        let cores = self.cores.take();
        if let Some(cores) = &cores {
            cores.drain();
            // From now on requests to realtime wait for the next process.
            let _ = self.successor.set(cores.successor());
            self.publishers.leave(Duration::ZERO).await;
            self.hand_over_histories(&cores.pulse()).await;
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
            Some(cores) => self.let_connections_end(cores, &lingering).await,
            None => Ok(()),
        };
        self.workers.drain(Duration::ZERO).await;
        if let Some(realtime) = self.realtime {
            realtime.finish(lingering.deadline).await;
        }
        jobs.and(cores)
    }

    async fn let_connections_end(
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
            () = self.follow_operators() => {}
        }
        self.streams_end.cancel();
        cores.stop(lingering.deadline).await
    }

    /// What they pause or resume holds for requests that wait here, too.
    async fn follow_operators(&self) {
        let mut looks = interval(HOLDS_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.holds.restore();
        }
    }

    /// Opens the files of logs anew when asked to.
    pub(crate) fn log_reopener(&self) -> impl Fn() + use<> {
        let log = self.access_log.clone();
        move || {
            if let Some(log) = &log {
                log.reopen();
            }
        }
    }
}
