//! Parses `checksums.yaml.gz`: SHA-256 and SHA-512 of the other members.

use super::counting::MemberDigests;
use super::error::PackageError;
use super::yaml::{Document, Node, YamlLimits};

/// Real files have two or three algorithms with two members each.
const LIMITS: YamlLimits = YamlLimits { values_max: 100, depth_max: 3, aliases_max: 0 };

pub(super) struct Checksums(Document);

impl Checksums {
    pub(super) fn parse(text: &[u8]) -> Result<Self, PackageError> {
        Document::parse(text, LIMITS)
            .map(Self)
            .map_err(|error| PackageError::Checksums(error.to_string()))
    }

    /// Checks a member against its checksums. At least one must use an algorithm that is still
    /// secure.
    pub(super) fn check(
        &self,
        member: &'static str,
        digests: &MemberDigests,
    ) -> Result<(), PackageError> {
        let known = [("SHA256", &digests.sha256[..]), ("SHA512", &digests.sha512[..])];
        let mut is_known = false;
        for (algorithm, digest) in known {
            let Some(said) = self.of(algorithm, member)? else { continue };
            if !said.eq_ignore_ascii_case(&hex::encode(digest)) {
                return Err(PackageError::Checksum { member, algorithm });
            }
            is_known = true;
        }
        match is_known {
            true => Ok(()),
            false => Err(PackageError::Checksums(format!(
                "there is neither SHA256 nor SHA512 of {member}; rebuild the gem"
            ))),
        }
    }

    fn of(&self, algorithm: &str, member: &str) -> Result<Option<&str>, PackageError> {
        let wrong = |error| PackageError::Checksums(format!("{algorithm}, {member}: {error}"));
        let section = self.0.root().get(algorithm).map_err(wrong)?;
        let value = section.map(|section| section.get(member)).transpose().map_err(wrong)?;
        Ok(value.flatten().and_then(|value: Node<'_>| value.written()))
    }
}
