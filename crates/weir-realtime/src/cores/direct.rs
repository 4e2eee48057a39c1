//! Messages to single connections. Each core involved gets one message, and must have room for it.

use super::Cores;
use super::address::core_of;
use super::message::{CoreMessage, DirectMessage, DirectPayload};
use super::room::{CoreBusy, RoomReservation};
use crate::pusher::socket_id::SocketId;

/// Recipients by core, with the room reserved for the message to them.
#[derive(Debug)]
pub(crate) struct AddressedMessages(Vec<(usize, Vec<SocketId>, RoomReservation)>);

impl Cores {
    /// Reserves room for `bytes` on all cores of these connections, or on none.
    pub(crate) fn address(
        &self,
        to: &[SocketId],
        bytes: usize,
    ) -> Result<AddressedMessages, CoreBusy> {
        let messages = self.by_core(to).into_iter().map(|(core, to)| {
            let room = self.get(core).room.reserve(bytes + size_of_val(&to[..]))?;
            Ok((core, to, room))
        });
        messages.collect::<Result<_, _>>().map(AddressedMessages)
    }

    /// Reserves room as [`Cores::address`] does, but ignores the limits.
    pub(crate) fn address_always(&self, to: &[SocketId], bytes: usize) -> AddressedMessages {
        let messages = self.by_core(to).into_iter().map(|(core, to)| {
            let room = self.get(core).room.reserve_always(bytes + size_of_val(&to[..]));
            (core, to, room)
        });
        AddressedMessages(messages.collect())
    }

    /// Sends `payload` to all recipients.
    pub(crate) fn send(&self, messages: AddressedMessages, payload: &DirectPayload) {
        for (core, to, room) in messages.0 {
            let direct = DirectMessage { to, payload: payload.clone(), room };
            self.get(core).mailbox.push(CoreMessage::Direct(direct));
        }
    }

    /// Groups connections by core. Omits ids with a core that does not exist.
    fn by_core(&self, to: &[SocketId]) -> Vec<(usize, Vec<SocketId>)> {
        let mut cores = vec![Vec::new(); self.len()];
        for socket_id in to {
            let core = core_of(*socket_id).and_then(|core| cores.get_mut(core));
            core.into_iter().for_each(|of_core: &mut Vec<_>| of_core.push(*socket_id));
        }
        cores.into_iter().enumerate().filter(|(_, to)| !to.is_empty()).collect()
    }
}
