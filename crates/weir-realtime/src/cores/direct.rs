//! Messages to single connections. Each core involved gets one message, and must have room for it.

use super::Cores;
use super::address::core_of;
use super::budget::{BudgetReservation, CoreBusy};
use super::message::{CoreMessage, DirectMessage, DirectPayload};
use crate::pusher::socket_id::SocketId;

/// Recipients by core, with the room reserved for the message to them.
#[derive(Debug)]
pub(crate) struct AddressedMessages(Vec<(usize, Vec<SocketId>, BudgetReservation)>);

impl Cores {
    /// Reserves room for `bytes` on all cores of these connections, or on none.
    pub(crate) fn address(
        &self,
        recipients: &[SocketId],
        bytes: usize,
    ) -> Result<AddressedMessages, CoreBusy> {
        let messages = self.by_core(recipients).into_iter().map(|(core, recipients)| {
            let budget = self.get(core).budget.reserve(bytes + size_of_val(&recipients[..]))?;
            Ok((core, recipients, budget))
        });
        messages.collect::<Result<_, _>>().map(AddressedMessages)
    }

    /// Reserves room as [`Cores::address`] does, but ignores the limits.
    pub(crate) fn address_always(
        &self,
        recipients: &[SocketId],
        bytes: usize,
    ) -> AddressedMessages {
        let messages = self.by_core(recipients).into_iter().map(|(core, recipients)| {
            let budget = self.get(core).budget.reserve_always(bytes + size_of_val(&recipients[..]));
            (core, recipients, budget)
        });
        AddressedMessages(messages.collect())
    }

    /// Sends `payload` to all recipients.
    pub(crate) fn send(&self, messages: AddressedMessages, payload: &DirectPayload) {
        for (core, recipients, budget) in messages.0 {
            let direct = DirectMessage { recipients, payload: payload.clone(), budget };
            self.get(core).mailbox.push(CoreMessage::Direct(direct));
        }
    }

    /// Groups connections by core. Omits ids with a core that does not exist.
    fn by_core(&self, recipients: &[SocketId]) -> Vec<(usize, Vec<SocketId>)> {
        let mut cores = vec![Vec::new(); self.len()];
        for socket_id in recipients {
            let core = core_of(*socket_id).and_then(|core| cores.get_mut(core));
            core.into_iter().for_each(|ids: &mut Vec<_>| ids.push(*socket_id));
        }
        cores.into_iter().enumerate().filter(|(_, recipients)| !recipients.is_empty()).collect()
    }
}
