//! Parses lines of `/info/NAME`.

use std::cmp::Ordering;

use crate::version::Version;
use crate::view::{DependencyView, ReleaseView};

/// A line such as `1.0-java rack:>= 2.0&< 3,rake:>= 0|checksum:SHA256,ruby:>= 2.7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReleaseLine<'a> {
    /// Number and platform, for example `1.0-java`.
    pub(super) identity: &'a str,
    dependencies: &'a str,
    requirements: &'a str,
}

/// Sorts by version as RubyGems does, newest first: a prerelease is older than its release,
/// whenever it was pushed. Of the same version, the release for every platform comes first, then
/// the others by platform.
pub(super) fn newest_first(lines: &mut [ReleaseLine<'_>]) {
    // The key is cached, since parsing versions dominates the cost of comparing.
    lines.sort_by_cached_key(Newest::of);
}

/// Sort key of a release.
struct Newest {
    number: Version,
    is_for_some: bool,
    platform: String,
}

impl Newest {
    fn of(line: &ReleaseLine<'_>) -> Self {
        let (number, platform) = line.parts();
        let number = Version::from_checked(number.to_owned());
        Self { number, is_for_some: platform != "ruby", platform: platform.to_owned() }
    }
}

impl Ord for Newest {
    fn cmp(&self, other: &Self) -> Ordering {
        let others = || {
            // `1.0` and `1.0.0` have the same precedence.
            let texts = other.number.as_str().cmp(self.number.as_str());
            texts
                .then(self.is_for_some.cmp(&other.is_for_some))
                .then_with(|| self.platform.cmp(&other.platform))
        };
        other.number.compare(&self.number).then_with(others)
    }
}

impl PartialOrd for Newest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Newest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Newest {}

impl<'a> ReleaseLine<'a> {
    /// Parses a line. Returns None if it is invalid.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let (identity, rest) = line.split_once(' ')?;
        let (dependencies, requirements) = rest.split_once('|')?;
        Some(Self { identity, dependencies, requirements })
    }

    pub(super) fn view(&self) -> ReleaseView {
        let (number, platform) = self.parts();
        ReleaseView {
            number: number.to_owned(),
            platform: platform.to_owned(),
            dependencies: pairs(self.dependencies).map(dependency).collect(),
            sha256: self.requirement("checksum").unwrap_or_default(),
            ruby: self.requirement("ruby"),
            rubygems: self.requirement("rubygems"),
            bytes: None,
            downloads: 0,
        }
    }

    /// Returns the number and the platform.
    fn parts(&self) -> (&'a str, &'a str) {
        self.identity.split_once('-').unwrap_or((self.identity, "ruby"))
    }

    fn requirement(&self, wanted: &str) -> Option<String> {
        let (_, requirement) = pairs(self.requirements).find(|(name, _)| *name == wanted)?;
        Some(requirement.replace('&', ", "))
    }
}

fn pairs(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.split(',').filter_map(|pair| pair.split_once(':'))
}

fn dependency((name, requirement): (&str, &str)) -> DependencyView {
    DependencyView { name: name.to_owned(), requirement: requirement.replace('&', ", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_first_whenever_it_was_pushed() {
        let pushed = [
            "2.0.0 |checksum:a",
            "1.9 |checksum:a",
            "1.10-x86_64-linux |checksum:a",
            "1.10-java |checksum:a",
            "1.10 |checksum:a",
            "2.0.0.pre1 |checksum:a",
        ];
        let expected = ["2.0.0", "2.0.0.pre1", "1.10", "1.10-java", "1.10-x86_64-linux", "1.9"];
        for turns in 0..pushed.len() {
            let mut lines: Vec<_> = pushed.iter().filter_map(|it| ReleaseLine::parse(it)).collect();
            lines.rotate_left(turns);
            newest_first(&mut lines);
            let order: Vec<_> = lines.iter().map(|line| line.identity).collect();
            assert_eq!(order, expected);
        }
    }

    #[test]
    fn a_line_is_what_it_was_written_from() {
        let line = "2.0-java rack:< 3&>= 2,rake:>= 0|checksum:ab,ruby:>= 2.7&< 4";
        let view = ReleaseLine::parse(line).unwrap().view();
        let dependencies: Vec<_> = view
            .dependencies
            .iter()
            .map(|it| (it.name.as_str(), it.requirement.as_str()))
            .collect();
        assert_eq!(dependencies, [("rack", "< 3, >= 2"), ("rake", ">= 0")]);
        assert_eq!((view.number.as_str(), view.platform.as_str()), ("2.0", "java"));
        assert_eq!((view.sha256.as_str(), view.ruby.as_deref()), ("ab", Some(">= 2.7, < 4")));
        assert_eq!(view.rubygems, None);
        let plain = ReleaseLine::parse("1.0 |checksum:ab").unwrap().view();
        assert_eq!((plain.platform.as_str(), plain.dependencies.len()), ("ruby", 0));
        assert_eq!(ReleaseLine::parse("---"), None);
    }
}
