//! `[gems.limits]`, as far as a `.gem` file runs into them.

use super::yaml::YamlLimits;

/// What a `.gem` file may have at most. The defaults hold for all of rubygems.org but a few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageLimits {
    /// Bytes of the file.
    pub gem_bytes_max: u64,
    /// Bytes of all its files, unpacked.
    pub unpacked_bytes_max: u64,
    /// How many times as large a member may be unpacked, beyond the first 16 MiB. Deflate reaches
    /// 1,032.
    pub unpacked_ratio_max: u64,
    /// Files, folders and links in it.
    pub entries_max: usize,
    /// Bytes of one path in it.
    pub path_bytes_max: usize,
    /// Bytes of its specification, unpacked.
    pub metadata_bytes_max: u64,
    /// Values in its specification.
    pub metadata_values_max: usize,
    /// How deep values lie in each other.
    pub metadata_depth_max: usize,
    /// Uses of a value that was written once.
    pub metadata_aliases_max: usize,
}

impl Default for PackageLimits {
    fn default() -> Self {
        Self {
            gem_bytes_max: 500 << 20,
            unpacked_bytes_max: 2 << 30,
            unpacked_ratio_max: 200,
            entries_max: 100_000,
            path_bytes_max: 1_024,
            metadata_bytes_max: 8 << 20,
            metadata_values_max: 200_000,
            metadata_depth_max: 20,
            metadata_aliases_max: 10_000,
        }
    }
}

/// A small file may grow so large whatever the ratio: text that repeats itself is common there.
const UNPACKED_FREE: u64 = 16 << 20;

impl PackageLimits {
    pub(super) fn yaml(&self) -> YamlLimits {
        YamlLimits {
            values_max: self.metadata_values_max,
            depth_max: self.metadata_depth_max,
            aliases_max: self.metadata_aliases_max,
        }
    }

    /// What `packed` bytes may unpack to by the ratio.
    pub(super) fn by_ratio(&self, packed: u64) -> u64 {
        packed.saturating_mul(self.unpacked_ratio_max).max(UNPACKED_FREE)
    }
}
