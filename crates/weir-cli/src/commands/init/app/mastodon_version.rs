//! Mastodon's version, and the queues that it has.

use std::fmt;

/// `default`, `push` and so on, by the version that brought them.
const QUEUES: [(&str, MastodonVersion); 7] = [
    ("default", MastodonVersion(0, 0, 0)),
    ("push", MastodonVersion(0, 0, 0)),
    ("ingress", MastodonVersion(4, 0, 0)),
    ("mailers", MastodonVersion(0, 0, 0)),
    ("pull", MastodonVersion(0, 0, 0)),
    ("scheduler", MastodonVersion(0, 0, 0)),
    ("fasp", MastodonVersion(4, 4, 0)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MastodonVersion(u32, u32, u32);

impl fmt::Display for MastodonVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl MastodonVersion {
    /// Reads lib/mastodon/version.rb, whose methods `major`, `minor` and `patch` each return a number.
    pub(super) fn in_ruby(text: &str) -> Option<Self> {
        let number = |method: &str| {
            let mut lines = text.lines().map(str::trim);
            lines.find(|line| *line == format!("def {method}"))?;
            lines.next()?.parse().ok()
        };
        Some(Self(number("major")?, number("minor")?, number("patch")?))
    }

    /// Reads the tag of an image: `ghcr.io/mastodon/mastodon:v4.4.3`.
    pub(super) fn in_image(image: &str) -> Option<Self> {
        let tag = image.split('@').next()?.rsplit_once(':')?.1;
        let tag = tag.strip_prefix('v').unwrap_or(tag);
        let mut numbers = tag.split(['.', '-', '+']).map(str::parse);
        let major = numbers.next()?.ok()?;
        let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
        Some(Self(major, next(), next()))
    }
}

/// Returns the queues of a version; if it is unknown, those of all: a process for a queue that is always empty costs
/// some memory, but jobs in a queue that no process serves are not run.
pub(super) fn queues(version: Option<MastodonVersion>) -> Vec<&'static str> {
    let has = |since: &MastodonVersion| version.is_none_or(|version| version >= *since);
    QUEUES.iter().filter(|(_, since)| has(since)).map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_queues() {
        let ruby = "module Mastodon\n  module Version\n    def major\n      4\n    end\n\n    def minor\n      2\n    \
                    end\n\n    def patch\n      10\n    end\n";
        let version = MastodonVersion::in_ruby(ruby);
        assert_eq!(version, Some(MastodonVersion(4, 2, 10)));
        assert!(!queues(version).contains(&"fasp"));
        for image in ["ghcr.io/mastodon/mastodon:v4.4.3", "mastodon:4.5", "m:v4.4.0-rc.1@sha256:12"]
        {
            let version = MastodonVersion::in_image(image);
            assert!(queues(version).contains(&"fasp") && version.is_some(), "{image}");
        }
        for image in ["mastodon", "mastodon:latest", ""] {
            assert_eq!(queues(MastodonVersion::in_image(image)).len(), QUEUES.len(), "{image}");
        }
        assert!(!queues(Some(MastodonVersion(3, 5, 0))).contains(&"ingress"));
    }
}
