//! Caps on the jobs that wait: a push over one is rejected, with the time after which the next one may succeed.

use std::collections::HashMap;

use super::JobService;
use super::queue_full::{FullCap, QueueFull};
use crate::metrics::JobServerLimit;
use crate::model::{NewJob, QueueName};
use crate::settings::{JobServerSettings, QueueSettings};
use crate::store::{Store, StoreError, TenantDepth};

/// Why a job was not stored.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum PushError {
    #[error(transparent)]
    QueueFull(#[from] Box<QueueFull>),
    /// It would never fit.
    #[error(
        "job too large: {bytes} bytes, and no more than {max} may wait in queue {queue} (jobs.queues.{queue}.bytes_max)"
    )]
    TooLarge { queue: String, bytes: u64, max: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Stores a job, unless its queue is full.
pub(crate) async fn push_one<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    job: NewJob<'_>,
) -> Result<(), PushError> {
    let spans = service.traces.begin_push(&[job]);
    let pushed = admit_one(service, settings, job).await;
    spans.end(|_| pushed.as_ref().err().map(ToString::to_string));
    pushed
}

async fn admit_one<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    job: NewJob<'_>,
) -> Result<(), PushError> {
    let mut admitted = Admitted::new(service, settings);
    if let Err(error) = admitted.admit(&job)
        && !adds_none(service, &[job]).await[0]
    {
        return Err(admitted.reject(&job, error));
    }
    Ok(service.store.push(&[job]).await?)
}

/// Stores each job whose queue has room. Returns the outcomes in order.
pub(crate) async fn push_each<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    jobs: &[NewJob<'_>],
) -> Vec<Result<(), PushError>> {
    let spans = service.traces.begin_push(jobs);
    let pushed = admit_each(service, settings, jobs).await;
    spans.end(|index| pushed[index].as_ref().err().map(ToString::to_string));
    pushed
}

async fn admit_each<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    jobs: &[NewJob<'_>],
) -> Vec<Result<(), PushError>> {
    let mut admitted = Admitted::new(service, settings);
    let mut rejections: Vec<Option<PushError>> =
        jobs.iter().map(|job| admitted.admit(job).err()).collect();
    if rejections.iter().any(Option::is_some) {
        admit_those_that_add_none(service, jobs, &mut rejections).await;
    }
    let with_room = jobs.iter().zip(&rejections).filter(|(_, rejection)| rejection.is_none());
    let with_room: Vec<NewJob<'_>> = with_room.map(|(job, _)| *job).collect();
    let mut stored = service.store.push_each(&with_room).await.into_iter();
    let outcome = |(job, rejection): (&NewJob<'_>, _)| match rejection {
        Some(error) => Err(admitted.reject(job, error)),
        None => Ok(stored.next().unwrap_or(Ok(()))?),
    };
    jobs.iter().zip(rejections).map(outcome).collect()
}

/// Removes the rejections of jobs that a full queue need not reject.
async fn admit_those_that_add_none<S: Store>(
    service: &JobService<S>,
    jobs: &[NewJob<'_>],
    rejections: &mut [Option<PushError>],
) {
    let rejected = jobs.iter().zip(&*rejections).filter(|(_, rejection)| rejection.is_some());
    let rejected: Vec<NewJob<'_>> = rejected.map(|(job, _)| *job).collect();
    let add_none = adds_none(service, &rejected).await;
    let rejections = rejections.iter_mut().filter(|rejection| rejection.is_some());
    for (rejection, _) in rejections.zip(add_none).filter(|(_, adds_none)| *adds_none) {
        *rejection = None;
    }
}

/// Returns for each job whether the store would not add it. It is pushed then, and the store says why.
async fn adds_none<S: Store>(service: &JobService<S>, jobs: &[NewJob<'_>]) -> Vec<bool> {
    service.store.are_redundant(jobs).await
}

/// What one push adds to a queue.
#[derive(Debug, Default)]
struct AdmittedToQueue {
    jobs: u64,
    bytes: u64,
    /// Jobs by the lane of their tenant.
    by_lane: HashMap<u64, u64>,
}

/// The jobs of one push that were admitted and are not yet in the store, by queue.
#[derive(Debug)]
struct Admitted<'a, S> {
    service: &'a JobService<S>,
    settings: &'a JobServerSettings,
    queues: HashMap<&'a QueueName, AdmittedToQueue>,
    bytes: u64,
}

impl<'a, S: Store> Admitted<'a, S> {
    fn new(service: &'a JobService<S>, settings: &'a JobServerSettings) -> Self {
        Self { service, settings, queues: HashMap::new(), bytes: 0 }
    }

    /// Returns an error if a job must not be pushed because a cap is reached. Jobs that are due later do not wait yet,
    /// and nothing rejects them once they are due; but they take space on the disk.
    fn admit(&mut self, job: &NewJob<'_>) -> Result<(), PushError> {
        self.admit_to_disk(job)?;
        let limited = self.settings.queues.get_key_value(job.queue);
        let limited = limited.filter(|(_, queue)| queue.has_caps() && job.at.is_none());
        if let Some((queue, settings)) = limited {
            self.admit_to_queue(job, queue, settings)?;
        }
        self.bytes += job.json.len() as u64;
        Ok(())
    }

    fn admit_to_disk(&self, job: &NewJob<'_>) -> Result<(), Box<QueueFull>> {
        let Some(max) = self.settings.limits.disk_max else { return Ok(()) };
        let used = self.service.store.disk_bytes().unwrap_or(0) + self.bytes;
        if used < max {
            return Ok(());
        }
        let rates = self.service.rates.borrow();
        // Whatever fills the disk, it may be another queue.
        let (rate, queues) = rates.all_in_last_minute();
        let depth = |queue: &&QueueName| self.service.store.depth(queue.as_str()).unwrap_or(0);
        let waiting = queues.iter().map(depth).sum();
        let forecast = (waiting, rates.forecast_of_all(waiting));
        let measured = (rate, rates.measured());
        Err(QueueFull::new(FullCap::Disk, job.queue, (used, max), forecast, measured))
    }

    fn admit_to_queue(
        &mut self,
        job: &NewJob<'_>,
        queue: &'a QueueName,
        settings: &QueueSettings,
    ) -> Result<(), PushError> {
        let service = self.service;
        let waiting = self.waiting(queue);
        let full = |cap: FullCap, used: u64, max: u64| {
            let rates = service.rates.borrow();
            let measured = (rates.last_minute(job.queue), rates.measured());
            let forecast = (waiting, rates.forecast(job.queue, waiting));
            QueueFull::new(cap, job.queue, (used, max), forecast, measured)
        };
        if let Some(max) = settings.jobs_max
            && waiting >= max
        {
            return Err(full(FullCap::Jobs, waiting, max).into());
        }
        let bytes = job.json.len() as u64;
        if let Some(max) = settings.bytes_max {
            if bytes > max {
                return Err(PushError::TooLarge { queue: job.queue.to_string(), bytes, max });
            }
            let used = self.waiting_bytes(queue);
            if used + bytes > max {
                return Err(full(FullCap::Bytes { job: bytes }, used, max).into());
            }
        }
        let tenant = self.tenant_cap(job, settings);
        if let Some((tenant, max, is_own)) = &tenant {
            let added = self.queues.get(queue).and_then(|it| it.by_lane.get(&tenant.lane));
            let used = tenant.waiting + added.copied().unwrap_or_default();
            if used >= *max {
                let (name, tenants) = (tenant.name.clone(), tenant.lanes);
                let cap = FullCap::Tenant { name, is_own: *is_own, tenants };
                return Err(full(cap, used, *max).into());
            }
        }
        let added = self.queues.entry(queue).or_default();
        added.jobs += 1;
        added.bytes += bytes;
        if let Some((tenant, ..)) = tenant {
            *added.by_lane.entry(tenant.lane).or_default() += 1;
        }
        service.sampled_depths.begin_push(queue);
        Ok(())
    }

    /// Returns the tenant of a job, how many of its jobs may wait, and whether that is a limit of its own.
    fn tenant_cap(
        &self,
        job: &NewJob<'_>,
        settings: &QueueSettings,
    ) -> Option<(TenantDepth, u64, bool)> {
        if !settings.has_tenant_caps() {
            return None;
        }
        let by = settings.fair_by.as_ref()?;
        // A queue that does not exist yet has no lanes.
        let tenant = self.service.store.tenant_depth(job.queue, job.json).unwrap_or_else(|| {
            let name = by.find(job.json).map(std::borrow::Cow::into_owned);
            let lane = name.as_deref().map_or(0, |it| xxhash_rust::xxh3::xxh3_64(it.as_bytes()));
            TenantDepth { lane, name, waiting: 0, lanes: 0 }
        });
        let own = tenant.name.as_ref().and_then(|name| settings.tenants.get(name));
        let own = own.and_then(|own| own.jobs_max);
        let max = own.or(settings.tenant_jobs_max)?;
        Some((tenant, max, own.is_some()))
    }

    /// Returns how many jobs wait in a queue, those of this push included.
    fn waiting(&self, queue: &QueueName) -> u64 {
        let store = &self.service.store;
        match store.depth(queue.as_str()) {
            Some(depth) => depth + self.queues.get(queue).map_or(0, |added| added.jobs),
            // With those of all pushes in progress.
            None => self.service.sampled_depths.get(queue.as_str(), store.traffic(queue.as_str())),
        }
    }

    /// Returns the bytes of the jobs that wait in a queue, those of this push included.
    fn waiting_bytes(&self, queue: &QueueName) -> u64 {
        let stored = self.service.store.waiting_bytes(queue.as_str()).unwrap_or(0);
        stored + self.queues.get(queue).map_or(0, |added| added.bytes)
    }

    /// Counts a rejection.
    fn reject(&self, job: &NewJob<'_>, error: PushError) -> PushError {
        let metrics = &self.service.metrics;
        let cap = match &error {
            PushError::QueueFull(full) => full.cap_name(),
            PushError::TooLarge { .. } => FullCap::BYTES_MAX,
            PushError::Store(_) => return error,
        };
        metrics.queue_full(job.queue, cap);
        if cap == FullCap::Disk.name() {
            metrics.limit_hit(JobServerLimit::DiskMax);
        }
        error
    }
}

impl<S> Drop for Admitted<'_, S> {
    fn drop(&mut self) {
        for (queue, added) in self.queues.drain() {
            self.service.sampled_depths.end_pushes(queue, added.jobs);
        }
    }
}
