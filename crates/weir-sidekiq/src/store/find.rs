//! Finds a job by its jid. Redis has no index of jids, so the search is bounded.

use std::rc::Rc;

use weir_jobs::model::{JobLocation, QueueName, SetName};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{FindOutcome, JobState, StoreError, StoredJob};

use super::entries::RawEntry;
use super::link_connection::LinkConnection;
use super::reservations::Reservation;
use super::store_core::StoreCore;

/// Jobs that are read in one step.
const STEP_JOBS: usize = 500;

impl StoreCore {
    /// Searches reservations, queues and sets, up to `scan_jobs_max` jobs of each.
    pub(super) async fn find(self: &Rc<Self>, jid: &str) -> Result<FindOutcome, StoreError> {
        let mut connection = self.ready().await?;
        if let Some(job) = self.find_reserved(jid) {
            return Ok(FindOutcome::Found(job));
        }
        let (mut searched, mut is_complete) = (0, true);
        for place in self.places(&mut connection).await? {
            let found = match self.find_in(&mut connection, &place, jid).await {
                Err(error) if self.link.absence_text().is_some() => return Err(error),
                // The key is of another type.
                Err(_) => continue,
                Ok(found) => found,
            };
            if let Some((mut job, payload)) = found.job {
                let jobs = std::slice::from_mut(&mut job);
                self.add_features(&mut connection, jobs, &[&payload]).await?;
                return Ok(FindOutcome::Found(job));
            }
            searched += found.searched;
            is_complete &= found.is_complete;
        }
        if let Some(found) = self.foreign_reservation(&mut connection, None, jid).await? {
            return Ok(FindOutcome::Found(reserved_job(&found.job)));
        }
        Ok(match is_complete {
            true => FindOutcome::NotFound,
            false => FindOutcome::NotSearched { searched },
        })
    }

    fn find_reserved(&self, jid: &str) -> Option<StoredJob> {
        let state = self.state.borrow();
        let number = state.reservations.with_jid(jid).next()?;
        state.reservations.get(number).map(reserved_job)
    }

    async fn places(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<Vec<JobLocation>, StoreError> {
        let queues = self.all_queues(connection).await?;
        let queues = queues.into_iter().map(JobLocation::Queue);
        Ok(SetName::ALL.into_iter().map(JobLocation::Set).chain(queues).collect())
    }

    async fn find_in(
        &self,
        connection: &mut LinkConnection,
        place: &JobLocation,
        jid: &str,
    ) -> Result<PlaceSearch, StoreError> {
        let length = self.length(connection, place).await?;
        let most = length.min(self.limits.scan_jobs_max);
        let mut search = PlaceSearch { job: None, searched: 0, is_complete: most == length };
        for start in (0..most).step_by(STEP_JOBS) {
            let end = (start + STEP_JOBS).min(most);
            let entries = self.entries_between(connection, place, start, end).await?;
            search.searched += entries.len() as u64;
            let has_jid = |entry: &&RawEntry| *entry.key().jid == *jid;
            if let Some(entry) = entries.iter().find(has_jid) {
                let (state, queue): (_, Option<&QueueName>) = match place {
                    JobLocation::Queue(queue) => {
                        (JobState::Enqueued, Some(&self.shown_queue(queue)))
                    }
                    JobLocation::Set(set) => (JobState::In(*set), None),
                };
                search.job = Some((entry.job(state, queue, &self.limits), entry.payload.clone()));
                break;
            }
        }
        Ok(search)
    }

    async fn entries_between(
        &self,
        connection: &mut LinkConnection,
        place: &JobLocation,
        start: usize,
        end: usize,
    ) -> Result<Vec<RawEntry>, StoreError> {
        match place {
            JobLocation::Queue(queue) => self.list_range(connection, queue, start, end).await,
            JobLocation::Set(set) => {
                let mut command = redis::cmd("ZRANGE");
                command.arg(self.set_key(*set)).arg(start).arg(end - 1).arg("WITHSCORES");
                let reply = command.query_async(connection).await;
                Ok(RawEntry::with_scores(reply.map_err(|error| self.link.failed(&error))?))
            }
        }
    }
}

/// What a search in one place has found.
#[derive(Debug)]
struct PlaceSearch {
    /// With its text as it is stored.
    job: Option<(StoredJob, Vec<u8>)>,
    searched: u64,
    is_complete: bool,
}

fn reserved_job(job: &Reservation) -> StoredJob {
    let state = JobState::Reserved { wid: job.wid.clone(), expires_at: job.expires_at };
    let entry = RawEntry::listed(job.payload.clone(), 0);
    let limits = JobServerLimits::default();
    StoredJob { at: job.since, ..entry.job(state, Some(&job.queue), &limits) }
}
