//! The slots of an app's workers, and the choice of the worker that gets a request.

use slab::Slab;
use weir_base::clock::Timestamp;

/// The key of a worker in the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WorkerKey {
    index: usize,
    /// Indexes are reused, serials never.
    serial: u64,
}

/// How many requests and streams a worker serves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    pub(crate) requests: u32,
    /// In addition to `requests`. 0: a stream keeps the slot of its request.
    pub(crate) streams: u32,
}

/// Slots of a worker that are used by replaced service processes, which still have connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalLoad {
    pub requests: u32,
    pub streams: u32,
}

/// Which kind of slot a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamSlot {
    /// A slot for streams; the request's slot is free.
    Own,
    /// The slot of its request.
    OfRequest,
}

/// The load and the state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) requests: u32,
    pub(crate) streams: u32,
    pub(crate) external: ExternalLoad,
    /// Requests and streams that it was given since it was added.
    pub(crate) assigned: u64,
    pub(crate) is_draining: bool,
    pub(crate) is_suspended: bool,
    pub(crate) is_held_back: bool,
}

#[derive(Debug)]
struct DispatchWorker {
    serial: u64,
    slots: Slots,
    requests: u32,
    streams: u32,
    external: ExternalLoad,
    /// How many of the requests became streams that keep their slots.
    streams_of_requests: u32,
    /// The value of [`WorkerTable::assigned`] when it was last given a request.
    last_assigned: u64,
    assigned: u64,
    is_draining: bool,
    /// It gets no new requests until it is resumed.
    is_held_back: bool,
    /// It could not be reached and gets no new requests before then.
    suspended_until: Option<Timestamp>,
}

/// All workers of an app.
///
/// Each choice scans all of them: for the dozens that an app has, that takes some ten nanoseconds
/// and needs no ordered structure.
#[derive(Debug, Default)]
pub(super) struct WorkerTable {
    workers: Slab<DispatchWorker>,
    added: u64,
    assigned: u64,
}

impl WorkerTable {
    pub(super) fn add(&mut self, slots: Slots) -> WorkerKey {
        self.added += 1;
        let serial = self.added;
        let index = self.workers.insert(DispatchWorker {
            serial,
            slots,
            requests: 0,
            streams: 0,
            external: ExternalLoad::default(),
            streams_of_requests: 0,
            // Equally loaded workers that have waited longer are chosen before a new one.
            last_assigned: self.assigned,
            assigned: 0,
            is_draining: false,
            is_held_back: false,
            suspended_until: None,
        });
        WorkerKey { index, serial }
    }

    /// Takes a slot of the least loaded worker.
    pub(super) fn take(&mut self) -> Option<WorkerKey> {
        self.take_if(DispatchWorker::has_room)
    }

    /// Takes a slot of the least loaded worker among those with room for a stream.
    pub(super) fn take_for_stream(&mut self) -> Option<WorkerKey> {
        self.take_if(|worker| worker.has_room() && worker.all_streams() < worker.slots.streams)
    }

    fn take_if(&mut self, is_eligible: impl Fn(&DispatchWorker) -> bool) -> Option<WorkerKey> {
        let eligible = self.workers.iter_mut().filter(|(_, worker)| is_eligible(worker));
        let (index, worker) = eligible.min_by_key(|(_, worker)| {
            (worker.all_requests(), worker.all_streams(), worker.last_assigned)
        })?;
        self.assigned += 1;
        worker.last_assigned = self.assigned;
        worker.assigned += 1;
        worker.requests += 1;
        Some(WorkerKey { index, serial: worker.serial })
    }

    /// Turns a request into a stream. Returns None if there is no room for another.
    pub(super) fn make_stream(&mut self, key: WorkerKey) -> Option<StreamSlot> {
        let is_one_left = self.is_one_left_for_requests();
        let worker = self.worker_of_slot(key);
        if worker.slots.streams == 0 && is_one_left {
            worker.streams_of_requests += 1;
            return Some(StreamSlot::OfRequest);
        }
        let has_room = worker.all_streams() < worker.slots.streams;
        has_room.then(|| {
            worker.requests -= 1;
            worker.streams += 1;
            StreamSlot::Own
        })
    }

    /// Returns whether the app keeps a slot for requests, or has only one slot, if one more stream
    /// keeps the slot of its request.
    fn is_one_left_for_requests(&self) -> bool {
        let (mut slots, mut streams) = (0_u64, 0_u64);
        for (_, worker) in &self.workers {
            slots += u64::from(worker.slots.requests);
            streams += u64::from(worker.streams_of_requests);
        }
        streams + 1 < slots.max(2)
    }

    /// Releases the slot of a request, or of the stream that it became.
    pub(super) fn end(&mut self, key: WorkerKey, stream: Option<StreamSlot>) {
        let worker = self.worker_of_slot(key);
        match stream {
            None => worker.requests -= 1,
            Some(StreamSlot::Own) => worker.streams -= 1,
            Some(StreamSlot::OfRequest) => {
                worker.requests -= 1;
                worker.streams_of_requests -= 1;
            }
        }
        self.forget_if_done(key);
    }

    /// Returns the worker of a slot that is in use.
    fn worker_of_slot(&mut self, key: WorkerKey) -> &mut DispatchWorker {
        let worker = &mut self.workers[key.index];
        assert_eq!(worker.serial, key.serial, "a worker is forgotten after its last slot");
        worker
    }

    pub(super) fn drain(&mut self, key: WorkerKey) {
        if let Some(worker) = self.get_mut(key) {
            worker.is_draining = true;
            self.forget_if_done(key);
        }
    }

    pub(super) fn hold_back(&mut self, key: WorkerKey, is_held_back: bool) {
        if let Some(worker) = self.get_mut(key) {
            worker.is_held_back = is_held_back;
        }
    }

    pub(super) fn set_external_load(&mut self, key: WorkerKey, external: ExternalLoad) {
        if let Some(worker) = self.get_mut(key) {
            worker.external = external;
        }
    }

    pub(super) fn suspend(&mut self, key: WorkerKey, until: Timestamp) {
        if let Some(worker) = self.get_mut(key) {
            worker.suspended_until = Some(until);
        }
    }

    /// Ends expired suspensions, and returns whether there were any.
    pub(super) fn end_suspensions(&mut self, now: Timestamp) -> bool {
        let mut any = false;
        for (_, worker) in &mut self.workers {
            if worker.suspended_until.take_if(|until| *until <= now).is_some() {
                any = true;
            }
        }
        any
    }

    pub(super) fn any_serves(&self) -> bool {
        self.workers.iter().any(|(_, worker)| worker.serves())
    }

    /// Returns the requests in progress of all workers.
    pub(super) fn requests_in_progress(&self) -> u32 {
        self.workers.iter().map(|(_, worker)| worker.requests).fold(0, u32::saturating_add)
    }

    /// Returns the slots for requests of the workers that serve.
    pub(super) fn request_slots(&self) -> u32 {
        let serving = self.workers.iter().filter(|(_, worker)| worker.serves());
        serving.map(|(_, worker)| worker.slots.requests).fold(0, u32::saturating_add)
    }

    /// Returns the load of all workers, in the order in which they were added.
    pub(super) fn loads(&self) -> Vec<(WorkerKey, Load)> {
        let mut loads: Vec<_> = self
            .workers
            .iter()
            .map(|(index, worker)| (WorkerKey { index, serial: worker.serial }, worker.load()))
            .collect();
        loads.sort_by_key(|(key, _)| key.serial);
        loads
    }

    fn forget_if_done(&mut self, key: WorkerKey) {
        let worker = &self.workers[key.index];
        if worker.is_draining && worker.requests + worker.streams == 0 {
            self.workers.remove(key.index);
        }
    }

    pub(super) fn contains(&self, key: WorkerKey) -> bool {
        self.workers.get(key.index).is_some_and(|worker| worker.serial == key.serial)
    }

    fn get_mut(&mut self, key: WorkerKey) -> Option<&mut DispatchWorker> {
        self.workers.get_mut(key.index).filter(|worker| worker.serial == key.serial)
    }
}

impl DispatchWorker {
    fn load(&self) -> Load {
        Load {
            requests: self.requests,
            streams: self.streams,
            external: self.external,
            assigned: self.assigned,
            is_draining: self.is_draining,
            is_suspended: self.suspended_until.is_some(),
            is_held_back: self.is_held_back,
        }
    }

    fn has_room(&self) -> bool {
        self.serves() && self.all_requests() < self.slots.requests
    }

    fn all_requests(&self) -> u32 {
        self.requests.saturating_add(self.external.requests)
    }

    fn all_streams(&self) -> u32 {
        self.streams.saturating_add(self.external.streams)
    }

    fn serves(&self) -> bool {
        !self.is_draining && !self.is_held_back && self.suspended_until.is_none()
    }
}
