//! The cores that serve connections: each core's mailbox, and the limits of what waits in it.

mod address;
mod budget;
mod direct;
mod mailbox;
mod message;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use weir_base::switch::Switches;

pub(crate) use self::address::{SessionKey, core_of, key_of, socket_id};
pub(crate) use self::budget::BudgetReservation;
use self::budget::CoreBudget;
pub use self::budget::CoreBusy;
use self::mailbox::Mailbox;
pub(crate) use self::message::{
    AppNumber, Audience, Broadcast, ChannelId, CoreMessage, CoreMessages, DirectMessage,
    DirectPayload, EventKey,
};

/// All cores, by number, and the names of events that are switched off on all of them.
#[derive(Debug)]
pub(crate) struct Cores {
    cores: Box<[CoreHandle]>,
    /// Switches by event name.
    pub(crate) switches: Arc<Switches>,
}

/// The part of a core that other cores use.
#[derive(Debug)]
pub(crate) struct CoreHandle {
    pub(crate) mailbox: Mailbox<CoreMessage>,
    pub(crate) budget: CoreBudget,
    /// Number of open connections.
    pub(crate) connections: AtomicUsize,
}

impl Cores {
    pub(crate) fn new(count: usize, events_max: usize, bytes_max: usize) -> Self {
        let core = || CoreHandle {
            mailbox: Mailbox::default(),
            budget: CoreBudget::new(events_max, bytes_max),
            connections: AtomicUsize::new(0),
        };
        Self { cores: (0..count).map(|_| core()).collect(), switches: Arc::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.cores.len()
    }

    pub(crate) fn get(&self, index: usize) -> &CoreHandle {
        &self.cores[index]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &CoreHandle> {
        self.cores.iter()
    }
}
