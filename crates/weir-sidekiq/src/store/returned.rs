//! The jobs that this node has put back into their queues because a worker or a node vanished.
//!
//! The worker may be alive after all and acknowledge its job. It is then removed from the queue, if
//! no other worker has it yet.

use std::collections::{BTreeMap, VecDeque};

use weir_jobs::model::QueueName;

/// Jobs that are remembered. Each takes some 100 bytes.
const REMEMBERED_MAX: usize = 10_000;

/// The queue of each job, by jid.
#[derive(Debug, Default)]
pub(super) struct RecentlyReturned {
    queues: BTreeMap<Box<str>, QueueName>,
    oldest: VecDeque<Box<str>>,
}

impl RecentlyReturned {
    pub(super) fn insert(&mut self, jid: &str, queue: QueueName) {
        if self.queues.insert(jid.into(), queue).is_none() {
            self.oldest.push_back(jid.into());
        }
        while self.oldest.len() > REMEMBERED_MAX {
            let forgotten = self.oldest.pop_front();
            forgotten.and_then(|jid| self.queues.remove(&jid));
        }
    }

    /// Returns whether the job was there.
    pub(super) fn remove(&mut self, jid: &str) -> bool {
        // Its place in `oldest` goes when its time comes.
        self.queues.remove(jid).is_some()
    }

    pub(super) fn queue_of(&self, jid: &str) -> Option<&QueueName> {
        self.queues.get(jid)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
