//! Compares everything that is derived from the releases with the stored data. Each store supplies
//! its rows.
//!
//! The texts are replayed as a client would. For each gem only its last digest and the sum of its
//! releases' digests are held: 200,000 gems take some 20 MB, whatever the length of the texts.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashMap};

use super::derived::Derived;
use super::{Report, StoreError, TextKind};
use crate::index::digest::{Digests, RunningDigest};
use crate::release::Release;

/// Returns the error for releases whose gem is missing from the table of gems, which can't be
/// repaired.
pub(super) fn nameless(gem: i64) -> StoreError {
    StoreError::Lost(format!("gem {gem} has releases and no name"))
}

/// What `/versions` lists for a gem.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    md5: [u8; 16],
    /// Sum of the digests of its releases, so that adding and removing are commutative.
    releases: u64,
}

/// Verifies first the pieces of both texts, and then all gems.
#[derive(Default)]
pub(super) struct Verification {
    pub(super) report: Report,
    gems: HashMap<String, Listed>,
    /// Names in the texts without a gem so far.
    names: HashMap<String, ()>,
    hasher: DefaultHashBuilder,
}

/// A text that is read piece by piece.
pub(super) struct Reading {
    kind: TextKind,
    digest: RunningDigest,
    rest: String,
    lines: usize,
    length: u64,
}

/// Stored data of a text beside its pieces.
pub(super) struct StoredText {
    pub(super) length: u64,
    pub(super) digests: Digests,
    pub(super) state: Vec<u8>,
}

impl Reading {
    pub(super) fn of(kind: TextKind) -> Self {
        let digest = RunningDigest::default();
        Self { kind, digest, rest: String::new(), lines: 0, length: 0 }
    }
}

impl Verification {
    /// Adds the next piece, which begins at `start`.
    pub(super) fn piece(&mut self, reading: &mut Reading, start: u64, content: &[u8]) {
        let kind = reading.kind;
        if start != reading.length {
            self.report.problem(|| format!("{kind:?} has a gap at byte {}", reading.length));
        }
        reading.digest.update(content);
        reading.length += content.len() as u64;
        reading.rest.push_str(&String::from_utf8_lossy(content));
        let whole = reading.rest.rfind('\n').map_or(0, |end| end + 1);
        for line in reading.rest[..whole].lines() {
            self.line(kind, reading.lines, line);
            reading.lines += 1;
        }
        reading.rest.drain(..whole);
    }

    /// Ends a text, and compares its length and digests.
    pub(super) fn text_ends(&mut self, reading: Reading, stored: Option<StoredText>) {
        let Reading { kind, digest, rest, length, .. } = reading;
        if !rest.is_empty() {
            self.report.problem(|| format!("{kind:?} ends in the middle of a line"));
        }
        let is_right = stored.is_some_and(|stored| {
            let state = RunningDigest::restore(&stored.state).map(|it| it.digests());
            stored.length == length
                && stored.digests == digest.digests()
                && state == Ok(stored.digests)
        });
        if !is_right {
            self.report.problem(|| format!("the digests of {kind:?} are not those of its bytes"));
        }
    }

    fn line(&mut self, kind: TextKind, index: usize, line: &str) {
        let problem = match kind {
            // The first two lines are the header: "created_at: .." and "---".
            TextKind::Versions if index >= 2 => (!self.versions_line(line))
                .then(|| format!("/versions has a line that is none: {line:?}")),
            TextKind::Names if index >= 1 => {
                let is_twice = self.names.insert(line.to_owned(), ()).is_some();
                is_twice.then(|| format!("/names has {line} twice"))
            }
            _ => None,
        };
        if let Some(problem) = problem {
            self.report.problem(|| problem);
        }
    }

    /// Applies a line as a client does. Returns false if it is invalid.
    fn versions_line(&mut self, line: &str) -> bool {
        let mut words = line.split(' ');
        let (Some(name), Some(releases), Some(md5), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return false;
        };
        let mut digest = [0; 16];
        if hex::decode_to_slice(md5, &mut digest).is_err() {
            return false;
        }
        let change =
            releases.split(',').fold(0_u64, |sum, release| match release.strip_prefix('-') {
                Some(release) => sum.wrapping_sub(self.digest(release)),
                None => sum.wrapping_add(self.digest(release)),
            });
        let listed = self.gems.entry_ref(name).or_default();
        listed.md5 = digest;
        listed.releases = listed.releases.wrapping_add(change);
        true
    }

    fn digest(&self, release: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(release.as_bytes());
        hasher.finish()
    }

    /// Adds a gem with its releases in order, and whether its stored derived data is correct.
    pub(super) fn gem(
        &mut self,
        name: &str,
        releases: &[Release],
        derived: &Derived,
        is_stored: bool,
    ) {
        match releases.is_empty() {
            true => self.report.names_without_releases += 1,
            false => self.report.gems += 1,
        }
        self.report.releases += releases.len() as u64;
        if !is_stored {
            self.report.problem(|| format!("what is stored of {name} is not what follows from it"));
        }
        let expected = releases.iter().fold(0_u64, |sum, release| {
            sum.wrapping_add(self.digest(&release.identity.to_string()))
        });
        let listed = self.gems.remove(name).unwrap_or_default();
        if listed.releases != expected {
            self.report
                .problem(|| format!("/versions has other releases of {name} than there are"));
        } else if !releases.is_empty() && listed.md5 != derived.digests.md5 {
            self.report
                .problem(|| format!("/versions has another digest of {name} than its /info"));
        }
        if self.names.remove(name).is_some() == releases.is_empty() {
            self.report.problem(|| format!("/names is wrong about {name}"));
        }
    }

    /// Reports names that the texts have and the store does not, after all gems.
    pub(super) fn finish(mut self) -> Report {
        for (name, listed) in &self.gems {
            if listed.releases != 0 {
                self.report
                    .problem(|| format!("/versions has releases of {name} that there are not"));
            }
        }
        for name in self.names.into_keys() {
            self.report.problem(|| format!("/names has {name}, which has no release"));
        }
        self.report
    }
}
