//! The end of everything, in order.

use std::time::Duration;

use weir_base::shutdown::Drained;
use weir_net::server::Pulse;

use super::Weir;

/// What the job server has at least to finish commands and to close its store, however long requests
/// of the front took. Below supervisor.kill_after.
pub(super) const JOBS_TIME_MIN: Duration = Duration::from_secs(2);

impl Weir {
    /// Ends everything, in order (a store that is still being opened has promised nothing, and is
    /// not waited for):
    /// 0. nothing is observed any more, which nobody waits for;
    /// 1. nobody new at the front and at realtime; what runs is finished, at most for `deadline`
    ///    (zero: cut off at once);
    /// 2. as soon as nobody publishes any more, histories are saved for the next process;
    /// 3. jobs last, since requests in hand may have pushed some: nobody new at the job server, over
    ///    HTTP and at the admin API, live streams end, the store is closed: what was acknowledged is
    ///    durable, and the next process may open it;
    /// 4. what the applications' servers are to be told is sent, in what is left of the time; of gems'
    ///    webhooks only what is on its way, since the next process sends the others; the mirror leaves
    ///    its work to the next process as it is.
    pub(crate) async fn stop(mut self, deadline: Duration) -> anyhow::Result<()> {
        let (clock, began) = (self.clock.clone(), self.clock.now());
        let time_left = || deadline.saturating_sub(clock.now().since(began));
        self.draining.cancel();
        self.streams_end.cancel();
        if let Some(observer) = self.observer.take() {
            observer.finish().await;
        }
        let cores = self.stop_cores(deadline).await;
        // Those of them that took all of the time leave some for the store.
        let for_jobs = if deadline.is_zero() { deadline } else { time_left().max(JOBS_TIME_MIN) };
        let jobs = self.stop_jobs_and_pages(for_jobs).await;
        // Whatever is left of them has nobody to speak for any more.
        self.workers.drain(Duration::ZERO).await;
        let (realtime, gems) = (self.realtime, self.gems);
        tokio::join!(
            async {
                if let Some(realtime) = realtime {
                    realtime.finish(time_left()).await;
                }
            },
            async {
                if let Some(gems) = gems {
                    gems.finish(time_left()).await;
                }
            },
        );
        jobs.and(cores)
    }

    /// Closes the store, ends the pages and the admin API, and lets another process have them.
    pub(super) async fn stop_jobs_and_pages(&mut self, deadline: Duration) -> anyhow::Result<()> {
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
        self.turns.jobs_and_pages = None;
        stopped
    }

    /// Ends the cores; on the way realtime's histories are handed over.
    async fn stop_cores(&mut self, deadline: Duration) -> anyhow::Result<()> {
        let Some(cores) = self.cores.take() else { return Ok(()) };
        let (pulse, last_request) = (cores.pulse(), cores.last_request_timeout());
        let mut stopping = Box::pin(cores.stop(deadline));
        if !deadline.is_zero() {
            let stopped = tokio::select! {
                stopped = &mut stopping => Some(stopped),
                () = self.publishers.leave(last_request) => None,
            };
            self.hand_over_histories(&pulse).await;
            if let Some(stopped) = stopped {
                return stopped;
            }
        }
        stopping.await
    }

    /// Nobody publishes here any more: the next process may.
    pub(super) async fn hand_over_histories(&mut self, pulse: &Pulse) {
        if let Some(realtime) = self.realtime.as_ref().filter(|realtime| realtime.has_apps()) {
            realtime.hand_over(pulse).await;
        }
        self.turns.histories = None;
    }
}
