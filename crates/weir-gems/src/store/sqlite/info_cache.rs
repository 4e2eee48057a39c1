//! Infos that were asked for recently, in memory: what many clients ask for costs no pages of the file.
//!
//! Nothing stale is answered. Each use begins with a look at how far `/versions` is, two numbers of the
//! file: whatever changes an info appends a line with its name, or begins the text anew, in the same
//! transaction and in whichever process. So what was appended since the last look says what is to be
//! forgotten.

mod slots;

use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rusqlite::Connection;

use self::slots::Slots;
use super::{Inner, read, text_rows};
use crate::store::{Info, StoreError, TextKind};

/// Of what was appended, so much is read to find what is to be forgotten; of more, all is.
const TAIL_BYTES_MAX: i64 = 1 << 20;
/// A larger share of the cache is not kept of one gem: it would push out too many others.
const SHARE_MAX: usize = 16;

/// How far a text is. Equal: nothing has changed.
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
    /// std: held to look something up or to put it in.
    known: Mutex<Known>,
}

/// Infos as of one state of the file.
#[derive(Debug, Default)]
struct Known {
    /// None: nothing was read yet.
    as_of: Option<Position>,
    slots: Slots,
}

/// What was appended between two states.
#[derive(Debug)]
struct Tail {
    from: Position,
    to: Position,
    /// None: too much, or the text was begun anew.
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

    /// Whether it is worth a look how far the file is.
    fn has(&self, name: &str) -> bool {
        self.known().slots.has(name)
    }

    /// The info as of this state; None: it is not known.
    fn get(&self, name: &str, as_of: Position) -> Option<Info> {
        let mut known = self.known();
        if known.as_of != Some(as_of) {
            return None;
        }
        known.slots.get(name)
    }

    /// Keeps an info of this state, if that is the one that all others here are of.
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

    /// Forgets what has changed.
    fn follow(&self, tail: &Tail) {
        let Tail { from, to, text } = tail;
        let mut known = self.known();
        let Some(as_of) = known.as_of else { return };
        let is_within = |length| (from.length..=to.length).contains(&length);
        match text {
            // Another thread was here before, and has seen more.
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
    /// From memory, if it is known there and still so; else from the file.
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

    /// Brings what is kept to the state of the file, which was at `seen` a moment ago.
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
