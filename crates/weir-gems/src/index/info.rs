//! Writes `/info/NAME`: `---`, then a line for each release that is not yanked.
//!
//! `1.0-java rack:>= 2.0&< 3,rake:>= 0|checksum:SHA256,ruby:>= 2.7,rubygems:>= 3`

use std::fmt::Write;

use crate::release::Release;

/// Beginning of a text, which is all of it if every release of the gem is yanked.
pub const HEADER: &str = "---\n";

/// Writes the text of `releases`, which must be in order ([`Release::order`]).
pub fn write<'a>(text: &mut String, releases: impl IntoIterator<Item = &'a Release>) {
    text.push_str(HEADER);
    for release in releases {
        write_line(text, release);
    }
}

fn write_line(text: &mut String, release: &Release) {
    let Release { identity, dependencies, checksum, .. } = release;
    // Writing to a String can't fail.
    let _ = write!(text, "{identity} {}|checksum:{checksum}", dependencies.as_str());
    if let Some(ruby) = &release.ruby {
        let _ = write!(text, ",ruby:{}", ruby.as_str());
    }
    if let Some(rubygems) = &release.rubygems {
        let _ = write!(text, ",rubygems:{}", rubygems.as_str());
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use weir_base::clock::Timestamp;

    use super::*;
    use crate::release::{Checksum, Identity};

    fn release(number: &str, platform: &str, dependencies: &str) -> Release {
        Release {
            identity: Identity {
                number: number.parse().unwrap(),
                platform: platform.parse().unwrap(),
            },
            dependencies: dependencies.parse().unwrap(),
            checksum: Checksum([0xab; 32]),
            ruby: None,
            rubygems: None,
            created_at: Timestamp::from_millis(1),
        }
    }

    #[test]
    fn a_line_has_what_clients_read() {
        let mut with_all = release("2.0", "java", "rake:>= 0,rack:>= 2&< 3");
        with_all.ruby = Some(">= 2.7".parse().unwrap());
        with_all.rubygems = Some("> 1.3.1".parse().unwrap());
        let mut text = String::new();
        write(&mut text, [&release("1.0", "ruby", ""), &with_all]);
        let sum = "ab".repeat(32);
        assert_eq!(
            text,
            format!(
                "---\n1.0 |checksum:{sum}\n2.0-java rack:< 3&>= 2,rake:>= 0|checksum:{sum},\
                 ruby:>= 2.7,rubygems:> 1.3.1\n"
            )
        );
    }

    #[test]
    fn lines_are_ordered_by_creation_then_number_then_platform() {
        let mut later = release("0.1", "ruby", "");
        later.created_at = Timestamp::from_millis(2);
        let mut all = [
            later,
            release("1.1", "ruby", ""),
            release("1.1", "java", ""),
            release("1.0", "ruby", ""),
        ];
        all.sort_by(Release::order);
        let order: Vec<_> = all.iter().map(|release| release.identity.to_string()).collect();
        assert_eq!(order, ["1.0", "1.1-java", "1.1", "0.1"]);
    }
}
