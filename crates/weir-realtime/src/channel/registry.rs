//! The channels of one app, by name. In parts with a lock each, so that who lists them never holds
//! up who publishes for longer than one part takes.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use weir_base::clock::Timestamp;

use super::Channel;
use crate::pusher::channel::ChannelName;
use crate::settings::AppSettings;

/// A part of 100,000 channels has 400: 20 us for who copies it.
const PARTS: usize = 256;

type RegistryPart = HashMap<ChannelName, Arc<Channel>, RandomState>;

/// All channels.
#[derive(Debug)]
pub(crate) struct Registry {
    parts: Box<[Mutex<RegistryPart>]>,
    hasher: RandomState,
    len: AtomicUsize,
}

/// The app has as many channels as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the app has {max} channels; more are not allowed (realtime.limits.channels_max)")]
pub struct TooManyChannels {
    /// The limit.
    pub max: usize,
}

impl Default for Registry {
    fn default() -> Self {
        let parts = (0..PARTS).map(|_| Mutex::new(RegistryPart::default())).collect();
        Self { parts, hasher: RandomState::default(), len: AtomicUsize::new(0) }
    }
}

impl Registry {
    /// The channel, if it is there.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Channel>> {
        self.with(name, |part| part.get(name).cloned())
    }

    /// The channel, made by `make` if it is not there.
    pub(crate) fn get_or_make(
        &self,
        name: &ChannelName,
        max: usize,
        make: impl FnOnce() -> Channel,
    ) -> Result<Arc<Channel>, TooManyChannels> {
        self.with(name.as_str(), |part| {
            if let Some(channel) = part.get(name.as_str()) {
                return Ok(Arc::clone(channel));
            }
            if self.len() >= max {
                return Err(TooManyChannels { max });
            }
            let channel = Arc::new(make());
            part.insert(name.clone(), Arc::clone(&channel));
            self.len.fetch_add(1, Ordering::Relaxed);
            Ok(channel)
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Forgets the channel if it is of no more use. Answers how the bytes of histories changed.
    pub(crate) fn tidy(&self, name: &str, app: &AppSettings, now: Timestamp) -> isize {
        self.with(name, |part| {
            let Some(channel) = part.get(name) else { return 0 };
            let (change, is_gone) = channel.tidy(app, now);
            if is_gone {
                part.remove(name);
                self.len.fetch_sub(1, Ordering::Relaxed);
            }
            change
        })
    }

    /// The same for all channels of one part; call it with every number below [`Registry::parts`].
    pub(crate) fn tidy_part(&self, part: usize, app: &AppSettings, now: Timestamp) -> isize {
        let mut part = self.parts[part].lock().unwrap_or_else(PoisonError::into_inner);
        let before = part.len();
        let mut total = 0;
        part.retain(|_, channel| {
            let (change, is_gone) = channel.tidy(app, now);
            total += change;
            !is_gone
        });
        self.len.fetch_sub(before - part.len(), Ordering::Relaxed);
        total
    }

    /// How many parts there are.
    pub(crate) const fn parts() -> usize {
        PARTS
    }

    /// All channels whose names begin with `prefix`, a part at a time.
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
