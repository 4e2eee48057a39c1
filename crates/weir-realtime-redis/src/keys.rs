//! The names of keys and of sharded channels.

use weir_realtime::shared_log::ChannelKey;

use crate::partition::Partition;

/// Names with the prefix of the settings.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: format!("{prefix}:realtime") }
    }

    /// Returns what all names begin with, without the colon.
    pub(crate) fn stem(&self) -> &str {
        &self.prefix
    }

    /// A hash: the epoch of a channel, the offset of its last event, the term of the partition in which
    /// the epoch began, the last position of the epoch that it continues, and which stream has its events
    /// (2: the second one).
    pub(crate) fn channel(&self, key: &ChannelKey) -> String {
        self.of_channel("channel", key)
    }

    /// Two streams: the last events of a channel, and those before the server took over, in turn. The
    /// number in an entry's id is the event's offset.
    pub(crate) fn events(&self, key: &ChannelKey) -> [String; 2] {
        ["events", "events2"].map(|kind| self.of_channel(kind, key))
    }

    /// A string: the last event of a cache channel.
    pub(crate) fn cached(&self, key: &ChannelKey) -> String {
        self.of_channel("cached", key)
    }

    /// A hash: each pattern that is switched off, and since and until when (JSON).
    pub(crate) fn switches(&self) -> String {
        format!("{}switches", self.beginning(Partition::first()))
    }

    /// A hash: the epoch and the number of the last change of a switch.
    pub(crate) fn switches_version(&self) -> String {
        format!("{}switches-version", self.beginning(Partition::first()))
    }

    /// A stream: requests to close a user's connections, of all apps.
    pub(crate) fn terminations(&self) -> String {
        format!("{}:{{{}}}:terminations", self.prefix, Partition::first().tag())
    }

    /// A hash: the epoch and the number of the last change of a channel's members. Absent without members.
    pub(crate) fn version(&self, key: &ChannelKey) -> String {
        self.of_channel("version", key)
    }

    /// A hash: each user of a channel, and the number of nodes that have it.
    pub(crate) fn users(&self, key: &ChannelKey) -> String {
        self.of_channel("users", key)
    }

    /// A set: the nodes that have members of a channel.
    pub(crate) fn nodes(&self, key: &ChannelKey) -> String {
        self.of_channel("nodes", key)
    }

    /// A hash: the users of a channel that a node has, and their information.
    pub(crate) fn members_of(&self, node: &str, key: &ChannelKey) -> String {
        self.of_channel(&format!("members-of:{node}"), key)
    }

    /// A set: the channels of a partition of which a node has members.
    pub(crate) fn channels_of(&self, node: &str, partition: Partition) -> String {
        format!("{}channels-of:{node}", self.beginning(partition))
    }

    /// A hash: the channels of a partition of which a node has subscriptions, and their number, with the
    /// letter `a` if all nodes are told.
    pub(crate) fn counts_of(&self, node: &str, partition: Partition) -> String {
        format!("{}counts-of:{node}", self.beginning(partition))
    }

    /// A hash: the channels of an app with subscriptions on any node, and their number.
    pub(crate) fn occupied(&self, app: &str, partition: Partition) -> String {
        format!("{}occupied:{app}", self.beginning(partition))
    }

    /// A hash: webhooks about channels of a partition that a node must send, by id.
    pub(crate) fn hooks_of(&self, node: &str, partition: Partition) -> String {
        format!("{}hooks-of:{node}", self.beginning(partition))
    }

    /// A hash: what left and may return, and the node and the id of the webhook that reports it.
    pub(crate) fn leaving(&self, partition: Partition) -> String {
        format!("{}leaving", self.beginning(partition))
    }

    /// Returns what the names of a partition's keys begin with. Scripts add `KIND:APP:CHANNEL`.
    pub(crate) fn beginning(&self, partition: Partition) -> String {
        format!("{}:{{{}}}:", self.prefix, partition.tag())
    }

    /// A hash: the nodes, and the numbers of their leases.
    pub(crate) fn leases(&self) -> String {
        format!("{}leases", self.beginning(Partition::first()))
    }

    /// A hash: the nodes with leases, and the layout that each of them knows.
    pub(crate) fn layouts(&self) -> String {
        format!("{}layouts", self.beginning(Partition::first()))
    }

    /// A number: the layout that a node must know. Absent: any.
    pub(crate) fn layout(&self) -> String {
        format!("{}layout", self.beginning(Partition::first()))
    }

    /// A hash: the nodes, and what they report about themselves.
    pub(crate) fn reports(&self) -> String {
        format!("{}reports", self.beginning(Partition::first()))
    }

    /// A hash: the part of an app's limit of connections that each node may use, and its connections.
    pub(crate) fn connections_of(&self, app: &str) -> String {
        format!("{}connections-of:{app}", self.beginning(Partition::first()))
    }

    /// A string: the position that the event with this idempotency key got.
    pub(crate) fn idempotency(&self, key: &ChannelKey, idempotency_key: &str) -> String {
        format!("{}:{idempotency_key}", self.of_channel("once", key))
    }

    /// A number: the events of a partition so far.
    pub(crate) fn sequence(&self, partition: Partition) -> String {
        format!("{}:{{{}}}:sequence", self.prefix, partition.tag())
    }

    /// A hash: the server that a partition is on, the term that began when it took over, and the id of the
    /// partition's data.
    pub(crate) fn fence(&self, partition: Partition) -> String {
        format!("{}:{{{}}}:fence", self.prefix, partition.tag())
    }

    /// The sharded channel of a partition.
    pub(crate) fn shard_channel(&self, partition: Partition) -> String {
        format!("{}:{{{}}}", self.prefix, partition.tag())
    }

    fn of_channel(&self, kind: &str, key: &ChannelKey) -> String {
        let ChannelKey { app, channel } = key;
        format!("{}:{{{}}}:{kind}:{app}:{channel}", self.prefix, Partition::of(key).tag())
    }
}
