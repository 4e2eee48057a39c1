//! The ways to the cores.

use super::broadcast::Letter;
use super::mailbox::Mailbox;
use super::room::Room;

/// Every core's mailbox, by the core's number.
#[derive(Debug)]
pub(crate) struct Cores(Box<[Core]>);

/// The way to one core.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) mailbox: Mailbox<Letter>,
    pub(crate) room: Room,
}

impl Cores {
    pub(crate) fn new(count: usize, events_max: usize, bytes_max: usize) -> Self {
        let core = || Core { mailbox: Mailbox::default(), room: Room::new(events_max, bytes_max) };
        Self((0..count).map(|_| core()).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, index: usize) -> &Core {
        &self.0[index]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Core> {
        self.0.iter()
    }
}
