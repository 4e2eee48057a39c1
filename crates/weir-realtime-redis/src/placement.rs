//! Which shard has a channel.
//!
//! A ring assigns channels to shards by their names. It uses the first bits of a hash of which the
//! partition uses the last ones, so that the channels of each shard are spread over all partitions.
//!
//! A shard is added in two steps, each on one node after the other. Nodes that prepare it receive its
//! events, but assign no channels to it. Nodes that move channels assign its share to it, and move a
//! channel from its previous shard when they use it first.

use weir_base::ring::{Node, Ring};
use weir_realtime::shared_log::ChannelKey;
use weir_redis::RedisEndpoint;
use weir_settings::Choice;

use crate::partition;

/// The limit on shards. A node has two connections to each, and 256 subscriptions.
pub const SHARDS_MAX: usize = 64;

/// A Redis that has a part of the channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardOptions {
    /// Its name, the same on all nodes, which decides which channels it has.
    pub name: String,
    /// The server, or the service that Sentinels watch.
    pub endpoint: RedisEndpoint,
    /// Whether it is being added.
    pub joining: ShardJoining,
}

/// The step in which a shard is being added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Choice)]
pub enum ShardJoining {
    /// It is not: it has its share of the channels.
    #[default]
    No,
    /// Nodes receive its events.
    Prepare,
    /// Its share of the channels moves to it.
    Move,
}

/// Assigns channels to shards, which are known by their places.
#[derive(Debug)]
pub(crate) struct Placement {
    names: Vec<String>,
    common_place: usize,
    present: ShardRing,
    /// Without the shards that channels move to. None: there are none.
    previous: Option<ShardRing>,
    /// With the shards that are prepared. None: there are none.
    next: Option<ShardRing>,
}

/// The shards that have channels. None: there is only the shard at this place.
#[derive(Debug)]
struct ShardRing {
    first: usize,
    ring: Option<Ring>,
}

impl ShardRing {
    fn new(shards: &[ShardOptions], is_included: impl Fn(ShardJoining) -> bool) -> Self {
        let places: Vec<usize> =
            (0..shards.len()).filter(|place| is_included(shards[*place].joining)).collect();
        let nodes = places.iter().map(|place| Node::new(shards[*place].name.as_str(), 1));
        let ring = if places.len() > 1 { Ring::new(nodes).ok() } else { None };
        Self { first: places.first().copied().unwrap_or_default(), ring }
    }

    fn home(&self, names: &[String], text: &str) -> usize {
        let node = self.ring.as_ref().and_then(|ring| ring.node_of(text.as_bytes()));
        let place = node.and_then(|node| names.iter().position(|name| **name == *node.name));
        place.unwrap_or(self.first)
    }
}

impl Placement {
    /// Returns the placement of shards whose names are unique, and of which one is not joining.
    pub(crate) fn new(shards: &[ShardOptions]) -> Self {
        use ShardJoining::{Move, No, Prepare};
        let has = |step| shards.iter().any(|shard| shard.joining == step);
        let ring = |is_included: fn(ShardJoining) -> bool| ShardRing::new(shards, is_included);
        // The same on all nodes, in whatever order their settings list the shards.
        let permanent = (0..shards.len()).filter(|place| shards[*place].joining == No);
        let common_place = permanent.min_by_key(|place| &shards[*place].name);
        Self {
            common_place: common_place.unwrap_or_default(),
            names: shards.iter().map(|shard| shard.name.clone()).collect(),
            present: ring(|joining| joining != Prepare),
            previous: has(Move).then(|| ring(|joining| joining == No)),
            next: has(Prepare).then(|| ring(|_| true)),
        }
    }

    /// Returns the shard of a channel.
    pub(crate) fn home(&self, key: &ChannelKey) -> usize {
        self.present.home(&self.names, &partition::text_of(key))
    }

    /// Returns the shard from which a channel moves to its shard.
    pub(crate) fn previous(&self, key: &ChannelKey) -> Option<usize> {
        let previous = self.previous.as_ref()?.home(&self.names, &partition::text_of(key));
        (previous != self.home(key)).then_some(previous)
    }

    /// Returns whether a channel is, or may be, in the shard at this place.
    pub(crate) fn concerns(&self, place: usize, key: &ChannelKey) -> bool {
        let next = || self.next.as_ref().map(|it| it.home(&self.names, &partition::text_of(key)));
        self.home(key) == place || next() == Some(place)
    }

    /// Returns the shard of a user's terminations.
    pub(crate) fn home_of_user(&self, app: &str, user: &str) -> usize {
        self.present.home(&self.names, &format!("{app}/{user}"))
    }

    /// Returns the shard through which nodes share what belongs to no channel (switches, limits of apps): one
    /// that is not joining.
    pub(crate) fn common_place(&self) -> usize {
        self.common_place
    }

    /// Returns the place of the shard with this name.
    pub(crate) fn place_of(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|it| it == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::ShardJoining::No;
    use super::*;
    use crate::partition::{PARTITIONS, Partition};

    const CHANNELS: usize = 20_000;
    /// A third of them, give or take three standard deviations of the ring's share.
    const THIRD: std::ops::RangeInclusive<usize> = 6_000..=7_333;

    fn placement(shards: &[(&str, ShardJoining)]) -> Placement {
        let option = |(name, joining): &(&str, ShardJoining)| ShardOptions {
            name: (*name).to_owned(),
            endpoint: RedisEndpoint::parse(&format!("redis://{name}")).unwrap(),
            joining: *joining,
        };
        Placement::new(&shards.iter().map(option).collect::<Vec<_>>())
    }

    fn three(joining: ShardJoining) -> Placement {
        placement(&[("a", No), ("b", No), ("c", joining)])
    }

    fn keys() -> impl Iterator<Item = ChannelKey> {
        let key = |number| ChannelKey { app: "1".into(), channel: format!("c{number}").into() };
        (0..CHANNELS).map(key)
    }

    #[test]
    fn shards_get_equal_shares_of_channels_in_all_partitions() {
        let placement = three(No);
        let mut shares = vec![(0, HashSet::new()); 3];
        for key in keys() {
            let (count, partitions) = &mut shares[placement.home(&key)];
            *count += 1;
            partitions.insert(Partition::of(&key).0);
        }
        for (count, partitions) in shares {
            assert!(THIRD.contains(&count), "{count}");
            assert_eq!(partitions.len(), PARTITIONS);
        }
    }

    #[test]
    fn a_further_shard_gets_its_share_and_no_other_channel_moves() {
        let before = placement(&[("a", No), ("b", No)]);
        let (prepared, moving) = (three(ShardJoining::Prepare), three(ShardJoining::Move));
        let after = three(No);
        let mut moved = 0;
        for key in keys() {
            let (old, new) = (before.home(&key), moving.home(&key));
            assert!(old == new || new == 2, "{old} {new}");
            assert_eq!(moving.previous(&key), (old != new).then_some(old));
            assert_eq!((prepared.home(&key), prepared.previous(&key)), (old, None));
            assert!(prepared.concerns(new, &key) && prepared.concerns(old, &key));
            assert!(moving.concerns(new, &key) && (old == new || !moving.concerns(old, &key)));
            assert_eq!(new, after.home(&key));
            moved += usize::from(old != new);
        }
        assert!(THIRD.contains(&moved), "{moved}");
    }

    #[test]
    fn one_shard_has_all_channels_whatever_its_name() {
        let placement = placement(&[("a", No)]);
        assert!(keys().take(9).all(|key| placement.home(&key) == 0));
    }

    /// Another hash would move channels at an upgrade.
    #[test]
    fn the_shard_of_a_channel_never_changes() {
        let placement = three(No);
        let homes: Vec<usize> = keys().take(8).map(|key| placement.home(&key)).collect();
        assert_eq!(homes, [2, 0, 1, 1, 2, 0, 1, 2]);
    }
}
