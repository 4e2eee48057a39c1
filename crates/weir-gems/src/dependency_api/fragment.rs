//! Packed data of one gem for the dependency API. Most releases have the same dependencies as the
//! one before, so each distinct list is written once.
//!
//! Numbers are LEB128, texts are prefixed by their length: `lists, {dependencies, {name,
//! requirement}}, releases, {number, platform, list}`.

use hashbrown::HashMap;

use crate::release::Release;

/// Error for bytes that are not a valid fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored dependencies cannot be read; `weir gems verify --fix` rewrites them")]
pub struct FragmentError;

/// The packed releases of one gem, in the order of its `/info`.
#[derive(Clone, Debug, Default)]
pub struct Fragment<'a> {
    lists: Vec<Vec<(&'a str, &'a str)>>,
    releases: Vec<FragmentRelease<'a>>,
}

/// A release of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentRelease<'a> {
    pub number: &'a str,
    pub platform: &'a str,
    /// Index of its list of dependencies.
    list: usize,
}

/// Packs the releases of a gem.
#[must_use]
pub fn write_fragment<'a>(releases: impl IntoIterator<Item = &'a Release>) -> Vec<u8> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut lists = Vec::new();
    let mut rows = Vec::new();
    let mut count = 0;
    for release in releases {
        let next = places.len();
        let list = *places.entry(release.dependencies.as_str()).or_insert_with(|| {
            let dependencies: Vec<_> = release.dependencies.iter().collect();
            number(&mut lists, dependencies.len());
            for (name, requirement) in dependencies {
                text(&mut lists, name);
                text(&mut lists, &requirement.replace('&', ", "));
            }
            next
        });
        text(&mut rows, release.identity.number.as_str());
        text(&mut rows, release.identity.platform.as_str());
        number(&mut rows, list);
        count += 1;
    }
    let mut fragment = Vec::with_capacity(lists.len() + rows.len() + 4);
    number(&mut fragment, places.len());
    fragment.append(&mut lists);
    number(&mut fragment, count);
    fragment.append(&mut rows);
    fragment
}

fn number(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let [low, ..] = value.to_le_bytes().map(|byte| byte & 0x7f);
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

impl<'a> Fragment<'a> {
    /// Parses a fragment.
    ///
    /// # Errors
    /// Fails if the bytes are not a valid fragment.
    pub fn read(bytes: &'a [u8]) -> Result<Self, FragmentError> {
        let mut rest = Rest(bytes);
        let mut fragment = Self::default();
        for _ in 0..rest.count()? {
            let count = rest.count()?;
            let mut list = Vec::with_capacity(count);
            for _ in 0..count {
                list.push((rest.text()?, rest.text()?));
            }
            fragment.lists.push(list);
        }
        for _ in 0..rest.count()? {
            let (number, platform, list) = (rest.text()?, rest.text()?, rest.number()?);
            if list >= fragment.lists.len() {
                return Err(FragmentError);
            }
            fragment.releases.push(FragmentRelease { number, platform, list });
        }
        if rest.0.is_empty() { Ok(fragment) } else { Err(FragmentError) }
    }

    /// Returns the number of releases in a fragment without unpacking it.
    ///
    /// # Errors
    /// Fails if the bytes are not a valid fragment.
    pub fn count(bytes: &[u8]) -> Result<usize, FragmentError> {
        let mut rest = Rest(bytes);
        for _ in 0..rest.count()? {
            for _ in 0..rest.count()? {
                rest.bytes()?;
                rest.bytes()?;
            }
        }
        rest.count()
    }

    /// Iterates over all releases.
    pub fn releases(&self) -> impl ExactSizeIterator<Item = FragmentRelease<'a>> {
        self.releases.iter().copied()
    }

    /// Returns names and requirements (`>= 1, < 2`) of a release's dependencies.
    #[must_use]
    pub fn dependencies(&self, release: FragmentRelease<'a>) -> &[(&'a str, &'a str)] {
        &self.lists[release.list]
    }

    /// Returns the distinct lists of dependencies.
    pub(super) fn lists(&self) -> &[Vec<(&'a str, &'a str)>] {
        &self.lists
    }
}

impl FragmentRelease<'_> {
    /// Returns the number with the platform: `1.0` or `1.0-java`.
    #[must_use]
    pub fn full(&self) -> String {
        match self.platform {
            "ruby" => self.number.to_owned(),
            platform => format!("{}-{platform}", self.number),
        }
    }

    pub(super) fn list(&self) -> usize {
        self.list
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn number(&mut self) -> Result<usize, FragmentError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let (first, rest) = self.0.split_first().ok_or(FragmentError)?;
            self.0 = rest;
            value |= usize::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(FragmentError)
    }

    /// Reads the number of items that follow. It is at most the number of remaining bytes, so that
    /// damaged data can't cause large allocations.
    fn count(&mut self) -> Result<usize, FragmentError> {
        self.number().ok().filter(|count| *count <= self.0.len()).ok_or(FragmentError)
    }

    fn bytes(&mut self) -> Result<&'a [u8], FragmentError> {
        let length = self.number()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(FragmentError)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'a str, FragmentError> {
        str::from_utf8(self.bytes()?).map_err(|_| FragmentError)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_base::clock::Timestamp;

    use super::*;
    use crate::release::{Checksum, Identity};

    fn release(number: &str, dependencies: &str) -> Release {
        Release {
            identity: Identity {
                number: number.parse().unwrap(),
                platform: "java".parse().unwrap(),
            },
            dependencies: dependencies.parse().unwrap(),
            checksum: Checksum([0; 32]),
            ruby: None,
            rubygems: None,
            created_at: Timestamp::default(),
        }
    }

    #[test]
    fn what_was_packed_is_read() {
        let releases = [
            release("1.0", "rack:< 3&>= 2,rake:>= 0"),
            release("1.1", "rack:< 3&>= 2,rake:>= 0"),
            release("2.0", ""),
        ];
        let bytes = write_fragment(&releases);
        let fragment = Fragment::read(&bytes).unwrap();
        assert_eq!(fragment.lists().len(), 2);
        assert_eq!(Fragment::count(&bytes), Ok(3));
        let all: Vec<_> = fragment.releases().collect();
        let numbers: Vec<_> = all.iter().map(|it| (it.number, it.platform)).collect();
        assert_eq!(numbers, [("1.0", "java"), ("1.1", "java"), ("2.0", "java")]);
        assert_eq!(fragment.dependencies(all[1]), [("rack", "< 3, >= 2"), ("rake", ">= 0")]);
        assert!(fragment.dependencies(all[2]).is_empty());
        assert_eq!(Fragment::read(&write_fragment([])).unwrap().releases().len(), 0);
    }

    #[test]
    fn no_damage_is_taken_for_a_fragment_with_more_behind_it() {
        let mut bytes = write_fragment(&[release("1.0", "rack:>= 2")]);
        bytes.push(0);
        assert_eq!(Fragment::read(&bytes).unwrap_err(), FragmentError);
        assert!(Fragment::read(&[]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(fragment) = Fragment::read(&bytes) {
                prop_assert_eq!(Fragment::count(&bytes), Ok(fragment.releases().len()));
            }
        }
    }
}
