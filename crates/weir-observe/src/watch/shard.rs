//! Samples one Redis repeatedly.

use std::time::Duration;

use weir_advisor::observation::{Fact, Missing, RedisServer, SourceKind, SourceState};
use weir_base::clock::{Clock, Timestamp};
use weir_sidekiq::{
    RedisAddress, RedisConnection, RedisEndpoint, RedisSnapshot, SampleLimits, SampleScope,
    SidekiqError,
};

use super::PollSchedule;
use super::retry::SourceRetry;
use crate::redis;
use crate::shards::ShardSamples;

/// Time between the first two samples of a Redis. Rates are unknown before the second one.
const FIRST_WINDOW: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct WatchedShard {
    endpoint: RedisEndpoint,
    retry: SourceRetry,
    /// The connection. Not kept with Sentinel, because the master may change.
    connection: Option<RedisConnection>,
    /// The master's address from Sentinel.
    master: Option<String>,
    earlier: Option<RedisSnapshot>,
}

impl WatchedShard {
    pub(super) fn new(
        endpoint: &RedisEndpoint,
        name: String,
        schedule: PollSchedule,
        random: fastrand::Rng,
    ) -> Self {
        let retry = SourceRetry::new(SourceKind::Redis, name, schedule, random);
        let (connection, master, earlier) = (None, None, None);
        Self { endpoint: endpoint.clone(), retry, connection, master, earlier }
    }

    pub(super) async fn sample(
        &mut self,
        limits: &SampleLimits,
        schedule: PollSchedule,
        clock: &Clock,
    ) -> ShardSamples {
        let began = clock.now();
        if let Some(missing) = self.retry.spared(began) {
            return Err(missing);
        }
        let first_window = FIRST_WINDOW.min(schedule.interval);
        let deadline = schedule.sample_timeout.saturating_add(first_window);
        let samples = tokio::time::timeout(deadline, self.twice(limits, first_window)).await;
        let (name, after) = (self.endpoint.to_string(), schedule.sample_timeout);
        let samples = samples.unwrap_or(Err(SidekiqError::Deadline { name, after }));
        let samples = samples.map_err(|error| self.unreachable(&error));
        self.retry.note(began, clock.now(), samples.as_ref().err().cloned());
        samples
    }

    async fn twice(
        &mut self,
        limits: &SampleLimits,
        first_window: Duration,
    ) -> Result<(RedisSnapshot, RedisSnapshot), SidekiqError> {
        // Both are lost on any error below.
        let (connection, earlier) = (self.connection.take(), self.earlier.take());
        let mut connection = match connection {
            Some(connection) => connection,
            None => RedisConnection::open(&self.endpoint, limits).await?,
        };
        self.master = connection.master().map(str::to_owned);
        let earlier = match earlier {
            Some(earlier) => earlier,
            None => {
                let earlier = self.once(&mut connection, None, limits).await?;
                tokio::time::sleep(first_window).await;
                earlier
            }
        };
        let later = self.once(&mut connection, Some(earlier.lengths_at), limits).await?;
        self.connection = Some(connection).filter(|_| !self.has_sentinels());
        self.earlier = Some(later.clone());
        Ok((earlier, later))
    }

    async fn once(
        &mut self,
        connection: &mut RedisConnection,
        since: Option<Timestamp>,
        limits: &SampleLimits,
    ) -> Result<RedisSnapshot, SidekiqError> {
        let snapshot = connection.sample_since(SampleScope::Everything, since, limits).await?;
        self.retry.count(snapshot.commands as u64);
        Ok(snapshot)
    }

    fn has_sentinels(&self) -> bool {
        matches!(self.endpoint.address, RedisAddress::Sentinel(_))
    }

    fn unreachable(&self, error: &SidekiqError) -> Missing {
        redis::unreachable(&format!("Redis {}", self.endpoint), error)
    }

    pub(super) fn server(&self, sample: &RedisSnapshot) -> Fact<RedisServer> {
        redis::server(&self.state().name, self.endpoint.database, sample)
    }

    pub(super) fn master(&self) -> Option<&str> {
        self.master.as_deref()
    }

    pub(super) const fn state(&self) -> &SourceState {
        self.retry.state()
    }
}
