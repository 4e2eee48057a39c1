//! The last event of a cache channel.

use std::time::Duration;

use weir_base::clock::Timestamp;

use super::Channel;
use super::cache::{CachePosition, Cached, EVENT_BYTES};
use super::exchange::CacheState;
use super::home::Home;
use crate::frame::Frame;

impl Channel {
    pub(super) fn set_cached(&self, home: &mut Home, frame: Frame, data: Box<str>, at: Timestamp) {
        self.drop_cached(home);
        let position =
            self.cache.add(&self.name, EVENT_BYTES + frame.wire().len() + data.len(), at);
        home.cached = Some(Cached { frame, data, at, position });
    }

    pub(super) fn remove_expired_cache(&self, home: &mut Home, age_max: Duration, now: Timestamp) {
        if home.cached.as_ref().is_some_and(|cached| now.since(cached.at) >= age_max) {
            self.drop_cached(home);
        }
    }

    fn drop_cached(&self, home: &mut Home) {
        if let Some(cached) = home.cached.take() {
            self.cache.remove(cached.position);
        }
    }

    /// Removes the cached event if it is still the one at `position`.
    pub(crate) fn forget_cached(&self, position: CachePosition) {
        self.home().cached.take_if(|cached| cached.position == position);
    }

    pub(super) fn cache_state(&self, home: &Home, age_max: Duration, now: Timestamp) -> CacheState {
        if !self.kind.caches {
            return CacheState::None;
        }
        let fresh = home.cached.as_ref().filter(|cached| now.since(cached.at) < age_max);
        fresh.map_or(CacheState::Miss, |cached| CacheState::Hit(cached.frame.clone()))
    }

    /// Returns the data of the cached event, and how long it will stay cached. None if there is
    /// none, or it has expired.
    pub(crate) fn cached(&self, age_max: Duration, now: Timestamp) -> Option<(Box<str>, Duration)> {
        let home = self.home();
        let cached = home.cached.as_ref()?;
        let remaining =
            age_max.checked_sub(now.since(cached.at)).filter(|remaining| !remaining.is_zero())?;
        Some((cached.data.clone(), remaining))
    }
}
