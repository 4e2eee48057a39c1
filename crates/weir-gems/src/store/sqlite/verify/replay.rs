//! The texts, replayed as a client does it.
//!
//! Of each gem only its last digest is kept, and the sum of the digests of its releases: 200,000
//! gems take some 20 MB, whatever the text's length.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashMap};
use rusqlite::{Connection, OptionalExtension};

use crate::index::digest::{Digests, RunningDigest};
use crate::store::sqlite::text_rows::number;
use crate::store::{Report, StoreError, TextKind};

/// What `/versions` says of a gem.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listed {
    pub(super) md5: [u8; 16],
    /// Sum of the digests of its releases: adding and taking away commute.
    pub(super) releases: u64,
}

#[derive(Default)]
pub(super) struct Replayed {
    pub(super) gems: HashMap<String, Listed>,
    hasher: DefaultHashBuilder,
}

impl Replayed {
    pub(super) fn digest(&self, release: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(release.as_bytes());
        hasher.finish()
    }

    /// A line as a client reads it; false: it is none.
    fn line(&mut self, line: &str) -> bool {
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
}

pub(super) fn versions(
    connection: &Connection,
    report: &mut Report,
) -> Result<Replayed, StoreError> {
    let mut replayed = Replayed::default();
    for_each_line(connection, TextKind::Versions, report, |report, index, line| {
        // "created_at: .." and "---".
        if index >= 2 && !replayed.line(line) {
            report.problem(|| format!("/versions has a line that is none: {line:?}"));
        }
    })?;
    Ok(replayed)
}

/// Names, and whether their gem was seen.
pub(super) fn names(
    connection: &Connection,
    report: &mut Report,
) -> Result<HashMap<String, ()>, StoreError> {
    let mut names = HashMap::new();
    for_each_line(connection, TextKind::Names, report, |report, index, line| {
        if index >= 1 && names.insert(line.to_owned(), ()).is_some() {
            report.problem(|| format!("/names has {line} twice"));
        }
    })?;
    Ok(names)
}

/// Reads a text piece by piece; compares its length and its digests on the way.
fn for_each_line(
    connection: &Connection,
    kind: TextKind,
    report: &mut Report,
    mut line: impl FnMut(&mut Report, usize, &str),
) -> Result<(), StoreError> {
    let mut digest = RunningDigest::default();
    let mut rest = String::new();
    let mut count = 0;
    let mut length = 0_i64;
    let mut statement = connection
        .prepare_cached("SELECT start, content FROM pieces WHERE kind = ?1 ORDER BY start")?;
    let mut rows = statement.query([number(kind)])?;
    while let Some(row) = rows.next()? {
        let content = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        if row.get::<_, i64>(0)? != length {
            report.problem(|| format!("{kind:?} has a gap at byte {length}"));
        }
        digest.update(content);
        length += i64::try_from(content.len()).unwrap_or(i64::MAX);
        rest.push_str(&String::from_utf8_lossy(content));
        let whole = rest.rfind('\n').map_or(0, |end| end + 1);
        for text in rest[..whole].lines() {
            line(report, count, text);
            count += 1;
        }
        rest.drain(..whole);
    }
    if !rest.is_empty() {
        report.problem(|| format!("{kind:?} ends in the middle of a line"));
    }
    compare_text(connection, kind, length, &digest, report)
}

fn compare_text(
    connection: &Connection,
    kind: TextKind,
    length: i64,
    digest: &RunningDigest,
    report: &mut Report,
) -> Result<(), StoreError> {
    let stored: Option<(i64, Digests, Vec<u8>)> = connection
        .prepare_cached("SELECT length, md5, sha256, state FROM texts WHERE kind = ?1")?
        .query_row([number(kind)], |row| {
            let digests = Digests { md5: row.get(1)?, sha256: row.get(2)? };
            Ok((row.get(0)?, digests, row.get(3)?))
        })
        .optional()?;
    let is_right = stored.is_some_and(|(stored_length, digests, state)| {
        let state = RunningDigest::restore(&state).map(|it| it.digests());
        stored_length == length && digests == digest.digests() && state == Ok(digests)
    });
    if !is_right {
        report.problem(|| format!("the digests of {kind:?} are not those of its bytes"));
    }
    Ok(())
}
