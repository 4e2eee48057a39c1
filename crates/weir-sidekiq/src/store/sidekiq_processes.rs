//! The queues that Sidekiq's own processes fetch, from their heartbeats in the same Redis.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use redis::{Pipeline, RedisError, Value, from_redis_value};
use tokio::time::Instant;

use super::link_connection::LinkConnection;
use super::presence;
use super::store_core::{SidekiqQueues, StoreCore};
use crate::heartbeat::HeartbeatInfo;

/// Processes whose heartbeats are read.
const PROCESSES_MAX: usize = 1_000;
/// Processes whose heartbeats are read with one round trip.
const PROCESSES_PER_CALL: usize = 100;
/// Half of the interval of Sidekiq's heartbeats.
const AGE_MAX: Duration = Duration::from_secs(5);

/// `info` and `quiet` of a process.
type Heartbeat = (Option<Vec<u8>>, Option<Vec<u8>>);

impl StoreCore {
    /// Returns the queues that processes of Sidekiq fetch, by name. While Redis is away, those read last.
    pub(super) async fn sidekiq_queues(self: &Rc<Self>) -> Vec<String> {
        let is_recent = |reading: &SidekiqQueues| reading.at.elapsed() < AGE_MAX;
        let is_fresh = self.sidekiq_queues.borrow().as_ref().is_some_and(is_recent);
        if !is_fresh && let Ok(mut connection) = self.ready().await {
            match self.read_sidekiq_queues(&mut connection).await {
                Ok(names) => {
                    let names = names.into_iter().collect();
                    self.sidekiq_queues.replace(Some(SidekiqQueues { names, at: Instant::now() }));
                }
                // The key is of another type, or Redis is away.
                Err(error) => tracing::debug!(%error, "the processes of Sidekiq can't be read"),
            }
        }
        self.sidekiq_queues.borrow().as_ref().map_or_else(Vec::new, |it| it.names.clone())
    }

    async fn read_sidekiq_queues(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<BTreeSet<String>, RedisError> {
        let mut scan = redis::cmd("SSCAN");
        scan.arg(self.keys.processes()).arg(0).arg("COUNT").arg(PROCESSES_MAX);
        let (_, identities): (u64, Vec<String>) = scan.query_async(connection).await?;
        let mut queues = BTreeSet::new();
        for some in identities.chunks(PROCESSES_PER_CALL).take(PROCESSES_MAX / PROCESSES_PER_CALL) {
            let mut read = Pipeline::new();
            // A key of another type is no process.
            read.ignore_errors();
            for identity in some {
                read.cmd("HMGET").arg(self.keys.process(identity)).arg("info").arg("quiet");
            }
            let heartbeats: Vec<Value> = read.query_async(connection).await?;
            for heartbeat in heartbeats {
                // A process that ended has no such key.
                let Ok((Some(info), quiet)) = from_redis_value::<Heartbeat>(heartbeat) else {
                    continue;
                };
                queues.extend(fetched_queues(&info, quiet.as_deref()));
            }
        }
        Ok(queues)
    }
}

/// Returns the queues of a process by its heartbeat. None of a quiet one and of Weir's workers.
fn fetched_queues(info: &[u8], quiet: Option<&[u8]>) -> Vec<String> {
    let Some(info) = HeartbeatInfo::parse(info) else { return Vec::new() };
    if quiet == Some(b"true") || info.tag.as_deref() == Some(presence::TAG) {
        return Vec::new();
    }
    let capsules = info.capsules();
    let queues = capsules.iter().flat_map(|capsule| &capsule.queues);
    queues.map(|queue| queue.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_processes_of_sidekiq_fetch_their_queues() {
        let six = br#"{"queues":["mailers","default"],"tag":"shop"}"#;
        let eight =
            br#"{"capsules":{"default":{"weights":{"mailers":0}},"slow":{"weights":{"pdf":0}}}}"#;
        let weirs = br#"{"queues":["mailers"],"tag":"weir"}"#;
        assert_eq!(fetched_queues(six, Some(b"false")), ["mailers", "default"]);
        assert_eq!(fetched_queues(eight, None), ["mailers", "pdf"]);
        assert!(fetched_queues(six, Some(b"true")).is_empty(), "a quiet process fetches nothing");
        assert!(fetched_queues(weirs, None).is_empty(), "a worker of Weir");
        assert!(fetched_queues(b"odd", None).is_empty());
    }
}
