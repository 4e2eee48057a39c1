//! Caches recently requested infos in memory, so that popular gems need no reads of the file.
//!
//! The cache never returns outdated infos. Each use first compares the position of `/versions`, two
//! numbers in the file. Every change of an info, in any process, appends a line with its name, or
//! rewrites the text, in the same transaction. The lines that were appended since the last use are
//! therefore the names to evict.

mod slots;

use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rusqlite::Connection;

use self::slots::Slots;
use super::{Inner, read, text_rows};
use crate::store::{Info, StoreError, TextKind};

/// Maximum number of appended bytes to read to find the names to evict; beyond it, the whole cache
/// is cleared.
const TAIL_BYTES_MAX: i64 = 1 << 20;
/// An info larger than this fraction of the cache is not cached, because it would evict too many
/// others.
const SHARE_MAX: usize = 16;

/// The length and generation of a text. If they are equal, nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) generation: i64,
    pub(super) length: i64,
}

#[derive(Debug)]
pub(super) struct InfoCache {
    bytes_max: usize,
    hits: Counter,
    misses: Counter,
    evictions: Counter,
    bytes: Gauge,
    /// A std mutex: it is locked only for one lookup or insertion.
    known: Mutex<Known>,
}

/// Infos as of one state of the file.
#[derive(Debug, Default)]
struct Known {
    /// Position of `/versions`; None if nothing was read yet.
    as_of: Option<Position>,
    slots: Slots,
}

/// The text that was appended between two states.
#[derive(Debug)]
struct Tail {
    from: Position,
    to: Position,
    /// The text; None if it is too long, or if `/versions` was rewritten.
    text: Option<String>,
}

impl InfoCache {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            hits: Counter::default(),
            misses: Counter::default(),
            evictions: Counter::default(),
            bytes: Gauge::default(),
            known: Mutex::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "weir_gems_info_cache_hits",
            "Infos that were answered from memory",
            self.hits.clone(),
        );
        registry.register(
            "weir_gems_info_cache_misses",
            "Infos that were read from the file",
            self.misses.clone(),
        );
        registry.register(
            "weir_gems_info_cache_evictions",
            "Infos that went for others, at gems.sqlite.info_cache_bytes",
            self.evictions.clone(),
        );
        registry.register(
            "weir_gems_info_cache_bytes",
            "Memory of infos that are kept",
            self.bytes.clone(),
        );
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the info may be cached, so that comparing the position is worthwhile.
    fn has(&self, name: &str) -> bool {
        self.known().slots.has(name)
    }

    /// Returns the cached info of this state, if there is one.
    fn get(&self, name: &str, as_of: Position) -> Option<Info> {
        let mut known = self.known();
        if known.as_of != Some(as_of) {
            return None;
        }
        known.slots.get(name)
    }

    /// Caches an info, if it has the same state as the whole cache.
    fn put(&self, name: &str, info: &Info, as_of: Position) {
        let mut known = self.known();
        if *known.as_of.get_or_insert(as_of) != as_of {
            return;
        }
        if Slots::bytes_of(name, info) > self.bytes_max / SHARE_MAX {
            return;
        }
        known.slots.insert(name, info.clone());
        let evicted = known.slots.shrink_to(self.bytes_max);
        self.evictions.inc_by(evicted);
        self.bytes.set(i64::try_from(known.slots.bytes()).unwrap_or(i64::MAX));
    }

    /// Evicts infos that have changed.
    fn follow(&self, tail: &Tail) {
        let Tail { from, to, text } = tail;
        let mut known = self.known();
        let Some(as_of) = known.as_of else { return };
        let is_within = |length| (from.length..=to.length).contains(&length);
        match text {
            // Another thread has already updated the cache to a later state.
            _ if as_of.generation == to.generation && as_of.length >= to.length => return,
            Some(text) if as_of.generation == to.generation && is_within(as_of.length) => {
                for name in text.lines().filter_map(|line| line.split(' ').next()) {
                    known.slots.remove(name);
                }
            }
            _ => known.slots = Slots::default(),
        }
        known.as_of = Some(*to);
        self.bytes.set(i64::try_from(known.slots.bytes()).unwrap_or(i64::MAX));
    }

    fn as_of(&self) -> Option<Position> {
        self.known().as_of
    }
}

impl Inner {
    /// Returns an info from the cache if it is up to date, or else from the file.
    pub(super) fn info(&self, name: &str) -> Result<Option<Info>, StoreError> {
        let connection = &*self.connections.reader()?;
        let cache = &self.infos;
        if cache.bytes_max == 0 {
            return Ok(read::info(connection, name)?.1);
        }
        if cache.has(name) {
            let as_of = text_rows::position(connection, TextKind::Versions)?;
            self.catch_up(connection, as_of)?;
            if let Some(info) = cache.get(name, as_of) {
                cache.hits.inc();
                return Ok(Some(info));
            }
        }
        cache.misses.inc();
        let (as_of, info) = read::info(connection, name)?;
        if let Some(info) = &info {
            self.catch_up(connection, as_of)?;
            cache.put(name, info, as_of);
        }
        Ok(info)
    }

    /// Updates the cache to the state of the file, which was at `seen` a moment ago.
    fn catch_up(&self, connection: &Connection, seen: Position) -> Result<(), StoreError> {
        match self.infos.as_of() {
            Some(from) if from != seen => {
                let tail = tail(connection, from, seen)?;
                self.infos.follow(&tail);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn tail(connection: &Connection, from: Position, to: Position) -> Result<Tail, StoreError> {
    let is_short = (0..=TAIL_BYTES_MAX).contains(&(to.length - from.length));
    let text = match from.generation == to.generation && is_short {
        true => text_rows::between(connection, TextKind::Versions, from, to.length)?,
        false => None,
    };
    Ok(Tail { from, to, text })
}
