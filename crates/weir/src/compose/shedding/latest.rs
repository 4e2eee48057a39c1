//! The latest figures of all servers, and which of them a watched queue is on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use weir_front::{LatencySample, QueueSource, WatchedQueue};

/// How long the next job of each queue has waited; None: jobs wait, but have no time.
type Latencies = BTreeMap<String, Option<Duration>>;

/// A server with queues.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueueServer {
    Weir,
    /// A Redis of the observed Sidekiq, by its place in the settings.
    Redis(usize),
}

/// The figures of one server.
#[derive(Debug)]
struct ServerFigures {
    /// When they were read, or the server's start.
    at: Instant,
    /// None: not read yet. Until the first figures are due, no queue counts as late.
    latencies: Option<Latencies>,
    /// Why the latest attempt failed.
    problem: Option<String>,
}

/// The latest figures.
#[derive(Debug)]
pub(super) struct LatestFigures {
    watched: BTreeSet<WatchedQueue>,
    /// None: the job server is not in this process.
    weir: Option<ServerFigures>,
    /// The queues in the job server's settings.
    configured: BTreeSet<String>,
    /// Each Redis of the observed Sidekiq.
    sidekiq: Vec<ServerFigures>,
}

impl LatestFigures {
    /// `configured`: the queues in the job server's settings, if it is in this process; `redis`: the
    /// number of observed ones.
    pub(super) fn new(
        watched: BTreeSet<WatchedQueue>,
        configured: Option<BTreeSet<String>>,
        redis: usize,
        now: Instant,
    ) -> Self {
        let unread = || ServerFigures { at: now, latencies: None, problem: None };
        let weir = configured.is_some().then(unread);
        let sidekiq = (0..redis).map(|_| unread()).collect();
        Self { watched, weir, configured: configured.unwrap_or_default(), sidekiq }
    }

    /// Stores what was read of a server, or why it could not be read.
    pub(super) fn set(
        &mut self,
        server: QueueServer,
        latencies: Result<Latencies, String>,
        now: Instant,
    ) {
        let figures = match server {
            QueueServer::Weir => self.weir.as_mut(),
            QueueServer::Redis(place) => self.sidekiq.get_mut(place),
        };
        let Some(figures) = figures else { return };
        match latencies {
            Ok(latencies) => {
                *figures = ServerFigures { at: now, latencies: Some(latencies), problem: None };
            }
            Err(problem) => figures.problem = Some(problem),
        }
    }

    /// Returns the queues to read from the observed Sidekiq.
    pub(super) fn queues_of_sidekiq(&self) -> Vec<String> {
        let on_redis = |queue: &&WatchedQueue| self.source(queue) == Some(QueueSource::Sidekiq);
        let names: BTreeSet<_> = self.watched.iter().filter(on_redis).map(|it| &it.name).collect();
        names.into_iter().cloned().collect()
    }

    /// Returns the samples of a queue from each server that may have it.
    pub(super) fn samples(&self, queue: &WatchedQueue, now: Instant) -> Vec<LatencySample> {
        let samples = self.servers(queue).into_iter();
        samples.map(|server| server.sample(&queue.name, now)).collect()
    }

    /// Returns why the latency of a queue is not known.
    pub(super) fn problem(&self, queue: &WatchedQueue) -> String {
        let servers = self.servers(queue);
        if servers.is_empty() {
            return "the server with this queue is not part of this process".to_owned();
        }
        let problem = servers.into_iter().find_map(|server| server.problem.clone());
        problem.unwrap_or_else(|| "its next jobs have no enqueued_at".to_owned())
    }

    /// Returns the watched queues whose rules name no source, each with the server that has it.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&WatchedQueue, &'static str)> {
        let automatic = self.watched.iter().filter(|queue| queue.source == QueueSource::Auto);
        automatic.filter_map(|queue| match self.source(queue)? {
            QueueSource::Sidekiq => Some((queue, "the observed Sidekiq")),
            QueueSource::Weir | QueueSource::Auto => Some((queue, "Weir's job server")),
        })
    }

    fn servers(&self, queue: &WatchedQueue) -> Vec<&ServerFigures> {
        match self.source(queue) {
            Some(QueueSource::Sidekiq) => self.sidekiq.iter().collect(),
            _ => self.weir.iter().collect(),
        }
    }

    /// Returns whose queue this is. None: not known before the job server's queues have been read.
    fn source(&self, queue: &WatchedQueue) -> Option<QueueSource> {
        let Some(weir) = self.weir.as_ref().filter(|_| !self.sidekiq.is_empty()) else {
            let only =
                if self.sidekiq.is_empty() { QueueSource::Weir } else { QueueSource::Sidekiq };
            return Some(if queue.source == QueueSource::Auto { only } else { queue.source });
        };
        match queue.source {
            QueueSource::Auto if self.configured.contains(&queue.name) => Some(QueueSource::Weir),
            QueueSource::Auto => {
                let is_there = weir.latencies.as_ref()?.contains_key(&queue.name);
                Some(if is_there { QueueSource::Weir } else { QueueSource::Sidekiq })
            }
            source => Some(source),
        }
    }
}

impl ServerFigures {
    fn sample(&self, queue: &str, now: Instant) -> LatencySample {
        let latency = self.latencies.as_ref().and_then(|latencies| latencies.get(queue).copied());
        // A queue that is not listed has no jobs.
        let latency = latency.unwrap_or(Some(Duration::ZERO));
        LatencySample { latency, age: now.saturating_duration_since(self.at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_secs(900);
    const SECOND: Duration = Duration::from_secs(1);

    fn queue(source: QueueSource) -> WatchedQueue {
        WatchedQueue { source, name: "ingress".to_owned() }
    }

    fn latencies(name: &str) -> Result<Latencies, String> {
        Ok(Latencies::from([(name.to_owned(), Some(LATE))]))
    }

    fn latest(has_weir: bool, redis: usize, now: Instant) -> LatestFigures {
        let watched = [QueueSource::Auto, QueueSource::Weir, QueueSource::Sidekiq].map(queue);
        LatestFigures::new(watched.into(), has_weir.then(BTreeSet::new), redis, now)
    }

    fn waited(latest: &LatestFigures, source: QueueSource, now: Instant) -> Vec<Option<Duration>> {
        latest.samples(&queue(source), now).into_iter().map(|sample| sample.latency).collect()
    }

    #[tokio::test]
    async fn a_queue_that_the_job_server_does_not_have_is_sidekiqs() {
        let now = Instant::now();
        let mut latest = latest(true, 1, now);
        // Before the first read its server is not known, and nothing is late.
        assert_eq!(waited(&latest, QueueSource::Auto, now), [Some(Duration::ZERO)]);
        assert_eq!(latest.owners().count(), 0);
        latest.set(QueueServer::Weir, latencies("mailers"), now);
        assert_eq!(latest.queues_of_sidekiq(), ["ingress"]);
        latest.set(QueueServer::Redis(0), latencies("ingress"), now);
        assert_eq!(waited(&latest, QueueSource::Auto, now), [Some(LATE)]);
        assert_eq!(waited(&latest, QueueSource::Weir, now), [Some(Duration::ZERO)]);
        assert!(latest.owners().all(|(_, owner)| owner == "the observed Sidekiq"));
        // Once the job server has a queue of this name, that one counts.
        let both = Ok(Latencies::from([("ingress".to_owned(), Some(SECOND))]));
        latest.set(QueueServer::Weir, both, now);
        assert_eq!(waited(&latest, QueueSource::Auto, now), [Some(SECOND)]);
        assert_eq!(waited(&latest, QueueSource::Sidekiq, now), [Some(LATE)]);
    }

    #[tokio::test]
    async fn a_single_server_has_the_queue() {
        let now = Instant::now();
        let mut sidekiq = latest(false, 2, now);
        sidekiq.set(QueueServer::Redis(1), latencies("ingress"), now);
        assert_eq!(waited(&sidekiq, QueueSource::Auto, now), [Some(Duration::ZERO), Some(LATE)]);
        assert_eq!(waited(&sidekiq, QueueSource::Weir, now), []);
        assert!(sidekiq.problem(&queue(QueueSource::Weir)).contains("not part of this process"));
        let weir = latest(true, 0, now);
        assert!(weir.queues_of_sidekiq().len() == 1 && weir.owners().count() == 1);
        assert_eq!(waited(&weir, QueueSource::Sidekiq, now), []);
    }

    #[tokio::test]
    async fn failed_reads_leave_the_age_of_the_last_figures() {
        let now = Instant::now();
        let mut latest = latest(false, 1, now);
        latest.set(QueueServer::Redis(0), latencies("ingress"), now + SECOND);
        latest.set(QueueServer::Redis(0), Err("refused".to_owned()), now + LATE);
        let samples = latest.samples(&queue(QueueSource::Sidekiq), now + LATE + SECOND);
        assert_eq!(samples, [LatencySample { latency: Some(LATE), age: LATE }]);
        assert_eq!(latest.problem(&queue(QueueSource::Sidekiq)), "refused");
    }
}
