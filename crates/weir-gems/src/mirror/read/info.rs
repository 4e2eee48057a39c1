//! Parses `/info/NAME`: `1.0-java rack:>= 2&< 3|checksum:SHA256,ruby:>= 2.7,rubygems:>=
//! 3,created_at:..`

use hashbrown::HashSet;
use weir_base::clock::Timestamp;

use super::{RULE, ReadError};
use crate::platform::Platform;
use crate::release::{Checksum, Identity, Release, RequirementLine};

/// A parsed text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfoText {
    /// Distinct releases in the order of lines. Releases without a creation time in the text have
    /// the time 0.
    pub releases: Vec<Release>,
    /// Number of lines that can't be stored as a release here: by older rules, without a checksum,
    /// or duplicate.
    pub left_out: u64,
}

/// Parses a whole text.
///
/// # Errors
/// Fails if the text is not a valid `/info`.
pub fn read_info(text: &[u8]) -> Result<InfoText, ReadError> {
    let Some(lines) = text.strip_suffix(b"\n") else { return Err(ReadError::Unfinished) };
    let mut lines = lines.split(|byte| *byte == b'\n');
    if lines.next() != Some(RULE) {
        return Err(ReadError::Header);
    }
    let mut info = InfoText::default();
    let mut seen = HashSet::new();
    for line in lines {
        let release = str::from_utf8(line).ok().and_then(parse);
        match release.filter(|release| seen.insert(release.identity.clone())) {
            Some(release) => info.releases.push(release),
            None => info.left_out += 1,
        }
    }
    Ok(info)
}

fn parse(line: &str) -> Option<Release> {
    let (before, after) = line.split_once('|')?;
    let (identity, dependencies) = before.split_once(' ')?;
    let (number, platform) = identity.split_once('-').unwrap_or((identity, "ruby"));
    let words = Words::parse(after)?;
    Some(Release {
        identity: Identity {
            number: number.parse().ok()?,
            platform: platform.parse::<Platform>().ok()?,
        },
        dependencies: dependencies.parse().ok()?,
        checksum: words.checksum?,
        ruby: words.ruby,
        rubygems: words.rubygems,
        created_at: words.created_at,
    })
}

/// The fields after the dependencies. Unknown fields are ignored, for future additions.
#[derive(Default)]
struct Words {
    checksum: Option<Checksum>,
    ruby: Option<RequirementLine>,
    rubygems: Option<RequirementLine>,
    created_at: Timestamp,
}

impl Words {
    fn parse(text: &str) -> Option<Self> {
        let mut words = Self::default();
        for word in text.split(',') {
            let (key, value) = word.split_once(':')?;
            match key {
                "checksum" => words.checksum = Some(checksum(value)?),
                "ruby" => words.ruby = requirement(value)?,
                "rubygems" => words.rubygems = requirement(value)?,
                "created_at" => words.created_at = timestamp(value)?,
                _ => {}
            }
        }
        Some(words)
    }
}

fn checksum(text: &str) -> Option<Checksum> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(Checksum(bytes))
}

/// Parses a requirement. `>= 0` becomes None, as it is omitted here.
fn requirement(text: &str) -> Option<Option<RequirementLine>> {
    let line: RequirementLine = text.parse().ok()?;
    Some((line.as_str() != ">= 0").then_some(line))
}

fn timestamp(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_micros(u64::try_from(at.as_microsecond()).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::index::info;

    #[test]
    fn a_line_is_a_release() {
        let sum = "ab".repeat(32);
        let text = format!(
            "---\n2.0-x86_64-linux rake:>= 0,rack:>= 2&< 3|checksum:{sum},ruby:>= 2.7,\
             rubygems:>= 0,created_at:1970-01-01T00:00:02Z,new:1\n1.0 |checksum:{sum}\n"
        );
        let info = read_info(text.as_bytes()).unwrap();
        let [two, one] = &info.releases[..] else { panic!("two releases: {info:?}") };
        assert_eq!(two.identity.to_string(), "2.0-x86_64-linux");
        assert_eq!(two.dependencies.as_str(), "rack:< 3&>= 2,rake:>= 0");
        assert_eq!(two.ruby.as_ref().map(RequirementLine::as_str), Some(">= 2.7"));
        assert_eq!((two.rubygems.as_ref(), two.checksum.0), (None, [0xab; 32]));
        assert_eq!(two.created_at, Timestamp::from_millis(2_000));
        assert_eq!((one.identity.to_string().as_str(), one.created_at.as_micros()), ("1.0", 0));
        assert_eq!(info.left_out, 0);
    }

    #[test]
    fn what_can_not_be_kept_is_left_out() {
        let sum = "ab".repeat(32);
        for line in [
            "1.0 ",
            "1.0 |",
            "1.0 |ruby:>= 1",
            "1.0 |checksum:abcd",
            &format!("1.0|checksum:{sum}"),
            &format!("x |checksum:{sum}"),
            &format!("1.0 a b:>= 1|checksum:{sum}"),
            &format!("1.0 |checksum:{sum},ruby:=>1"),
            &format!("1.0-../x |checksum:{sum}"),
        ] {
            let text = format!("---\n{line}\n2.0 |checksum:{sum}\n2.0 |checksum:{sum}\n");
            let info = read_info(text.as_bytes()).unwrap();
            assert_eq!((info.releases.len(), info.left_out), (1, 2), "{line:?}");
        }
        assert_eq!(read_info(b"---\n").unwrap(), InfoText::default());
        assert_eq!(read_info(b"---"), Err(ReadError::Unfinished));
        assert_eq!(read_info(b""), Err(ReadError::Unfinished));
        assert_eq!(read_info(b"This rubygem could not be found.\n"), Err(ReadError::Header));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_again(
            rows in prop::collection::btree_map(
                "[0-9]{1,2}(\\.[0-9a-z]{1,2}){0,2}(-[a-z0-9_]{1,6})?",
                ("([a-c]{1,2}:(>=|~>) [0-9]{1,2}(,d:= 1)?)?", any::<[u8; 32]>(), any::<bool>()),
                0..8)
        ) {
            let text = rows.iter().map(|(version, (dependencies, sum, has_ruby))| {
                let ruby = if *has_ruby { ",ruby:>= 2" } else { "" };
                format!("{version} {dependencies}|checksum:{}{ruby}\n", hex::encode(sum))
            });
            let text = format!("---\n{}", text.collect::<String>());
            let read = read_info(text.as_bytes()).unwrap();
            let mut written = String::new();
            info::write(&mut written, &read.releases);
            if read.left_out == 0 {
                prop_assert_eq!(written, text);
            }
        }

        #[test]
        fn any_bytes_are_releases_or_a_refusal(
            bytes in prop::collection::vec(any::<u8>(), 0..400)
        ) {
            let _ = read_info(&bytes);
            let _ = read_info(&[b"---\n", &bytes[..], b"\n"].concat());
        }
    }
}
