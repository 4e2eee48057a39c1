//! Scans queues and sets of any size, page by page, yielding to other tasks in between.

use std::collections::HashSet;

use tokio::task::yield_now;

use crate::model::{EntryKey, JobLocation, SetName};
use crate::server::JobService;
use crate::settings::JobServerSettings;
use crate::store::{
    Action, Filter, FindOutcome, JobState, ScanPage, ScanRequest, Selection, Store, StoreError,
    StoredJob,
};

/// Applies `action` to all matching jobs that were in `parse_location` at the start. Returns the number of
/// jobs affected.
pub(crate) async fn act_on_matching<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    location: &JobLocation,
    filter: Filter,
    action: Action,
) -> Result<u64, StoreError> {
    if *location == JobLocation::Set(SetName::Dead) && action == Action::Kill {
        return Ok(0);
    }
    if filter == Filter::default() && action == Action::Discard {
        return service.store.act(location, &Selection::All, action).await;
    }
    if !filter.jids.is_empty() {
        return act_on_jids(service, settings, location, filter.jids, action).await;
    }
    act_page_by_page(service, settings, location, filter, action).await
}

async fn act_page_by_page<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    location: &JobLocation,
    filter: Filter,
    action: Action,
) -> Result<u64, StoreError> {
    let mut affected = 0;
    let mut walk = ListWalk::start(service, settings, location.clone(), filter).await?;
    while let Some(jobs) = walk.next(service).await? {
        let keys: Vec<EntryKey> = jobs.into_iter().map(|job| job.key).collect();
        if !keys.is_empty() {
            affected += service.store.act(location, &Selection::Entries(keys), action).await?;
        }
    }
    walk.check_complete(&format!("{affected} jobs were affected"))?;
    Ok(affected)
}

/// Looks up jids one by one. Scans `parse_location` only for those that were found elsewhere, since two jobs
/// may have the same jid.
async fn act_on_jids<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    location: &JobLocation,
    jids: Vec<String>,
    action: Action,
) -> Result<u64, StoreError> {
    let mut affected = 0;
    let mut in_other_locations = Vec::new();
    let jids: HashSet<String> = jids.into_iter().collect();
    for jid in jids {
        match service.store.find(&jid).await? {
            FindOutcome::Found(job) if is_in_location(&job, location) => {
                let entry = Selection::Entries(vec![job.key]);
                affected += service.store.act(location, &entry, action).await?;
            }
            FindOutcome::Found(_) | FindOutcome::NotSearched { .. } => in_other_locations.push(jid),
            FindOutcome::NotFound => {}
        }
    }
    if !in_other_locations.is_empty() {
        let filter = Filter { jids: in_other_locations, ..Filter::default() };
        affected += act_page_by_page(service, settings, location, filter, action).await?;
    }
    Ok(affected)
}

fn is_in_location(job: &StoredJob, location: &JobLocation) -> bool {
    match (&job.state, location) {
        (JobState::In(set), JobLocation::Set(location)) => set == location,
        (JobState::Enqueued, JobLocation::Queue(queue)) => job.queue == *queue,
        _ => false,
    }
}

/// Returns those of `jids` that a job of the store has, wherever it is.
pub(crate) async fn present<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    jids: &HashSet<&str>,
) -> Result<HashSet<String>, StoreError> {
    let mut present = HashSet::new();
    if !service.store.capabilities().shared {
        for jid in jids {
            if let FindOutcome::Found(job) = service.store.find(jid).await? {
                present.insert(job.key.jid.into());
            }
        }
        return Ok(present);
    }
    // There is no index of jids, so everything is read once, in the direction in which jobs move.
    let filter =
        Filter { jids: jids.iter().map(ToString::to_string).collect(), ..Filter::default() };
    let queues = service.store.counts().await.queues.into_iter();
    let queues = queues.map(|queue| JobLocation::Queue(queue.name));
    for location in [JobLocation::Set(SetName::Scheduled)].into_iter().chain(queues) {
        add_present(service, settings, location, &filter, &mut present).await?;
    }
    let reserved = service.store.reservations(usize::MAX).await.into_iter();
    present.extend(reserved.filter(|job| jids.contains(&*job.jid)).map(|job| job.jid.into()));
    for set in [SetName::Retries, SetName::Dead] {
        add_present(service, settings, JobLocation::Set(set), &filter, &mut present).await?;
    }
    Ok(present)
}

async fn add_present<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    location: JobLocation,
    filter: &Filter,
    present: &mut HashSet<String>,
) -> Result<(), StoreError> {
    let mut walk = ListWalk::to_the_end(settings, location, filter.clone());
    while let Some(jobs) = walk.next(service).await? {
        present.extend(jobs.into_iter().map(|job| job.key.jid.into()));
    }
    walk.check_complete("the jobs that are stored already are not known")
}

/// Counts the jobs of a queue or set that match.
pub(crate) async fn count_matching<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    location: JobLocation,
    filter: Filter,
) -> Result<u64, StoreError> {
    if filter == Filter::default() {
        return Ok(total(service, &location).await);
    }
    let mut count = 0;
    let mut walk = ListWalk::start(service, settings, location, filter).await?;
    while let Some(jobs) = walk.next(service).await? {
        count += jobs.len() as u64;
    }
    walk.check_complete(&format!("{count} jobs were counted"))?;
    Ok(count)
}

/// Returns the number of jobs in a queue or set.
pub(crate) async fn total<S: Store>(service: &JobService<S>, location: &JobLocation) -> u64 {
    let counts = service.store.counts().await;
    match location {
        JobLocation::Set(SetName::Scheduled) => counts.scheduled,
        JobLocation::Set(SetName::Retries) => counts.retries,
        JobLocation::Set(SetName::Dead) => counts.dead,
        JobLocation::Queue(name) => {
            counts.queues.iter().find(|queue| queue.name == *name).map_or(0, |queue| queue.depth)
        }
    }
}

/// The state of a walk. It ends at the order that was the last one when it started, so that it does
/// not follow jobs that are added in the meantime.
pub(super) struct ListWalk {
    request: ScanRequest,
    last: u64,
    ended: bool,
    /// What could not be read.
    missing: Option<String>,
}

impl ListWalk {
    pub(super) async fn start<S: Store>(
        service: &JobService<S>,
        settings: &JobServerSettings,
        location: JobLocation,
        filter: Filter,
    ) -> Result<Self, StoreError> {
        let mut walk = Self::to_the_end(settings, location, filter);
        let last_entry = ScanRequest {
            newest_first: true,
            limit: 1,
            filter: Filter::default(),
            ..walk.request.clone()
        };
        let ScanPage { jobs, missing, .. } = service.store.scan(last_entry).await?;
        let last = jobs.into_iter().next().map(|job| job.key.order);
        walk.ended = last.is_none();
        walk.last = last.unwrap_or(0);
        walk.missing = missing;
        Ok(walk)
    }

    /// Returns a walk that also lists jobs that are added in the meantime.
    fn to_the_end(settings: &JobServerSettings, location: JobLocation, filter: Filter) -> Self {
        let request = ScanRequest {
            place: location,
            after: None,
            newest_first: false,
            limit: settings.limits.page_jobs_max,
            scan_max: settings.limits.scan_jobs_max,
            filter,
        };
        Self { request, last: u64::MAX, ended: false, missing: None }
    }

    /// Returns a walk that examines only as many jobs for a page as it has.
    pub(super) fn by_pages(mut self) -> Self {
        self.request.scan_max = self.request.limit;
        self
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns what could not be read.
    pub(super) fn into_missing(self) -> Option<String> {
        self.missing
    }

    /// Returns an error with `done` if a part of the jobs could not be read.
    fn check_complete(self, done: &str) -> Result<(), StoreError> {
        let missing = self.missing.map(|text| format!("{done}, others can't be reached: {text}"));
        missing.map_or(Ok(()), |text| Err(StoreError::Unavailable(text)))
    }

    /// Returns the matching jobs of the next page, possibly none, or `None` at the end.
    pub(super) async fn next<S: Store>(
        &mut self,
        service: &JobService<S>,
    ) -> Result<Option<Vec<StoredJob>>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        yield_now().await;
        let page = service.store.scan(self.request.clone()).await?;
        let ScanPage { mut jobs, next, missing, .. } = page;
        self.missing = self.missing.take().or(missing);
        // Stores sort jobs of the same time differently, so only the time is compared.
        jobs.retain(|job| job.key.order <= self.last);
        self.ended = next.as_ref().is_none_or(|next| next.order > self.last);
        self.request.after = next;
        Ok(Some(jobs))
    }
}
