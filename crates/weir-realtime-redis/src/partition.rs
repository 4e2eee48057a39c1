//! Partitions: which one a channel belongs to, and the hash tag that decides its slot.

use std::sync::LazyLock;

use weir_realtime::shared_log::ChannelKey;
use weir_redis::slots::{SLOTS, slot_of};
use xxhash_rust::xxh3::xxh3_64;

/// The number of partitions. All nodes must agree on it for ever, because keys contain the tag.
pub(crate) const PARTITIONS: usize = 256;

/// A part of all channels. Everything of a partition has one hash tag, so it is in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Partition(pub(crate) usize);

impl Partition {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..PARTITIONS).map(Self)
    }

    /// Returns the first of all.
    pub(crate) const fn first() -> Self {
        Self(0)
    }

    /// Returns the partition of a channel.
    pub(crate) fn of(key: &ChannelKey) -> Self {
        let index = xxh3_64(text_of(key).as_bytes()) % PARTITIONS as u64;
        Self(usize::try_from(index).unwrap_or_default())
    }

    /// Returns the partition with this tag.
    pub(crate) fn of_tag(tag: &str) -> Option<Self> {
        TAGS.iter().position(|it| it == tag).map(Self)
    }

    /// Returns the slot of all its keys and its sharded channel in a Redis Cluster.
    pub(crate) fn slot(self) -> u16 {
        slot_of(self.tag().as_bytes())
    }

    /// Returns the hash tag: three letters.
    pub(crate) fn tag(self) -> &'static str {
        &TAGS[self.0]
    }
}

/// Returns the text whose hash decides the partition of a channel, and its shard.
pub(crate) fn text_of(key: &ChannelKey) -> String {
    format!("{}/{}", key.app, key.channel)
}

/// One tag for each range of 64 slots, so that any number of shards with equal ranges gets equal
/// shares. Plain numbers would leave half of eight shards without a partition.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tags = vec![String::new(); PARTITIONS];
    for tag in three_letters() {
        let index = usize::from(slot_of(tag.as_bytes())) / (usize::from(SLOTS) / PARTITIONS);
        if tags[index].is_empty() {
            tags[index] = tag;
        }
    }
    tags
});

fn three_letters() -> impl Iterator<Item = String> {
    let letters = || 'a'..='z';
    letters().flat_map(move |a| {
        letters().flat_map(move |b| letters().map(move |c| [a, b, c].iter().collect()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_of_equal_ranges_get_equal_shares() {
        for shards in [2, 3, 8, 16, 32] {
            let mut counts = vec![0_usize; shards];
            for partition in Partition::all() {
                assert_eq!(partition.tag().len(), 3, "{partition:?}");
                counts[usize::from(partition.slot()) * shards / usize::from(SLOTS)] += 1;
                assert_eq!(Partition::of_tag(partition.tag()), Some(partition));
            }
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 1, "{shards} shards: {counts:?}");
        }
    }

    /// Other tags or another hash would lose all histories at an upgrade.
    #[test]
    fn partitions_and_tags_never_change() {
        let key = ChannelKey { app: "1".into(), channel: "presence-room".into() };
        let tags = [0, 1, 128, 255].map(|index| Partition(index).tag());
        assert_eq!((Partition::of(&key).0, tags), (1, ["afj", "agp", "agr", "acj"]));
    }
}
