//! Stores one small entry per live job, addressed by a 32-bit index.
//!
//! Entries are in chunks, so growth never copies (no doubling at 5 million jobs) and a chunk
//! without live jobs returns its memory.

use weir_log::RecordPosition;

/// Entries per chunk: 12 KiB at 24 bytes, a size that allocators don't round up.
pub(crate) const CHUNK_ENTRIES: usize = 512;

/// Index of a live job. It is reused after the job is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JobIndex(pub(crate) u32);

/// Where a live job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryState {
    /// In its queue.
    Waiting,
    /// Reserved by a worker.
    Reserved,
    Scheduled,
    Retries,
    Dead,
}

/// The data of a job in memory: 24 bytes. Everything else is in its record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArenaEntry {
    /// The position of its record in the log.
    pub(crate) position: RecordPosition,
    /// Microseconds: when it was enqueued (unique in the server), is due, or died.
    pub(crate) order: u64,
    /// The hash of its jid; see [`super::index`].
    pub(crate) hash: u32,
    /// The number of its queue.
    pub(crate) queue: u16,
    pub(crate) rest: EntryState,
    /// False when too many jobs share the hash (a producer that repeats one jid).
    pub(crate) indexed: bool,
}

#[derive(Debug)]
enum ArenaSlot {
    Live(ArenaEntry),
    /// The next free slot of the chunk.
    Free(Option<u16>),
}

#[derive(Debug)]
struct Chunk {
    slots: Vec<ArenaSlot>,
    first_free: Option<u16>,
    live: u16,
}

/// All live jobs.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    chunks: Vec<Option<Chunk>>,
    /// Chunks with free slots. The last one is filled next.
    roomy: Vec<u32>,
    /// Indices in `chunks` that are free.
    vacant: Vec<u32>,
    live: usize,
}

impl Arena {
    /// Returns the number of live jobs.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.live
    }

    /// Adds a job.
    ///
    /// # Panics
    /// If there are 2^32 live jobs.
    pub(crate) fn insert(&mut self, entry: ArenaEntry) -> JobIndex {
        let number = self.chunk_with_room();
        let chunk = self.chunks[number].as_mut().expect("a chunk with room is there");
        let slot = chunk.insert(entry);
        if chunk.is_full() {
            self.roomy.pop();
        }
        self.live += 1;
        index_of(number, slot)
    }

    /// Removes a live job and returns its entry.
    pub(crate) fn remove(&mut self, index: JobIndex) -> ArenaEntry {
        let (number, slot) = place_of(index);
        let chunk = self.chunks[number].as_mut().expect("the job's chunk is there");
        let was_full = chunk.is_full();
        let entry = chunk.remove(slot);
        let empty = chunk.live == 0;
        self.live -= 1;
        let number_u32 = u32::try_from(number).expect("chunk numbers fit in 32 bits");
        // Keep one empty chunk, so that a queue that alternates between empty and not allocates
        // nothing.
        if empty && self.roomy.len() > 1 {
            self.chunks[number] = None;
            self.roomy.retain(|roomy| *roomy != number_u32);
            self.vacant.push(number_u32);
        } else if was_full {
            self.roomy.push(number_u32);
        }
        entry
    }

    /// Returns the entry of a live job.
    pub(crate) fn get(&self, index: JobIndex) -> &ArenaEntry {
        let (number, slot) = place_of(index);
        match self.chunks[number].as_ref().map(|chunk| &chunk.slots[slot]) {
            Some(ArenaSlot::Live(entry)) => entry,
            _ => panic!("job {} is not live", index.0),
        }
    }

    /// Returns the entry of a job, or `None` if it is not live.
    pub(crate) fn lookup(&self, index: JobIndex) -> Option<&ArenaEntry> {
        let (number, slot) = place_of(index);
        match self.chunks.get(number)?.as_ref()?.slots.get(slot)? {
            ArenaSlot::Live(entry) => Some(entry),
            ArenaSlot::Free(_) => None,
        }
    }

    /// Returns a number above every index that [`Arena::lookup`] finds.
    pub(crate) fn index_end(&self) -> u32 {
        u32::try_from(self.chunks.len() * CHUNK_ENTRIES).unwrap_or(u32::MAX)
    }

    /// Iterates over all live jobs in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobIndex, &ArenaEntry)> {
        let chunks = self.chunks.iter().enumerate();
        let chunks = chunks.filter_map(|(number, chunk)| Some((number, chunk.as_ref()?)));
        chunks.flat_map(|(number, chunk)| {
            chunk.slots.iter().enumerate().filter_map(move |(slot, live)| match live {
                ArenaSlot::Live(entry) => Some((index_of(number, slot), entry)),
                ArenaSlot::Free(_) => None,
            })
        })
    }

    /// Returns the entry of a live job for changes.
    pub(crate) fn get_mut(&mut self, index: JobIndex) -> &mut ArenaEntry {
        let (number, slot) = place_of(index);
        match self.chunks[number].as_mut().map(|chunk| &mut chunk.slots[slot]) {
            Some(ArenaSlot::Live(entry)) => entry,
            _ => panic!("job {} is not live", index.0),
        }
    }

    fn chunk_with_room(&mut self) -> usize {
        if let Some(number) = self.roomy.last() {
            return *number as usize;
        }
        let fresh = Some(Chunk::new());
        let number = match self.vacant.pop() {
            Some(number) => {
                self.chunks[number as usize] = fresh;
                number as usize
            }
            None => {
                self.chunks.push(fresh);
                self.chunks.len() - 1
            }
        };
        self.roomy.push(u32::try_from(number).expect("fewer than 2^32 chunks"));
        number
    }
}

impl Chunk {
    fn new() -> Self {
        Self { slots: Vec::with_capacity(CHUNK_ENTRIES), first_free: None, live: 0 }
    }

    fn is_full(&self) -> bool {
        usize::from(self.live) == CHUNK_ENTRIES
    }

    fn insert(&mut self, entry: ArenaEntry) -> usize {
        self.live += 1;
        let Some(slot) = self.first_free.map(usize::from) else {
            self.slots.push(ArenaSlot::Live(entry));
            return self.slots.len() - 1;
        };
        let ArenaSlot::Free(next) = self.slots[slot] else {
            panic!("the free list names a live slot")
        };
        self.first_free = next;
        self.slots[slot] = ArenaSlot::Live(entry);
        slot
    }

    fn remove(&mut self, slot: usize) -> ArenaEntry {
        let number = u16::try_from(slot).expect("a chunk has fewer than 2^16 slots");
        let freed = ArenaSlot::Free(self.first_free);
        let ArenaSlot::Live(entry) = std::mem::replace(&mut self.slots[slot], freed) else {
            panic!("removed twice");
        };
        self.first_free = Some(number);
        self.live -= 1;
        entry
    }
}

fn index_of(chunk: usize, slot: usize) -> JobIndex {
    JobIndex(u32::try_from(chunk * CHUNK_ENTRIES + slot).expect("fewer than 2^32 live jobs"))
}

const fn place_of(index: JobIndex) -> (usize, usize) {
    let index = index.0 as usize;
    (index / CHUNK_ENTRIES, index % CHUNK_ENTRIES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn entry(order: u64) -> ArenaEntry {
        ArenaEntry {
            position: RecordPosition { segment: 1, offset: 8 },
            order,
            hash: 0,
            queue: 0,
            rest: EntryState::Waiting,
            indexed: true,
        }
    }

    #[test]
    fn an_entry_costs_24_bytes() {
        assert_eq!(std::mem::size_of::<ArenaSlot>(), 24);
    }

    #[test]
    fn jobs_keep_their_index_and_empty_chunks_go() {
        let mut arena = Arena::default();
        let mut live = BTreeMap::new();
        let mut random = fastrand::Rng::with_seed(7);
        for order in 0..50_000 {
            let index = arena.insert(entry(order));
            assert!(live.insert(index, order).is_none(), "an index was given twice");
            if random.u8(..) < 120 {
                let nth = random.usize(..live.len());
                let (index, order) = live.iter().nth(nth.min(64)).map(|(i, o)| (*i, *o)).unwrap();
                assert_eq!(arena.remove(index).order, order);
                live.remove(&index);
            }
        }
        for (index, order) in &live {
            assert_eq!(arena.get(*index).order, *order);
        }
        for index in live.keys() {
            arena.remove(*index);
        }
        assert_eq!(arena.len(), 0);
        let kept = arena.chunks.iter().flatten().count();
        assert_eq!(kept, 1, "memory of empty chunks is given back, but for one");
    }
}
