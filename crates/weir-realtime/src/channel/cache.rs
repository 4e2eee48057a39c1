//! The last event of each cache channel. The cached events of one app have a common limit in bytes;
//! beyond it, the oldest is removed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_base::clock::Timestamp;

use crate::frame::Frame;
use crate::pusher::channel::ChannelName;

/// A channel's last event.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    pub(super) frame: Frame,
    /// The event's data, for the HTTP API.
    pub(super) data: Box<str>,
    pub(super) at: Timestamp,
    pub(super) position: CachePosition,
}

/// The memory of one event besides its frame and data: here, in its channel, and in the headers of
/// shared bytes.
pub(super) const EVENT_BYTES: usize =
    size_of::<Cached>() + size_of::<(CachePosition, (ChannelName, usize))>() + 64;

/// The cached events of one app, in order of age.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<Ages>);

/// A lock of std guards it. It may be taken while a home is locked, and is held for an insertion or
/// a removal.
#[derive(Debug, Default)]
struct Ages {
    events: BTreeMap<CachePosition, (ChannelName, usize)>,
    bytes: usize,
    next: u64,
}

/// An event's position among all cached events: its time, then a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CachePosition(Timestamp, u64);

impl Cache {
    fn ages(&self) -> MutexGuard<'_, Ages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.ages().bytes
    }

    pub(super) fn add(&self, channel: &ChannelName, bytes: usize, at: Timestamp) -> CachePosition {
        let ages = &mut *self.ages();
        let position = CachePosition(at, ages.next);
        ages.next += 1;
        ages.bytes += bytes;
        ages.events.insert(position, (channel.clone(), bytes));
        position
    }

    pub(super) fn remove(&self, position: CachePosition) {
        let ages = &mut *self.ages();
        if let Some((_, bytes)) = ages.events.remove(&position) {
            ages.bytes -= bytes;
        }
    }

    /// Removes and returns the oldest event if all events together exceed `bytes_max`. The caller
    /// must then remove it from its channel (`Channel::forget_cached`), without holding a lock.
    pub(crate) fn take_beyond(&self, bytes_max: usize) -> Option<(ChannelName, CachePosition)> {
        let ages = &mut *self.ages();
        if ages.bytes <= bytes_max {
            return None;
        }
        let (position, (channel, bytes)) = ages.events.pop_first()?;
        ages.bytes -= bytes;
        Some((channel, position))
    }
}
