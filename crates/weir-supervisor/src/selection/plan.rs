//! The number of sockets, and which of them each worker listens on. Pure.

use serde::{Deserialize, Serialize};
use weir_settings::Choice;

use crate::workers::PROCESSES_MAX;

/// Which socket a connection gets to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Choice)]
pub enum Selection {
    /// By the kernel's hash of the addresses.
    Kernel,
    Random,
    /// The worker's that is next.
    #[choice("round-robin")]
    RoundRobin,
    /// The next worker's that says that it is idle; if none is, one that all listen on.
    #[choice("join-idle")]
    JoinIdle,
}

/// The layout of the sockets of one app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub selection: Selection,
    /// The configured number of workers; scaling may change the actual number.
    pub workers: usize,
    /// Sockets that are distributed; with [`Selection::JoinIdle`] each worker has one instead.
    pub queues: usize,
    /// Sockets per worker.
    pub per_worker: usize,
    /// Whether a program was rejected, so that there is only one socket.
    is_reduced: bool,
}

impl Selection {
    /// In the order of their numbers in a handover.
    const ALL: [Self; 4] = [Self::Kernel, Self::Random, Self::RoundRobin, Self::JoinIdle];

    /// Returns the name in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// Returns whether the selection requires privileges.
    #[must_use]
    pub fn is_privileged(self) -> bool {
        matches!(self, Self::RoundRobin | Self::JoinIdle)
    }
}

impl Plan {
    #[must_use]
    pub fn new(selection: Selection, workers: usize, queues: usize, per_worker: usize) -> Self {
        match selection {
            // The worker's own socket, and the one shared by all.
            Selection::JoinIdle => {
                Self { selection, workers, queues: workers, per_worker: 1, is_reduced: false }
            }
            _ => Self { selection, workers, queues, per_worker, is_reduced: false },
        }
    }

    /// Returns the plan with the same workers on one socket. Each inherits it as many times as it
    /// would have had sockets, so that a command that names all of them still works.
    #[must_use]
    pub fn reduced(self) -> Self {
        Self { is_reduced: true, ..self }
    }

    /// Encodes the plan for [`Plan::decode`].
    pub(super) fn encode(&self) -> [u64; 4] {
        let selection = Selection::ALL.iter().position(|it| *it == self.selection);
        let counts = [self.workers, self.queues, self.per_worker].map(|count| count as u64);
        let [workers, queues, per_worker] = counts;
        let selection = selection.unwrap_or_default() as u64;
        [2 * selection + u64::from(self.is_reduced), workers, queues, per_worker]
    }

    /// Decodes a plan. None: the words are not those of a plan.
    pub(super) fn decode([selection, workers, queues, per_worker]: [u64; 4]) -> Option<Self> {
        let count = |count: u64| {
            let count = usize::try_from(count).ok()?;
            (1..=PROCESSES_MAX as usize).contains(&count).then_some(count)
        };
        Some(Self {
            selection: *Selection::ALL.get(usize::try_from(selection / 2).ok()?)?,
            workers: count(workers)?,
            queues: count(queues)?,
            per_worker: count(per_worker)?,
            is_reduced: selection % 2 == 1,
        })
    }

    /// Returns the selection in effect.
    #[must_use]
    pub fn effective(&self) -> Selection {
        if self.is_reduced { Selection::Kernel } else { self.selection }
    }

    /// Returns the number of sockets to bind.
    #[must_use]
    pub fn sockets(&self) -> usize {
        match self.effective() {
            _ if self.is_reduced => 1,
            Selection::JoinIdle => self.workers + 1,
            _ => self.queues,
        }
    }

    /// Returns the number of sockets that a worker inherits.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.per_worker + usize::from(self.selection == Selection::JoinIdle)
    }

    /// Returns the sockets that the worker in `slot` listens on.
    #[must_use]
    pub fn slice(&self, slot: usize) -> Vec<usize> {
        if self.is_reduced {
            return vec![0; self.descriptors()];
        }
        match self.selection {
            // A worker added by scaling has no socket of its own: it only listens on the shared
            // one.
            Selection::JoinIdle => vec![slot.min(self.workers), self.workers],
            _ => (slot..slot + self.per_worker).map(|queue| queue % self.queues).collect(),
        }
    }

    /// Returns the socket by which a program reaches a worker. None: programs do not choose
    /// workers.
    #[must_use]
    pub fn socket_for(&self, slot: usize) -> Option<usize> {
        match self.effective() {
            Selection::Kernel | Selection::Random => None,
            Selection::RoundRobin => Some(slot % self.queues),
            Selection::JoinIdle => (slot < self.workers).then_some(slot),
        }
    }

    /// Returns the least number of workers with which every socket has a listener.
    #[must_use]
    pub fn workers_min(&self) -> usize {
        match self.effective() {
            _ if self.is_reduced => 1,
            Selection::JoinIdle => 1,
            _ => (self.queues + 1).saturating_sub(self.per_worker).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_worker_listens_on_a_contiguous_range_of_queues() {
        let plan = Plan::new(Selection::Kernel, 4, 4, 2);
        assert_eq!(plan.sockets(), 4);
        let slices: Vec<_> = (0..5).map(|slot| plan.slice(slot)).collect();
        assert_eq!(slices, [[0, 1], [1, 2], [2, 3], [3, 0], [0, 1]]);
        assert_eq!(Plan::new(Selection::Kernel, 16, 1, 1).slice(9), [0]);
    }

    #[test]
    fn join_idle_has_one_socket_per_worker_and_a_shared_one() {
        let plan = Plan::new(Selection::JoinIdle, 3, 1, 1);
        assert_eq!((plan.sockets(), plan.descriptors()), (4, 2));
        assert_eq!(plan.slice(2), [2, 3]);
        assert_eq!(plan.socket_for(2), Some(2));
        // One that was added later.
        assert_eq!((plan.slice(3), plan.socket_for(3)), (vec![3, 3], None));
    }

    #[test]
    fn a_reduced_plan_keeps_the_number_of_descriptors() {
        let plan = Plan::new(Selection::JoinIdle, 3, 1, 1).reduced();
        assert_eq!((plan.sockets(), plan.effective()), (1, Selection::Kernel));
        assert_eq!((plan.slice(2), plan.socket_for(2)), (vec![0, 0], None));
    }

    fn plans() -> impl Strategy<Value = Plan> {
        let selections = prop_oneof![
            Just(Selection::Kernel),
            Just(Selection::Random),
            Just(Selection::RoundRobin),
            Just(Selection::JoinIdle)
        ];
        (selections, 1..20_usize, 1..20_usize, 1..5_usize, any::<bool>()).prop_map(
            |(selection, workers, queues, per_worker, is_reduced)| {
                let plan = Plan::new(selection, workers, queues, per_worker.min(queues));
                if is_reduced { plan.reduced() } else { plan }
            },
        )
    }

    proptest! {
        #[test]
        fn workers_min_workers_cover_every_socket(plan in plans(), more in 0..5_usize) {
            let workers = plan.workers_min() + more;
            let polled = |socket| (0..workers).any(|slot| plan.slice(slot).contains(&socket));
            // A program passes by the sockets of workers that are not there.
            let reached = |socket: &usize| {
                plan.effective() != Selection::JoinIdle || *socket == plan.workers
                    || *socket < workers
            };
            prop_assert!((0..plan.sockets()).filter(reached).all(polled));
        }

        #[test]
        fn fewer_than_workers_min_workers_leave_a_socket_uncovered(plan in plans()) {
            let workers = plan.workers_min() - 1;
            let polled = |socket| (0..workers).any(|slot| plan.slice(slot).contains(&socket));
            prop_assert!(!(0..plan.sockets()).all(polled));
        }

        #[test]
        fn a_plan_round_trips_through_its_encoding(plan in plans()) {
            prop_assert_eq!(Plan::decode(plan.encode()), Some(plan));
        }

        #[test]
        fn any_encoding_is_decoded_without_panic(words in any::<[u64; 4]>()) {
            let plan = Plan::decode(words);
            prop_assert!(plan.is_none_or(|plan| plan.queues <= PROCESSES_MAX as usize));
        }

        #[test]
        fn slices_and_sockets_are_within_range(plan in plans(), slot in 0..50_usize) {
            let slice = plan.slice(slot);
            prop_assert_eq!(slice.len(), plan.descriptors());
            prop_assert!(slice.iter().all(|socket| *socket < plan.sockets()));
            prop_assert!(plan.socket_for(slot).is_none_or(|socket_number| slice.contains(&socket_number)));
        }
    }
}
