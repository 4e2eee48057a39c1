//! Read-only operations: counts, one job, reservations, a page of a queue or set.

use std::collections::BTreeMap;
use std::ops::Bound;

use weir_base::clock::Timestamp;

use super::lanes::MemoryLanes;
use super::state::{JobId, MemoryJob, MemoryJobState, MemoryQueue, MemoryState, MemoryTotals};
use crate::job_class::job_class;
use crate::job_text;
use crate::lanes::BlockedJobs;
use crate::metrics::QueueMetrics;
use crate::model::{EntryKey, JobLocation, QueueName, SetName, Wid};
use crate::start_rate::QueueRate;
use crate::store::{
    Counts, ExportedFeatures, JobState, QueueCounts, Reserved, ScanPage, ScanRequest, StoredJob,
    TenantDepth,
};

impl MemoryState {
    /// Returns the counts, without `fetches_waiting`, which the caller sets.
    pub(super) fn counts(&mut self, now: Timestamp) -> Counts {
        for fair in self.queues.values_mut().filter_map(|queue| queue.fair.as_mut()) {
            fair.wake(now);
        }
        let visible = self.queues.iter().filter(|(_, queue)| !queue.hidden);
        let counts = |(name, queue): (&QueueName, &MemoryQueue)| {
            queue.counts(name, self.allocation.of(name).concurrency, now)
        };
        let mut counts = Counts {
            queues: visible.map(counts).collect(),
            scheduled: self.set(SetName::Scheduled).len() as u64,
            retries: self.set(SetName::Retries).len() as u64,
            dead: self.set(SetName::Dead).len() as u64,
            reserved: self.expiry.len() as u64,
            processed_total: self.totals.processed,
            failed_total: self.totals.failed,
            pushed_total: self.totals.pushed,
            unique_locks: self.features.locks() as u64,
            tracked: self.features.tracks.len() as u64,
            batches: self.features.batches.len() as u64,
            batches_waiting: self.features.batches.waiting() as u64,
            batch_bytes: self.features.batches.definition_bytes() as u64,
            ..Counts::default()
        };
        self.add_resources(&mut counts, now);
        counts
    }

    /// Returns up to `limit` reservations, oldest first.
    pub(super) fn reservations(&self, limit: usize) -> Vec<Reserved> {
        let held = self.expiry.iter().filter_map(|(_, id)| self.job(*id).reserved());
        let mut held: Vec<Reserved> = held.collect();
        held.sort_by_key(|reserved| reserved.since);
        held.truncate(limit);
        held
    }

    /// Returns how many jobs wait in a queue.
    pub(super) fn depth(&self, queue: &str) -> u64 {
        self.queues.get(queue).map_or(0, |queue| queue.lane.len() as u64)
    }

    /// Returns the bytes of the jobs that wait in a queue.
    pub(super) fn waiting_bytes(&self, queue: &str) -> Option<u64> {
        self.queues.get(queue).map(|queue| queue.bytes)
    }

    /// Returns how many jobs wait of the tenant of a job with this text.
    pub(super) fn tenant_depth(&self, queue: &str, json: &[u8]) -> Option<TenantDepth> {
        Some(self.queues.get(queue)?.fair.as_ref()?.tenant_depth(json))
    }

    /// Returns the number of jobs that a worker has reserved.
    pub(super) fn busy(&self, wid: &Wid) -> u64 {
        let held = self.expiry.iter().filter(|(_, id)| match &self.job(*id).rest {
            MemoryJobState::Reserved(reservation) => reservation.wid.as_ref() == Some(wid),
            _ => false,
        });
        held.count() as u64
    }

    /// Finds a job by its jid in all queues, sets and reservations.
    pub(super) fn find(&self, jid: &str) -> Option<StoredJob> {
        self.find_where(jid, |_| true).map(|id| self.stored(id))
    }

    /// Returns a page of the jobs of a queue or set.
    pub(super) fn scan(&self, request: &ScanRequest) -> ScanPage {
        let mut walk = self.walk(request);
        let mut page = ScanPage::default();
        let mut last = None;
        while page.scanned < request.scan_max && page.jobs.len() < request.limit {
            let Some(id) = walk.next() else { return page };
            let job = self.job(id);
            page.scanned += 1;
            last = Some(job.key());
            if request.filter.matches(&job.jid, &job.jobtype, &job.json) {
                page.jobs.push(self.stored(id));
            }
        }
        page.next = last.filter(|_| walk.next().is_some());
        page
    }

    /// Draws jobs of a queue or set, each uniformly and independently of the others.
    pub(super) fn sample(&mut self, place: &JobLocation, count: usize) -> Vec<StoredJob> {
        let jobs = self.in_place(place);
        if jobs.is_empty() {
            return Vec::new();
        }
        let drawn: Vec<JobId> = (0..count).map(|_| jobs[self.random.usize(..jobs.len())]).collect();
        drawn.into_iter().map(|id| self.stored(id)).collect()
    }

    fn stored(&self, id: JobId) -> StoredJob {
        let features = self.features.get(id).exported();
        StoredJob { features, ..self.job(id).stored() }
    }

    /// Iterates over the jobs of a queue or set after `after`, in the requested direction.
    fn walk(&self, request: &ScanRequest) -> Box<dyn Iterator<Item = JobId> + '_> {
        let newest_first = request.newest_first;
        let after = request.after.as_ref();
        match &request.place {
            JobLocation::Queue(name) => {
                let lane = self.queues.get(name).map(|queue| &queue.lane);
                let range = beyond(after.map(|key| key.order), newest_first);
                let lane = lane.into_iter().flat_map(move |lane| lane.range(range));
                in_direction(lane.map(|(_, id)| *id), newest_first)
            }
            JobLocation::Set(set) => {
                let range = beyond(after.map(|key| self.set_place(request, key)), newest_first);
                in_direction(self.set(*set).range(range).map(|(_, id)| *id), newest_first)
            }
        }
    }

    /// Returns the position of `key` in its set. If its job is gone, the scan continues with the
    /// first job of the same time, so that none is skipped. Returning one twice does no harm.
    fn set_place(&self, request: &ScanRequest, key: &EntryKey) -> (u64, JobId) {
        let twins = self.entries(&request.place, key);
        let job = if request.newest_first {
            twins.min().unwrap_or(JobId::AFTER_ALL)
        } else {
            twins.max().unwrap_or(JobId::BEFORE_ALL)
        };
        (key.order, job)
    }
}

fn beyond<T>(last: Option<T>, newest_first: bool) -> (Bound<T>, Bound<T>) {
    let last = last.map_or(Bound::Unbounded, Bound::Excluded);
    if newest_first { (Bound::Unbounded, last) } else { (last, Bound::Unbounded) }
}

fn in_direction<'a>(
    ids: impl DoubleEndedIterator<Item = JobId> + 'a,
    newest_first: bool,
) -> Box<dyn Iterator<Item = JobId> + 'a> {
    if newest_first { Box::new(ids.rev()) } else { Box::new(ids) }
}

impl MemoryQueue {
    pub(super) fn new(metrics: QueueMetrics) -> Self {
        Self {
            lane: BTreeMap::new(),
            fair: None,
            paused: false,
            rate: QueueRate::default(),
            hidden: false,
            reserved: 0,
            bytes: 0,
            jobs: 0,
            totals: MemoryTotals::default(),
            metrics,
        }
    }

    fn blocked(&self, concurrency: Option<u32>, now: Timestamp) -> BlockedJobs {
        let all = self.lane.len() as u64;
        if concurrency.is_some_and(|most| self.reserved >= most) {
            return BlockedJobs { concurrency: all, ..BlockedJobs::default() };
        }
        if self.rate.blocked_until(now).is_some() {
            return BlockedJobs { rate: all, ..BlockedJobs::default() };
        }
        self.fair.as_ref().map(MemoryLanes::blocked).unwrap_or_default()
    }

    fn counts(&self, name: &QueueName, concurrency: Option<u32>, now: Timestamp) -> QueueCounts {
        QueueCounts {
            name: name.clone(),
            depth: self.lane.len() as u64,
            oldest: self.lane.keys().next().map(|order| Timestamp::from_micros(*order)),
            paused: self.paused,
            reserved: u64::from(self.reserved),
            pushed_total: self.totals.pushed,
            processed_total: self.totals.processed,
            failed_total: self.totals.failed,
            lanes: self.fair.as_ref().map(MemoryLanes::counts).unwrap_or_default(),
            arrivals: Some(self.totals.arrivals),
            blocked: self.blocked(concurrency, now),
            blocked_by_resource: Vec::new(),
            in_time: Some(self.totals.in_time),
        }
    }
}

impl MemoryJob {
    fn key(&self) -> EntryKey {
        EntryKey { order: self.order, jid: self.jid.clone() }
    }

    fn stored(&self) -> StoredJob {
        let (state, at) = match &self.rest {
            MemoryJobState::Waiting => (JobState::Enqueued, Timestamp::from_micros(self.order)),
            MemoryJobState::In(set) => (JobState::In(*set), Timestamp::from_micros(self.order)),
            MemoryJobState::Reserved(held) => {
                let (wid, expires_at) = (held.wid.clone(), held.expires_at);
                (JobState::Reserved { wid, expires_at }, held.since)
            }
        };
        StoredJob {
            key: self.key(),
            state,
            jobtype: self.jobtype.clone(),
            queue: self.queue.clone(),
            at,
            retry: self.retry,
            reserve_for_seconds: self.reserve_for_seconds,
            failure: job_text::failure(&self.json, self.base_bytes),
            json: self.json.clone(),
            features: ExportedFeatures::default(),
        }
    }

    fn reserved(&self) -> Option<Reserved> {
        let MemoryJobState::Reserved(held) = &self.rest else {
            return None;
        };
        Some(Reserved {
            jid: self.jid.clone(),
            jobtype: job_class(&self.jobtype, &self.json).into(),
            queue: self.queue.clone(),
            wid: held.wid.clone(),
            since: held.since,
            expires_at: held.expires_at,
        })
    }
}
