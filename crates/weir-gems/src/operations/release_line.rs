//! A line of `/info/NAME`, read again.

use crate::view::{DependencyView, ReleaseView};

/// `1.0-java rack:>= 2.0&< 3,rake:>= 0|checksum:SHA256,ruby:>= 2.7`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReleaseLine<'a> {
    /// `1.0-java`
    pub(super) identity: &'a str,
    dependencies: &'a str,
    requirements: &'a str,
}

impl<'a> ReleaseLine<'a> {
    /// None: it is none.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let (identity, rest) = line.split_once(' ')?;
        let (dependencies, requirements) = rest.split_once('|')?;
        Some(Self { identity, dependencies, requirements })
    }

    pub(super) fn view(&self) -> ReleaseView {
        let (number, platform) = self.identity.split_once('-').unwrap_or((self.identity, "ruby"));
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
