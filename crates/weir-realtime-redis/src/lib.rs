//! A log of realtime events in Redis (7.0 or later), shared by several nodes.
//!
//! - [`ShardedLog`]: weir-realtime's `SharedLog`, in one Redis or several shards. One script gives an
//!   event its position, appends it to the channel's stream and publishes it on the sharded channel of its
//!   partition.
//! - [`LogNode`]: the task of a node for one shard. It receives what all nodes publish, passes it to the
//!   hub, and compares channels with the log when events may be missing.
//! - [`RedisLogSettings`], [`RedisLogMetrics`].
//! - [`check_server`]: whether a Redis can be used; [`acl_line`]: the permissions of its user.
//!
//! Channels are divided among shards, and those of each shard into partitions, whose number never
//! changes; a node subscribes to all of them. `placement` is the only file that knows how channels map to
//! shards, `partition` how they map to partitions, `keys` the names of keys, `record` the format of events, and `scripts` the scripts.
//!
//! Promise: an event that was appended reaches the subscribers of every node in the order of its
//! channel, or they are notified of a gap. Missing events are found at the next event of the
//! partition, or within two seconds.

mod appends;
mod broadcasts;
mod command_connection;
mod comparisons;
mod connection_shares;
mod connections;
mod data_ids;
mod fence;
mod heartbeat;
mod holes;
mod hooks;
mod identities;
mod keys;
mod layout;
mod leases;
mod log;
mod member_lists;
mod metrics;
mod moves;
mod node;
mod node_changes;
mod node_reports;
mod partition;
mod permissions;
mod placement;
mod presence;
mod queries;
mod queue_limit;
mod record;
mod rejections;
mod removals;
mod renewals;
mod requests;
mod scripts;
mod seeds;
mod session_nodes;
mod settings;
mod shard_condition;
mod sharded;
mod shards;
mod shared_switches;
mod subscription;
mod suspension;
mod terminations;

pub use self::connections::{
    BrokerCheck, acl_line, check_server, cluster_acl_words, unchecked_server,
};
pub use self::metrics::{LogTotals, RedisLogMetrics};
pub use self::node::LogNode;
pub use self::node_reports::NodeOptions;
pub use self::placement::{SHARDS_MAX, ShardJoining, ShardOptions};
pub use self::settings::RedisLogSettings;
pub use self::sharded::{LogParts, ShardedLog};
