//! Writes `/versions`: a header with its creation time, then lines `NAME VERSION,VERSION-PLATFORM
//! MD5`.
//!
//! A baseline has one line per gem. Later changes are appended: `NAME 1.1 MD5` for a push, `NAME
//! -1.1 MD5` for a yank. The last line of a name has the current digest of its `/info`. Written
//! lines never change until the text is rewritten, which makes every client download all of it.

use std::fmt::{self, Display, Write};
use std::str::FromStr;

use weir_base::clock::Timestamp;

/// Kind of change of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Change {
    Pushed,
    Yanked,
}

/// Error for an unknown kind of change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no event {0:?}; there are push and yank")]
pub struct UnknownChange(pub String);

impl Change {
    /// Returns `push` or `yank`, as used in webhooks.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pushed => "push",
            Self::Yanked => "yank",
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Change {
    type Err = UnknownChange;

    fn from_str(text: &str) -> Result<Self, UnknownChange> {
        let all = [Self::Pushed, Self::Yanked];
        let found = all.into_iter().find(|change| change.name() == text);
        found.ok_or_else(|| UnknownChange(text.to_owned()))
    }
}

/// Returns the header of a text that is created at `created_at`.
#[must_use]
pub fn header(created_at: Timestamp) -> String {
    let seconds = i64::try_from(created_at.as_millis() / 1_000).unwrap_or(i64::MAX);
    let at = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    // Formatted without a fraction: "2026-11-22T06:20:58Z".
    format!("created_at: {at}\n---\n")
}

/// Appends the baseline line of a gem, or nothing if it has no releases.
pub fn write_gem(
    text: &mut String,
    name: &str,
    releases: impl IntoIterator<Item = impl Display>,
    info_md5: [u8; 16],
) {
    let start = text.len();
    text.push_str(name);
    let mut separator = ' ';
    for release in releases {
        // Writing to a String can't fail.
        let _ = write!(text, "{separator}{release}");
        separator = ',';
    }
    if separator == ' ' {
        text.truncate(start);
        return;
    }
    write_md5(text, info_md5);
}

/// Appends the line of one change.
pub fn write_change(
    text: &mut String,
    name: &str,
    change: Change,
    release: impl Display,
    info_md5: [u8; 16],
) {
    let sign = match change {
        Change::Pushed => "",
        Change::Yanked => "-",
    };
    let _ = write!(text, "{name} {sign}{release}");
    write_md5(text, info_md5);
}

fn write_md5(text: &mut String, md5: [u8; 16]) {
    text.push(' ');
    for byte in md5 {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_names() {
        for change in [Change::Pushed, Change::Yanked] {
            assert_eq!(change.name().parse(), Ok(change));
        }
        assert!("pull".parse::<Change>().is_err());
    }

    #[test]
    fn the_header_says_when_it_was_begun() {
        let at = Timestamp::from_millis(1_700_000_000_123);
        assert_eq!(header(at), "created_at: 2023-11-14T22:13:20Z\n---\n");
    }

    #[test]
    fn changes_are_appended_to_the_baseline() {
        let mut text = String::new();
        write_gem(&mut text, "rack", ["1.0", "1.1-java"], [0x0f; 16]);
        write_gem(&mut text, "gone", [""; 0], [0x0f; 16]);
        write_change(&mut text, "rack", Change::Pushed, "2.0", [0x1f; 16]);
        write_change(&mut text, "rack", Change::Yanked, "1.0", [0x2f; 16]);
        let (first, second, third) = ("0f".repeat(16), "1f".repeat(16), "2f".repeat(16));
        assert_eq!(
            text,
            format!("rack 1.0,1.1-java {first}\nrack 2.0 {second}\nrack -1.0 {third}\n")
        );
    }
}
