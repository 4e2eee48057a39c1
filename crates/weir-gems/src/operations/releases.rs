//! Releases of `/info`, as operators see them.

use std::cmp::Ordering;

use crate::release::{Release, RequirementLine};
use crate::view::{DependencyView, ReleaseView};

/// Sorts releases, newest version first. For the same version, the release for any platform is
/// first.
pub(super) fn newest_first(releases: &mut [Release]) {
    releases.sort_by(compare);
}

fn compare(one: &Release, other: &Release) -> Ordering {
    let (first, second) = (&one.identity, &other.identity);
    let platforms = || {
        // `1.0` and `1.0.0` have the same precedence.
        let texts = second.number.as_str().cmp(first.number.as_str());
        texts
            .then(second.platform.is_ruby().cmp(&first.platform.is_ruby()))
            .then_with(|| first.platform.as_str().cmp(second.platform.as_str()))
    };
    second.number.compare(&first.number).then_with(platforms)
}

pub(super) fn view(release: &Release, bytes: Option<u64>) -> ReleaseView {
    let line = |line: &Option<RequirementLine>| line.as_ref().map(|it| listed(it.as_str()));
    ReleaseView {
        number: release.identity.number.as_str().to_owned(),
        platform: release.identity.platform.as_str().to_owned(),
        dependencies: release.dependencies.iter().map(dependency).collect(),
        sha256: release.checksum.to_string(),
        ruby: line(&release.ruby),
        rubygems: line(&release.rubygems),
        bytes,
        downloads: 0,
    }
}

fn dependency((name, requirement): (&str, &str)) -> DependencyView {
    DependencyView { name: name.to_owned(), requirement: listed(requirement) }
}

fn listed(requirement: &str) -> String {
    requirement.replace('&', ", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::read::read_info;

    fn releases(lines: &[&str]) -> Vec<Release> {
        let sum = "ab".repeat(32);
        let lines: Vec<_> = lines.iter().map(|line| line.replace("SUM", &sum)).collect();
        read_info(format!("---\n{}\n", lines.join("\n")).as_bytes()).unwrap().releases
    }

    #[test]
    fn the_newest_version_is_first_whenever_it_was_pushed() {
        let pushed = [
            "2.0.0 |checksum:SUM",
            "1.9 |checksum:SUM",
            "1.10-x86_64-linux |checksum:SUM",
            "1.10-java |checksum:SUM",
            "1.10 |checksum:SUM",
            "2.0.0.pre1 |checksum:SUM",
        ];
        let expected = ["2.0.0", "2.0.0.pre1", "1.10", "1.10-java", "1.10-x86_64-linux", "1.9"];
        for turns in 0..pushed.len() {
            let mut releases = releases(&pushed);
            releases.rotate_left(turns);
            newest_first(&mut releases);
            let order: Vec<_> = releases.iter().map(|it| it.identity.to_string()).collect();
            assert_eq!(order, expected);
        }
    }

    #[test]
    fn a_view_has_what_a_line_says() {
        let line = "2.0-java rack:< 3&>= 2,rake:>= 0|checksum:SUM,ruby:< 4&>= 2.7";
        let view = view(&releases(&[line])[0], Some(7));
        let dependencies: Vec<_> = view
            .dependencies
            .iter()
            .map(|it| (it.name.as_str(), it.requirement.as_str()))
            .collect();
        assert_eq!(dependencies, [("rack", "< 3, >= 2"), ("rake", ">= 0")]);
        assert_eq!((view.number.as_str(), view.platform.as_str()), ("2.0", "java"));
        assert_eq!((view.sha256, view.ruby), ("ab".repeat(32), Some("< 4, >= 2.7".to_owned())));
        assert_eq!((view.rubygems, view.bytes), (None, Some(7)));
    }
}
