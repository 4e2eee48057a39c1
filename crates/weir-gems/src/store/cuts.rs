//! Parses full names of releases, such as `rack-3.0` or `nokogiri-1.15.0-x86_64-linux`.
//!
//! Names may contain dashes and digits, so a full name can be split at several positions. All of
//! them are tried; a push ensures that no two releases have the same full name.

use crate::name::NAME_BYTES_MAX;
use crate::release::Identity;

/// A possible split into name and release.
pub(crate) struct Cut<'a> {
    pub(crate) name: &'a str,
    pub(crate) identity: Identity,
}

/// Returns all possible splits of a full name.
pub(crate) fn cuts(full_name: &str) -> impl Iterator<Item = Cut<'_>> {
    let dashes = full_name.match_indices('-').map(|(at, _)| at);
    // A name can't be longer than this.
    dashes.take_while(|at| *at <= NAME_BYTES_MAX).filter_map(|at| {
        let (name, rest) = (&full_name[..at], &full_name[at + 1..]);
        let (number, platform) = rest.split_once('-').unwrap_or((rest, "ruby"));
        let (number, platform) = (number.parse().ok()?, platform.parse().ok()?);
        (!name.is_empty()).then_some(Cut { name, identity: Identity { number, platform } })
    })
}

/// Returns whether the full name of a release can be split in another way. This is a quick check
/// that is false for nearly all releases.
pub(super) fn may_clash(name: &str, identity: &Identity) -> bool {
    let has_number = |text: &str| {
        text.as_bytes().windows(2).any(|pair| pair[0] == b'-' && pair[1].is_ascii_digit())
    };
    let platform = identity.platform.as_str();
    has_number(name) || has_number(platform) || platform.starts_with(|it: char| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_cut_elsewhere_is_known_without_cutting() {
        for (name, number, platform) in [
            ("rack", "3.0", "ruby"),
            ("rest-client", "1.0", "x86_64-linux"),
            ("a", "1.0", "1.0"),
            ("a-1.0", "1.0", "ruby"),
            ("a-1-b", "2", "ruby"),
            ("a", "1", "x86-mswin32-60"),
        ] {
            let (number, platform) = (number.parse().unwrap(), platform.parse().unwrap());
            let identity = Identity { number, platform };
            let full_name = format!("{name}-{identity}");
            let is_cut_elsewhere = cuts(&full_name).any(|cut| cut.name != name);
            assert_eq!(may_clash(name, &identity), is_cut_elsewhere, "{full_name}");
        }
    }
}
