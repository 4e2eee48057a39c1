//! Events of a batch, prepared so that their channels stay, and then with room on the cores.

use std::sync::Arc;

use super::{Channel, ChannelGone, Publication, Published, Reserved};
use crate::cores::Cores;

/// An event of a batch, before it has a position. Dropping it publishes nothing.
#[derive(Debug)]
pub(crate) struct PreparedEvent {
    channel: Arc<Channel>,
    /// The most bytes that it takes.
    bytes: usize,
    reserved: Reserved,
}

impl Channel {
    /// Prepares an event of at most `bytes`, without room.
    pub(crate) fn prepare(self: &Arc<Self>, bytes: usize) -> Result<PreparedEvent, ChannelGone> {
        let mut home = self.home();
        home.check_not_gone()?;
        home.prepared += 1;
        Ok(PreparedEvent { channel: Arc::clone(self), bytes, reserved: Reserved::new() })
    }
}

impl PreparedEvent {
    pub(crate) const fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Reserves room on all cores with subscribers, regardless of the limits.
    pub(crate) fn reserve(&mut self, cores: &Cores) {
        self.reserved = self.channel.home().reserve_always(cores, self.bytes);
    }

    /// Returns the room.
    pub(crate) fn release(&mut self) {
        self.reserved.clear();
    }

    /// Returns whether the event has room on this core.
    pub(crate) fn is_for_core(&self, index: usize) -> bool {
        self.reserved.iter().any(|(core, _)| *core == index)
    }

    /// Publishes the event. On a core that got its first subscriber since the preparation, room is
    /// reserved regardless of the limits; at most one event for each prepared one.
    pub(crate) fn publish(mut self, publication: Publication<'_>, cores: &Cores) -> Published {
        let mut home = self.channel.home();
        let mut before = std::mem::take(&mut self.reserved);
        let bytes = publication.draft.bytes_max();
        let budget = |core: usize| {
            let index = before.iter().position(|(reserved, _)| *reserved == core);
            let budget = index.map(|index| before.swap_remove(index).1);
            (core, budget.unwrap_or_else(|| cores.get(core).budget.reserve_always(bytes)))
        };
        let reserved = home.cores_with_subscribers().map(budget).collect();
        self.channel.publish_reserved(&mut home, publication, reserved, cores)
    }
}

impl Drop for PreparedEvent {
    fn drop(&mut self) {
        self.channel.home().prepared -= 1;
    }
}
