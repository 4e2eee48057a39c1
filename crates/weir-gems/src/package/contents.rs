//! Checks `data.tar.gz`: which paths an installer would write.

use std::collections::HashSet;
use std::io::Read;

use tar::{Archive, Entry, EntryType};

use super::counting::MemberDigests;
use super::error::{Exceeded, PackageError, exceeded_in, unpacking};
use super::gunzip::{Allowance, Gunzip};
use super::limits::PackageLimits;
use super::members::DATA;

/// Checks all entries, without extracting them.
pub(super) fn check(
    member: Entry<'_, impl Read>,
    limits: &PackageLimits,
) -> Result<MemberDigests, PackageError> {
    let allowance = allowance(member.size(), limits);
    let mut archive = Archive::new(Gunzip::new(DATA, member, allowance));
    let mut layout = Layout::default();
    let entries = archive.entries().map_err(|error| unpacking(DATA, error))?;
    for (count, entry) in entries.raw(true).enumerate() {
        if count >= limits.entries_max {
            return Err(PackageError::Entries(limits.entries_max));
        }
        layout.add(&entry.map_err(unreadable)?, limits)?;
    }
    archive.into_inner().finish()
}

fn unreadable(error: std::io::Error) -> PackageError {
    debug_assert!(exceeded_in(&error).is_none_or(|it| !matches!(it, Exceeded::Metadata(_))));
    unpacking(DATA, error)
}

fn allowance(packed: u64, limits: &PackageLimits) -> Allowance {
    let (all, by_ratio) = (limits.unpacked_bytes_max, limits.by_ratio(packed));
    match by_ratio < all {
        true => Allowance { bytes: by_ratio, exceeded: Exceeded::Ratio(by_ratio) },
        false => Allowance { bytes: all, exceeded: Exceeded::Unpacked(all) },
    }
}

/// Earlier entries, as far as later ones could conflict with them.
#[derive(Default)]
struct Layout {
    /// Links. A path through a link would be written to another location than it names.
    links: HashSet<Vec<String>>,
}

impl Layout {
    fn add(
        &mut self,
        entry: &Entry<'_, impl Read>,
        limits: &PackageLimits,
    ) -> Result<(), PackageError> {
        let header = entry.header();
        if header.entry_type() == EntryType::XGlobalHeader {
            // A global header does not affect paths; `git archive` writes one.
            return Ok(());
        }
        let path = text(&header.path_bytes(), limits)?;
        let parts = parts(&path)?;
        if (1..=parts.len()).any(|count| self.links.contains(&parts[..count])) {
            return Err(refused(&path, "leads through a link"));
        }
        match header.entry_type() {
            EntryType::Regular | EntryType::Directory => Ok(()),
            EntryType::Symlink => {
                let target = header.link_name_bytes().unwrap_or_default();
                check_target(&parts, &text(&target, limits)?)?;
                self.links.insert(parts);
                Ok(())
            }
            _ => Err(PackageError::Kind { path }),
        }
    }
}

fn refused(path: &str, reason: &'static str) -> PackageError {
    PackageError::Path { path: path.to_owned(), reason }
}

fn text(bytes: &[u8], limits: &PackageLimits) -> Result<String, PackageError> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if bytes.len() > limits.path_bytes_max {
        return Err(refused(&text, "is longer than gems.limits.advanced.path_bytes_max"));
    }
    if bytes.iter().any(|byte| *byte < 0x20 || *byte == 0x7f) {
        return Err(refused(&text, "has control characters"));
    }
    Ok(text)
}

/// Splits a path at slashes and backslashes, since installers on Windows treat both as separators.
fn split(path: &str) -> impl Iterator<Item = &str> {
    path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".")
}

fn check_relative(path: &str) -> Result<(), PackageError> {
    let has_drive = path.as_bytes().get(1) == Some(&b':');
    match path.is_empty() || path.starts_with(['/', '\\', '~']) || has_drive {
        true => Err(refused(path, "does not begin in the gem's folder")),
        false => Ok(()),
    }
}

/// Returns the parts of an entry's path.
fn parts(path: &str) -> Result<Vec<String>, PackageError> {
    check_relative(path)?;
    match split(path).any(|part| part == "..") {
        true => Err(refused(path, "leads upwards")),
        false => Ok(split(path).map(str::to_owned).collect()),
    }
}

/// Checks that the target of a link stays inside the gem. Its `..` parts may only be at the
/// beginning, relative to the link's own directory: later parts may be links themselves, whose
/// parent is elsewhere.
fn check_target(link: &[String], target: &str) -> Result<(), PackageError> {
    check_relative(target)?;
    let upwards = split(target).take_while(|part| *part == "..").count();
    if upwards >= link.len() {
        return Err(refused(target, "leads out of the gem"));
    }
    match split(target).skip(upwards).any(|part| part == "..") {
        true => Err(refused(target, "leads upwards behind a name, which may be a link")),
        false => Ok(()),
    }
}
