//! Cancelling jobs in progress: the reply to the BEAT of a worker that supports it names them, and a cancelled job that
//! fails is dead instead of waiting for a retry.

use super::JobService;
use crate::handle::{CancelQuery, HandleError};
use crate::store::Store;
use crate::view;

/// Cancels jobs in progress.
pub(super) async fn cancel<S: Store>(
    service: &JobService<S>,
    query: CancelQuery,
) -> Result<view::CancelView, HandleError> {
    if query.jids.is_empty() == query.jobtype.is_none() {
        let text = "name the jobs by jids or by jobtype";
        return Err(HandleError::Invalid(text.to_owned()));
    }
    let now = service.clock.now();
    let reserved = service.store.reservations(usize::MAX).await;
    let chosen = reserved.into_iter().filter(|job| match &query.jobtype {
        Some(jobtype) => *job.jobtype == **jobtype,
        None => query.jids.iter().any(|jid| **jid == *job.jid),
    });
    let (workers, mut marks) = (service.workers.borrow(), service.cancellations.borrow_mut());
    marks.prune(now);
    let mut cancelled = view::CancelView::default();
    for job in chosen {
        marks.add(&job.jid, job.wid.as_ref(), job.expires_at);
        let worker = job.wid.as_ref().and_then(|wid| workers.cancelling(wid));
        cancelled.jobs.push(view::CancelledJobView {
            jid: job.jid.into(),
            jobtype: job.jobtype.into(),
            wid: job.wid.map(|wid| wid.to_string()),
            worker: worker.as_ref().map(|(name, _)| name.clone()),
            is_notified: worker.is_some_and(|(_, supports)| supports),
        });
    }
    let found = |jid: &&String| !cancelled.jobs.iter().any(|job| job.jid == **jid);
    cancelled.not_in_progress = query.jids.iter().filter(found).cloned().collect();
    tracing::info!(jobs = cancelled.jobs.len(), jobtype = query.jobtype, "jobs were cancelled");
    Ok(cancelled)
}
