//! The part of `[gems.limits]` that applies to `.gem` files.

use weir_settings::{COUNT, Section};

use super::yaml::YamlLimits;

/// What a `.gem` file may have at most. The defaults hold for all of rubygems.org but a few.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "gems.limits")]
pub struct PackageLimits {
    /// Bytes of a .gem file that is pushed.
    #[setting(size, range = 1 << 10..=1 << 44, default = 500 << 20)]
    pub gem_bytes_max: u64,
    /// Bytes of all files in a gem, unpacked.
    #[setting(advanced, size, range = 1 << 10..=1 << 44, default = 2 << 30)]
    pub unpacked_bytes_max: u64,
    /// Factor by which a part of a gem may grow when unpacked, beyond 16MiB.
    #[setting(advanced, range = 1..=10_000, default = 200)]
    pub unpacked_ratio_max: u64,
    /// Files, folders and links in a gem.
    #[setting(advanced, range = COUNT, default = 100_000)]
    pub entries_max: usize,
    /// Bytes of one path in a gem.
    #[setting(advanced, range = 1..=65_536, default = 1_024)]
    pub path_bytes_max: usize,
    /// Bytes of a gem's specification, unpacked.
    #[setting(advanced, size, range = 1 << 10..=1 << 32, default = 8 << 20)]
    pub metadata_bytes_max: u64,
    /// Values in a gem's specification.
    #[setting(advanced, range = COUNT, default = 200_000)]
    pub metadata_values_max: usize,
    /// How deep the values of a gem's specification may nest.
    #[setting(advanced, range = 1..=1_000, default = 20)]
    pub metadata_depth_max: usize,
    /// Uses of YAML aliases in a gem's specification.
    #[setting(advanced, range = COUNT, default = 10_000)]
    pub metadata_aliases_max: usize,
}

/// Size up to which the ratio is not checked: highly repetitive text is common in small files.
const UNPACKED_FREE: u64 = 16 << 20;

impl PackageLimits {
    pub(super) fn yaml(&self) -> YamlLimits {
        YamlLimits {
            values_max: self.metadata_values_max,
            depth_max: self.metadata_depth_max,
            aliases_max: self.metadata_aliases_max,
        }
    }

    /// Returns the size to which `packed` bytes may be decompressed.
    pub(super) fn by_ratio(&self, packed: u64) -> u64 {
        packed.saturating_mul(self.unpacked_ratio_max).max(UNPACKED_FREE)
    }
}
