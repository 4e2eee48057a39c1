//! Partitions: which one a channel belongs to, and the hash tag that decides its slot.

use std::sync::LazyLock;

use weir_realtime::shared_log::ChannelKey;
use xxhash_rust::xxh3::xxh3_64;

/// The number of partitions. All nodes must agree on it for ever, because keys contain the tag.
pub(crate) const PARTITIONS: usize = 256;
const SLOTS: usize = 16_384;

/// A part of all channels. Everything of a partition has one hash tag, so it is in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
        let text = format!("{}/{}", key.app, key.channel);
        let index = xxh3_64(text.as_bytes()) % PARTITIONS as u64;
        Self(usize::try_from(index).unwrap_or_default())
    }

    /// Returns the hash tag: three letters.
    pub(crate) fn tag(self) -> &'static str {
        &TAGS[self.0]
    }
}

/// One tag for each range of 64 slots, so that any number of shards with equal ranges gets equal
/// shares. Plain numbers would leave half of eight shards without a partition.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tags = vec![String::new(); PARTITIONS];
    for tag in three_letters() {
        let index = usize::from(slot(tag.as_bytes())) / (SLOTS / PARTITIONS);
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

/// Returns the slot of a hash tag: CRC16 (XMODEM) modulo 16384, as Redis Cluster has it.
fn slot(tag: &[u8]) -> u16 {
    let crc = tag.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc & 0x3fff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12_182);
    }

    #[test]
    fn shards_of_equal_ranges_get_equal_shares() {
        for shards in [2, 3, 8, 16, 32] {
            let mut counts = vec![0_usize; shards];
            for partition in Partition::all() {
                assert_eq!(partition.tag().len(), 3, "{partition:?}");
                counts[usize::from(slot(partition.tag().as_bytes())) * shards / SLOTS] += 1;
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
