//! Digests per prefix of names. The state of an upstream is compared by them, so that only prefixes
//! that differ are compared name by name.

use md5::Md5;
use md5::digest::Digest;

/// The first two bytes of a name; the second is 0 if the name has one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(pub [u8; 2]);

/// The sum of the digests of lines. It is independent of their order, and lines can be subtracted
/// again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixDigest(pub u128);

impl Prefix {
    /// Returns the prefix of a name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let bytes = name.as_bytes();
        let byte = |index: usize| bytes.get(index).copied().unwrap_or_default();
        Self([byte(0), byte(1)])
    }
}

impl PrefixDigest {
    /// Adds a name with the MD5 of its `/info`.
    pub fn add(&mut self, name: &str, md5: [u8; 16]) {
        let digest = Md5::new().chain_update(name).chain_update([0]).chain_update(md5).finalize();
        self.0 = self.0.wrapping_add(u128::from_le_bytes(digest.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_does_not_count_but_each_name_and_digest_does() {
        let sum = |lines: &[(&str, u8)]| {
            let mut digest = PrefixDigest::default();
            lines.iter().for_each(|(name, md5)| digest.add(name, [*md5; 16]));
            digest
        };
        assert_eq!(sum(&[("aa", 1), ("ab", 2)]), sum(&[("ab", 2), ("aa", 1)]));
        assert_ne!(sum(&[("aa", 1), ("ab", 2)]), sum(&[("aa", 2), ("ab", 1)]));
        assert_ne!(sum(&[("aa", 1)]), sum(&[("ab", 1)]));
        assert_ne!(sum(&[("aa", 1)]), sum(&[]));
    }

    #[test]
    fn a_prefix_is_two_bytes() {
        assert_eq!(Prefix::of("rack"), Prefix(*b"ra"));
        assert_eq!(Prefix::of("a"), Prefix(*b"a\0"));
        assert_ne!(Prefix::of("a"), Prefix::of("ab"));
    }
}
