//! The shards, and how a channel moves from one to another.
//!
//! A channel that moves keeps its epoch, its offsets and its events: it is ended in the previous shard,
//! which returns what it has, and continued in the other one. Both steps are scripts, and may be repeated
//! by any node.

use std::sync::Arc;

use weir_realtime::settings::HistoryLimits;
use weir_realtime::shared_log::{AppendError, ChannelKey};

use crate::log::RedisLog;
use crate::placement::Placement;
use crate::scripts::{self, MovingChannel};

/// The logs of all shards, by their places.
#[derive(Debug)]
pub(crate) struct Shards {
    pub(crate) logs: Vec<Arc<RedisLog>>,
    pub(crate) placement: Arc<Placement>,
}

impl Shards {
    /// Returns the shard to which this node assigns a channel.
    pub(crate) fn home(&self, key: &ChannelKey) -> &RedisLog {
        &self.logs[self.placement.home(key)]
    }

    /// Returns the shard from which a channel moves to its shard.
    pub(crate) fn previous(&self, key: &ChannelKey) -> Option<&RedisLog> {
        self.placement.previous(key).map(|place| &*self.logs[place])
    }

    /// Returns the shard with this name, to which another node has moved a channel.
    pub(crate) fn named(&self, name: &str, key: &ChannelKey) -> Option<&RedisLog> {
        let place = self.placement.place_of(name);
        if place.is_none() {
            let channel = &*key.channel;
            tracing::warn!(
                shard = name,
                channel,
                "another node has moved a channel to a shard that realtime.broker lacks here; add it"
            );
        }
        place.map(|place| &*self.logs[place])
    }

    /// Requests a comparison of a channel with the shard with this name.
    pub(crate) fn request_at(&self, name: &str, key: &ChannelKey) {
        if let Some(log) = self.named(name, key) {
            log.request(key.clone());
        }
    }

    /// Moves a channel, unless that was done. Returns whether there was anything to move.
    pub(crate) async fn relocate(
        &self,
        key: &ChannelKey,
        history: &HistoryLimits,
        from: &RedisLog,
        to: &RedisLog,
    ) -> Result<bool, AppendError> {
        // First: without it, the channel would be nowhere for a while.
        to.connected()?;
        let ending = scripts::move_out(&from.keys, key, &to.shard.name, history.bytes_max);
        let ended: Option<MovingChannel> = from.query(&ending).await?;
        let Some(moving) = ended else { return Ok(false) };
        let continuing = scripts::move_in(&to.keys, key, history, &moving);
        to.query::<redis::Value>(&continuing).await.map(|_| true)
    }
}
