//! The sizes of jobs in queues with a limit of bytes (`bytes_max`): 4 bytes per job, which no other jobs have.

use super::arena::{CHUNK_ENTRIES, JobIndex};

#[derive(Debug)]
struct SizeChunk {
    /// In bytes; 0: not known.
    sizes: Box<[u32]>,
    /// Number of known sizes.
    used: u16,
}

/// The sizes of jobs, by index. Chunks without any take no memory.
#[derive(Debug, Default)]
pub(crate) struct JobSizes {
    chunks: Vec<Option<SizeChunk>>,
}

impl JobSizes {
    /// Returns the size of a job; 0: it is not known.
    pub(crate) fn get(&self, job: JobIndex) -> u32 {
        let (number, slot) = place_of(job);
        let chunk = self.chunks.get(number).and_then(Option::as_ref);
        chunk.map_or(0, |chunk| chunk.sizes[slot])
    }

    /// Sets the size of a job; 0 forgets it.
    pub(crate) fn set(&mut self, job: JobIndex, bytes: u32) {
        let (number, slot) = place_of(job);
        if number >= self.chunks.len() {
            if bytes == 0 {
                return;
            }
            self.chunks.resize_with(number + 1, || None);
        }
        if bytes == 0 && self.chunks[number].is_none() {
            return;
        }
        let chunk = self.chunks[number].get_or_insert_with(|| SizeChunk {
            sizes: vec![0; CHUNK_ENTRIES].into_boxed_slice(),
            used: 0,
        });
        let old = std::mem::replace(&mut chunk.sizes[slot], bytes);
        chunk.used = chunk.used + u16::from(bytes > 0) - u16::from(old > 0);
        if chunk.used == 0 {
            self.chunks[number] = None;
        }
    }
}

/// A queue whose jobs are being counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizing {
    pub(crate) queue: u16,
    /// Jobs with an order up to this are counted. `None`: none.
    pub(crate) up_to: Option<u64>,
}

const fn place_of(job: JobIndex) -> (usize, usize) {
    let index = job.0 as usize;
    (index / CHUNK_ENTRIES, index % CHUNK_ENTRIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_known_until_they_are_forgotten_and_take_no_memory_then() {
        let mut sizes = JobSizes::default();
        sizes.set(JobIndex(5_000), 0);
        assert!(sizes.chunks.is_empty());
        for job in 0..2_000 {
            sizes.set(JobIndex(job), job + 1);
        }
        sizes.set(JobIndex(7), 70);
        assert_eq!([0, 7, 1_999, 2_000].map(|job| sizes.get(JobIndex(job))), [1, 70, 2_000, 0]);
        for job in 0..2_000 {
            sizes.set(JobIndex(job), 0);
        }
        assert_eq!(sizes.chunks.iter().flatten().count(), 0);
    }
}
