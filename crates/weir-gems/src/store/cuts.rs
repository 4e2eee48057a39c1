//! Releases by their full names: `rack-3.0`, `nokogiri-1.15.0-x86_64-linux`.
//!
//! Names have dashes and digits too, so a full name can be cut at several places. All of them are
//! tried; a push makes sure that no two releases have one full name.

use crate::name::NAME_BYTES_MAX;
use crate::release::Identity;

/// A name, and what it is a release of.
pub(super) struct Cut<'a> {
    pub(super) name: &'a str,
    pub(super) identity: Identity,
}

/// The ways in which a full name can be cut.
pub(super) fn cuts(full_name: &str) -> impl Iterator<Item = Cut<'_>> {
    let dashes = full_name.match_indices('-').map(|(at, _)| at);
    // Behind the longest name there is nothing to look for.
    dashes.take_while(|at| *at <= NAME_BYTES_MAX).filter_map(|at| {
        let (name, rest) = (&full_name[..at], &full_name[at + 1..]);
        let (number, platform) = rest.split_once('-').unwrap_or((rest, "ruby"));
        let (number, platform) = (number.parse().ok()?, platform.parse().ok()?);
        (!name.is_empty()).then_some(Cut { name, identity: Identity { number, platform } })
    })
}
