//! Finds jobs by jid, at 5 to 10 bytes per job: a hash table of job indices.
//!
//! The hash is stored in the job's entry and in its record's head, so a restart fills the table
//! without reading bodies. It is seeded per log, so a producer can't direct jids at one bucket. Two
//! jids may have the same hash; the caller compares the jid in the record.

use hashbrown::HashTable;

use super::arena::{Arena, JobIndex};

/// Number of parts of the table. Each grows on its own, so that no growth blocks the thread for
/// long.
const PARTS: usize = 256;

/// Maximum number of jobs with the same hash. If a producer pushed one jid repeatedly, every insert
/// would have to visit all of them. Further jobs are not indexed, so jid lookups miss them.
const SHARING_MAX: usize = 32;

/// Returns the hash of `jid` for a log with this `seed`.
pub(crate) fn hash_of(jid: &str, seed: u64) -> u32 {
    let hash = xxhash_rust::xxh3::xxh3_64_with_seed(jid.as_bytes(), seed);
    u32::try_from(hash >> 32).expect("the upper half of 64 bits")
}

/// A map from jid hash to jobs.
#[derive(Debug)]
pub(crate) struct JidIndex {
    parts: Vec<HashTable<JobIndex>>,
}

impl JidIndex {
    pub(crate) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }

    /// Reserves space for `jobs` jobs, so that filling the table moves nothing.
    pub(crate) fn reserve(&mut self, jobs: usize, arena: &Arena) {
        let rehash = |index: &JobIndex| spread(arena.get(*index).hash);
        for part in &mut self.parts {
            part.reserve(jobs / PARTS, rehash);
        }
    }

    /// Adds a job under `hash`. Returns false without adding it if too many jobs have this hash.
    pub(crate) fn insert(&mut self, hash: u32, index: JobIndex, arena: &Arena) -> bool {
        let sharing = self.candidates(hash, arena).take(SHARING_MAX).count();
        if sharing == SHARING_MAX {
            return false;
        }
        let rehash = |index: &JobIndex| spread(arena.get(*index).hash);
        self.parts[part_of(hash)].insert_unique(spread(hash), index, rehash);
        true
    }

    /// Removes a job that was indexed under `hash`.
    pub(crate) fn remove(&mut self, hash: u32, index: JobIndex) {
        let part = &mut self.parts[part_of(hash)];
        let found = part.find_entry(spread(hash), |candidate| *candidate == index);
        found.expect("an indexed job is in the table").remove();
        shrink(part);
    }

    /// Returns the jobs whose jid has this hash.
    pub(crate) fn candidates<'a>(
        &'a self,
        hash: u32,
        arena: &'a Arena,
    ) -> impl Iterator<Item = JobIndex> + 'a {
        let part = &self.parts[part_of(hash)];
        part.iter_hash(spread(hash)).copied().filter(move |index| arena.get(*index).hash == hash)
    }
}

/// Releases the memory of a large part once it is empty.
fn shrink(part: &mut HashTable<JobIndex>) {
    const WORTHWHILE: usize = 4096;
    if part.capacity() > WORTHWHILE && part.is_empty() {
        *part = HashTable::new();
    }
}

const fn part_of(hash: u32) -> usize {
    (hash >> 24) as usize
}

/// Spreads 32 bits over 64, since the table picks its bucket by the low bits and tags it by the top
/// ones.
const fn spread(hash: u32) -> u64 {
    (hash as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::arena::{ArenaEntry, EntryState};
    use weir_log::RecordPosition;

    fn add(arena: &mut Arena, index: &mut JidIndex, hash: u32) -> (JobIndex, bool) {
        let entry = ArenaEntry {
            position: RecordPosition { segment: 0, offset: 0 },
            order: 0,
            hash,
            queue: 0,
            rest: EntryState::Waiting,
            indexed: true,
        };
        let job = arena.insert(entry);
        (job, index.insert(hash, job, arena))
    }

    #[test]
    fn every_job_is_found_by_its_hash() {
        let (mut arena, mut index) = (Arena::default(), JidIndex::new());
        let hashes: Vec<u32> = (0..20_000).map(|n| hash_of(&format!("jid-{n}"), 1)).collect();
        let jobs: Vec<_> = hashes.iter().map(|h| add(&mut arena, &mut index, *h).0).collect();
        for (hash, job) in hashes.iter().zip(&jobs) {
            assert!(index.candidates(*hash, &arena).any(|found| found == *job));
        }
        for (hash, job) in hashes.iter().zip(&jobs) {
            index.remove(*hash, *job);
            assert!(!index.candidates(*hash, &arena).any(|found| found == *job));
        }
    }

    #[test]
    fn one_jid_pushed_over_and_over_stays_cheap() {
        let (mut arena, mut index) = (Arena::default(), JidIndex::new());
        let indexed = (0..10_000).filter(|_| add(&mut arena, &mut index, 7).1).count();
        assert_eq!(indexed, SHARING_MAX);
    }
}
