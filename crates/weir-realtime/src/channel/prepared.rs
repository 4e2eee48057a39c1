//! An event that is published together with others: its channel stays, and its room is reserved.

use std::sync::Arc;

use super::{Channel, ChannelGone, Publication, Published, Reserved};
use crate::cores::Cores;

/// One event, before it has its place. Dropping it publishes nothing.
#[derive(Debug)]
pub(crate) struct PreparedEvent {
    channel: Arc<Channel>,
    reserved: Reserved,
}

impl Channel {
    /// Prepares an event of `bytes`: with room on all cores with subscribers, be they full or not.
    pub(crate) fn prepare(
        self: &Arc<Self>,
        cores: &Cores,
        bytes: usize,
    ) -> Result<PreparedEvent, ChannelGone> {
        let mut home = self.home();
        home.check_there()?;
        home.prepared += 1;
        let reserved = home.reserve_always(cores, bytes);
        Ok(PreparedEvent { channel: Arc::clone(self), reserved })
    }
}

impl PreparedEvent {
    pub(crate) const fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Whether it has room on this core.
    pub(crate) fn is_for_core(&self, index: usize) -> bool {
        self.reserved.iter().any(|(core, _)| *core == index)
    }

    /// Gives the event its place. A core that has got its first subscriber meanwhile has it without
    /// having been asked for room: one event for each that is prepared, at most.
    pub(crate) fn publish(mut self, publication: Publication<'_>, cores: &Cores) -> Published {
        let mut home = self.channel.home();
        let mut before = std::mem::take(&mut self.reserved);
        let bytes = publication.draft.bytes_max();
        let room = |core: usize| {
            let index = before.iter().position(|(reserved, _)| *reserved == core);
            let room = index.map(|index| before.swap_remove(index).1);
            (core, room.unwrap_or_else(|| cores.get(core).room.reserve_always(bytes)))
        };
        let reserved = home.cores_with_subscribers().map(room).collect();
        self.channel.publish_reserved(&mut home, publication, reserved, cores)
    }
}

impl Drop for PreparedEvent {
    fn drop(&mut self) {
        self.channel.home().prepared -= 1;
    }
}
