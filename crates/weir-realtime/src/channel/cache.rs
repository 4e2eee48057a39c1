//! The last event of each cache channel. Those of one app are bounded in bytes together: the oldest
//! goes first.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_base::clock::Timestamp;

use super::{CacheState, Channel, Home};
use crate::frame::Frame;
use crate::pusher::channel::ChannelName;

/// A channel's last event.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    pub(super) frame: Frame,
    /// Its data again, as the HTTP API tells it.
    pub(super) data: Box<str>,
    pub(super) at: Timestamp,
    place: Place,
}

/// What one event costs beside its frame and data: here, in its channel and in the headers of shared
/// bytes.
const EVENT_BYTES: usize = size_of::<Cached>() + size_of::<(Place, (ChannelName, usize))>() + 64;

/// Which events there are, by age.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<Ages>);

/// std's lock: taken under a home's, held for an insertion or a removal.
#[derive(Debug, Default)]
struct Ages {
    events: BTreeMap<Place, (ChannelName, usize)>,
    bytes: usize,
    next: u64,
}

/// An event's place among all: by its time, and those of one moment by a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(Timestamp, u64);

impl Cache {
    fn ages(&self) -> MutexGuard<'_, Ages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.ages().bytes
    }

    fn add(&self, channel: &ChannelName, bytes: usize, at: Timestamp) -> Place {
        let ages = &mut *self.ages();
        let place = Place(at, ages.next);
        ages.next += 1;
        ages.bytes += bytes;
        ages.events.insert(place, (channel.clone(), bytes));
        place
    }

    fn remove(&self, place: Place) {
        let ages = &mut *self.ages();
        if let Some((_, bytes)) = ages.events.remove(&place) {
            ages.bytes -= bytes;
        }
    }

    /// Takes away the oldest event if all together have more bytes than they may. The caller makes
    /// its channel forget it ([`Channel::forget_cached`]), without holding a lock.
    pub(crate) fn take_beyond(&self, bytes_max: usize) -> Option<(ChannelName, Place)> {
        let ages = &mut *self.ages();
        if ages.bytes <= bytes_max {
            return None;
        }
        let (place, (channel, bytes)) = ages.events.pop_first()?;
        ages.bytes -= bytes;
        Some((channel, place))
    }
}

impl Channel {
    pub(super) fn set_cached(&self, home: &mut Home, frame: Frame, data: Box<str>, at: Timestamp) {
        self.drop_cached(home);
        let place = self.cache.add(&self.name, EVENT_BYTES + frame.wire().len() + data.len(), at);
        home.cached = Some(Cached { frame, data, at, place });
    }

    pub(super) fn tidy_cached(&self, home: &mut Home, age_max: Duration, now: Timestamp) {
        if home.cached.as_ref().is_some_and(|cached| now.since(cached.at) >= age_max) {
            self.drop_cached(home);
        }
    }

    fn drop_cached(&self, home: &mut Home) {
        if let Some(cached) = home.cached.take() {
            self.cache.remove(cached.place);
        }
    }

    /// Forgets the last event if it is still this one.
    pub(crate) fn forget_cached(&self, place: Place) {
        self.home().cached.take_if(|cached| cached.place == place);
    }

    pub(super) fn cache_state(&self, home: &Home, age_max: Duration, now: Timestamp) -> CacheState {
        if !self.kind.caches {
            return CacheState::None;
        }
        let fresh = home.cached.as_ref().filter(|cached| now.since(cached.at) < age_max);
        fresh.map_or(CacheState::Miss, |cached| CacheState::Hit(cached.frame.clone()))
    }

    /// The data of the last event of a cache channel, and how long it will still be kept.
    pub(crate) fn cached(&self, age_max: Duration, now: Timestamp) -> Option<(Box<str>, Duration)> {
        let home = self.home();
        let cached = home.cached.as_ref()?;
        let left = age_max.checked_sub(now.since(cached.at)).filter(|left| !left.is_zero())?;
        Some((cached.data.clone(), left))
    }
}
