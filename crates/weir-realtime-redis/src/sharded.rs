//! The log, as the hub sees it: one Redis, or several shards that each have a part of the channels.
//!
//! Each shard has connections, queues and limits of its own, so one that does not respond fails only what
//! concerns its channels.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use weir_base::node::merged;
use weir_base::shutdown::ShutdownToken;
use weir_base::switchboard::Switchboard;
use weir_realtime::hub::Hub;
use weir_realtime::pusher::position::ChannelPosition;
use weir_realtime::settings::HistoryLimits;
use weir_realtime::shared_log::{
    AppendError, Appending, ChannelKey, ClientBroadcast, Counting, Listing, LogShardView, NewEvent,
    NodeState, SharedCounts, SharedLog, Terminating,
};

use crate::log::{Appended, RedisLog, SharedParts};
use crate::metrics::RedisLogMetrics;
use crate::node::LogNode;
use crate::node_reports::NodeOptions;
use crate::partition::Partition;
use crate::placement::{Placement, ShardOptions};
use crate::scripts;
use crate::settings::RedisLogSettings;
use crate::shards::Shards;

/// A log in one Redis or several. Nothing is sent before its [`nodes`](Self::nodes) have connected.
#[derive(Debug)]
pub struct ShardedLog {
    shards: Arc<Shards>,
}

/// The parts of a log.
#[derive(Debug)]
pub struct LogParts {
    /// The shards, at least one, whose names are unique.
    pub shards: Vec<ShardOptions>,
    /// The settings.
    pub settings: RedisLogSettings,
    /// The metrics.
    pub metrics: RedisLogMetrics,
    /// This node.
    pub node: NodeOptions,
}

/// How often a start checks whether the shards are connected.
const CONNECTED_POLL: Duration = Duration::from_millis(5);

/// Events of one group, and their places among all that are appended.
#[derive(Debug, Default)]
struct Part {
    places: Vec<usize>,
    events: Vec<NewEvent>,
}

impl ShardedLog {
    /// Returns a log that is not connected.
    #[must_use]
    pub fn new(parts: LogParts) -> Arc<Self> {
        let LogParts { shards, settings, metrics, node: options } = parts;
        let placement = Arc::new(Placement::new(&shards));
        let node = format!("{:016x}", fastrand::u64(..));
        let placement_of_all = Arc::clone(&placement);
        let shared = SharedParts { placement: placement_of_all, settings, metrics, node, options };
        let log = |(place, shard)| Arc::new(RedisLog::new(shard, place, shared.clone()));
        let logs = shards.into_iter().enumerate().map(log).collect();
        Arc::new(Self { shards: Arc::new(Shards { logs, placement }) })
    }

    /// Returns the tasks of the node whose hub uses this log: one for each shard.
    /// The nodes share these switches through one of the shards.
    pub fn nodes(
        &self,
        hub: &Arc<Hub>,
        switches: Option<&Switchboard>,
        shutdown: &ShutdownToken,
    ) -> Vec<LogNode> {
        let shards = &self.shards;
        let common_place = shards.placement.common_place();
        let node = |(place, log)| {
            let is_common = place == common_place;
            let switches = switches.filter(|_| is_common).cloned();
            let parts = (Arc::clone(log), Arc::clone(shards), Arc::clone(hub));
            LogNode::new(parts, (is_common, switches), shutdown.clone())
        };
        shards.logs.iter().enumerate().map(node).collect()
    }

    /// Waits until the node is connected to each shard or knows why it is not, but no longer than `limit`.
    pub async fn wait_connected(&self, limit: Duration) {
        let is_known =
            |log: &Arc<RedisLog>| log.commands().is_some() || log.condition.problem().is_some();
        let connecting = async {
            while !self.shards.logs.iter().all(is_known) {
                tokio::time::sleep(CONNECTED_POLL).await;
            }
        };
        let _ = tokio::time::timeout(limit, connecting).await;
    }

    async fn append_all(&self, events: Vec<NewEvent>) -> Result<Vec<ChannelPosition>, AppendError> {
        let group = |new: &NewEvent| self.group(&new.key);
        match events.first().map(group) {
            None => Ok(Vec::new()),
            Some(first) if events.iter().all(|new| group(new) == first) => {
                self.append_to(&self.shards.logs[first.0], &events).await
            }
            Some(_) => self.append_to_several(events).await,
        }
    }

    /// Returns what a channel has in common with those to whose events its events can be appended, all or
    /// none: its shard and, in a Redis Cluster, its partition.
    fn group(&self, key: &ChannelKey) -> (usize, Option<Partition>) {
        let place = self.shards.placement.home(key);
        let is_split = self.shards.logs[place].is_split();
        (place, is_split.then(|| Partition::of(key)))
    }

    /// Appends events of several groups. Those of each group are appended all or none.
    async fn append_to_several(
        &self,
        events: Vec<NewEvent>,
    ) -> Result<Vec<ChannelPosition>, AppendError> {
        let mut parts: BTreeMap<_, Part> = BTreeMap::new();
        for (place, event) in events.into_iter().enumerate() {
            let part = parts.entry(self.group(&event.key)).or_default();
            part.places.push(place);
            part.events.push(event);
        }
        let shard = |((place, _), part): ((usize, Option<Partition>), Part)| {
            (&*self.shards.logs[place], part)
        };
        let parts: Vec<(&RedisLog, Part)> = parts.into_iter().map(shard).collect();
        // Before anything is sent: the usual state of a shard that can't be used.
        for (shard, _) in &parts {
            shard.connected()?;
        }
        let appending = parts.iter().map(|(shard, part)| self.append_to(shard, &part.events));
        let results = join_all(appending).await;
        if let Some(error) = error_of(&results) {
            return Err(error);
        }
        let placed = parts.iter().zip(results.into_iter().flatten());
        let mut placed: Vec<(usize, ChannelPosition)> = placed
            .flat_map(|((_, part), positions)| part.places.iter().copied().zip(positions))
            .collect();
        placed.sort_unstable_by_key(|(place, _)| *place);
        Ok(placed.into_iter().map(|(_, position)| position).collect())
    }

    /// Appends events to their shard, or to the ones that their channels were moved to.
    async fn append_to(
        &self,
        shard: &RedisLog,
        events: &[NewEvent],
    ) -> Result<Vec<ChannelPosition>, AppendError> {
        let mut results = Vec::with_capacity(events.len());
        if events.iter().any(|new| self.shards.previous(&new.key).is_some()) {
            // One by one: each channel may have to be moved first.
            for new in events {
                results.push(self.append_moving(shard, new).await);
            }
        } else {
            for (new, appended) in events.iter().zip(shard.append_all(events, false).await?) {
                results.push(self.complete(new, appended).await);
            }
        }
        error_of(&results).map_or_else(|| results.into_iter().collect(), Err)
    }

    /// Appends an event whose channel may have to be moved first.
    async fn append_moving(
        &self,
        shard: &RedisLog,
        new: &NewEvent,
    ) -> Result<ChannelPosition, AppendError> {
        if let Some(position) = self.appended_before_moving(new).await? {
            return Ok(position);
        }
        let appended = shard.append_all(std::slice::from_ref(new), true).await?.remove(0);
        self.complete(new, appended).await
    }

    /// Appends an event if its channel was not where it was expected.
    async fn complete(
        &self,
        new: &NewEvent,
        appended: Appended,
    ) -> Result<ChannelPosition, AppendError> {
        match appended {
            Appended::At(position) => Ok(position),
            left => self.append_left(new, left).await,
        }
    }

    /// Returns the position that an event got in the previous shard of its channel, if it repeats one.
    async fn appended_before_moving(
        &self,
        new: &NewEvent,
    ) -> Result<Option<ChannelPosition>, AppendError> {
        let (Some(key), Some(previous)) = (&new.idempotency_key, self.shards.previous(&new.key))
        else {
            return Ok(None);
        };
        let command = scripts::read_appended(&previous.keys, &new.key, key);
        let text: Option<String> = previous.query(&command).await?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    /// Appends an event whose channel is not where it was expected.
    async fn append_left(
        &self,
        new: &NewEvent,
        left: Appended,
    ) -> Result<ChannelPosition, AppendError> {
        let shards = &*self.shards;
        let (from, to) = match &left {
            // The other node has ended the channel, and may not have continued it yet.
            Appended::Moved(name) => (Some(shards.home(&new.key)), shards.named(name, &new.key)),
            _ => (shards.previous(&new.key), Some(shards.home(&new.key))),
        };
        let (Some(from), Some(to)) = (from, to) else { return Err(AppendError::Rejected) };
        let events = std::slice::from_ref(new);
        let mut appended = Appended::Absent;
        if matches!(left, Appended::Moved(_)) {
            appended = to.append_all(events, true).await?.remove(0);
        }
        if appended == Appended::Absent {
            shards.relocate(&new.key, &new.history, from, to).await?;
            appended = to.append_all(events, false).await?.remove(0);
        }
        match appended {
            Appended::At(position) => Ok(position),
            // It moves again at this moment.
            Appended::Moved(_) | Appended::Absent => Err(AppendError::Away),
        }
    }

    /// Adds a termination to one shard: every node reads those of all. The user's shard is first, and the
    /// others if it can't be used.
    async fn terminate_user(&self, app: &str, user: &str) -> Result<(), AppendError> {
        let logs = &self.shards.logs;
        let home = self.shards.placement.home_of_user(app, user);
        let mut result = Err(AppendError::Away);
        for place in (home..logs.len()).chain(0..home) {
            result = logs[place].add_termination(app, user).await;
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Returns the counts of channels, in this order. Those of a channel that moves are in two shards.
    async fn read_counts(
        &self,
        channels: Vec<ChannelKey>,
    ) -> Result<Vec<SharedCounts>, AppendError> {
        let placement = &self.shards.placement;
        let mut counts = vec![SharedCounts::default(); channels.len()];
        let mut parts: BTreeMap<usize, (Vec<usize>, Vec<ChannelKey>)> = BTreeMap::new();
        for (index, key) in channels.into_iter().enumerate() {
            for place in placement.previous(&key).into_iter().chain([placement.home(&key)]) {
                let (indexes, keys) = parts.entry(place).or_default();
                indexes.push(index);
                keys.push(key.clone());
            }
        }
        let reading =
            parts.iter().map(|(place, (_, keys))| self.shards.logs[*place].read_counts(keys));
        for ((indexes, _), found) in parts.values().zip(join_all(reading).await) {
            for (index, found) in indexes.iter().zip(found?) {
                counts[*index] += found;
            }
        }
        Ok(counts)
    }

    /// Returns the channels of all shards.
    async fn list_channels(
        &self,
        app: &str,
        prefix: &str,
        counts_users: bool,
    ) -> Result<Vec<(String, SharedCounts)>, AppendError> {
        let logs = self.shards.logs.iter();
        let listing = logs.map(|shard| shard.list_channels(app, prefix, counts_users));
        let mut channels: BTreeMap<String, SharedCounts> = BTreeMap::new();
        for found in join_all(listing).await {
            for (name, counts) in found? {
                *channels.entry(name).or_default() += counts;
            }
        }
        Ok(channels.into_iter().collect())
    }
}

/// Returns the error of events that were appended to several shards. None: all were appended.
fn error_of<T>(results: &[Result<T, AppendError>]) -> Option<AppendError> {
    let mut errors = results.iter().filter_map(|result| result.as_ref().err().copied());
    let first = errors.next()?;
    // A part without a reply may be appended.
    let is_unknown = first == AppendError::Unknown || errors.any(|it| it == AppendError::Unknown);
    let is_partial = results.iter().any(|it| matches!(it, Ok(_) | Err(AppendError::Partial)));
    Some(match (is_partial, is_unknown) {
        (true, _) => AppendError::Partial,
        (false, true) => AppendError::Unknown,
        (false, false) => first,
    })
}

impl SharedLog for ShardedLog {
    fn append(&self, events: Vec<NewEvent>) -> Appending<'_> {
        Box::pin(self.append_all(events))
    }

    fn terminate(&self, app: Arc<str>, user: Box<str>) -> Terminating<'_> {
        Box::pin(async move { self.terminate_user(&app, &user).await })
    }

    fn broadcast(&self, event: ClientBroadcast) {
        self.shards.home(&event.key).broadcast(event);
    }

    fn subscribers_changed(&self, channel: ChannelKey) {
        self.shards.home(&channel).subscribers_changed(channel);
    }

    fn counts(&self, channels: Vec<ChannelKey>) -> Counting<'_> {
        Box::pin(self.read_counts(channels))
    }

    fn channels(&self, app: Arc<str>, prefix: Box<str>, counts_users: bool) -> Listing<'_> {
        Box::pin(async move { self.list_channels(&app, &prefix, counts_users).await })
    }

    fn request(&self, channel: ChannelKey, _: HistoryLimits) -> bool {
        // Asked in any case: otherwise nothing would tell the subscribers that they miss events.
        let is_requested = self.shards.home(&channel).request(channel.clone());
        // While the previous shard does not respond, its channels can't be moved.
        let previous = self.shards.previous(&channel);
        let can_move = previous.is_none_or(|previous| previous.commands().is_some());
        can_move && is_requested
    }

    fn takes_members(&self, channel: &ChannelKey) -> bool {
        self.shards.home(channel).takes_members()
    }

    fn request_connections(&self) {
        self.shards.logs[self.shards.placement.common_place()].connections.request();
    }

    fn shards(&self) -> Vec<LogShardView> {
        self.shards.logs.iter().map(|shard| shard.view()).collect()
    }

    fn node_states(&self) -> Vec<NodeState> {
        merged(self.shards.logs.iter().flat_map(|shard| shard.reports.nodes()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_may_be_published() {
        use AppendError::{Away, Busy, Partial, Unknown};
        for (results, expected) in [
            (vec![Ok(()), Ok(())], None),
            (vec![Ok(()), Err(Away)], Some(Partial)),
            (vec![Err(Unknown), Ok(())], Some(Partial)),
            (vec![Err(Away), Err(Partial)], Some(Partial)),
            (vec![Err(Busy), Err(Away)], Some(Busy)),
            (vec![Err(Busy), Err(Unknown)], Some(Unknown)),
        ] {
            assert_eq!(error_of(&results), expected, "{results:?}");
        }
    }
}
