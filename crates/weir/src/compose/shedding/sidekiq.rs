//! The queues of an observed Sidekiq, read over a connection of their own: a snapshot for the console
//! takes longer and is taken less often.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use weir_sidekiq::{QueueLatency, RedisAddress, RedisConnection, RedisEndpoint, SampleLimits};

/// How long a connection to a primary that Sentinels named is used. A primary that is cut off from
/// them keeps its connections, and its queues would seem to be late.
const SENTINEL_INTERVAL: Duration = Duration::from_secs(5);

/// The queues of one Redis.
pub(super) struct ObservedQueues {
    endpoint: RedisEndpoint,
    limits: SampleLimits,
    /// The connection and when it was opened. None: not yet, or it failed.
    connection: Option<(RedisConnection, Instant)>,
}

impl ObservedQueues {
    pub(super) fn new(endpoint: RedisEndpoint, limits: SampleLimits) -> Self {
        Self { endpoint, limits, connection: None }
    }

    /// Returns how long the next job of each queue has waited; None: jobs wait, but have no time.
    pub(super) async fn latencies(
        &mut self,
        queues: &[String],
    ) -> Result<BTreeMap<String, Option<Duration>>, String> {
        // It is lost on any error below.
        let (mut connection, opened) = match self.connection.take().filter(|it| self.is_usable(it))
        {
            Some(connection) => connection,
            None => {
                let opening = RedisConnection::open(&self.endpoint, &self.limits);
                (opening.await.map_err(|error| error.to_string())?, Instant::now())
            }
        };
        let read = connection.latencies(queues).await.map_err(|error| error.to_string())?;
        self.connection = Some((connection, opened));
        let read = read.map_err(|rejected| {
            let grant = rejected.grant.map(|grant| format!("; {grant}")).unwrap_or_default();
            format!("{}: {}{grant}", rejected.command, rejected.reason)
        })?;
        let latency = |latency| match latency {
            QueueLatency::Empty => Some(Duration::ZERO),
            QueueLatency::Waited(waited) => Some(waited),
            QueueLatency::Untimed => None,
        };
        Ok(queues.iter().cloned().zip(read.into_iter().map(latency)).collect())
    }

    fn is_usable(&self, (_, opened): &(RedisConnection, Instant)) -> bool {
        let has_sentinels = matches!(self.endpoint.address, RedisAddress::Sentinel(_));
        !has_sentinels || opened.elapsed() < SENTINEL_INTERVAL
    }
}
