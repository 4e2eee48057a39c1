//! What goes to single connections: one letter for each of their cores, which has to have room.

use super::broadcast::{Direct, Letter, What};
use super::cores::Cores;
use super::room::{CoreBusy, Reservation};
use crate::pusher::socket_id::SocketId;
use crate::session;

/// Letters for which there is room.
#[derive(Debug)]
pub(crate) struct Addressed(Vec<(usize, Vec<SocketId>, Reservation)>);

impl Cores {
    /// Room on all cores of these connections for something of `bytes`, or on none.
    pub(crate) fn address(&self, to: &[SocketId], bytes: usize) -> Result<Addressed, CoreBusy> {
        let letters = self.by_core(to).into_iter().map(|(core, to)| {
            let room = self.get(core).room.reserve(bytes + size_of_val(&to[..]))?;
            Ok((core, to, room))
        });
        letters.collect::<Result<_, _>>().map(Addressed)
    }

    /// The same for what can't be refused.
    pub(crate) fn address_always(&self, to: &[SocketId], bytes: usize) -> Addressed {
        let letters = self.by_core(to).into_iter().map(|(core, to)| {
            let room = self.get(core).room.reserve_always(bytes + size_of_val(&to[..]));
            (core, to, room)
        });
        Addressed(letters.collect())
    }

    /// Sends `what` to all of them.
    pub(crate) fn send(&self, letters: Addressed, what: &What) {
        for (core, to, room) in letters.0 {
            let direct = Direct { to, what: what.clone(), room };
            self.get(core).mailbox.push(Letter::Direct(direct));
        }
    }

    /// Connections by their cores. An id that no core has given out is nobody's.
    fn by_core(&self, to: &[SocketId]) -> Vec<(usize, Vec<SocketId>)> {
        let mut cores = vec![Vec::new(); self.len()];
        for socket_id in to {
            let core = session::core_of(*socket_id).and_then(|core| cores.get_mut(core));
            core.into_iter().for_each(|of_core: &mut Vec<_>| of_core.push(*socket_id));
        }
        cores.into_iter().enumerate().filter(|(_, to)| !to.is_empty()).collect()
    }
}
