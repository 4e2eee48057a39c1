//! The ways to the cores.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use weir_base::switch::Switches;

use super::broadcast::Letter;
use super::mailbox::Mailbox;
use super::room::Room;

/// Every core's mailbox, by the core's number; and what is not sent to any at the moment.
#[derive(Debug)]
pub(crate) struct Cores {
    cores: Box<[Core]>,
    /// By names of events.
    pub(crate) switches: Arc<Switches>,
}

/// The way to one core.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) mailbox: Mailbox<Letter>,
    pub(crate) room: Room,
    /// Connections that it has.
    pub(crate) connections: AtomicUsize,
}

impl Cores {
    pub(crate) fn new(count: usize, events_max: usize, bytes_max: usize) -> Self {
        let core = || Core {
            mailbox: Mailbox::default(),
            room: Room::new(events_max, bytes_max),
            connections: AtomicUsize::new(0),
        };
        Self { cores: (0..count).map(|_| core()).collect(), switches: Arc::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.cores.len()
    }

    pub(crate) fn get(&self, index: usize) -> &Core {
        &self.cores[index]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Core> {
        self.cores.iter()
    }
}
