//! The channels of one app, by name. They are split into parts with a lock each, so that listing
//! all channels delays publishers by the time for one part at most.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use weir_base::clock::Timestamp;

use super::Channel;
use crate::pusher::channel::ChannelName;
use crate::settings::AppSettings;

/// With 100,000 channels, a part has 400; copying it takes 20 µs.
const PARTS: usize = 256;

type RegistryPart = HashMap<ChannelName, Arc<Channel>, RandomState>;

/// All channels of one app.
#[derive(Debug)]
pub(crate) struct Registry {
    parts: Box<[Mutex<RegistryPart>]>,
    hasher: RandomState,
    len: AtomicUsize,
}

/// The app has reached its limit of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the app has {max} channels; more are not allowed (realtime.limits.channels_max)")]
pub struct TooManyChannels {
    /// The limit of channels.
    pub max: usize,
}

impl Default for Registry {
    fn default() -> Self {
        let parts = (0..PARTS).map(|_| Mutex::new(RegistryPart::default())).collect();
        Self { parts, hasher: RandomState::default(), len: AtomicUsize::new(0) }
    }
}

impl Registry {
    /// Returns the channel with this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Channel>> {
        self.with(name, |part| part.get(name).cloned())
    }

    /// Returns the channel with this name. Creates it with `create` if it does not exist, or
    /// returns an error if there are `max` channels.
    pub(crate) fn get_or_create(
        &self,
        name: &ChannelName,
        max: usize,
        create: impl FnOnce() -> Channel,
    ) -> Result<Arc<Channel>, TooManyChannels> {
        self.with(name.as_str(), |part| {
            if let Some(channel) = part.get(name.as_str()) {
                return Ok(Arc::clone(channel));
            }
            if self.len() >= max {
                return Err(TooManyChannels { max });
            }
            let channel = Arc::new(create());
            part.insert(name.clone(), Arc::clone(&channel));
            self.len.fetch_add(1, Ordering::Relaxed);
            Ok(channel)
        })
    }

    /// Returns the number of channels.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Removes a channel's expired data, and the channel if it is unused. Returns the change of the
    /// histories' bytes.
    pub(crate) fn remove_expired(&self, name: &str, app: &AppSettings, now: Timestamp) -> isize {
        self.with(name, |part| {
            let Some(channel) = part.get(name) else { return 0 };
            let (change, is_gone) = channel.remove_expired(app, now);
            if is_gone {
                part.remove(name);
                self.len.fetch_sub(1, Ordering::Relaxed);
            }
            change
        })
    }

    /// Does the same for all channels of one part. Callers pass each number below
    /// [`Registry::parts`] in turn.
    pub(crate) fn remove_expired_part(
        &self,
        part: usize,
        app: &AppSettings,
        now: Timestamp,
    ) -> isize {
        let mut part = self.parts[part].lock().unwrap_or_else(PoisonError::into_inner);
        let before = part.len();
        let mut total = 0;
        part.retain(|_, channel| {
            let (change, is_gone) = channel.remove_expired(app, now);
            total += change;
            !is_gone
        });
        self.len.fetch_sub(before - part.len(), Ordering::Relaxed);
        total
    }

    /// Returns the number of parts.
    pub(crate) const fn parts() -> usize {
        PARTS
    }

    /// Returns all channels whose names begin with `prefix`. Locks one part at a time.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Vec<Arc<Channel>> {
        let mut channels = Vec::new();
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let found = part.values().filter(|channel| channel.name.as_str().starts_with(prefix));
            channels.extend(found.cloned());
        }
        channels
    }

    fn with<T>(&self, name: &str, use_part: impl FnOnce(&mut RegistryPart) -> T) -> T {
        let index = usize::try_from(self.hasher.hash_one(name) % PARTS as u64).unwrap_or(0);
        use_part(&mut self.parts[index].lock().unwrap_or_else(PoisonError::into_inner))
    }
}
